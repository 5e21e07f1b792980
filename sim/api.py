"""``sim.run`` and ``sim.compare``: for scripts and notebooks, with the command line's checks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

from sim.comparison.paired import compare as judge
from sim.comparison.sides import Comparison, Side, fresh_side, one_side
from sim.core.errors import UserError
from sim.core.suggest import suggestion
from sim.execution.runner import Runs, run_set
from sim.results.stored import stored_runs
from sim.scenario.load import ScenarioSet, load, load_dict
from sim.scenario.schema import MAX_SEED


def run(
    scenario: str | Path | Mapping[str, Any] | ScenarioSet,
    *,
    variants: str | Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    settings: str | Iterable[str] = (),
    jobs: int = 1,
    check: bool = False,
    store: str | Path | None = None,
) -> Runs:
    """Simulate a scenario file, or the same as a mapping; all its variants and seeds by default.

    ``settings`` are ``path=value`` strings as of ``--set``. With ``jobs`` above
    1 the runs go to worker processes, so a script needs the usual
    ``if __name__ == "__main__"``. Nothing is written unless ``store`` names a
    folder. Raises ``ScenarioError`` with every fault of the input at once, and
    ``UserError`` for arguments that cannot be meant.
    """
    names, changes = _texts("variants", variants), _texts("settings", settings)
    chosen = None if seeds is None else _seeds(seeds)
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise UserError(f"jobs: must be a whole number from 1; got {jobs!r}")
    if chosen is not None and any(change.startswith("seeds=") for change in changes):
        raise UserError("seeds: the settings have some, too; give only one")
    folder = None if store is None else Path(store)
    loaded = _loaded(scenario, changes, names)
    return run_set(loaded, seeds=chosen, jobs=jobs, check=check, store=folder)


def compare(
    base: str | Path | Runs,
    new: str | Path | Runs | None = None,
    *,
    variants: tuple[str, str] | None = None,
    across: bool = False,
) -> Comparison:
    """Judge ``new`` against ``base`` over the seeds that both have, see ``sim.comparison.paired``.

    Each is what ``sim.run`` returns, or a folder of stored runs of one scenario;
    without ``new`` it is ``base`` again. ``variants`` names the one of ``base``
    and the one of ``new`` that are compared, instead of those of the same name.
    ``across`` compares scenarios that differ, on your word that the same seed
    means the same workload. Raises ``UserError`` for what cannot be read or meant.
    """
    old, young = _side("base", base), _side("new", base if new is None else new)
    if variants is None:
        if new is None:
            raise UserError("variants: name two, or give a second set of runs to compare with")
        return judge(old, young, across=across)
    if isinstance(variants, str) or len(variants) != 2:
        raise UserError(f"variants: must be two names, of base and of new; got {variants!r}")
    return judge(_only(old, variants[0]), _only(young, variants[1]), across=across)


def _side(argument: str, given: str | Path | Runs) -> Side:
    if isinstance(given, Runs):
        return fresh_side(argument, given)
    if not isinstance(given, str | Path):
        raise UserError(
            f"{argument}: must be a folder or what sim.run returns; got {type(given).__name__}"
        )
    return one_side(str(given), stored_runs(Path(given)))


def _only(side: Side, variant: str) -> Side:
    """The runs of one variant."""
    found = tuple(run for run in side.runs if run.variant == variant)
    if not found:
        hint = suggestion(variant, filter(None, side.variants))
        raise UserError(f"variants: {side.label} has no {variant!r}{hint}")
    return replace(side, runs=found)


def _loaded(
    scenario: str | Path | Mapping[str, Any] | ScenarioSet,
    settings: tuple[str, ...],
    variants: tuple[str, ...],
) -> ScenarioSet:
    if isinstance(scenario, ScenarioSet):
        if settings:
            raise UserError(
                "settings: a loaded scenario takes none; give them to sim.load(file, settings=...)"
            )
        return scenario.variant(variants) if variants else scenario
    if isinstance(scenario, Mapping):
        return load_dict(scenario, settings, variants=variants)
    if isinstance(scenario, str | Path):
        return load(scenario, settings, variants=variants)
    raise UserError(
        "scenario: must be a file name, a mapping or what sim.load returns; "
        f"got {type(scenario).__name__}"
    )


def _texts(argument: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """One text or several."""
    texts = (given,) if isinstance(given, str) else tuple(given)
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"{argument}: must be text or several texts; got {text!r}")
    return texts


def _seeds(given: Iterable[int]) -> tuple[int, ...]:
    """Seeds within the range of a scenario's ``seeds``, and distinct."""
    if not isinstance(given, Iterable):
        raise UserError(
            f"seeds: must be a list; got {given!r}: (3,) is seed 3, range(1, 4) are seeds 1 to 3"
        )
    seeds = tuple(_seed(seed) for seed in given)
    if not seeds:
        raise UserError("seeds: must name at least one seed")
    if len(set(seeds)) < len(seeds):
        raise UserError(f"seeds: must be distinct; got {list(seeds)}")
    return seeds


def _seed(given: SupportsIndex) -> int:
    if not isinstance(given, bool) and isinstance(given, SupportsIndex):
        seed = index(given)
        if 0 <= seed <= MAX_SEED:
            return seed
    raise UserError(f"seeds: must be whole numbers from 0 to {MAX_SEED}; got {given!r}")
