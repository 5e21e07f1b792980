"""Figures of model pools: their swaps, their holds, and what became of each member's time."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.request import DIRECT, PoolError, Status
from sim.core.stats import Floats, Sample
from sim.results import arrow
from sim.results.arrow import Mask, Table, Texts
from sim.results.figures import MeasuredWindow, count, known, spread, to_ns
from sim.results.tables import Tables

COLD: Final = "cold"
"""What stands for the member before a swap where there was none."""
_FIGURES: Final = ("mean", "p50", "p95")


@dataclass(frozen=True)
class PoolColumns:
    """The columns of the pools table; times that have not come are NaN."""

    pool: Texts
    kind: Texts
    member: Texts
    from_member: Texts
    cause: Texts
    result: Texts
    start_s: Floats
    end_s: Floats
    drain_s: Floats
    unload_s: Floats
    load_s: Floats

    @staticmethod
    def of(table: Table) -> "PoolColumns":
        """Read them."""
        return PoolColumns(
            pool=arrow.strings(table, "pool"),
            kind=arrow.strings(table, "kind"),
            member=arrow.strings(table, "member"),
            from_member=arrow.strings(table, "from_member"),
            cause=arrow.strings(table, "cause"),
            result=arrow.strings(table, "result"),
            start_s=arrow.numbers(table, "start_s"),
            end_s=arrow.numbers(table, "end_s"),
            drain_s=arrow.numbers(table, "drain_s"),
            unload_s=arrow.numbers(table, "unload_s"),
            load_s=arrow.numbers(table, "load_s"),
        )

    @property
    def lasted_s(self) -> Floats:
        """From begin to end."""
        return to_ns(self.end_s - self.start_s)

    def skips(self, pool: str) -> Mask:
        """The attempts that a busy pool turned away, at once or after waiting for a swap."""
        return self.pool.equal(pool) & self.result.equal(PoolError.INCUMBENT_BUSY)

    def swaps(self, pool: str) -> Mask:
        """The changes of hands of a pool, in order of time."""
        return self.pool.equal(pool) & self.kind.equal("swap")

    def completed(self, pool: str, window: MeasuredWindow) -> Mask:
        """The swaps that were completed in the window."""
        return self.swaps(pool) & window.contains(self.end_s) & self.result.equal("completed")


class Stay(NamedTuple):
    """A member in memory from ``start_s`` to ``end_s``, ready or draining."""

    member: str
    start_s: float
    end_s: float


def stays(facts: RunFacts, pool: str) -> list[Stay]:
    """Who was resident in a pool when, in order of time, up to the end of the run."""
    found = [
        Stay(member, start_s, end_s)
        for member, pod in facts.pools[pool].items()
        for start_s, end_s in facts.lives_s.get(pod, ())
    ]
    return sorted(found, key=lambda stay: (stay.start_s, stay.end_s))


def of_pools(facts: RunFacts, tables: Tables, window: MeasuredWindow) -> dict[str, Any]:
    """Figures of each pool, if there are any."""
    if not facts.pools:
        return {}
    columns = PoolColumns.of(tables.pools)
    return {
        "pool": {
            name: {
                **_swaps(columns, name, window),
                **_holds(columns, name, window),
                "direct_errors": _direct_errors(tables.placements, members, window),
                "members": {
                    member: _member(facts, columns, name, member, window) for member in members
                },
            }
            for name, members in facts.pools.items()
        }
    }


def _swaps(columns: PoolColumns, pool: str, window: MeasuredWindow) -> dict[str, Any]:
    swaps = columns.swaps(pool)
    over = swaps & window.contains(columns.end_s)
    completed = columns.completed(pool, window)
    cancelled = over & columns.result.equal("cancelled")
    failed = over & ~completed & ~cancelled
    reclaims = swaps & window.contains(columns.start_s) & columns.cause.equal("reclaim")
    swapping_s = _covered_s(columns.start_s[swaps], columns.end_s[swaps], window)
    return {
        "swaps": {"total": count(completed), "by_pair": _pairs(columns, completed)},
        "swap_s": _took_s(columns, completed),
        "swapping_ratio": window.per_s(swapping_s),
        "swap_failures": columns.result.counts(failed),
        "swaps_cancelled": count(cancelled),
        "reclaims": count(reclaims),
    }


def _took_s(columns: PoolColumns, completed: Mask) -> dict[str, Any]:
    return spread(Sample(columns.lasted_s[completed]), _FIGURES)


def _covered_s(start_s: Floats, end_s: Floats, window: MeasuredWindow) -> float:
    """How much of the window intervals in order of their begin cover; what has no end goes on."""
    last_s = window.start_s + window.length_s
    starts_s = np.clip(start_s, window.start_s, last_s)
    ends_s = np.clip(np.nan_to_num(end_s, nan=np.inf), window.start_s, last_s)
    so_far_s = np.maximum.accumulate(np.concatenate([[window.start_s], ends_s]))
    return float(np.maximum(ends_s - np.maximum(starts_s, so_far_s[:-1]), 0.0).sum())


def _pairs(columns: PoolColumns, where: Mask) -> dict[str, int]:
    """How often the pool went from which member to which."""
    pairs: dict[str, int] = {}
    for row in np.flatnonzero(where).tolist():
        pair = f"{_word(columns.from_member, row) or COLD}>{_word(columns.member, row)}"
        pairs[pair] = pairs.get(pair, 0) + 1
    return dict(sorted(pairs.items()))


def _holds(columns: PoolColumns, pool: str, window: MeasuredWindow) -> dict[str, Any]:
    here = columns.pool.equal(pool) & window.contains(columns.start_s)
    holds, skips = here & columns.kind.equal("hold"), here & columns.skips(pool)
    held_s = columns.lasted_s[holds]
    waited_s = held_s[held_s != 0.0]
    sample = Sample(known(waited_s), count(np.isnan(waited_s)))
    return {
        "holds": {
            "total": len(held_s),
            "waited": len(waited_s),
            "censored": sample.censored,
            "by_result": columns.result.counts(holds),
        },
        "hold_s": spread(sample, _FIGURES),
        "skips": {"total": count(skips)},
    }


def _direct_errors(placements: Table, members: dict[str, str], window: MeasuredWindow) -> int:
    status, backend = arrow.strings(placements, "status"), arrow.strings(placements, "backend")
    broken = status.equal(Status.REJECTED) | status.equal(Status.FAILED)
    broken &= arrow.strings(placements, "proxy").equal(DIRECT)
    broken &= window.contains(arrow.numbers(placements, "dispatch_s"))
    return sum(count(broken & backend.equal(member)) for member in members)


def _member(
    facts: RunFacts, columns: PoolColumns, pool: str, member: str, window: MeasuredWindow
) -> dict[str, Any]:
    at = facts.pods.index(facts.pools[pool][member])
    opened, closed = facts.opened[at], facts.closed[at]
    ready_s, busy_s = closed.ready_s - opened.ready_s, closed.busy_s - opened.busy_s
    skips = columns.skips(pool) & columns.member.equal(member)
    return {
        "busy_skips": count(skips & window.contains(columns.start_s)),
        "swap_s": _took_s(columns, columns.completed(pool, window) & columns.member.equal(member)),
        "loads": closed.loads - opened.loads,
        "ready_ratio": window.per_s(ready_s),
        "busy_ratio": window.per_s(busy_s),
        "idle_ratio": window.per_s(max(0.0, ready_s - busy_s)),
        "loading_ratio": window.per_s(closed.loading_s - opened.loading_s),
    }


def _word(texts: Texts, row: int) -> str | None:
    code = texts.codes[row]
    return None if code < 0 else texts.words[code]
