"""The figures that ``podsim plot`` and reports draw of stored runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from sim.plots import style
from sim.plots.comparison import HEADLINES, metric_by_variant
from sim.plots.frames import Span, shown, within
from sim.plots.latency import ttft_cdf
from sim.plots.overtime import highest, hit_rate_over_time, kv_usage_over_time, load_over_time
from sim.plots.placement import has_home, pods_of, session_map, sessions_may_move, spills_by_reason
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
    if not. ``panels`` are those of some runs, which are the first ones of variants.
    """

    name: str
    lacks: str
    says: Callable[[Material], bool]
    panels: Callable[[Material, Sequence[StoredRun]], list[Panel]]
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
        panels = self.panels(material, runs)
        figure = style.Drawing(width_in, self.title, bare)
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


def _over_all(draw: Callable[..., Axes], table: str) -> Callable[..., list[Panel]]:
    """One panel of all runs, from one of the material's tables."""

    def panels(material: Material, _: object) -> list[Panel]:
        window_s, variants = material.window_s, material.variants
        rows = getattr(material, table)
        return [("", partial(draw, rows, window_s=window_s, variants=variants))]

    return panels


def _metrics(material: Material, _: object) -> list[Panel]:
    draw = partial(metric_by_variant, material.comparison, variants=material.variants)
    return [(key, partial(draw, key=key)) for key in _headlines(material)]


def _headlines(material: Material) -> list[str]:
    """The headline figures that any run knows and that are not 0 in all of them."""
    found = material.comparison
    return [key for key in HEADLINES if any(one["mean"] for one in found.get(key, {}).values())]


def _polls(draw: Callable[..., Axes], gauge: str) -> Callable[..., list[Panel]]:
    """A panel of a gauge of the pods of each run, all on one scale."""

    def panels(material: Material, runs: Sequence[StoredRun]) -> list[Panel]:
        window_s = material.window_s if gauge == "in_flight" else None
        scaled = partial(draw, most=highest(material.polls.values(), gauge, window_s))
        return [
            (
                shown(run.variant),
                partial(scaled, material.polls[run.variant], window_s=window_of(run)),
            )
            for run in runs
        ]

    return panels


def _sessions(material: Material, runs: Sequence[StoredRun]) -> list[Panel]:
    draw = partial(session_map, pods=pods_of(material.requests))
    return [
        (shown(run.variant), partial(draw, material.requests_of(run), window_s=window_of(run)))
        for run in runs
    ]


def _pools(material: Material, runs: Sequence[StoredRun]) -> list[Panel]:
    """All show the same part: that of the one which has swapped most by then."""
    pools = [(run, name) for run in runs for name in run.facts.pools]
    events = [_of_pool(arrow.data_frame(run.table("pools")), name) for run, name in pools]
    stays = [_of_pool(residence(run.facts), name) for run, name in pools]
    members = [list(run.facts.pools[name]) for run, name in pools]
    windows_s = [window_of(run) for run, _ in pools]
    spans_s = [excerpt(*each) for each in zip(events, stays, windows_s)]
    between_s = spans_s[0][0], max(spans_s[0][0], min(stop_s for _, stop_s in spans_s))
    most = max(most_held(*each, between_s) for each in zip(events, members))
    draw = partial(pool_timeline, between_s=between_s, most=most)
    return [
        (
            f"{shown(run.variant)}, pool {name}",
            partial(draw, *tables, members=order, window_s=window_s),
        )
        for (run, name), tables, order, window_s in zip(
            pools, zip(events, stays), members, windows_s
        )
    ]


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
            _over_all(ttft_cdf, "requests"),
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
            _over_all(hit_rate_over_time, "placements"),
            by_run=False,
        ),
        Kind("load-over-time", "no polls", _is_polled, _polls(load_over_time, "in_flight")),
        Kind("kv-usage-over-time", "no polls", _is_polled, _polls(kv_usage_over_time, "kv_usage")),
        Kind(
            "spills-by-reason",
            "no homes",
            lambda of: has_home(of.placements),
            _over_all(spills_by_reason, "placements"),
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
