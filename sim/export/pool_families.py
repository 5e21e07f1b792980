"""What LLMKube would say of the model pools of a run: ``llmkube_modelpool_*``.

Pools of other kinds (``ollama``, ``llama-swap``) go by the same names: they
stand in the same place behind the same router, which their own programs have
no metrics for.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sim.core.request import PoolError
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
)
from sim.results.figures import to_ns

if TYPE_CHECKING:
    import pandas as pd

OF_POOL: Labels = ("router", "pool")
OF_MEMBER: Labels = ("router", "pool", "member")


def pool_families(scrape: Scrape) -> Iterator[Family]:
    """Residents, swaps, holds, skips; nothing for a run without pools."""
    if scrape.facts.pools:
        yield _resident(scrape)
        yield from _swaps(scrape)
        yield from _holds(scrape)


def _resident(scrape: Scrape) -> Family:
    """The life of a member that still is in memory ends with the run."""
    facts = scrape.facts
    now_s = min(scrape.at_s, facts.end_s)
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


def _swaps(scrape: Scrape) -> Iterator[Family]:
    """Completed, how long they took, failed; and those back to the default."""
    swaps = scrape.pools[scrape.pools["kind"] == "swap"]
    swaps = swaps.assign(
        **{"from": swaps["from_member"], "to": swaps["member"]},
        lasted_s=to_ns((swaps["end_s"] - swaps["start_s"]).to_numpy()),
    )
    over = swaps[swaps["end_s"] < scrape.at_s]
    completed = over[over["result"] == "completed"]
    yield Family(
        "llmkube_modelpool_swaps_total",
        "counter",
        "Completed swaps; from is empty where no member was in memory.",
        (*OF_POOL, "from", "to"),
        counted(completed, (*OF_POOL, "from", "to")),
    )
    router = scrape.facts.scenario
    always = [(router, pool) for pool in scrape.facts.pools]
    yield Family(
        "llmkube_modelpool_swap_duration_seconds",
        "histogram",
        "Duration of completed swaps: drain, unload and load.",
        OF_POOL,
        observed(completed, OF_POOL, "lasted_s", SWAP_S, always),
    )
    failed = over[~over["result"].isin(["completed", "cancelled"])]
    yield Family(
        "llmkube_modelpool_swap_failures_total",
        "counter",
        "Swaps that were abandoned (deadline) or failed (error); cancelled ones do not count.",
        (*OF_MEMBER, "reason"),
        counted(failed, (*OF_MEMBER, "result")),
    )
    back = swaps[(swaps["start_s"] < scrape.at_s) & (swaps["cause"] == "reclaim")]
    yield Family(
        "llmkube_modelpool_reclaims_total",
        "counter",
        "Swaps of an idle pool back to its default member that have begun.",
        ("namespace", "pool", "from", "to"),
        counted(back, ("namespace", "pool", "from", "to")),
    )


def _holds(scrape: Scrape) -> Iterator[Family]:
    """How long, how many now, and what became of them."""
    router = scrape.facts.scenario
    rows = scrape.pools.assign(ended=scrape.pools["end_s"] < scrape.at_s)
    members: list[Labels] = [
        (router, pool, member) for pool, mine in scrape.facts.pools.items() for member in mine
    ]
    holds = rows[rows["kind"] == "hold"]
    caused = rows[(rows["kind"] == "swap") & rows["ended"]]
    caused = caused[(caused["result"] == "completed") & (caused["cause"] == "request")]
    since_s = [_held_since_s(holds, swap) for _, swap in caused.iterrows()]
    yield Family(
        "llmkube_modelpool_hold_duration_seconds",
        "histogram",
        "Time from the begin of the hold that caused a completed swap to the end of the swap.",
        OF_MEMBER,
        observed(
            caused.assign(held_s=caused["end_s"] - since_s), OF_MEMBER, "held_s", HOLD_S, members
        ),
    )
    granted = holds[holds["ended"] & (holds["result"] == "granted")]
    skips = rows[rows["ended"] & (rows["result"] == PoolError.INCUMBENT_BUSY)]
    held = holds[(holds["start_s"] < scrape.at_s) & ~holds["ended"]]
    zeros: dict[Labels, Value] = dict.fromkeys(members, 0.0)
    yield Family(
        "llmkube_modelpool_coalesced_total",
        "counter",
        "Attempts that were let through to their member, those that caused its load included.",
        OF_MEMBER,
        {**zeros, **counted(granted, OF_MEMBER)},
    )
    yield Family(
        "llmkube_modelpool_busy_skips_total",
        "counter",
        "Attempts that did not wait because another member was busy; member is the one wanted.",
        OF_MEMBER,
        {**zeros, **counted(skips, OF_MEMBER)},
    )
    yield Family(
        "llmkube_modelpool_held_requests",
        "gauge",
        "Attempts that are being held.",
        OF_MEMBER,
        {**zeros, **counted(held, OF_MEMBER)},
    )


def _held_since_s(holds: "pd.DataFrame", swap: "pd.Series[float]") -> float:
    """Return since when the request that caused a swap had been held.

    LLMKube observes once for each completed swap (internal/router/activator.go),
    and a caller that begins to wait starts it at once if it may: of those who
    wait for the member when the swap begins, the first.
    """
    began_s = swap["start_s"]
    same = (holds["pool"] == swap["pool"]) & (holds["member"] == swap["member"])
    waiting = same & (holds["start_s"] <= began_s) & ~(holds["end_s"] < began_s)
    return float(holds["start_s"][waiting].min()) if waiting.any() else float(began_s)
