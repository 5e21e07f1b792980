"""A run's requests as a trace, with the scenario around it that gives the same tables.

The trace is replayed before it is written: what cannot be said is refused.
"""

import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, Final

import numpy as np
from ruamel.yaml import YAML

from sim.core.errors import UserError
from sim.core.fields import MAX_NAME
from sim.execution.repetition import Recipe
from sim.export.files import check_writable, write_file
from sim.export.rerun import Rerun, rerun, simulate
from sim.export.trace_lines import MEANING, Arrivals, trace_text
from sim.results import arrow
from sim.results.result import RunResult
from sim.results.stored import StoredRun
from sim.results.tables import DECLARED
from sim.scenario.hashing import without_defaults
from sim.scenario.load import load
from sim.scenario.schema import Scenario
from sim.workload.clients import ClientSpec

GZIP: Final = ".gz"
SCENARIO: Final = ".yaml"
WIDTH: Final = 98


@dataclass(frozen=True)
class WrittenTrace:
    """A trace on disk, and the scenario that replays it."""

    path: Path
    scenario: Path
    requests: int


def export_trace(run: StoredRun, path: Path, arrivals: Arrivals = "closed-loop") -> WrittenTrace:
    """Write the requests of a stored run to ``path``, and ``path``.yaml, which replays them.

    The run is simulated again for what its tables do not say, and the trace is
    replayed. Raises ``UserError``, and writes nothing, when either does not give
    the tables of the run, or the disk refuses the files.
    """
    beside = path.with_name(path.name + SCENARIO)
    check_writable("the trace", path)
    check_writable("the scenario of the trace", beside)
    again = rerun(run)
    _check_kinds(run, again.scenario)
    if not again.requests:
        raise UserError(f"{run.path}: no request was sent, so there is none to export")
    text = trace_text(again, _about(run), arrivals)
    content = text.encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, mtime=0)  # equal runs, equal bytes
    scenario = _scenario_text(again, run, path.name, arrivals).encode()
    _replayed(run, again, path.name, content, scenario)
    write_file("the trace", path, content)
    write_file("the scenario of the trace", beside, scenario)
    return WrittenTrace(path, beside, len(again.requests))


def _check_kinds(run: StoredRun, scenario: Scenario) -> None:
    """Raise ``UserError`` for workloads whose clients are not those that podsim knows."""
    for name, spec in scenario.workloads.items():
        if not isinstance(spec, ClientSpec):
            kind = getattr(spec, "kind", "unknown")
            raise UserError(
                f"{run.path}: workload {name!r} of kind {kind} has clients of its own, which a "
                "trace cannot say"
            )


def _about(run: StoredRun) -> dict[str, Any]:
    return {
        "scenario": run.scenario,
        "variant": run.variant,
        "seed": run.seed,
        "digest": run.digest,
        "podsim": run.manifest.get("podsim"),
    }


def _replayed(run: StoredRun, first: Rerun, name: str, trace: bytes, scenario: bytes) -> None:
    """Replay the trace; raises ``UserError`` when that gives other tables."""
    with TemporaryDirectory() as directory:
        (Path(directory) / name).write_bytes(trace)
        place = Path(directory) / "replay.yaml"
        place.write_bytes(scenario)
        replay = load(place)
        again = simulate(Recipe(replay.variants[0], run.seed, replay.directory))
    if again.result.digest != first.result.digest:
        tie = ""
        if _crowded(first):
            tie = (
                "; requests of several workloads arrive at one instant, in an order that may "
                "depend on what they waited for, which fixed arrivals do not say"
            )
        raise UserError(
            f"{run.path}: replayed, its trace would not give the tables of the run: "
            f"{first_difference(first.result, again.result)}{tie}. Nothing was written, because a "
            "trace that is nearly right misleads"
        )


def _crowded(run: Rerun) -> bool:
    """Whether requests of several workloads arrived at one instant."""
    workloads: dict[float, str] = {}
    return any(
        workloads.setdefault(request.arrival_s, request.workload) != request.workload
        for request in run.requests
    )


def first_difference(one: RunResult, other: RunResult) -> str:
    """Where the tables of two runs begin to differ, in words."""
    for title in DECLARED:
        mine, its = getattr(one.tables, title), getattr(other.tables, title)
        if mine.num_rows != its.num_rows:
            return f"{title} has {mine.num_rows} rows in the run, then {its.num_rows}"
        everywhere = np.ones(mine.num_rows, dtype=bool)
        rows = zip(arrow.rows(mine, everywhere), arrow.rows(its, everywhere), strict=True)
        for row, (left, right) in enumerate(rows):
            for column, value in left.items():
                if value != right[column]:
                    return f"{title}, row {row}, {column}: {value} in the run, then {right[column]}"
    return "nothing but their digests"


def _scenario_text(run: Rerun, stored: StoredRun, trace: str, arrivals: Arrivals) -> str:
    document = without_defaults(run.scenario)
    variant = document.pop("variant", "")
    document["name"] = f"{run.scenario.name[: MAX_NAME - 6]}-trace"
    document["seeds"] = [stored.seed]
    workloads = run.scenario.workloads
    document["workloads"] = {
        name: _workload(spec, trace, name if len(workloads) > 1 else None)
        for name, spec in workloads.items()
    }
    if variant:
        document["variants"] = {variant: {}}
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = WIDTH
    yaml.dump(document, stream)
    told = (
        f"The requests of {' '.join(filter(None, (stored.scenario, stored.variant)))} under seed "
        f"{stored.seed}, replayed: "
        f"podsim run on this file gives the same tables, digest {stored.digest}. "
        f"Arrivals are {arrivals}: {MEANING[arrivals]}."
    )
    return fill(told, WIDTH, initial_indent="# ", subsequent_indent="# ") + "\n" + stream.getvalue()


def _workload(spec: ClientSpec, trace: str, name: str | None) -> dict[str, Any]:
    """The clients of a workload, sending what the trace says."""
    clients = {
        key: value
        for key, value in without_defaults(spec).items()
        if key in {field.alias for field in ClientSpec.model_fields.values()}
    }
    agents = spec.agents_total
    return {
        "kind": "trace",
        "file": trace,
        **({"workload": name} if name else {}),
        **({"agents": agents} if agents else {}),
        **clients,
    }
