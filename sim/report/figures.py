"""The drawings of a report: which there are, and a sentence for each that says what is seen.

Drawings of all variants are over all their runs, drawings of one variant are of
its first run. Their titles and notes are set as text of the page.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.text import Annotation

from sim.plots.cache import hit_rate_over_time
from sim.plots.latency import ttft_cdf
from sim.plots.material import Material
from sim.plots.placement import session_map, spills_by_reason
from sim.plots.pods import kv_usage_over_time, load_over_time
from sim.plots.pools import pool_timeline, residence
from sim.plots.style import INK, TEXT_PT
from sim.report import findings
from sim.report.drawing import svg
from sim.report.selection import Study
from sim.results import arrow
from sim.results.result import RunResult

WIDTH_IN: Final = 3.9
"""As wide as a phone: text keeps its size there, and grows where there is more room."""
HEIGHT_IN: Final = 3.1
ROW_IN: Final = 0.34
"""What a further row of bars takes."""
MOST_COLUMNS: Final = 4
"""Columns of a legend."""
MOST_OPEN: Final = 4
"""Variants whose own drawings are seen at once; those of further ones are folded away."""


@dataclass(frozen=True)
class Figure:
    """A drawing with its heading, the sentence that says what is seen, and how it was drawn."""

    anchor: str
    title: str
    caption: str
    note: str
    svg: str


@dataclass(frozen=True)
class Group:
    """Drawings of one kind under a heading; ``further`` ones are folded away."""

    title: str
    figures: tuple[Figure, ...]
    further: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class _Sketch:
    """A drawing to be made: its name and heading, who draws on which height, what is seen."""

    name: str
    title: str
    draw: Callable[[Axes], Axes]
    caption: str
    height_in: float = HEIGHT_IN


def groups(study: Study, comparison: Mapping[str, Any], anchor: str) -> tuple[Group, ...]:
    """Every drawing that these runs give rise to; ``anchor`` begins the ids of all."""
    material = Material.of_stored(study.stored)
    firsts = _first_runs(study)
    kinds: tuple[tuple[str, Callable[[Study, Material, RunResult], Iterator[_Sketch]]], ...] = (
        ("Requests in flight on each pod", _loads),
        ("KV cache in use", _kv_usages),
        ("Models taking turns", _pools),
        ("Where sessions were sent", _sessions),
    )
    found = [Group("All variants", _drawn(anchor, _of_all(study, material, comparison)))]
    for title, sketches in kinds:
        drawn = [_drawn(anchor, sketches(study, material, run)) for run in firsts]
        first, rest = drawn[:MOST_OPEN], drawn[MOST_OPEN:]
        found.append(Group(title, sum(first, ()), sum(rest, ())))
    return tuple(group for group in found if group.figures or group.further)


def _first_runs(study: Study) -> list[RunResult]:
    first: dict[str, RunResult] = {}
    for result in study.results:
        first.setdefault(result.variant, result)
    return list(first.values())


def _drawn(anchor: str, sketches: Iterator[_Sketch]) -> tuple[Figure, ...]:
    return tuple(_figure(f"{anchor}-{sketch.name}", sketch) for sketch in sketches)


def _figure(anchor: str, sketch: _Sketch) -> Figure:
    sheet = Sheet(figsize=(WIDTH_IN, sketch.height_in), layout="constrained")
    axes = sketch.draw(sheet.add_subplot())
    note = _taken_note(axes, sketch.title)
    _place_legend(sheet, axes)
    return Figure(anchor, sketch.title, sketch.caption, note, svg(sheet, anchor, sketch.caption))


def _taken_note(axes: Axes, title: str) -> str:
    """Take title and note off the axes, since the page sets them as text; returns the note."""
    axes.set_title("", loc="left")
    notes = [
        text
        for text in axes.texts
        if isinstance(text, Annotation) and text.xy == (0.0, 1.0) and text.get_text()
    ]
    said = " ".join(" ".join(note.get_text() for note in notes).split())
    for note in notes:
        note.remove()
    said = said.removeprefix(title).lstrip("; ")  # which run it is stands above
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _place_legend(sheet: Sheet, axes: Axes) -> None:
    """Move the legend below everything, in as many columns as the sheet is wide enough for."""
    there = axes.get_legend()
    if there is None:
        return
    handles = [handle for handle in there.legend_handles if handle is not None]
    labels = [text.get_text() for text in there.get_texts()]
    there.remove()
    for columns in range(min(len(labels), MOST_COLUMNS), 0, -1):
        legend = sheet.legend(
            handles,
            labels,
            loc="outside lower left",
            ncols=columns,
            fontsize=TEXT_PT,
            labelcolor=INK,
            frameon=False,
            handlelength=2.2,
            columnspacing=1.2,
        )
        sheet.draw_without_rendering()
        if columns == 1 or legend.get_window_extent().width <= sheet.bbox.width:
            return
        legend.remove()


def _of_all(study: Study, material: Material, comparison: Mapping[str, Any]) -> Iterator[_Sketch]:
    """What is seen best with all variants in one drawing."""
    window_s = material.window_s
    yield _Sketch(
        "ttft",
        "Time to first token",
        lambda ax: ttft_cdf(material.requests, window_s=window_s, variants=study.variants, ax=ax),
        findings.of_ttft(study, comparison),
        HEIGHT_IN + 0.15 * len(study.variants),
    )
    if any(run.summary["prompt_cache_hit_ratio"] is not None for run in study.results):
        yield _Sketch(
            "hits",
            "Prompt tokens found in the cache",
            lambda ax: hit_rate_over_time(
                material.placements, window_s=window_s, variants=study.variants, ax=ax
            ),
            findings.of_hits(study, comparison),
            HEIGHT_IN + 0.15 * len(study.variants),
        )
    if any(run.facts.has_home for run in study.results):
        yield _Sketch(
            "spills",
            "Requests sent away from their home, by reason",
            lambda ax: spills_by_reason(
                material.placements, window_s=window_s, variants=study.variants, ax=ax
            ),
            findings.of_spills(study, comparison),
            1.9 + ROW_IN * len(study.variants),
        )


def _loads(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    polls = findings.Polls.of(material, run)
    if polls.pods:
        yield _Sketch(
            f"load-{_place(study, run)}",
            _titled(study, run),
            lambda ax: load_over_time(
                material.first_pods, variant=run.variant, window_s=_window(run), ax=ax
            ),
            findings.of_load(polls),
        )


def _kv_usages(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    if run.summary["kv_usage"]["mean"] is not None:
        yield _Sketch(
            f"kv-{_place(study, run)}",
            _titled(study, run),
            lambda ax: kv_usage_over_time(
                material.first_pods, variant=run.variant, window_s=_window(run), ax=ax
            ),
            findings.of_kv_usage(run),
        )


def _pools(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    there = residence(run.facts)
    first = next(source for source in material.firsts if source.variant == run.variant)
    events = arrow.data_frame(first.table("pools"))
    for at, (pool, members) in enumerate(run.facts.pools.items()):
        yield _Sketch(
            f"pool-{_place(study, run)}-{at}",
            f"{pool}: {_titled(study, run)}",
            lambda ax, pool=pool, members=members: pool_timeline(  # type: ignore[misc]
                events[events["pool"] == pool],
                there[there["pool"] == pool],
                members=list(members),
                window_s=_window(run),
                ax=ax,
            ),
            findings.of_pool(run, pool),
            2.2 + 2.0 * ROW_IN * len(members),
        )


def _sessions(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    stays = findings.Stays.of(material, run)
    if stays.sessions and len(run.facts.pods) > 1:
        yield _Sketch(
            f"sessions-{_place(study, run)}",
            _titled(study, run),
            lambda ax: session_map(
                material.requests,
                variant=run.variant,
                seed=run.seed,
                window_s=_window(run),
                pods=list(run.facts.pods),
                ax=ax,
            ),
            findings.of_sessions(stays),
            4.0,
        )


def _window(run: RunResult) -> tuple[float, float]:
    return run.facts.window_start_s, run.facts.window_end_s


def _place(study: Study, run: RunResult) -> int:
    """Where the variant stands: ids are made of it, since names may hold anything."""
    return study.variants.index(run.variant) + 1


def _titled(study: Study, run: RunResult) -> str:
    return f"{study.called(run.variant)}, seed {run.seed}"
