"""Recordings of a real vLLM, request by request, through the simulated engine.

A recording lies beside a scenario that says how its engine was set up, and
beside its machine's kernel tables. The same requests arrive at the same times,
say the same by their block ids and are answered with as many tokens. Step times
are taken once from the kernel tables, once from data sheets alone.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from sim.core.stats import Floats
from sim.engine.spec import Vllm
from sim.execution.runner import run_set
from sim.hardware import catalog
from sim.hardware.engine import StepTime
from sim.results import arrow
from sim.results.arrow import Integers
from sim.results.result import RunResult
from sim.scenario.load import ScenarioSet, load
from sim.validation.figures import FigureTable, MeasuredFigure
from sim.validation.kernels import fit, read_tables
from sim.workload.files import unpacked


@dataclass(frozen=True)
class ReplayedRecording:
    """A recording by the name of its files, its kernel tables, and how far podsim may be off.

    ``bound`` is the largest error with step times from the kernel tables,
    ``sheet_bound`` with those from data sheets; None where it is only reported.
    ``collectives`` are those of ranks that share their experts.
    """

    name: str
    kernels: str
    bound: float | None
    sheet_bound: float | None
    collectives: str = ""


RECORDINGS: Final = (
    ReplayedRecording("rtx4090-llama-3.1-8b", "rtx4090.llama-3.1-8b.tp1", 0.03, 0.10),
    ReplayedRecording("rtxpro6000-llama-3.1-8b", "rtxpro6000.llama-3.1-8b.tp1", 0.05, None),
    ReplayedRecording(
        "rtxpro6000x2-qwen3-30b-a3b",
        "rtxpro6000.qwen3-30b-a3b-instruct-2507.tp1",
        0.10,
        None,
        "rtxpro6000.x2",
    ),
)

NOT_RECORDED: Final = "prefix hits and preemptions were not recorded: nothing to compare them with"

STATISTICS: Final = {"mean": None, "median": 50.0, "p90": 90.0, "p99": 99.0}


class RecordedCourse(NamedTuple):
    """What the requests went through, in order of arrival, and the engine second by second."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    running: Floats
    waiting: Floats


def tables() -> Iterator[FigureTable]:
    """Two tables per recording: step times from kernel tables, and from data sheets."""
    with as_file(files("sim") / "data" / "recordings") as folder:
        for recording in RECORDINGS:
            scenarios = load(folder / f"{recording.name}.yaml")
            recorded = read_recorded(folder, recording.name)
            step_time = kernel_step_time(folder, recording, scenarios)
            result = simulated(with_step_time(scenarios, step_time))
            name = f"{recording.name}, step times from its kernel tables"
            yield compare(name, result, recorded, recording.bound)
            name = f"{recording.name}, step times from data sheets"
            yield compare(name, simulated(scenarios), recorded, recording.sheet_bound)


def kernel_step_time(
    folder: Path, recording: ReplayedRecording, scenarios: ScenarioSet
) -> StepTime:
    """The step time of a recording's engine, from the kernel tables of its machine."""
    (engine,) = scenarios.variants[0].engines.values()
    model = catalog.model(engine.model)
    assert isinstance(engine, Vllm) and model is not None
    tables = read_tables(folder, recording.kernels, recording.collectives)
    return fit(tables, model, engine)


def with_step_time(scenarios: ScenarioSet, step_time: StepTime) -> ScenarioSet:
    """The same scenario with other step times for its engine."""
    (scenario,) = scenarios.variants
    engines = {
        name: engine.model_copy(update={"step_time": step_time})
        for name, engine in scenario.engines.items()
    }
    return replace(scenarios, variants=(scenario.model_copy(update={"engines": engines}),))


def simulated(scenarios: ScenarioSet) -> RunResult:
    """The one run of a recording's scenario, every invariant checked."""
    (result,) = run_set(scenarios, check=True).runs
    return result


def compare(
    name: str, result: RunResult, recorded: RecordedCourse, bound: float | None
) -> FigureTable:
    """The figures of a run beside those of the recording."""
    predicted = course(result)
    figures = [
        *_times("TTFT", "s", predicted.ttft_s, recorded.ttft_s, bound),
        *_times("TPOT", "ms", predicted.tpot_s * 1e3, recorded.tpot_s * 1e3, bound),
        *_times("E2E", "s", predicted.e2e_s, recorded.e2e_s, bound),
        _level("running", predicted.running, recorded.running),
        _level("waiting", predicted.waiting, recorded.waiting),
        MeasuredFigure("prefix hits, tokens", _total(result, "cached_tokens"), None),
        MeasuredFigure("preemptions", _total(result, "preemptions"), None),
    ]
    notes = (
        _scatter("TTFT", predicted.ttft_s, recorded.ttft_s),
        _scatter("E2E", predicted.e2e_s, recorded.e2e_s),
        _distance("running", predicted.running, recorded.running),
        _distance("waiting", predicted.waiting, recorded.waiting),
        NOT_RECORDED,
    )
    return FigureTable(name, tuple(figures), notes=notes)


def course(result: RunResult) -> RecordedCourse:
    """What a run says."""
    table, pods = result.tables.requests, result.tables.pods
    arrival_s = arrow.numbers(table, "arrival_s")
    first_s, end_s = arrow.numbers(table, "first_token_s"), arrow.numbers(table, "end_s")
    polled_s = arrow.numbers(pods, "time_s")
    return RecordedCourse(
        ttft_s=first_s - arrival_s,
        tpot_s=(end_s - first_s) / (arrow.whole(table, "output_tokens") - 1),
        e2e_s=end_s - arrival_s,
        running=_by_second(polled_s, arrow.whole(pods, "running")),
        waiting=_by_second(polled_s, arrow.whole(pods, "waiting")),
    )


def read_recorded(folder: Path, name: str) -> RecordedCourse:
    """What was recorded. Times count from the arrival at the front end, as a client's do."""
    lines = unpacked(folder / f"{name}.requests.jsonl.gz").splitlines()
    requests: list[Mapping[str, Any]] = [json.loads(line) for line in lines]
    requests.sort(key=lambda request: request["recorded_arrival_s"])
    keys = ("recorded_arrival_s", "first_token_s", "last_token_s", "output_tokens")
    arrival_s, first_s, last_s, output_tokens = (
        np.array([float(request[key]) for request in requests]) for key in keys
    )
    with (folder / f"{name}.timeseries.csv").open(encoding="utf-8", newline="") as file:
        seconds = list(csv.DictReader(file))
    return RecordedCourse(
        ttft_s=first_s - arrival_s,
        tpot_s=(last_s - first_s) / (output_tokens - 1.0),
        e2e_s=last_s - arrival_s,
        running=np.array([float(second["running"]) for second in seconds]),
        waiting=np.array([float(second["waiting"]) for second in seconds]),
    )


def _times(
    what: str, unit: str, predicted: Floats, recorded: Floats, bound: float | None
) -> Iterator[MeasuredFigure]:
    for name, percent in STATISTICS.items():
        here, there = (
            float(np.mean(times) if percent is None else np.percentile(times, percent))
            for times in (predicted, recorded)
        )
        yield MeasuredFigure(f"{what} {name}, {unit}", here, there, bound)


def _by_second(polled_s: Floats, values: Integers) -> Floats:
    """All pods together at each full second from the first on, whatever was polled in between."""
    seconds = np.rint(polled_s)
    full = np.abs(polled_s - seconds) < 1e-6
    together = np.bincount(seconds[full].astype(np.int64), values[full].astype(np.float64))
    return together[1:].astype(np.float64)


def _level(what: str, predicted: Floats, recorded: Floats) -> MeasuredFigure:
    """The mean over the seconds of the recording, whoever was done earlier."""
    seconds = len(recorded)
    return MeasuredFigure(
        f"{what}, mean", float(predicted.sum() / seconds), float(np.mean(recorded))
    )


def _total(result: RunResult, column: str) -> float:
    return float(arrow.whole(result.tables.requests, column).sum())


def _scatter(what: str, predicted: Floats, recorded: Floats) -> str:
    errors = np.abs(predicted / recorded - 1.0)
    middle, far = np.percentile(errors, [50.0, 95.0])
    return f"{what} of single requests: off by {middle:.1%} at the median, {far:.1%} at the p95"


def _distance(what: str, predicted: Floats, recorded: Floats) -> str:
    seconds = min(len(predicted), len(recorded))
    apart = np.abs(predicted[:seconds] - recorded[:seconds])
    return f"{what}, second by second: {np.mean(apart):.1f} requests apart in the mean"
