"""Sides with exact numbers, and real runs that have something in every table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.comparison.sides import Comparison, Figures, MetricVerdict, Side

Summary = Mapping[str, Any]


def side(
    *summaries: Summary,
    label: str = "new",
    variant: str = "ring",
    digest: str = "",
    first_seed: int = 1,
    **more: Any,
) -> Side:
    """One variant under the seeds 1, 2 and so on; digests are the label's own unless told."""
    runs = tuple(
        Figures(variant, seed, "hash", f"{digest or label}-{seed}", summary, "scenario", **more)
        for seed, summary in enumerate(summaries, first_seed)
    )
    return Side(label, "small", runs)


def base(*summaries: Summary, **more: Any) -> Side:
    """The same as the side that is compared with."""
    return side(*summaries, label="base", **more)


def seeds(key: str, values: Sequence[Any], **others: Any) -> list[dict[str, Any]]:
    """Summaries of one figure, and of ``others`` that are alike under every seed."""
    return [{key: value, **others} for value in values]


def only(comparison: Comparison, key: str) -> MetricVerdict:
    """The verdict on one metric."""
    (judged,) = (each for each in comparison.judged if each.key == key)
    return judged


def each_seed(count: int, make: Callable[[int], Summary]) -> list[Summary]:
    """A summary for each of so many seeds."""
    return [make(seed) for seed in range(1, count + 1)]


BUSY: dict[str, Any] = {
    "name": "busy",
    "seeds": [1, 2, 3, 4, 5],
    "window": {"warmup": "5s", "measure": "60s"},
    "slo": {"ttft": "2s", "tpot": "50ms"},
    "engines": {
        "tight": {
            "kvBlocks": 150,
            "maxNumBatchedTokens": 512,
            "stepTime": {"a": 20.0, "b": 100.0, "f": 20.0},
        },
        "e": {"kvBlocks": 2000, "stepTime": {"a": 20.0, "b": 100.0, "f": 20.0}},
    },
    "backends": {
        "fleet": {
            "engine": "tight",
            "replicas": 3,
            "policy": {"kind": "bounded-ring", "maxLoadPercent": 110},
        },
        "spare": {"engine": "tight"},
        "chat": {"engine": "e"},
        "code": {"engine": "e"},
    },
    "pools": {
        "card": {
            "members": {
                "chat": {"load": "2s", "unload": "500ms"},
                "code": {"load": "3s", "unload": "500ms"},
            },
            "initial": "chat",
            "swapBudget": "4s",
        }
    },
    "router": {
        "rules": [
            {"name": "talk", "match": {"models": ["chat"]}, "backends": ["chat"]},
            {"name": "write", "match": {"models": ["code"]}, "backends": ["code"]},
            {"name": "work", "backends": ["fleet", "spare"]},
        ]
    },
    "events": [{"kind": "backend-errors", "at": "30s", "backend": "fleet", "for": "3s"}],
    "workloads": {
        "work": {
            "kind": "requests",
            "model": "work",
            "arrivals": {"kind": "poisson", "rate": 3},
            "sessionKeys": "per-request",
            "promptTokens": 600,
            "outputTokens": {"lognormal": {"median": 60, "sigma": 0.8, "max": 400}},
        },
        "talk": {
            "kind": "requests",
            "model": "chat",
            "arrivals": {"kind": "poisson", "rate": 0.4},
            "promptTokens": 300,
            "outputTokens": 40,
            "retry": {"on": [503], "max": 2},
        },
        "write": {
            "kind": "requests",
            "model": "code",
            "arrivals": {"kind": "poisson", "rate": 0.3},
            "promptTokens": 300,
            "outputTokens": 60,
            "retry": {"on": [503], "max": 2},
        },
        "beside": {
            "kind": "requests",
            "direct": "chat",
            "arrivals": {"kind": "poisson", "rate": 0.3},
            "promptTokens": 300,
            "outputTokens": 60,
            "retry": {"onConnectionError": True, "max": 3, "backoff": {"initial": "2s"}},
        },
        "agents": {
            "kind": "agents",
            "model": "work",
            "agents": 3,
            "set": "A",
            "ramp": "5s",
            "sharedPrefix": {"tokens": 400, "families": 1},
            "freshPrompt": {"lognormal": {"median": 300, "sigma": 0.3}},
            "growth": {"lognormal": {"median": 30, "sigma": 1.0, "max": 300}},
            "output": {"lognormal": {"median": 30, "sigma": 0.8, "max": 100}},
            "think": {"lognormal": {"median": 1, "sigma": 0.8}},
            "thinkCap": "3s",
            "turns": 6,
            "maxContext": 2000,
        },
    },
}
"""A fleet short of KV cache beside a pool that swaps, for one simulated minute."""
