"""The figures that ``podsim plot`` and reports draw of stored runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from sim.plots import style
from sim.plots.comparison import HEADLINES, metric_by_variant, metric_in
from sim.plots.frames import Span, shown, within
from sim.plots.latency import ttft_cdf
from sim.plots.overtime import (
    highest,
    hit_rate_over_time,
    is_heat_map,
    kv_usage_over_time,
    load_over_time,
)
from sim.plots.placement import (
    has_home,
    pods_of,
    session_map,
    sessions_may_move,
    spills_by_reason,
    spills_in,
)
from sim.plots.pools import excerpt, most_held, pool_timeline, residence
from sim.results import arrow
from sim.results.comparison import compare_variants
from sim.results.stored import StoredRun

MOST_PANELS: Final = 6
"""Variants that are drawn below each other in one figure."""


@dataclass(frozen=True)
class Material:
    """The runs of one scenario, by variant and seed; each table is read when a figure needs it.

    What cannot be read raises ``UserError`` then.
    """

    runs: tuple[StoredRun, ...]

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The variants in order."""
        return tuple(dict.fromkeys(run.variant for run in self.runs))

    @cached_property
    def firsts(self) -> tuple[StoredRun, ...]:
        """The first run of each variant."""
        return tuple(
            {run.variant: run for run in reversed(self.runs)}[name] for name in self.variants
        )

    @cached_property
    def window_s(self) -> Span | None:
        """The measured window, None when the runs do not have the same."""
        windows = set(map(window_of, self.runs))
        return windows.pop() if len(windows) == 1 else None

    @cached_property
    def requests(self) -> pd.DataFrame:
        """The requests of all runs; those of their windows where these differ."""
        return self._frame("requests", "arrival_s")

    @cached_property
    def placements(self) -> pd.DataFrame:
        """The placements of all runs; those of their windows where these differ."""
        return self._frame("placements", "dispatch_s")

    @cached_property
    def polls(self) -> dict[str, pd.DataFrame]:
        """The polls of the first run of each variant."""
        return {run.variant: arrow.data_frame(run.table("pods")) for run in self.firsts}

    @cached_property
    def comparison(self) -> dict[str, Any]:
        """Means over seeds and 95 % t intervals, by metric and variant."""
        return compare_variants([run.outline() for run in self.runs])

    def requests_of(self, run: StoredRun) -> pd.DataFrame:
        """The requests of one run."""
        rows = self.requests
        return rows[(rows["variant"] == run.variant) & (rows["seed"] == run.seed)]

    def _frame(self, table: str, time: str) -> pd.DataFrame:
        """Their tables one below the other, each row with its variant and seed."""
        frames = []
        for run in self.runs:
            window_s = window_of(run) if self.window_s is None else None
            frame = within(arrow.data_frame(run.table(table)), time, window_s)
            variant = np.full(len(frame), run.variant, dtype=object)
            frames.append(frame.assign(variant=variant, seed=run.seed))
        return pd.concat(frames, ignore_index=True)


def window_of(run: StoredRun) -> Span:
    """The measured window of a run."""
    facts = run.facts
    return facts.window_start_s, facts.window_end_s


Panel = tuple[str, "partial[Axes]"]
"""What a panel shows, and what draws it on axes."""


@dataclass(frozen=True)
class Kind:
    """A figure of the catalogue.

    ``says`` tells whether it says anything of some runs, ``lacks`` what is missing
    if not. ``panels`` are those of some runs, which are the first ones of
    variants, in a figure of a width; with the height of each, in inches.
    """

    name: str
    lacks: str
    says: Callable[[Material], bool]
    panels: Callable[[Material, Sequence[StoredRun], float], tuple[list[Panel], float]]
    by_run: bool = True
    """Whether panels are of a run each, with one axis of time."""
    title: str = ""
    """That of each panel when missing."""

    @style.styled()
    def draw(
        self,
        material: Material,
        width_in: float,
        runs: Sequence[StoredRun] | None = None,
        bare: bool = False,
    ) -> style.Drawing:
        """Draw it of ``runs``, or of the first ones of the first variants."""
        runs = runs or material.firsts[:MOST_PANELS]
        panels, each_in = self.panels(material, runs, width_in)
        figure = style.Drawing(width_in, 0.5 + each_in * len(panels), self.title, bare)
        if self.by_run and not bare:
            seeds, variants = {run.seed for run in material.runs}, len(material.variants)
            figure.notes += [f"seed {runs[0].seed} of {len(seeds)}"] if len(seeds) > 1 else []
            figure.notes += [f"{len(runs)} of {variants} variants"] if len(runs) < variants else []
        axes = figure.subplots(len(panels), 1, sharex=self.by_run, squeeze=False)[:, 0]
        for ax, (name, draw) in zip(axes, panels):
            ax.set_title(name if self.by_run else "")
            draw(ax=ax)
        return figure


def telling(material: Material) -> list[Kind]:
    """The figures that say something of these runs, in the order of the catalogue."""
    return [kind for kind in CATALOGUE.values() if kind.says(material)]


def _over_all(
    draw: Callable[..., Axes], table: str, body_in: Callable[[Material, float], float]
) -> Callable[..., tuple[list[Panel], float]]:
    """One panel of all runs, from one of the material's tables."""

    def panels(material: Material, _: object, width_in: float) -> tuple[list[Panel], float]:
        drawn = partial(draw, getattr(material, table), window_s=material.window_s)
        return [("", partial(drawn, variants=material.variants))], body_in(material, width_in)

    return panels


def _metrics(material: Material, _: object, width_in: float) -> tuple[list[Panel], float]:
    variants = material.variants
    panels = [
        (key, partial(metric_by_variant, material.comparison, key, variants=variants))
        for key in _headlines(material)
    ]
    return panels, metric_in(variants, width_in) + 0.3


def _headlines(material: Material) -> list[str]:
    """The headline figures that any run knows and that are not 0 in all of them."""
    found = material.comparison
    return [key for key in HEADLINES if any(one["mean"] for one in found.get(key, {}).values())]


def _polls(draw: Callable[..., Axes], gauge: str) -> Callable[..., tuple[list[Panel], float]]:
    """A panel of a gauge of the pods of each run, all on one scale."""

    def panels(
        material: Material, runs: Sequence[StoredRun], _: float
    ) -> tuple[list[Panel], float]:
        polls = material.polls
        most = highest(polls.values(), gauge, material.window_s if gauge == "in_flight" else None)
        found = [
            (
                shown(run.variant),
                partial(draw, polls[run.variant], window_s=window_of(run), most=most),
            )
            for run in runs
        ]
        rows = max(
            (frame["pod"].nunique() for frame in polls.values() if is_heat_map(frame)), default=0
        )
        named_in = min(max(1.5, (rows + 1) * 0.2), 3.5)  # rows of a heat map have names
        return found, named_in if gauge == "in_flight" else 1.4

    return panels


def _sessions(material: Material, runs: Sequence[StoredRun], _: float) -> tuple[list[Panel], float]:
    draw = partial(session_map, pods=pods_of(material.requests))
    panels = [
        (shown(run.variant), partial(draw, material.requests_of(run), window_s=window_of(run)))
        for run in runs
    ]
    return panels, 2.0


def _pools(material: Material, runs: Sequence[StoredRun], _: float) -> tuple[list[Panel], float]:
    """All show the same part: that of the one which has swapped most by then."""
    pools = [(run, name) for run in runs for name in run.facts.pools]
    events = [_of_pool(arrow.data_frame(run.table("pools")), name) for run, name in pools]
    stays = [_of_pool(residence(run.facts), name) for run, name in pools]
    members = [list(run.facts.pools[name]) for run, name in pools]
    windows_s = [window_of(run) for run, _ in pools]
    spans_s = [excerpt(*each) for each in zip(events, stays, windows_s)]
    between_s = spans_s[0][0], max(spans_s[0][0], min(stop_s for _, stop_s in spans_s))
    most = max(most_held(*each, between_s) for each in zip(events, members))
    panels = [
        (
            f"{shown(run.variant)}, pool {name}",
            partial(
                pool_timeline,
                *tables,
                members=order,
                between_s=between_s,
                window_s=window_s,
                most=most,
            ),
        )
        for (run, name), tables, order, window_s in zip(
            pools, zip(events, stays), members, windows_s
        )
    ]
    return panels, 0.5 + 0.38 * max(map(len, members))


def _of_pool(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    return frame[frame["pool"] == name]


def _is_polled(material: Material) -> bool:
    return any(map(len, material.polls.values()))


CATALOGUE: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(
            "ttft-cdf",
            "no requests",
            lambda of: len(of.requests) > 0,
            _over_all(ttft_cdf, "requests", lambda *_: 2.7),
            by_run=False,
        ),
        Kind(
            "metrics",
            "no headline is known",
            lambda of: bool(_headlines(of)),
            _metrics,
            by_run=False,
            title="Variants side by side",
        ),
        Kind(
            "hit-rate-over-time",
            "no prompt was ever in a cache",
            lambda of: bool((of.placements["cached_tokens"] > 0).any()),
            _over_all(hit_rate_over_time, "placements", lambda *_: 2.7),
            by_run=False,
        ),
        Kind("load-over-time", "no polls", _is_polled, _polls(load_over_time, "in_flight")),
        Kind("kv-usage-over-time", "no polls", _is_polled, _polls(kv_usage_over_time, "kv_usage")),
        Kind(
            "spills-by-reason",
            "no homes",
            lambda of: has_home(of.placements),
            _over_all(
                spills_by_reason,
                "placements",
                lambda of, width_in: spills_in(of.variants, width_in),
            ),
            by_run=False,
        ),
        Kind(
            "session-map",
            "no sessions that could be on several pods",
            lambda of: sessions_may_move(of.requests),
            _sessions,
        ),
        Kind(
            "pool-timeline",
            "no pools",
            lambda of: any(run.facts.pools for run in of.firsts),
            _pools,
        ),
    )
}
"""Every figure by its name, in the order of ``FIGURES``."""
