"""What LLMKube would say of the model pools of a run: ``llmkube_modelpool_*``.

Pools of other kinds (``ollama``, ``llama-swap``) go by the same names: they
stand in the same place behind the same router, which their own programs have
no metrics for.
"""

from collections.abc import Iterator

import numpy as np

from sim.core.request import PoolError
from sim.core.stats import Floats
from sim.export.families import (
    HOLD_S,
    NAMESPACE,
    SWAP_S,
    Family,
    Labels,
    Scrape,
    Value,
    counted,
    observed,
    words,
)
from sim.results.arrow import Mask
from sim.results.pools import PoolColumns

OF_MEMBER = ("router", "pool", "member")


def pool_families(scrape: Scrape) -> Iterator[Family]:
    """Residents, swaps, holds, skips; nothing for a run without pools."""
    if not scrape.facts.pools:
        return
    pools = _Pools(scrape)
    yield pools.resident()
    yield from pools.swaps()
    yield from pools.holds()


class _Pools:
    """The pools table, read once."""

    def __init__(self, scrape: Scrape) -> None:
        table = scrape.result.tables.pools
        self._scrape = scrape
        self._columns = PoolColumns.of(table)
        self._pool, self._member = words(table, "pool"), words(table, "member")
        self._from = words(table, "from_member")
        self._result = words(table, "result")
        self._began = scrape.happened(self._columns.start_s)
        self._ended = scrape.happened(self._columns.end_s)

    def _kind(self, kind: str) -> Mask:
        return self._columns.kind.equal(kind)

    def _of_member(self) -> list[Labels]:
        return [(self._scrape.router, *rest) for rest in zip(self._pool, self._member)]

    @property
    def _members(self) -> list[Labels]:
        return [
            (self._scrape.router, pool, member)
            for pool, members in self._scrape.facts.pools.items()
            for member in members
        ]

    def resident(self) -> Family:
        """Who is in memory; the life of one that still is ends with the run."""
        facts = self._scrape.facts
        now_s = min(self._scrape.at_s, facts.end_s)
        samples: dict[Labels, Value] = {
            (NAMESPACE, pool, member): float(
                any(start_s <= now_s <= end_s for start_s, end_s in facts.lives_s.get(pod, ()))
            )
            for pool, members in facts.pools.items()
            for member, pod in members.items()
        }
        return Family(
            "llmkube_modelpool_resident",
            "gauge",
            "Whether a member of a pool is in memory.",
            ("namespace", "pool", "member"),
            samples,
        )

    def swaps(self) -> Iterator[Family]:
        """Completed, how long they took, failed; and those back to the default."""
        router = self._scrape.router
        over = self._kind("swap") & self._ended
        completed = over & self._columns.result.equal("completed")
        pairs = [(router, *rest) for rest in zip(self._pool, self._from, self._member)]
        yield Family(
            "llmkube_modelpool_swaps_total",
            "counter",
            "Completed swaps; from is empty where no member was in memory.",
            ("router", "pool", "from", "to"),
            counted(pairs, completed),
        )
        yield Family(
            "llmkube_modelpool_swap_duration_seconds",
            "histogram",
            "Duration of completed swaps: drain, unload and load.",
            ("router", "pool"),
            observed(
                [(router, pool) for pool in self._pool],
                self._columns.lasted_s,
                completed,
                SWAP_S,
                [(router, pool) for pool in self._scrape.facts.pools],
            ),
        )
        failed = over & ~completed & ~self._columns.result.equal("cancelled")
        reasons = zip(self._pool, self._member, self._result)
        yield Family(
            "llmkube_modelpool_swap_failures_total",
            "counter",
            "Swaps that were abandoned (deadline) or failed (error); cancelled ones do not count.",
            (*OF_MEMBER, "reason"),
            counted([(router, *rest) for rest in reasons], failed),
        )
        back = self._kind("swap") & self._began & self._columns.cause.equal("reclaim")
        yield Family(
            "llmkube_modelpool_reclaims_total",
            "counter",
            "Swaps of an idle pool back to its default member that have begun.",
            ("namespace", "pool", "from", "to"),
            counted([(NAMESPACE, *pair[1:]) for pair in pairs], back),
        )

    def holds(self) -> Iterator[Family]:
        """How long, how many now, and what became of them."""
        labels = self._of_member()
        held = self._kind("hold")
        held_s, done = self._held_until_swapped()
        yield Family(
            "llmkube_modelpool_hold_duration_seconds",
            "histogram",
            "Time from the begin of the hold that caused a completed swap to the end of the swap.",
            OF_MEMBER,
            observed(labels, held_s, done, HOLD_S, self._members),
        )
        granted = held & self._ended & self._columns.result.equal("granted")
        yield Family(
            "llmkube_modelpool_coalesced_total",
            "counter",
            "Attempts that were let through to their member, those that caused its load included.",
            OF_MEMBER,
            self._zeroed(counted(labels, granted)),
        )
        skips = self._columns.result.equal(PoolError.INCUMBENT_BUSY) & self._ended
        yield Family(
            "llmkube_modelpool_busy_skips_total",
            "counter",
            "Attempts that did not wait because another member was busy; member is the one wanted.",
            OF_MEMBER,
            self._zeroed(counted(labels, skips)),
        )
        open_now = held & self._began & ~self._ended
        yield Family(
            "llmkube_modelpool_held_requests",
            "gauge",
            "Attempts that are being held.",
            OF_MEMBER,
            self._zeroed(counted(labels, np.asarray(open_now))),
        )

    def _held_until_swapped(self) -> tuple[Floats, Mask]:
        """How long whoever caused a swap had been held when it was done; which rows are such swaps.

        LLMKube observes once for each completed swap (internal/router/activator.go),
        and a caller that begins to wait starts it at once if it may: of those who
        wait for the member when the swap begins, the first.
        """
        columns = self._columns
        done = self._kind("swap") & self._ended & columns.result.equal("completed")
        done &= columns.cause.equal("request")
        held = self._kind("hold")
        held_s = np.full(len(done), np.nan)
        for row in np.flatnonzero(done).tolist():
            began_s = columns.start_s[row]
            same = [
                other
                for other in np.flatnonzero(held & (columns.start_s <= began_s)).tolist()
                if (self._pool[other], self._member[other]) == (self._pool[row], self._member[row])
                and not columns.end_s[other] < began_s
            ]
            since_s = min((columns.start_s[other] for other in same), default=began_s)
            held_s[row] = columns.end_s[row] - since_s
        return held_s, done

    def _zeroed(self, samples: dict[Labels, float]) -> dict[Labels, float]:
        """With a 0 for each member that has none."""
        return {**dict.fromkeys(self._members, 0.0), **samples}
