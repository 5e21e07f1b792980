import re

import numpy as np
import pytest

from sim.core.ports import PodTotals
from sim.core.request import Answer, PoolError, Reason, Status
from sim.results.result import RunResult
from tests.results.builders import Book, facts, pooled_facts, pooled_run
from tests.router.scenarios import run as router_run
from tests.router.scenarios import site


def single_server(load: float, customers: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Arrivals and ends of an M/M/1 queue with a mean service of 1 s (Lindley's recursion)."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1.0 / load, customers))
    served = np.cumsum(rng.exponential(1.0, customers))
    waits = np.maximum.accumulate(arrivals - np.concatenate([[0.0], served[:-1]]))
    return arrivals, served + waits


def measured(arrivals: np.ndarray, ends: np.ndarray, warm_up_s: float) -> RunResult:
    """The queue as a run that stops with its last arrival; first tokens come with the ends."""
    end_s = float(arrivals[-1]) + 1e-6
    book = Book()
    for arrival_s, over_s in zip(arrivals.tolist(), ends.tolist()):
        if over_s <= end_s:
            book.answered(arrival_s, over_s - arrival_s)
        else:
            book.attempt(book.request(arrival_s, status=Status.IN_FLIGHT), arrival_s)
    return book.freeze(facts(window_start_s=warm_up_s, window_end_s=end_s, end_s=end_s))


def warns(result: RunResult, words: str) -> bool:
    return any(words in warning for warning in result.warnings)


@pytest.mark.parametrize("seed", range(5))
def test_an_overloaded_run_says_that_it_is_saturated(seed: int) -> None:
    """The latencies of a queue without a steady state would be read as if there were one."""
    arrivals, ends = single_server(1.3, 2000, seed)
    assert warns(measured(arrivals, ends, 0.0), "the run ends saturated")


@pytest.mark.parametrize("seed", range(5))
def test_a_loaded_but_stable_run_does_not(seed: int) -> None:
    """A warning that is always there is read by nobody."""
    arrivals, ends = single_server(0.7, 2000, seed)
    assert not warns(measured(arrivals, ends, 0.0), "saturated")


def test_a_queue_that_empties_is_not_saturated() -> None:
    """A burst at the start would count as a trend although it is worked off."""
    arrivals = np.linspace(0.0, 1000.0, 1001)
    ends = arrivals + np.linspace(200.0, 1.0, 1001)
    assert not warns(measured(arrivals, ends, 0.0), "saturated")


def test_clients_that_gave_up_are_counted_before_and_after_their_first_token() -> None:
    """Latencies of the few that were served would be read as those of all."""
    book = Book()
    book.answered(1.0, 0.5)
    for arrival_s, first_token_s in ((-5.0, None), (10.0, None), (20.0, None), (30.0, 31.0)):
        left = book.request(arrival_s, status=Status.CANCELLED, end_s=arrival_s + 5.0)
        book.attempt(left, arrival_s, first_token_s, first_token_s)
    assert book.freeze(facts()).warnings == (
        "clients gave up on 3 of the 4 requests of the window, 2 before their first token and 1 "
        "after it: percentiles of TTFT cover only those that got one, figures over completed "
        "requests none of them; both flatter",
    )


def test_patient_clients_are_not_remarked_upon() -> None:
    """A warning that is always there is read by nobody."""
    book = Book()
    book.answered(1.0, 0.5)
    early = book.request(-5.0, status=Status.CANCELLED, end_s=3.0)
    book.attempt(early, -5.0)
    assert not warns(book.freeze(facts()), "gave up")


def start_up(settles_at: int) -> RunResult:
    """A thousand requests, one per second, slow until the given second."""
    arrivals = np.arange(1000.0)
    noise = np.random.default_rng(1).normal(1.0, 0.05, 1000)
    slow = 20.0 * np.clip(1.0 - arrivals / settles_at, 0.0, 1.0)
    return measured(arrivals, arrivals + noise + slow, warm_up_s=100.0)


def test_a_short_warm_up_is_named_with_the_time_it_should_have() -> None:
    """The start-up would be measured as if it were the steady state."""
    warning = next(text for text in start_up(300).warnings if "warm-up" in text)
    found = re.fullmatch(
        r"the warm-up may be too short: times to the first token settle at (.*) s only, "
        r"the window begins at 100 s",
        warning,
    )
    assert found is not None
    assert 270.0 <= float(found[1]) <= 305.0


def test_a_sufficient_warm_up_is_not_remarked_upon() -> None:
    """Every run would carry a warning, whatever its warm-up."""
    assert start_up(80).warnings == ()


def test_a_run_to_the_end_has_no_warm_up_to_judge() -> None:
    """A replay, which has no steady state to reach, would be told to measure longer."""
    book = Book()
    for at in range(1000):
        book.answered(float(at), 1.0 + at)
    result = book.freeze(facts(window_end_s=float("inf"), end_s=2000.0))
    assert not warns(result, "warm-up") and not warns(result, "not long enough")


def test_a_time_that_falls_to_the_end_of_the_window_is_said_to() -> None:
    """Nothing would tell that a longer run had another TTFT."""
    book = Book()
    for at in range(1000):
        book.answered(at * 0.1, 11.0 - at * 0.01)
    (warning,) = [text for text in book.freeze(facts(end_s=120.0)).warnings if "long" in text]
    assert warning == (
        "the run is not long enough: half of the requests of the first fifth of the window had "
        "their first token within 10 s, of the last fifth within 2.01 s, and it goes on; figures "
        "hold for this window only"
    )


def test_a_few_slow_requests_near_the_end_are_no_drift() -> None:
    """Half of all runs had a warning that MSER-5 finds no steady state; readers skipped it."""
    book = Book()
    waits = np.random.default_rng(3).lognormal(0.0, 0.5, 1000)
    waits[970:980] = 60.0
    for at in range(1000):
        book.answered(at * 0.1, float(waits[at]))
    assert book.freeze(facts(end_s=200.0)).warnings == ()


def test_that_all_backends_failed_says_how_they_failed() -> None:
    """C75: a reader would have to open the tables to learn what the backends said."""
    book = Book()
    for at_s in (1.0, 2.0):
        request = book.request(
            at_s, status=Status.REJECTED, reason=Answer.ALL_BACKENDS_FAILED, end_s=at_s + 1.0
        )
        book.passed_over(request, "a", at_s, at_s, PoolError.INCUMBENT_BUSY)
        book.passed_over(request, "b", at_s, at_s + 1.0, Reason.QUEUE_FULL)
    again = book.request(3.0, status=Status.REJECTED, reason=Answer.NO_ROUTE, end_s=9.0)
    book.passed_over(again, "a", 3.0, 3.0, Reason.TIMEOUT)
    book.tried_again(again, 3.0, 3.0, Answer.ALL_BACKENDS_FAILED)
    assert book.freeze(facts()).warnings == (
        "every one of the 3 requests of the window refused or broken off: all_backends_failed 2 "
        "(backends: incumbent_busy 2, queue_full 2), no_route 1",
    )


def test_clients_that_gave_up_between_two_tries_are_told_apart() -> None:
    """They would be taken for clients that left a queue."""
    book = Book()
    left = book.request(1.0, status=Status.CANCELLED, end_s=8.0)
    book.tried_again(left, 1.0, 3.0, Answer.POOL_INCUMBENT_BUSY)
    left.tries = 1
    book.attempt(book.request(2.0, status=Status.CANCELLED, end_s=8.0), 2.0)
    (warning,) = book.freeze(facts()).warnings
    assert warning.startswith(
        "clients gave up on 2 of the 2 requests of the window, 2 before their first token (1 "
        "between two tries) and 0 after it: "
    )


def test_a_rule_whose_first_backend_never_serves_is_named() -> None:
    """C50: all is well by every figure, and nobody is served by the model that was asked for."""
    book = Book()
    for at_s in (1.0, 2.0):
        request = book.request(at_s, rule="for-b", backend="a", end_s=at_s + 5.0)
        book.passed_over(request, "b", at_s, at_s, PoolError.INCUMBENT_BUSY)
        book.attempt(request, at_s, at_s, at_s + 1.0)
    result = book.freeze(facts(rules={"for-b": ("b", "a")}))
    assert result.warnings == (
        "rule for-b: b, its first backend, served none of its 2 completed requests "
        "(incumbent_busy 2)",
    )
    assert not warns(pooled_run(), "its first backend")


def pool_of(ready_s: tuple[float, float], book: Book) -> RunResult:
    """A pool of a and b of which each was ready for so long, of 100 s."""
    closed = tuple(PodTotals(ready_s=each) for each in ready_s)
    return book.freeze(
        facts(
            pods=("a-0", "b-0"),
            opened=(PodTotals(),) * 2,
            closed=closed,
            pools=pooled_facts().pools,
        )
    )


def test_a_member_that_is_wanted_and_never_resident_is_named() -> None:
    """Requests for it fail one by one, and no figure says that its model never came."""
    book = Book()
    book.answered(0.0, 0.5)
    for at_s, end_s in ((1.0, 61.0), (50.0, None)):
        status = Status.IN_FLIGHT if end_s is None else Status.REJECTED
        request = book.request(
            at_s, status=status, reason=Answer.POOL_ACTIVATION_TIMEOUT, end_s=end_s
        )
        book.hold(request, "b", at_s, end_s, PoolError.HOLD_BUDGET)
    words = (
        "pool desk: b was wanted by 2 attempts and was never resident in the window: "
        "hold_budget_exceeded 1, still held 1"
    )
    assert words in pool_of((100.0, 0.0), book).warnings
    assert not warns(pool_of((60.0, 10.0), book), "never resident")
    assert not warns(pooled_run(), "never resident")


@pytest.mark.parametrize(("swaps", "said"), [(5, False), (6, True)])
def test_a_pool_that_does_little_but_swap_is_named(swaps: int, said: bool) -> None:
    """Latencies would be looked into where the pool is at fault."""
    book = Book()
    book.answered(0.0, 0.5)
    for at_s in range(swaps):
        start_s, (member, before) = 10.0 * at_s, ("a", "b") if at_s % 2 else ("b", "a")
        book.swap(start_s, member, before, start_s + 10.0, phases_s=(0.0, 0.0, 10.0))
    words = "pool desk: 60% of the window passed in swaps, 6 of which were completed in it"
    assert (words in pool_of((20.0, 20.0), book).warnings) == said


@pytest.mark.parametrize("kind", ["consistent-hash", "bounded-ring", "session-table"])
def test_placements_without_a_session_key_are_counted_and_told(kind: str) -> None:
    """vllm-project/aibrix#842 retold: least load was compared under the name of a hash ring."""
    rows = [{"arrival": at_s, "session": "a"} for at_s in (3, 4)]
    settings = {"a": {"replicas": 2, "policy": {"kind": kind}}}
    keyless = [{"arrival": at_s} for at_s in (1, 1, 2)]
    result = router_run(site("a", rows=[*keyless, *rows], settings=settings))
    assert result.summary["placements"]["by_outcome"]["unkeyed"] == 3
    (said,) = [each for each in result.warnings if "session key" in each]
    assert said.startswith("backend a: 3 of its 5 placements were of requests without a session")
    for clean in (
        site("a", rows=rows, settings=settings),
        site("a", rows=keyless, settings={"a": {"replicas": 2}}),
    ):
        result = router_run(clean)
        assert "unkeyed" not in result.summary["placements"]["by_outcome"]
        assert not warns(result, "session key")
    alone = router_run(site("a", rows=keyless, settings={"a": {"policy": {"kind": kind}}}))
    assert not warns(alone, "session key"), "there is one pod to go to"
