"""Closed-loop benchmarks of real engines, beside podsim with step times from data sheets.

InferenceX (formerly InferenceMAX) keeps C clients busy until 10 C requests are
answered; all begin at once. Prompts and answers have from 0.8 of a nominal
length to all of it. Engines are set up as its scripts do; the KV format changed
over time and is not recorded, so both are tried.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple, cast

import numpy as np

from sim.execution.runner import run_set
from sim.hardware.gpu import KvDtype, WeightDtype
from sim.results import arrow
from sim.results.result import RunResult
from sim.scenario.load import ScenarioSet, load_dict
from sim.validation.figures import FigureTable, MeasuredFigure

FRONT_END: Final = {"perRequest": "15.6ms", "perPromptToken": "1.33us"}
"""HTTP and tokenising before a prompt reaches the scheduler (inference-sim/inference-sim).

BLIS's figure per request, and 0.1 s for a prompt of 75k.
"""

ENGINE: Final = {
    "gpuMemoryUtilization": 0.9,
    "asyncScheduling": True,
    "enablePrefixCaching": False,
    "maxNumBatchedTokens": 8192,
    "frontEnd": FRONT_END,
}
"""How the scripts set up vLLM, apart from what differs between rows."""

REQUESTS_PER_CLIENT: Final = 10
SHORTEST: Final = 0.8

TTFT_BOUND: Final = 0.15
TPOT_BOUND: Final = 0.08

NOT_INFERENCEX: Final = "0.12.0"
"""The vLLM version of rows that are not from this benchmark.

None of their lengths is one of its. Whose they are, and how they were run, is
unknown, so there is no protocol to simulate.
"""

MOST_CLIENTS: Final = 512
"""Clients of the rows whose engines were set up for fewer."""

OTHER: Final = (
    "vLLM 0.12.0; another benchmark, of an unknown protocol: the lengths are not InferenceX's,",
    "whose clients are simulated all the same",
)

CAPPED: Final = (
    "measured TPOT is that of few sequences, and TTFT nearly all of the time: these engines ran",
    "far fewer than their clients at once; how many is not recorded",
)


class Loop(NamedTuple):
    """One row of the benchmark: who ran what, and the means over its requests."""

    model: str
    gpu: str
    tensor_parallel: int
    weight_dtype: WeightDtype
    isl: int
    osl: int
    clients: int
    ttft_ms: float
    tpot_ms: float
    vllm: str

    @property
    def name(self) -> str:
        """What tells it from the others of its group."""
        machine = f"{self.gpu}x{self.tensor_parallel}"
        return f"{self.model} {machine} {self.isl}/{self.osl} {self.clients} clients"


class LoopGroup(NamedTuple):
    """Rows that are reported together; ``judged`` for those with bounds.

    ``apart`` are rows like these that are not judged: a note says what the
    median of the errors would be with them.
    """

    name: str
    loops: tuple[Loop, ...]
    kv_dtype: KvDtype
    judged: bool = False
    notes: tuple[str, ...] = ()
    apart: tuple[Loop, ...] = ()


class Prediction(NamedTuple):
    """Means over the requests of a simulated benchmark."""

    ttft_ms: float
    tpot_ms: float


def tables() -> Iterator[FigureTable]:
    """Two tables per group of rows: TTFT and TPOT."""
    for group in groups(loops()):
        yield from compare(group)


def loops() -> tuple[Loop, ...]:
    """The benchmark's rows that are shipped: vLLM on B200, H200 and H100."""
    text = (files("sim") / "data" / "measured" / "closed_loops.csv").read_text(encoding="utf-8")
    return tuple(_loop(row) for row in csv.DictReader(text.splitlines()))


def groups(rows: Iterable[Loop]) -> Iterator[LoopGroup]:
    """Dense models by KV format, judged by bf16; then what is only reported."""
    rows = tuple(rows)
    apart = tuple(row for row in rows if row.vllm == NOT_INFERENCEX)
    ours = [row for row in rows if row.vllm != NOT_INFERENCEX]
    by_dtype = {
        dtype: tuple(row for row in ours if row.weight_dtype == dtype)
        for dtype in dict.fromkeys(row.weight_dtype for row in ours)
    }
    dense = by_dtype["fp8"]
    yield LoopGroup("dense, fp8 weights, bf16 KV cache", dense, "bf16", judged=True, apart=apart)
    yield LoopGroup("dense, fp8 weights, fp8 KV cache", dense, "fp8")
    yield LoopGroup("dense, fp8 weights, another benchmark", apart, "bf16", notes=OTHER)
    yield LoopGroup("dense, nvfp4 weights, bf16 KV cache", by_dtype["nvfp4"], "bf16")
    yield LoopGroup("dense, nvfp4 weights, fp8 KV cache", by_dtype["nvfp4"], "fp8")
    capped = [row for row in by_dtype["mxfp4"] if row.clients == MOST_CLIENTS]
    free = tuple(row for row in by_dtype["mxfp4"] if row not in capped)
    yield LoopGroup("experts, mxfp4 weights, bf16 KV cache", free, "bf16")
    name = f"experts, {MOST_CLIENTS} clients, bf16 KV cache"
    yield LoopGroup(name, tuple(capped), "bf16", notes=CAPPED)


def compare(group: LoopGroup) -> Iterator[FigureTable]:
    """The tables of one group, run in this process: a row takes a fraction of a second."""
    rows = group.loops + group.apart
    found = [predict(run) for run in run_set(scenario(rows, group.kv_dtype)).runs]
    for what, bound in (("ttft_ms", TTFT_BOUND), ("tpot_ms", TPOT_BOUND)):
        figures = tuple(
            MeasuredFigure(loop.name, getattr(predicted, what), getattr(loop, what))
            for loop, predicted in zip(rows, found)
        )
        name = f"closed loops, {group.name}: {what.upper().replace('_MS', ', ms')}"
        notes = (*group.notes, *_with_those_apart(group, FigureTable(name, figures)))
        kept = figures[: len(group.loops)]
        yield FigureTable(name, kept, bound if group.judged else None, notes)


def _with_those_apart(group: LoopGroup, everything: FigureTable) -> Iterator[str]:
    if group.apart:
        yield (
            f"with the {len(group.apart)} rows of another benchmark, which are not judged: "
            f"median error {everything.median:.1%}"
        )


def scenario(rows: Sequence[Loop], kv_dtype: KvDtype) -> ScenarioSet:
    """The benchmark of ``rows``, one variant each, as a scenario file would say it.

    A client is an agent whose sessions have one turn, and who does not think.
    """
    variants = [_variant(row, kv_dtype) for row in rows]
    data = {
        "name": "closed-loops",
        "engines": {"vllm": ENGINE},
        "backends": {"pod": {"engine": "vllm"}},
        "router": {
            "rules": [{"name": "all", "backends": ["pod"]}],
            "proxy": {"responseHeaderTimeout": None},
            "metrics": {"pollInterval": "1h"},
        },
        "workloads": {
            "clients": {
                "kind": "agents",
                "ramp": "0s",
                "sessionsPerAgent": REQUESTS_PER_CLIENT,
                "turns": 1,
                "freshShare": 1,
                "sharedPrefix": {"tokens": 0, "families": 1},
                "growth": 1,
                "think": "0s",
                "maxContext": "1M",
            }
        },
        "variants": {f"row-{index}": variant for index, variant in enumerate(variants)},
    }
    return load_dict(data)


def predict(run: RunResult) -> Prediction:
    """The means of a run, as the benchmark's client sees them."""
    table = run.tables.requests
    first_s = arrow.numbers(table, "first_token_s")
    ttft_s = first_s - arrow.numbers(table, "arrival_s")
    after_first = arrow.whole(table, "output_tokens") - 1
    tpot_s = (arrow.numbers(table, "end_s") - first_s) / after_first
    return Prediction(1e3 * float(np.mean(ttft_s)), 1e3 * float(np.mean(tpot_s)))


def _variant(loop: Loop, kv_dtype: KvDtype) -> dict[str, Any]:
    engine = {
        "model": loop.model,
        "gpu": loop.gpu,
        "tensorParallel": loop.tensor_parallel,
        "weightDtype": loop.weight_dtype,
        "kvCacheDtype": kv_dtype,
        "maxNumSeqs": loop.clients,
    }
    clients = {
        "agents": loop.clients,
        "freshPrompt": _lengths(loop.isl),
        "output": _lengths(loop.osl),
    }
    changes = {f"engines.vllm.{key}": value for key, value in engine.items()}
    return changes | {f"workloads.clients.{key}": value for key, value in clients.items()}


def _lengths(nominal: int) -> dict[str, Any]:
    return {"uniform": {"min": int(SHORTEST * nominal), "max": nominal}}


def _loop(row: dict[str, str]) -> Loop:
    return Loop(
        row["model"],
        row["gpu"],
        int(row["tensor_parallel"]),
        cast(WeightDtype, row["weight_dtype"]),
        int(row["isl"]),
        int(row["osl"]),
        int(row["clients"]),
        float(row["ttft_ms"]),
        float(row["tpot_ms"]),
        row["vllm"],
    )
