"""Scenarios with a textbook answer, each run through the whole stack and compared with it.

One pod is one queue, compared request by request first, then in the mean; several pods
stand behind a policy, and a pod's cache is compared with Che's approximation.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from sim.core.errors import UserError
from sim.core.stats import Floats, present_at
from sim.engine.spec import kv_blocks
from sim.execution.runner import run_set
from sim.results import arrow
from sim.results.result import RunResult
from sim.scenario.load import ScenarioSet, load
from sim.validation import theory
from sim.validation.case import (
    Case,
    CaseSample,
    TheoryRow,
    at_least,
    at_most,
    mean,
    moments,
    need,
    negative,
)
from sim.validation.theory import UnanswerableError

SAME_S: Final = 1e-9
"""An arrival that is at most this much after the end of a step counts as at it."""


def single_server(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
    """M/M/1, M/D/1, M/G/1: a pod that takes one request at a time, all steps of one length."""
    for name, case in cases.items():
        yield against_lindley(case)
        tokens = moments(case.requests.output_tokens)
        rate, service_s = case.arrivals_per_s, tokens.mean * case.step_s
        if name == "mm1":
            predicted_s = theory.mm1_sojourn_s(rate, service_s)
            yield mean(case.name, "time in the system, s", predicted_s, sojourns_s(case), 0.1)
        elif name == "md1":
            predicted_s = theory.md1_wait_s(rate, service_s)
            yield mean(case.name, "wait, s", predicted_s, waits_s(case), 0.1)
        else:
            predicted_s = theory.mg1_wait_s(rate, service_s, tokens.square * case.step_s**2)
            yield mean(case.name, "wait, s", predicted_s, waits_s(case), 0.15)


def many_servers(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
    """M/M/c: a pod that takes c requests at a time; whoever comes waits for the end of a step."""
    for case in cases.values():
        late = np.concatenate([_steps_late(case, sample) for sample in case.samples])
        yield at_least(case.name, "behind Kiefer-Wolfowitz, least, steps", 0, late.min(), -1e-6)
        yield at_most(case.name, "behind Kiefer-Wolfowitz, most, steps", 1, late.max(), 1 + 1e-6)
        rate = case.arrivals_per_s
        service_s = moments(case.requests.output_tokens).mean * case.step_s
        predicted_s = theory.mmc_wait_s(case.servers, rate, service_s)
        yield mean(case.name, "wait, s", predicted_s, waits_s(case), 0.15)
        share = theory.mmc_waiting_share(case.servers, rate, service_s, case.step_s)
        waited = [float(np.mean(sample.waits_s > case.step_s)) for sample in case.samples]
        yield mean(case.name, "wait longer than a step, ratio", share, waited, 0.06)


def processor_sharing(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
    """M/G/1-PS: a step lasts as long as there are sequences in it, so all share the pod."""
    for case in cases.values():
        per_token_s = case.step_per_sequence_s
        shares = [_share(sample, per_token_s) for sample in case.samples]
        worst_s = max(share.busy_period_off_s for share in shares)
        yield at_most(case.name, "busy periods off Lindley, most, s", 0, worst_s, SAME_S)
        off = float(np.mean([share.off_ratio for share in shares]))
        yield at_most(case.name, "off processor sharing, mean, ratio", 0, off, 1e-3)
        steps = max(share.most_off_steps for share in shares)
        yield at_most(case.name, "off processor sharing, most, steps", 0, steps, 5)
        required_s = moments(case.requests.output_tokens).mean * per_token_s
        predicted_s = theory.mg1_ps_sojourn_s(case.arrivals_per_s, required_s)
        yield mean(case.name, "time in the system, s", predicted_s, sojourns_s(case), 0.1)


def machine_repair(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
    """A closed system: clients that think, then queue at a pod that takes one at a time."""
    for case in cases.values():
        yield against_lindley(case)
        think = case.agents.think.exponential
        if think is None:
            raise theory.UnanswerableError("think must be exponential")
        service_s = moments(case.agents.output).mean * case.step_s
        predicted = theory.machine_repair(case.agents.agents, service_s, think.mean)
        rates = [
            np.count_nonzero(sample.measured) / (run.facts.window_end_s - run.facts.window_start_s)
            for run, sample in zip(case.runs, case.samples)
        ]
        yield mean(case.name, "throughput, 1/s", predicted.throughput_per_s, rates, 0.03)
        yield mean(case.name, "time in the system, s", predicted.response_s, sojourns_s(case), 0.06)


def state_dependent(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
    """The production cost model: a step costs a constant and something for each sequence."""
    for case in cases.values():
        departures_per_s = partial(_departures_per_s, case)
        rate = case.arrivals_per_s
        predicted_s = theory.birth_death_sojourn_s(rate, departures_per_s, case.servers)
        yield mean(case.name, "time in the system, s", predicted_s, sojourns_s(case), 0.1)


def against_lindley(case: Case) -> TheoryRow:
    """Every pod is a queue with one server: the request that is furthest off the recursion."""
    worst_s = 0.0
    for sample in case.samples:
        services_s = sample.services_s(case.step_s)
        for here in sample.by_pod():
            departures_s = theory.lindley(sample.arrival_s[here], services_s[here])
            worst_s = max(worst_s, float(np.abs(sample.end_s[here] - departures_s).max()))
    return at_most(case.name, "off Lindley, most, s", 0, worst_s, SAME_S)


def sojourns_s(case: Case) -> list[float]:
    """Mean time in the system under each seed."""
    return [sample.sojourn_s for sample in case.samples]


def waits_s(case: Case) -> list[float]:
    """Mean wait under each seed."""
    return [float(np.mean(sample.waits_s)) for sample in case.samples]


def _departures_per_s(case: Case, present: int) -> float:
    """mu_n = min(n, c)/(L (a + b min(n, c))): a step ends a memoryless request with chance 1/L."""
    batch = min(present, case.servers)
    step_s = case.step_s + case.step_per_sequence_s * batch
    return batch / (moments(case.requests.output_tokens).mean * step_s)


def _steps_late(case: Case, sample: CaseSample) -> Floats:
    services_s = sample.services_s(case.step_s)
    due_s = theory.kiefer_wolfowitz(sample.arrival_s, services_s, case.servers)
    return (sample.end_s - due_s) / case.step_s


class _Share(NamedTuple):
    """How far the requests of one seed are off processor sharing.

    ``off_ratio`` is the mean distance over the mean time in the system,
    ``most_off_steps`` the largest distance in steps of the largest batch.
    """

    busy_period_off_s: float
    off_ratio: float
    most_off_steps: float


def _share(sample: CaseSample, per_token_s: float) -> _Share:
    arrival_s, end_s = sample.arrival_s, sample.end_s
    required_s = sample.services_s(per_token_s)
    shared_s = theory.processor_sharing(arrival_s, required_s)
    off_s = np.abs(end_s - shared_s)
    longest_step_s = per_token_s * float(present_at(arrival_s, end_s, arrival_s).max())
    # Who shares and who waits is all the same to when the work is done.
    served_s = theory.lindley(arrival_s, required_s)
    last = theory.closing_busy_periods(arrival_s, served_s)
    done_s = np.maximum.accumulate(end_s)
    return _Share(
        busy_period_off_s=float(np.abs(done_s - served_s)[last].max()),
        off_ratio=float(off_s.sum() / (shared_s - arrival_s).sum()),
        most_off_steps=float(off_s.max()) / longest_step_s,
    )


SLOWER_FIRST: Final = ("random", "round-robin", "power-of-two", "least-loaded")
"""The more a policy knows, the shorter the queues, for exponential services in the mean."""


def placement(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
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


def power_of_two(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
    """The better of two random pods, beside the mean field of infinitely many."""
    for case in cases.values():
        yield against_lindley(case)
        predicted_s = theory.power_of_two_sojourn_s(*load_and_service_s(case))
        yield mean(
            case.name, "time in the system, s", predicted_s, sojourns_s(case), 0.04, inexact=0.03
        )


def prefix_cache(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
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


def bounded_hashing(cases: Mapping[str, Case]) -> Iterator[TheoryRow]:
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


Comparison: TypeAlias = Callable[[Mapping[str, Case]], Iterator[TheoryRow]]

COMPARISONS: Final[dict[str, Comparison]] = {
    "single-server": single_server,
    "many-servers": many_servers,
    "processor-sharing": processor_sharing,
    "machine-repair": machine_repair,
    "state-dependent": state_dependent,
    "placement": placement,
    "power-of-two": power_of_two,
    "prefix-cache": prefix_cache,
    "bounded-hashing": bounded_hashing,
}
"""What each scenario of the folder, the file of this name, is compared with."""


def validate_theory(folder: Path, jobs: int = 1) -> Iterator[TheoryRow]:
    """Run the scenarios of ``folder`` one after the other; the rows of each as soon as it is done.

    All of a scenario's variants and seeds, every invariant checked. Raises
    ``UserError`` when a file is missing, ``ScenarioError`` when one is at
    fault and ``InvariantError`` for a run that breaks a rule.
    """
    missing = [name for name in COMPARISONS if not _file(folder, name).is_file()]
    if missing:
        raise UserError(
            f"{folder}: no {missing[0]}.yaml; name the folder with the scenarios of theory, "
            "scenarios/theory of podsim's sources"
        )
    loaded = {name: load(_file(folder, name)) for name in COMPARISONS}
    for name, scenarios in loaded.items():
        yield from compare(COMPARISONS[name], scenarios, jobs)


def compare(comparison: Comparison, scenarios: ScenarioSet, jobs: int = 1) -> Iterator[TheoryRow]:
    """The rows of one scenario. Raises ``UserError`` when theory has no answer to it."""
    runs = run_set(scenarios, jobs=jobs, check=True).runs
    try:
        cases = {
            variant.variant: Case(
                variant, tuple(run for run in runs if run.variant == variant.variant)
            )
            for variant in scenarios.variants
        }
        yield from comparison(cases)
    except UnanswerableError as error:
        raise UserError(f"{scenarios.name}: no theory to compare with: {error}") from error


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.yaml"
