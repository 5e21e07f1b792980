"""Times to load and unload models that others have measured, beside ``swap_times``.

The constants of ``sim.hardware.loading`` are chosen by these timings, most of them
by one machine's: agreement says that few constants do for models of 1 GB to
236 GB, not that they hold elsewhere. Disks are those that nobody named, so the
default is what stands against them.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeAlias, cast

from sim.engine.spec import Vllm
from sim.hardware.catalog import gpus
from sim.hardware.engine import StepTime
from sim.hardware.loading import LINK_REACHED, Member, Method, Swap, SwapTimes, swap_times
from sim.validation.figures import FigureTable, MeasuredFigure

SMALL_GB: Final = 10.0
"""Below this what is fixed takes longer than copying."""

PCIE_4: Final = 32e9
"""Bytes per second of the link of the GPUs that the catalogue does not have."""

TheoryRow: TypeAlias = dict[str, str]


class SwapGroup(NamedTuple):
    """Rows that belong together, and the error allowed, as a ratio."""

    name: str
    holds: Callable[[TheoryRow], bool]
    bound: float | None
    notes: tuple[str, ...] = ()


GROUPS: Final = (
    SwapGroup(
        "vLLM sleep, level 1, from 10 GB on, s",
        lambda row: _sleep(row, "vllm-sleep-1") and not _small(row),
        0.10,
        ("the two bandwidths are fitted to these four",),
    ),
    SwapGroup(
        "vLLM sleep, level 1, small models, s",
        lambda row: _sleep(row, "vllm-sleep-1") and _small(row),
        None,
        ("what is fixed differs between machines, by tenths of a second",),
    ),
    SwapGroup(
        "vLLM sleep, level 1, first of a process, s",
        lambda row: row["quantity"] == "first-unload",
        0.25,
        (
            "nothing is fitted to these: how fast memory is pinned was measured without vLLM, how",
            "much more than the weights follows from powers of two; 22 GiB were seen for the 8B",
        ),
    ),
    SwapGroup(
        "vLLM sleep, level 2, small models, s",
        lambda row: _sleep(row, "vllm-sleep-2"),
        0.10,
        ("the disk's default is fitted to these and to the cold starts below",),
    ),
    SwapGroup(
        "vLLM sleep with LoRA while training, s",
        lambda row: row["model"].endswith("LoRA") and row["quantity"] != "first-unload",
        None,
        ("nothing is fitted to these; of the 8B model 47 GiB of the GPU's memory are given back",),
    ),
    SwapGroup(
        "vLLM cold starts, from 10 GB on, s",
        lambda row: _cold_start(row) and not _small(row),
        0.10,
        ("one machine; that it had compiled before is assumed, for small models too",),
    ),
    SwapGroup(
        "vLLM cold starts, small models, s",
        lambda row: _cold_start(row) and _small(row),
        None,
        ("21 s to 59 s with next to nothing to read: give init, compile and graphs",),
    ),
    SwapGroup(
        "vLLM cold starts, their parts, s",
        lambda row: row["method"] == "vllm-cold" and row["quantity"] != "load",
        None,
        ("weights: disks that nobody named",),
    ),
)


def tables() -> Iterator[FigureTable]:
    """One table per group, then the outliers with their reasons."""
    rows = measured()
    usual = [row for row in rows if not row["outlier"]]
    for group in GROUPS:
        chosen = filter(group.holds, usual)
        yield FigureTable(group.name, _figures(chosen, group.bound), notes=group.notes)
    outliers = [row for row in rows if row["outlier"]]
    reasons = (f"{_what(row)}: {row['outlier']}" for row in outliers)
    none = "llama.cpp: nobody published seconds together with bytes and disk"
    yield FigureTable("outliers, s", _figures(outliers, None), notes=(*reasons, none))


def measured() -> list[TheoryRow]:
    """The timings."""
    text = (files("sim") / "data" / "measured" / "swaps.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _figures(rows: Iterable[TheoryRow], bound: float | None) -> tuple[MeasuredFigure, ...]:
    return tuple(
        MeasuredFigure(_what(row), _predicted_s(row), float(row["seconds"]), bound) for row in rows
    )


def _what(row: TheoryRow) -> str:
    cache = " uncached" if row["quantity"] == "compile" and row["compile_cache"] == "no" else ""
    machine = row["gpu"] if row["gpus"] == "1" else f"{row['gpu']}x{row['gpus']}"
    level = {"vllm-sleep-1": " L1", "vllm-sleep-2": " L2"}.get(row["method"], "")
    return f"{row['model']} {machine}{level} {row['quantity']}{cache}"


def _small(row: TheoryRow) -> bool:
    return float(row["weights_gb"]) < SMALL_GB


def _sleep(row: TheoryRow, method: Method) -> bool:
    later = row["quantity"] != "first-unload"
    return row["method"] == method and later and not row["model"].endswith("LoRA")


def _cold_start(row: TheoryRow) -> bool:
    return row["method"] == "vllm-cold" and row["quantity"] == "load"


def _predicted_s(row: TheoryRow) -> float:
    times = _times(row)
    if row["quantity"] == "unload":
        return times.unload_s
    if row["quantity"] == "first-unload":
        return times.first_unload_s
    if row["quantity"] == "load":
        return times.load_s
    assert times.parts is not None
    part: float = getattr(times.parts, f"{row['quantity'].replace('-', '_')}_s")
    return part


def _times(row: TheoryRow) -> SwapTimes:
    known = row["gpu"] if row["gpu"] in gpus() else None
    engine = Vllm(
        step_time=StepTime(a=1.0),
        kv_blocks=1,
        gpu=known,
        tensor_parallel=int(row["gpus"]),
        weights=float(row["weights_gb"]) * 1e9,
    )
    given: dict[str, Any] = {} if known else {"host_to_device": LINK_REACHED * PCIE_4}
    if row["compile_cache"]:
        given["compile_cache"] = row["compile_cache"] == "yes"
    return swap_times(Member(swap=Swap(method=cast(Method, row["method"]), **given)), engine)
