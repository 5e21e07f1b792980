"""The drawings of a report: which there are, and a sentence for each that says what is seen.

Drawings of all variants are over all their runs, drawings of one variant are of
its first run. Their titles and notes are set as text of the page.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet

from sim.plots import pods, style
from sim.plots.cache import hit_rate_over_time
from sim.plots.frames import Span, first_run
from sim.plots.latency import ttft_cdf
from sim.plots.material import Material
from sim.plots.placement import session_map, sessions_may_move, spills_by_reason
from sim.plots.pools import pool_timeline, residence
from sim.report import findings
from sim.report.drawing import svg
from sim.report.fitting import name_rows, place_legend, rows_in, thin_ticks
from sim.report.selection import Study
from sim.results import arrow
from sim.results.result import RunResult

WIDTH_IN: Final = 3.6
"""As wide as a phone: text keeps its size there, and grows where there is more room."""
HEIGHT_IN: Final = 2.9
MOST_OPEN: Final = 6
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
    """A drawing to be made: its name and heading, what is seen, its height.

    ``draw`` draws on empty axes and returns how it was drawn.
    """

    name: str
    title: str
    draw: Callable[[Axes], str]
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
    axes = sheet.add_subplot()
    said = sketch.draw(axes)
    note = f"{said[0].upper()}{said[1:]}." if said else ""
    thin_ticks(sheet, axes)
    place_legend(sheet, axes)
    return Figure(anchor, sketch.title, sketch.caption, note, svg(sheet, anchor, sketch.caption))


def _taken_note(axes: Axes, told: str = "") -> str:
    """Take title and note off the axes, since the page sets them as text; returns the note.

    ``told`` is a beginning of it that stands above the drawing.
    """
    _, note = style.take_title(axes)
    return note.removeprefix(told).lstrip("; ")


def _of_all(study: Study, material: Material, comparison: Mapping[str, Any]) -> Iterator[_Sketch]:
    """What is seen best with all variants in one drawing."""
    taller_in = 0.15 * len(study.variants)  # for the legend
    window_s, names = material.window_s, study.variants

    def spills(ax: Axes) -> str:
        spills_by_reason(material.placements, window_s=window_s, variants=names, ax=ax)
        name_rows(ax)
        return _taken_note(ax)

    yield _Sketch(
        "ttft",
        "Time to first token",
        lambda ax: _taken_note(
            ttft_cdf(material.requests, window_s=window_s, variants=names, ax=ax)
        ),
        findings.of_ttft(study, comparison),
        HEIGHT_IN + taller_in,
    )
    if any(run.summary["prompt_cache_hit_ratio"] for run in study.results):
        yield _Sketch(
            "hits",
            "Prompt tokens found in the cache",
            lambda ax: _taken_note(
                hit_rate_over_time(material.placements, window_s=window_s, variants=names, ax=ax)
            ),
            findings.of_hits(study, comparison),
            HEIGHT_IN + taller_in,
        )
    if any(run.facts.has_home for run in study.results):
        yield _Sketch(
            "spills",
            "Requests sent away from their home, by reason",
            spills,
            findings.of_spills(study, comparison),
            1.9 + rows_in(names),
        )


def _loads(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    rows = first_run(material.first_pods, run.variant)[0]
    polls = findings.Polls.of(rows, _window(run))
    most = pods.load_scale(_first_polls(study, material), _window(run))

    def draw(ax: Axes) -> str:
        notes = pods.draw_load(ax, rows, _window(run), most)
        if pods.is_heat_map(rows):
            pods.colour_bar([ax], most)
            name_rows(ax, lines=1)
        style.legend(ax)
        return _joined(notes.shared)

    if polls.pods:
        name = f"load-{_place(study, run)}"
        yield _Sketch(name, _titled(study, run), draw, findings.of_load(polls))


def _kv_usages(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    rows = first_run(material.first_pods, run.variant)[0]
    most = pods.highest(_first_polls(study, material), "kv_usage")

    def draw(ax: Axes) -> str:
        notes = pods.draw_kv_usage(ax, rows, _window(run), most)
        style.legend(ax)
        return _joined(notes.shared)

    if run.summary["kv_usage"]["mean"] is not None:
        name = f"kv-{_place(study, run)}"
        yield _Sketch(name, _titled(study, run), draw, findings.of_kv_usage(run))


def _first_polls(study: Study, material: Material) -> list[pd.DataFrame]:
    """The polls of the first run of each variant, for a scale on which all can be compared."""
    return [first_run(material.first_pods, variant)[0] for variant in study.variants]


def _pools(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    there = residence(run.facts)
    source = next(each for each in material.firsts if each.variant == run.variant)
    events = arrow.data_frame(source.table("pools"))
    for at, (pool, members) in enumerate(run.facts.pools.items()):

        def draw(ax: Axes, pool: str = pool, members: Iterable[str] = members) -> str:
            rows, stays = events[events["pool"] == pool], there[there["pool"] == pool]
            pool_timeline(rows, stays, members=list(members), window_s=_window(run), ax=ax)
            name_rows(ax)
            return _taken_note(ax)

        yield _Sketch(
            f"pool-{_place(study, run)}-{at + 1}",
            f"{pool}: {_titled(study, run)}",
            draw,
            findings.of_pool(run, pool),
            2.2 + 2.0 * rows_in(members),
        )


def _sessions(study: Study, material: Material, run: RunResult) -> Iterator[_Sketch]:
    rows, told = first_run(material.requests, run.variant, run.seed)
    stays = findings.Stays.of(rows, _window(run))

    def draw(ax: Axes) -> str:
        drawn = session_map(
            material.requests,
            variant=run.variant,
            seed=run.seed,
            window_s=_window(run),
            pods=run.facts.pods,
            ax=ax,
        )
        return _taken_note(drawn, told)

    if stays.sessions and sessions_may_move(material.requests):
        name = f"sessions-{_place(study, run)}"
        yield _Sketch(name, _titled(study, run), draw, findings.of_sessions(stays), 4.0)


def _joined(notes: Iterable[str]) -> str:
    return "; ".join(filter(None, notes))


def _window(run: RunResult) -> Span:
    return run.facts.window_start_s, run.facts.window_end_s


def _place(study: Study, run: RunResult) -> int:
    """Where the variant stands: ids are made of it, since names may hold anything."""
    return study.variants.index(run.variant) + 1


def _titled(study: Study, run: RunResult) -> str:
    return f"{study.called(run.variant)}, seed {run.seed}"
