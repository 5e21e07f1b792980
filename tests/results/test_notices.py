import re

import numpy as np
import pytest

from sim.request import Status
from sim.results.result import RunResult
from tests.results.builders import Book, facts


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
    warning = next(text for text in start_up(300).warnings if "MSER-5" in text)
    found = re.fullmatch(
        r"the warm-up may be too short: MSER-5 sees ttft_s settle at (.*) s, "
        "the window begins at 100 s",
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
    assert not warns(result, "MSER-5")


def test_a_series_that_never_settles_is_said_to() -> None:
    """Nothing would tell that ttft_s climbs to the end of the window."""
    book = Book()
    for at in range(1000):
        book.answered(at * 0.1, 1.0 + at * 0.01)
    result = book.freeze(facts(end_s=120.0))
    assert warns(result, "MSER-5 finds no steady state")
