"""Figures of where requests were sent."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from sim.core.request import DIRECT, Outcome, Reason
from sim.core.stats import Floats, t_interval
from sim.plots import frames, style
from sim.plots.frames import Span, numbers, shown, within
from sim.plots.overtime import last_of_panels_s, time_axis

AWAY: Final = (Outcome.SPILL, Outcome.MIGRATED)
KNOWN: Final = (
    *(f"{Outcome.SPILL}: {why}" for why in (Reason.BOUND, Reason.WAITING, Reason.KV_FULL)),
    *(f"{outcome}: {Reason.NOT_READY}" for outcome in AWAY),
)
"""What podsim's own policies say; each has its colour, whichever of them occur."""
NO_HOME: Final = frozenset((Outcome.PLACED, Outcome.UNKEYED))
"""What a policy without homes says of its placements."""
MOST_SESSIONS: Final = 30
MOST_COLOURS: Final = len(style.PODS)
GREYS: Final = ("#6e6e6e", "#b9b9b9")


def shares_away(placements: pd.DataFrame) -> dict[str, float]:
    """Share of the router's placements of one run that went away from the session's home, by
    ``outcome: reason``; empty for a policy without homes."""
    if not has_home(placements):
        return {}
    routed = placements[placements["proxy"] != DIRECT]
    away = routed[routed["outcome"].isin(AWAY)]
    why = away["outcome"].astype(str) + ": " + away["reason"].astype(object).fillna("other")
    return {str(key): int(times) / len(routed) for key, times in why.value_counts().items()}


def has_home(placements: pd.DataFrame) -> bool:
    """Whether any placement of one run had a home."""
    return not set(placements.loc[placements["proxy"] != DIRECT, "outcome"]) <= NO_HOME


@style.styled()
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
    frames.check_table(placements, frames.PLACEMENTS, "dispatch_s", "proxy", "outcome", "reason")
    rows = within(placements, "dispatch_s", window_s)
    order = frames.variants_of(rows, variants)
    runs = {variant: list(frames.runs_of(rows, variant).values()) for variant in order}
    shares = {name: [shares_away(run) for run in runs[name] if has_home(run)] for name in order}
    ax = style.make_room(ax, 0.3)
    _spill_bars(ax, shares)
    for row, variant in enumerate(order):
        if not shares[variant]:
            some = any(map(len, runs[variant]))
            style.beside(ax, row, "knows no home" if some else "no placements")
    ax.set_xlabel("share of placements, %")
    ax.xaxis.set_major_formatter(style.per_cent())
    style.name_rows(ax, [shown(variant) for variant in order], 0.4)
    seeds = max(map(len, shares.values()), default=0)
    style.finish(
        ax,
        "Requests sent away from their home",
        frames.window_in_words("dispatched", window_s),
        f"mean of {seeds} seeds with the 95 % t interval of the whole" if seeds > 1 else "",
        least=1,
    )
    return ax


def _spill_bars(ax: Axes, shares: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Stack the mean share of each reason; ``shares`` are those of the runs of each variant."""
    found = {reason for runs in shares.values() for run in runs for reason in run}
    parts = {
        reason.replace("_", " "): np.array(
            [
                sum(run.get(reason, 0.0) for run in runs) / (len(runs) or 1)
                for runs in shares.values()
            ]
        )
        for reason in (*KNOWN, *sorted(found - set(KNOWN)))
    }
    style.stack_bars(ax, parts, 0.62)
    ends = [_whole(ax, row, runs) for row, runs in enumerate(shares.values()) if runs]
    ax.set_xlim(0.0, max(ends, default=0.0) * 1.06 or 0.01)


def _whole(ax: Axes, row: int, runs: Sequence[Mapping[str, float]]) -> float:
    """Draw the interval of a whole bar; returns how far it reaches."""
    found = t_interval([sum(run.values()) for run in runs])
    mean = found.mean or 0.0
    if mean == 0.0:
        style.beside(ax, row, "none")
    if found.low is None or found.high is None or mean == 0.0:
        return mean
    sides = [[mean - max(0.0, found.low)], [found.high - mean]]
    ax.errorbar(mean, row, xerr=sides, color=style.INK, linewidth=1.2)
    return found.high


@style.styled()
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
    frames.check_table(requests, frames.REQUESTS, "session_id", "pod", "arrival_s", "end_s")
    ax = style.make_room(ax, 3.4, 2.0)
    rows, run = frames.first_run(requests, variant, seed)
    sessions, begun = _chosen(rows, window_s)
    looks = style.looks(list(pods or pods_of(rows)), style.PODS)
    many = len(looks) > MOST_COLOURS
    ticks: list[tuple[float, int]] = []
    for row, turns in enumerate(sessions):
        starts_s, ends_s, at = _stays(turns)
        ticks += [(start_s, row) for start_s in starts_s[1:]]
        ax.broken_barh(
            list(zip(starts_s, ends_s - starts_s)),
            (row - 0.36, 0.72),
            edgecolor="none",
            facecolors=[
                GREYS[stay % 2] if many else looks[pod].colour for stay, pod in enumerate(at)
            ],
        )
    if ticks:
        ax.plot(*zip(*ticks), linestyle="none", marker="|", color="black", markersize=6.5)
    start_s = min((float(turns["arrival_s"].iloc[0]) for turns in sessions), default=0.0)
    low_s, high_s = window_s or (start_s, 0.0)
    time_axis(ax, low_s, max(last_of_panels_s(ax), high_s if np.isfinite(high_s) else 0.0))
    ax.set(ylabel="sessions, by arrival", ylim=(max(len(sessions), 1) - 0.4, -0.6), yticks=[])
    if not sessions:
        style.nothing(ax, "no session with two turns or more")
    style.finish(
        ax,
        "Where each session was sent",
        f"those of two turns or more, the first {MOST_SESSIONS}",
        "bars last to the next request" + (", greys alternate" if many else ""),
        "black: moved to another pod",
        run=run,
        own=f"{len(sessions)} of {begun} sessions, {len(ticks)} moves",
        entries=[
            Patch(facecolor=look.colour, label=pod) for pod, look in looks.items() if not many
        ],
    )
    return ax


def sessions_may_move(requests: pd.DataFrame) -> bool:
    """Whether the sessions of some runs that have several turns are on several pods."""
    placed = requests[requests["session_id"].notna() & requests["pod"].notna()]
    several = placed.duplicated(["variant", "seed", "session_id"], keep=False)
    return bool(placed.loc[several, "pod"].nunique() > 1)


def _chosen(rows: pd.DataFrame, window_s: Span | None) -> tuple[list[pd.DataFrame], int]:
    """The requests of each session to draw, by arrival, and how many sessions there would be."""
    placed = rows[rows["session_id"].notna() & rows["pod"].notna()]
    sessions = placed.groupby("session_id", sort=False, observed=True)
    facts = sessions["arrival_s"].agg(["min", "size"])
    begun = within(facts[facts["size"] > 1], "min", window_s).sort_values("min", kind="stable")
    groups = [sessions.get_group(name) for name in begun.index[:MOST_SESSIONS]]
    return [turns.sort_values("arrival_s", kind="stable") for turns in groups], len(begun)


def _stays(turns: pd.DataFrame) -> tuple[Floats, Floats, list[str]]:
    """From when to when a session is on which pod.

    The last stay ends with the last request, or as it came if its end is unknown.
    """
    arrivals_s, pods = numbers(turns, "arrival_s"), turns["pod"].astype(str).to_numpy()
    last_s = np.nanmax([arrivals_s[-1], numbers(turns, "end_s")[-1]])
    first = np.flatnonzero([True, *(pods[1:] != pods[:-1])])
    starts_s = arrivals_s[first]
    return starts_s, np.append(starts_s[1:], last_s), list(pods[first])


def pods_of(rows: pd.DataFrame) -> list[str]:
    """The pods that the requests of a run went to, by name."""
    return sorted(str(pod) for pod in rows["pod"].dropna().unique())
