"""The scenarios of theory, each run through the whole stack and compared with its theory."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from sim.core.errors import UserError
from sim.execution.runner import run_set
from sim.scenario.load import ScenarioSet, load
from sim.validation import fleets, queues
from sim.validation.case import Case
from sim.validation.rows import Row
from sim.validation.theory import UnanswerableError

Comparison: TypeAlias = Callable[[Mapping[str, Case]], Iterator[Row]]

COMPARISONS: Final[dict[str, Comparison]] = {
    "single-server": queues.single_server,
    "many-servers": queues.many_servers,
    "processor-sharing": queues.processor_sharing,
    "machine-repair": queues.machine_repair,
    "state-dependent": queues.state_dependent,
    "placement": fleets.placement,
    "power-of-two": fleets.power_of_two,
    "prefix-cache": fleets.prefix_cache,
    "bounded-hashing": fleets.bounded_hashing,
}
"""What each scenario of the folder, the file of this name, is compared with."""


def validate_theory(folder: Path, jobs: int = 1) -> Iterator[Row]:
    """Run the scenarios of ``folder`` one after the other; the rows of each as soon as it is done.

    All of a scenario's variants and seeds, every invariant checked. Raises
    ``UserError`` when a file is missing, ``ScenarioError`` when one is at
    fault and ``InvariantError`` for a run that breaks a rule.
    """
    missing = [name for name in COMPARISONS if not _file(folder, name).is_file()]
    if missing:
        raise UserError(
            f"{folder}: no {missing[0]}.yaml; name the folder with the scenarios of theory, "
            "scenarios/theory of podsim's sources"
        )
    loaded = {name: load(_file(folder, name)) for name in COMPARISONS}
    for name, scenarios in loaded.items():
        yield from compare(COMPARISONS[name], scenarios, jobs)


def compare(comparison: Comparison, scenarios: ScenarioSet, jobs: int = 1) -> Iterator[Row]:
    """The rows of one scenario. Raises ``UserError`` when theory has no answer to it."""
    runs = run_set(scenarios, jobs=jobs, check=True).runs
    try:
        cases = {
            variant.variant: Case(
                variant, tuple(run for run in runs if run.variant == variant.variant)
            )
            for variant in scenarios.variants
        }
        yield from comparison(cases)
    except UnanswerableError as error:
        raise UserError(f"{scenarios.name}: no theory to compare with: {error}") from error


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.yaml"
