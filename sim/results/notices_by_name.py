"""What a reader must know of single rules and pools before believing a summary."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.request import Outcome
from sim.results import arrow
from sim.results.arrow import Mask
from sim.results.figures import MeasuredWindow
from sim.results.pools import PoolColumns
from sim.results.requests import RequestColumns
from sim.results.served import of_last_try
from sim.results.tables import Tables

KEYLESS_SHARE: Final = 0.01
"""Share of the placements of a backend without a session key that is worth a warning."""
MOSTLY_SWAPPING: Final = 0.5
"""Share of the window in swaps that is worth a warning."""
ENDLESS: Final = 0.1
"""Share of the window for which a swap has not ended that is worth one."""


def listed(counts: Mapping[str, int]) -> str:
    """As "queue_full 4, timeout 2"."""
    return ", ".join(f"{word} {times}" for word, times in sorted(counts.items()))


def fell_through_only(
    facts: RunFacts, tables: Tables, requests: RequestColumns, summary: dict[str, Any]
) -> Iterator[str]:
    """Rules whose first backend served none of the requests that it was meant for."""
    errors = arrow.strings(tables.failed_attempts, "error")
    backend = arrow.strings(tables.failed_attempts, "backend")
    request = arrow.whole(tables.failed_attempts, "request_id")
    here = MeasuredWindow.of(facts).contains(requests.arrival_s)
    for rule, figures in summary.get("rules", {}).items():
        first = next(iter(facts.rules[rule]), None)
        if first is None or figures["backends"][first]["served_ratio"] != 0.0:
            continue
        concerned: Mask = (here & requests.rule.equal(rule))[request] & backend.equal(first)
        why = listed(errors.counts(concerned & of_last_try(tables, requests)))
        yield (
            f"rule {rule}: {first}, its first backend, served none of its "
            f"{figures['requests_completed']} completed requests ({why})"
        )


def keyless(facts: RunFacts, tables: Tables) -> Iterator[str]:
    """Backends whose policy looks for sessions in requests that name none, over several pods."""
    placements = tables.placements
    outcome, backend = (arrow.strings(placements, name) for name in ("outcome", "backend"))
    pod = arrow.strings(placements, "pod")
    here = MeasuredWindow.of(facts).contains(arrow.numbers(placements, "dispatch_s"))
    unkeyed = here & outcome.equal(Outcome.UNKEYED)
    for name, times in backend.counts(unkeyed).items():
        own = here & backend.equal(name)
        total = int(own.sum())
        if times > KEYLESS_SHARE * total and len(pod.counts(own)) > 1:
            yield (
                f"backend {name}: {times} of its {total} placements were of requests without a "
                "session key, which go to the least-loaded pod wherever their prefix is cached; a "
                "script's rows name theirs in the column session"
            )


def of_pools(facts: RunFacts, tables: Tables, summary: dict[str, Any]) -> Iterator[str]:
    """Pools that were busy with themselves, and members that were wanted in vain."""
    columns, window = PoolColumns.of(tables.pools), MeasuredWindow.of(facts)
    wanted = columns.kind.equal("hold") | columns.kind.equal("skip")
    wanted &= window.contains(columns.start_s)
    for pool, figures in summary.get("pool", {}).items():
        swapping = figures["swapping_ratio"] or 0.0
        if swapping > MOSTLY_SWAPPING:
            yield (
                f"pool {pool}: {swapping:.0%} of the window passed in swaps, "
                f"{figures['swaps']['total']} of which were completed in it"
            )
        yield from _endless(facts, columns, pool, window)
        for member, its in figures["members"].items():
            attempts = wanted & columns.pool.equal(pool) & columns.member.equal(member)
            if attempts.any() and its["ready_ratio"] == 0.0:
                ends = columns.result.counts(attempts)
                held = int(attempts.sum()) - sum(ends.values())
                why = listed(ends | ({"still held": held} if held else {}))
                yield (
                    f"pool {pool}: {member} was wanted by {int(attempts.sum())} attempts and was "
                    f"never resident in the window: {why}"
                )


def _endless(
    facts: RunFacts, columns: PoolColumns, pool: str, window: MeasuredWindow
) -> Iterator[str]:
    """A swap that goes on when the run ends, as one does whose load hangs."""
    end_s = facts.end_s
    goes_on = columns.swaps(pool) & np.isnan(columns.end_s)
    goes_on &= columns.start_s < end_s - ENDLESS * min(window.length_s, end_s)
    for row in np.flatnonzero(goes_on):
        member = columns.member.words[columns.member.codes[row]]
        held = columns.pool.equal(pool) & columns.kind.equal("hold") & np.isnan(columns.end_s)
        waiting = int(np.count_nonzero(held & columns.member.equal(member)))
        yield (
            f"pool {pool}: the swap to {member} that began at {columns.start_s[row]:g} s had not "
            f"ended when the run did, at {end_s:g} s; {waiting} attempts were held for it"
        )
