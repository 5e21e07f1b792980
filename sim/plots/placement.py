"""Figures of where requests were sent."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from sim.core.request import DIRECT, Outcome, Reason
from sim.core.stats import Interval, t_interval
from sim.plots import style
from sim.plots.frames import (
    PLACEMENTS,
    REQUESTS,
    Span,
    check_table,
    first_run,
    numbers,
    runs_of,
    shown,
    variants_of,
    within,
)
from sim.plots.style import Notes
from sim.plots.timeaxis import time_axis

AWAY: Final = (Outcome.SPILL, Outcome.MIGRATED)
KNOWN: Final = (
    *(f"{Outcome.SPILL}: {why}" for why in (Reason.BOUND, Reason.WAITING, Reason.KV_FULL)),
    *(f"{outcome}: {Reason.NOT_READY}" for outcome in AWAY),
)
"""What podsim's own policies say; each has its colour, whichever of them occur."""
NO_HOME: Final = frozenset((Outcome.PLACED, Outcome.UNKEYED))
"""What a policy that knows no home says of its placements."""
MOST_SESSIONS: Final = 30
MOST_COLOURS: Final = len(style.PODS)
GREYS: Final = ("#6e6e6e", "#b9b9b9")


def shares_away(placements: pd.DataFrame) -> dict[str, float]:
    """Share of the router's placements of one run that went away from the session's home, by
    ``outcome: reason``; empty for a policy that knows no home."""
    routed = placements[placements["proxy"] != DIRECT]
    if set(routed["outcome"]) <= NO_HOME:
        return {}
    away = routed[routed["outcome"].isin(AWAY)]
    why = away["outcome"].astype(str) + ": " + away["reason"].astype(object).fillna("other")
    return {str(key): int(times) / len(routed) for key, times in why.value_counts().items()}


def has_home(placements: pd.DataFrame) -> bool:
    """Whether any placement of one run knew a home."""
    return not set(placements.loc[placements["proxy"] != DIRECT, "outcome"]) <= NO_HOME


def spills_by_reason(
    placements: pd.DataFrame,
    *,
    window_s: Span | None = None,
    variants: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Placements away from the session's home, a bar per variant, stacked by reason.

    ``placements`` as ``Runs.placements`` gives them; ``window_s`` keeps those
    dispatched in it. The length is their share of all placements of the
    router, the mean over the seeds, with the 95 % t interval of the whole bar.
    A policy without a home has no bar.
    """
    check_table(placements, PLACEMENTS, "dispatch_s", "proxy", "outcome", "reason")
    rows = within(placements, "dispatch_s", window_s)
    order = variants_of(rows, variants)
    shares = {
        variant: [shares_away(run) for _, run in runs_of(rows, variant) if has_home(run)]
        for variant in order
    }
    ax = ax or style.own_axes(height_in=2.0 + 0.42 * max(1, len(order)))
    _bars(ax, shares)
    for row, variant in enumerate(order):
        if not shares[variant]:
            some = any(len(run) for _, run in runs_of(rows, variant))
            style.beside(ax, row, "knows no home" if some else "no placements")
    style.dress(ax, "share of placements, %", grid="x")
    style.name_rows(ax, [shown(variant) for variant in order])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g}"))
    seeds = max((len(runs) for runs in shares.values()), default=0)
    style.title(
        ax,
        "Requests sent away from their home",
        _window_told(window_s),
        f"mean of {seeds} seeds with the 95 % t interval of the whole" if seeds > 1 else "",
    )
    style.legend(ax, least=1)
    return ax


def _window_told(window_s: Span | None) -> str:
    if window_s is None or (window_s[0] <= 0.0 and np.isinf(window_s[1])):
        return ""
    end = "" if np.isinf(window_s[1]) else f" to {window_s[1]:,g} s"
    return f"dispatched from {window_s[0]:,g} s{end}"


def _bars(ax: Axes, shares: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    found = {reason for runs in shares.values() for run in runs for reason in run}
    at = np.arange(len(shares))
    left = np.zeros(len(shares))
    for reason, look in style.looks((*KNOWN, *sorted(found - set(KNOWN))), style.PARTS).items():
        if reason not in found:
            continue
        width = np.array(
            [
                float(np.mean([run.get(reason, 0.0) for run in runs])) if runs else 0.0
                for runs in shares.values()
            ]
        )
        ax.barh(
            at,
            width,
            left=left,
            height=0.62,
            color=look.colour,
            hatch=look.hatch,
            edgecolor="white",
            linewidth=0.6,
            label=reason.replace("_", " "),
        )
        left = left + width
    ends = [_whole(ax, row, runs) for row, runs in enumerate(shares.values())]
    ax.set_xlim(0.0, max(ends, default=0.0) * 1.06 or 0.01)


def _whole(ax: Axes, row: int, runs: Sequence[Mapping[str, float]]) -> float:
    """The interval of a whole bar; returns how far it reaches."""
    if not runs:
        return 0.0
    found: Interval = t_interval([sum(run.values()) for run in runs])
    assert found.mean is not None
    if found.mean == 0.0:
        style.beside(ax, row, "none")
    if found.low is None or found.high is None or found.mean == 0.0:
        return found.mean
    low = max(0.0, found.low)
    ax.errorbar(
        found.mean,
        row,
        xerr=[[found.mean - low], [found.high - found.mean]],
        color=style.INK,
        linewidth=1.2,
        capsize=3.0,
    )
    return found.high


def session_map(
    requests: pd.DataFrame,
    *,
    variant: str | None = None,
    seed: int | None = None,
    window_s: Span | None = None,
    pods: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Which pod each session's requests went to over time, of one run.

    ``requests`` as ``Runs.requests`` gives them; the first run, unless
    ``variant`` and ``seed`` name another. A row is a session, in order of
    arrival, of the first ``MOST_SESSIONS`` that begin in ``window_s`` with two
    turns or more; a bar lasts from a request's arrival to the next one of the
    session, in the colour of its pod, and a black tick marks each move. Beyond
    ``MOST_COLOURS`` pods only moves are told apart. ``pods`` fixes the order
    and so the colours.
    """
    check_table(requests, REQUESTS, "session_id", "pod", "arrival_s", "end_s")
    ax = ax or style.own_axes(height_in=4.6)
    rows, told = first_run(requests, variant, seed)
    notes = draw_sessions(ax, rows, window_s, pods)
    style.title(ax, "Where each session was sent", told, *notes.own, *notes.shared)
    style.legend(ax, pod_patches(pods or pods_of(rows)))
    return ax


def draw_sessions(
    ax: Axes,
    rows: pd.DataFrame,
    window_s: Span | None,
    pods: Sequence[str] | None = None,
    end_s: float = 0.0,
    least: int = 1,
) -> Notes:
    """Draw the sessions of one run without title and legend.

    The axes reach at least to ``end_s`` and have room for ``least`` sessions.
    """
    sessions, begun = _chosen(rows, window_s)
    order = list(pods or pods_of(rows))
    many = len(order) > MOST_COLOURS
    colours = {pod: look.colour for pod, look in style.looks(order, style.PODS).items()}
    ticks: list[tuple[float, int]] = []
    for row, turns in enumerate(sessions):
        starts_s, at = numbers(turns, "arrival_s"), [str(pod) for pod in turns["pod"]]
        ends_s = np.append(starts_s[1:], _last_s(turns))
        moved = [False, *(after != before for before, after in pairwise(at))]
        ticks += [(start_s, row) for start_s, move in zip(starts_s, moved) if move]
        first = np.flatnonzero([True, *moved[1:]])
        last = np.append(first[1:], len(at)) - 1
        ax.broken_barh(
            list(zip(starts_s[first], ends_s[last] - starts_s[first])),
            (row - 0.36, 0.72),
            facecolors=[
                GREYS[stay % 2] if many else colours[at[begin]] for stay, begin in enumerate(first)
            ],
            edgecolor="none",
        )
        end_s = max(end_s, float(ends_s[-1]))
    if ticks:
        ax.plot(*zip(*ticks), linestyle="none", marker="|", color="black", markersize=6.5)
    start_s = min((float(turns["arrival_s"].iloc[0]) for turns in sessions), default=0.0)
    start_s = start_s if window_s is None else window_s[0]
    style.dress(ax, time_axis(ax, start_s, end_s), "sessions, by arrival", grid="x")
    ax.set_ylim(max(len(sessions), least) - 0.4, -0.6)
    ax.set_yticks([])
    if not sessions:
        style.nothing(ax, "no session with two turns or more")
        return Notes()
    return Notes(
        (f"{len(sessions)} of {begun} sessions, {len(ticks)} moves",),
        (
            f"those of two turns or more, the first {MOST_SESSIONS}",
            "bars last to the next request" + (", greys alternate" if many else ""),
            "black: moved to another pod",
        ),
    )


def sessions_to_show(rows: pd.DataFrame, window_s: Span | None) -> int:
    """How many sessions of one run are drawn."""
    return min(MOST_SESSIONS, len(_begun(rows, window_s)))


def sessions_may_move(requests: pd.DataFrame) -> bool:
    """Whether the sessions of some runs that have several turns are on several pods."""
    known = requests[requests["session_id"].notna() & requests["pod"].notna()]
    several = known.duplicated(["variant", "seed", "session_id"], keep=False)
    return bool(known.loc[several, "pod"].nunique() > 1)


def _begun(rows: pd.DataFrame, window_s: Span | None) -> pd.DataFrame:
    """The sessions with two placed requests or more that begin in the window, by arrival."""
    placed = rows[rows["session_id"].notna() & rows["pod"].notna()]
    by_session = placed.groupby("session_id", sort=False, observed=True)["arrival_s"]
    facts = by_session.agg(["min", "size"])
    return within(facts[facts["size"] > 1], "min", window_s).sort_values("min", kind="stable")


def _chosen(rows: pd.DataFrame, window_s: Span | None) -> tuple[list[pd.DataFrame], int]:
    """The requests of each session to draw, and how many sessions there would be."""
    begun = _begun(rows, window_s)
    chosen = begun.index[:MOST_SESSIONS]
    placed = rows[rows["session_id"].isin(chosen) & rows["pod"].notna()]
    groups = dict(iter(placed.groupby("session_id", sort=False, observed=True)))
    return [groups[name].sort_values("arrival_s", kind="stable") for name in chosen], len(begun)


def _last_s(turns: pd.DataFrame) -> float:
    """When the last request of a session was over, or when it came if nobody knows."""
    ends_s = numbers(turns, "end_s")
    last_s = float(turns["arrival_s"].iloc[-1])
    return last_s if np.isnan(ends_s[-1]) else max(last_s, float(ends_s[-1]))


def pods_of(rows: pd.DataFrame) -> list[str]:
    """The pods that the requests of a run went to, by name."""
    return sorted(str(pod) for pod in rows["pod"].dropna().unique())


def pod_patches(pods: Sequence[str]) -> list[Patch]:
    """Entries for a legend of pods; none where colours stand for moves."""
    if len(pods) > MOST_COLOURS:
        return []
    return [
        Patch(facecolor=look.colour, label=pod)
        for pod, look in style.looks(pods, style.PODS).items()
    ]
