"""A run explained as plain data: what ``podsim explain --json`` prints of each run."""

from typing import Any, TypeAlias

import numpy as np

from sim.explain.explanation import Explanation
from sim.explain.kinds import NAMES
from sim.explain.story import story
from sim.results.arrow import Mask

Document: TypeAlias = dict[str, Any]


def document(explanation: Explanation, requests: list[int]) -> Document:
    """Means over the window's requests and over its slowest, and all about ``requests``.

    ``repeated`` says whether the run was simulated again; otherwise ``why_not`` does, and
    only the parts that tables tell are known. Times are seconds, null what is unknown.
    """
    result = explanation.result
    facts = result.facts
    endless = np.isinf(facts.window_end_s)
    return {
        "scenario": facts.scenario,
        "variant": result.variant,
        "seed": result.seed,
        "digest": result.digest,
        "repeated": explanation.repetition is not None,
        "why_not": explanation.why_not or None,
        "window_start_s": facts.window_start_s,
        "window_end_s": None if endless else facts.window_end_s,
        "without_first_token": int((explanation.arrived & ~explanation.measured).sum()),
        "all": _means(explanation, explanation.measured),
        "slowest_5_percent": _means(explanation, explanation.tail),
        "requests": [story(explanation, request) for request in requests],
    }


def total(stories: list[Document]) -> Document:
    """The parts of some requests added up, and the prefill of tokens that another pod had."""
    parts_s = {name: sum(each["parts_s"][name] for each in stories) for name in NAMES}
    return {
        "requests": len(stories),
        "total_s": sum(each["total_s"] for each in stories),
        "parts_s": parts_s,
        "missed_s": sum(each["cache"]["missed_s"] for each in stories),
    }


def _means(explanation: Explanation, where: Mask) -> Document:
    """Over no requests every mean is null."""
    requests = int(where.sum())
    known = requests > 0
    cache = explanation.cache
    return {
        "requests": requests,
        "ttft_s": float(explanation.breakdown.ttft_s[where].mean()) if known else None,
        "parts_s": explanation.means_s(where),
        "missed_s": float(cache.missed_s[where].mean()) if known else None,
        "missed_tokens": _mean_known(cache.missed[where]),
    }


def _mean_known(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
