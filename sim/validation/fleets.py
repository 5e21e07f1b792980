"""Several pods behind a policy, and what a pod's cache keeps."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

import numpy as np

from sim.engine.spec import kv_blocks
from sim.results import arrow
from sim.results.result import RunResult
from sim.validation import theory
from sim.validation.case import Case, moments, need
from sim.validation.queues import against_lindley, sojourns_s
from sim.validation.rows import Row, at_least, at_most, mean, negative

SLOWER_FIRST: Final = ("random", "round-robin", "power-of-two", "least-loaded")
"""The more a policy knows, the shorter the queues, for exponential services in the mean."""


def placement(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Policies over equal pods that take one request at a time."""
    need(cases, *SLOWER_FIRST)
    for name, case in cases.items():
        yield against_lindley(case)
        load, service_s = load_and_service_s(case)
        predicted_s = {
            "random": theory.mm1_sojourn_s(load / service_s, service_s),
            "round-robin": theory.round_robin_sojourn_s(case.backend.replicas, load, service_s),
        }
        if name in predicted_s:
            what = "time in the system, s"
            yield mean(case.name, what, predicted_s[name], sojourns_s(case), 0.1)
    for slower, faster in pairwise(SLOWER_FIRST):
        pairs = zip(sojourns_s(cases[faster]), sojourns_s(cases[slower]))
        what = f"time in the system - {slower}'s, s"
        yield negative(cases[faster].name, what, [fast - slow for fast, slow in pairs])


def power_of_two(cases: Mapping[str, Case]) -> Iterator[Row]:
    """The better of two random pods, beside the mean field of infinitely many."""
    for case in cases.values():
        yield against_lindley(case)
        predicted_s = theory.power_of_two_sojourn_s(*load_and_service_s(case))
        yield mean(
            case.name, "time in the system, s", predicted_s, sojourns_s(case), 0.04, inexact=0.03
        )


def prefix_cache(cases: Mapping[str, Case]) -> Iterator[Row]:
    """LRU over blocks that are asked for independently of each other.

    Beside the block that it shares, each request has one that nobody asks for
    again: its last token is always computed.
    """
    for case in cases.values():
        shared, blocks = case.agents.shared_prefix, kv_blocks(case.engine)
        chances = theory.zipf(shared.families, shared.zipf)
        predicted = theory.che_hit_ratio(chances, blocks, strangers=1.0)
        hits = [float(np.mean(one.cached_tokens[one.measured] > 0)) for one in case.samples]
        yield mean(case.name, "hits, ratio", predicted, hits, 0.04, inexact=0.01)


def bounded_hashing(cases: Mapping[str, Case]) -> Iterator[Row]:
    """No pod ever holds more than its bound; without the bound one soon does."""
    need(cases, "bounded", "unbounded")
    percent = cases["bounded"].backend.policy.max_load_percent
    above = {
        name: max(most_above_bound(run, percent) for run in case.runs)
        for name, case in cases.items()
    }
    what = f"most above {percent} % of the mean, requests"
    yield at_most(cases["bounded"].name, what, 0, above["bounded"], 0)
    yield at_least(cases["unbounded"].name, what, None, above["unbounded"], 1)


def load_and_service_s(case: Case) -> tuple[float, float]:
    """Load of a pod that takes one request at a time, and the mean service."""
    service_s = moments(case.requests.output_tokens).mean * case.step_s
    return case.arrivals_per_s * service_s / case.backend.replicas, service_s


def most_above_bound(run: RunResult, percent: int) -> int:
    """Requests on the pod of a placement above ceil(percent/100 m/n), at the worst of placements.

    m are in flight on all n pods, the one that is being placed counted in. Of
    what ends and what is placed at one instant, the ends come first.
    """
    table = run.tables.placements
    placed_s = arrow.numbers(table, "dispatch_s").tolist()
    ends_s = arrow.numbers(table, "end_s").tolist()
    pods = arrow.strings(table, "pod").codes.tolist()
    in_flight = [0] * len(run.facts.pods)
    going: list[tuple[float, int]] = []
    worst = -len(pods)
    for now_s, end_s, pod in zip(placed_s, ends_s, pods):
        while going and going[0][0] <= now_s:
            in_flight[heappop(going)[1]] -= 1
        in_flight[pod] += 1
        heappush(going, (end_s, pod))
        bound = -(-percent * len(going) // (100 * len(in_flight)))
        worst = max(worst, in_flight[pod] - bound)
    return worst
