"""Figures per answer, workload and rule, worked out by hand from ``builders.pooled_run``."""

import pytest

from sim.core.request import Answer, PoolError, Status
from sim.results.comparison import compare_variants
from sim.results.metrics import flatten
from tests.results.builders import Book, facts, pooled_run

SUMMARY = pooled_run().summary
GROUPS = ("answers.", "tries", "try_error_ratio", "failed_attempts.", "by_workload.", "rules.")
FIGURES = {key: value for key, value in flatten(SUMMARY) if key.startswith(GROUPS)}

# The window [10, 110) sees eight requests, of which one is tried twice and one in flight.
BY_HAND = {
    "answers.by_request.0.connection_refused": 1,
    "answers.by_request.200.completed": 5,
    "answers.by_request.499.client_closed": 1,
    "answers.by_try.0.connection_refused": 1,
    "answers.by_try.200.completed": 5,
    "answers.by_try.499.client_closed": 1,
    "answers.by_try.503.pool_activation_timeout": 1,
    "tries": 9,
    "try_error_ratio": 2 / 9,
    "failed_attempts.by_error.incumbent_busy": 1,
    "failed_attempts.by_error.swap_deadline_exceeded": 1,
    # arrivals at 16, 44, 61, 95, 96 and 100 s; the first fell through to b
    "by_workload.chat.requests": 6,
    "by_workload.chat.requests_completed": 4,
    "by_workload.chat.requests_cancelled": 1,
    "by_workload.chat.error_ratio": 0.0,
    # the second of the completed ones was sent twice
    "by_workload.chat.answers.by_request.200.completed": 4,
    "by_workload.chat.answers.by_request.499.client_closed": 1,
    "by_workload.chat.answers.by_try.200.completed": 4,
    "by_workload.chat.answers.by_try.499.client_closed": 1,
    "by_workload.chat.answers.by_try.503.pool_activation_timeout": 1,
    "by_workload.chat.tries_per_request": 7 / 6,
    "by_workload.chat.served_after_retry": 1,
    "by_workload.chat.fell_through_ratio": 0.25,
    # 1, 2, 7 and 26 s are known, one is still growing: the middle of five
    "by_workload.chat.ttft_s.p50": 7.0,
    "by_workload.chat.ttft_s.p95": None,
    # 3, 14, 16 and 29 s
    "by_workload.chat.e2e_s.p50": 16.0,
    "by_workload.chat.e2e_s.p95": None,
    # beside the router, at 14 and 92 s
    "by_workload.nightly.requests": 2,
    "by_workload.nightly.requests_completed": 1,
    "by_workload.nightly.requests_cancelled": 0,
    "by_workload.nightly.error_ratio": 0.5,
    "by_workload.nightly.answers.by_request.0.connection_refused": 1,
    "by_workload.nightly.answers.by_request.200.completed": 1,
    "by_workload.nightly.answers.by_try.0.connection_refused": 1,
    "by_workload.nightly.answers.by_try.200.completed": 1,
    "by_workload.nightly.tries_per_request": 1.0,
    "by_workload.nightly.served_after_retry": 0,
    "by_workload.nightly.fell_through_ratio": 0.0,
    "by_workload.nightly.ttft_s.p50": 1.0,
    "by_workload.nightly.ttft_s.p95": 1.0,
    "by_workload.nightly.e2e_s.p50": 26.0,
    "by_workload.nightly.e2e_s.p95": 26.0,
    "rules.chat.requests": 4,
    "rules.chat.requests_completed": 2,
    "rules.chat.backends.a.served_ratio": 0.5,
    "rules.chat.backends.b.served_ratio": 0.5,
    "rules.chat.fell_through_ratio": 0.5,
    # its only backend failed the first try and served the second
    "rules.batch.requests": 1,
    "rules.batch.requests_completed": 1,
    "rules.batch.backends.b.served_ratio": 1.0,
    "rules.batch.fell_through_ratio": 0.0,
    "rules.other.requests": 1,
    "rules.other.requests_completed": 1,
    "rules.other.backends.x.served_ratio": 1.0,
    "rules.other.fell_through_ratio": 0.0,
}


@pytest.mark.parametrize("key", BY_HAND)
def test_figure_is_what_a_pencil_says(key: str) -> None:
    """The figure would not be what its definition says."""
    due = BY_HAND[key]
    assert FIGURES[key] == (None if due is None else pytest.approx(due, rel=1e-12))


def test_no_figure_is_left_out_of_the_hand_count() -> None:
    """A new figure would be reported that nobody has ever checked by hand."""
    assert set(FIGURES) == set(BY_HAND)


def test_only_those_that_came_through_are_served_after_a_retry() -> None:
    """A client that tried in vain, or at once with success, would count as served by its retry."""
    book = Book()
    for status, again in ((Status.COMPLETED, 0), (Status.COMPLETED, 2), (Status.REJECTED, 1)):
        request = book.request(1.0, workload="chat", status=status, end_s=30.0)
        for number in range(again):
            book.tried_again(request, 1.0 + number, 2.0 + number, Answer.POOL_INCUMBENT_BUSY)
    both = {"workload_counts": {"chat": {}, "nightly": {}}}
    its = book.freeze(facts(**both)).summary["by_workload"]
    assert its["chat"]["served_after_retry"] == 1
    assert its["chat"]["tries_per_request"] == 2.0
    assert its["chat"]["answers"]["by_try"]["503"]["pool_incumbent_busy"] == 3
    assert its["nightly"]["tries_per_request"] is None


def test_a_model_that_never_served_is_said_to_have_served_nothing() -> None:
    """C50: under IfIdle all would be well, and nobody see that B has served nobody."""
    book = Book()
    for at_s in (1.0, 2.0):
        request = book.request(at_s, rule="for-b", backend="a", end_s=at_s + 5.0)
        book.hold(request, "b", at_s, at_s, PoolError.INCUMBENT_BUSY, kind="skip")
        book.passed_over(request, "b", at_s, at_s, PoolError.INCUMBENT_BUSY)
        book.attempt(request, at_s, at_s, at_s + 1.0)
    rule = book.freeze(facts(rules={"for-b": ("b", "a")})).summary["rules"]["for-b"]
    assert rule["backends"] == {"b": {"served_ratio": 0.0}, "a": {"served_ratio": 1.0}}
    assert rule["fell_through_ratio"] == 1.0


def test_direct_traffic_is_no_placement_of_a_policy() -> None:
    """What passes by the router would dilute its spills."""
    assert SUMMARY["placements"]["total"] == 5
    assert SUMMARY["spill_ratio"] == 0.2
    assert SUMMARY["pod_requests"] == {"a-0": 2, "b-0": 4, "x-0": 1}


def test_a_client_that_gives_up_between_two_tries_has_had_no_further_answer() -> None:
    """A try that was never sent would be counted, and so the share of errors fall."""
    book = Book()
    request = book.request(1.0, status=Status.CANCELLED, reason=Answer.CLIENT_CLOSED, end_s=8.0)
    book.tried_again(request, 1.0, 3.0, Answer.POOL_INCUMBENT_BUSY)
    request.tries = 1
    summary = book.freeze(facts()).summary
    assert summary["tries"] == 1
    assert summary["answers"]["by_try"] == {"503": {"pool_incumbent_busy": 1}}
    assert summary["answers"]["by_request"] == {"499": {"client_closed": 1}}
    assert summary["try_error_ratio"] == 1.0


def test_requests_before_the_window_have_no_answers_in_it() -> None:
    """Tries of the warm-up would count as those of the window."""
    book = Book()
    request = book.request(1.0, end_s=60.0)
    book.passed_over(request, "a", 1.0, 1.0, PoolError.INCUMBENT_BUSY)
    book.tried_again(request, 1.0, 20.0, Answer.POOL_INCUMBENT_BUSY)
    book.attempt(request, 55.0, 55.0, 56.0)
    summary = book.freeze(facts(window_start_s=10.0)).summary
    assert summary["answers"] == {"by_request": {}, "by_try": {}}
    assert summary["failed_attempts"] == {"by_error": {}}
    assert summary["tries"] == 0
    assert summary["try_error_ratio"] is None


def test_a_variant_without_the_rule_has_no_figures_of_it() -> None:
    """A rule that is missing would look like one that serves nobody."""
    book = Book()
    book.answered(1.0, 0.5)
    without = book.freeze(facts(variant="without"))
    compared = compare_variants([pooled_run(), without])
    assert compared["rules.chat.backends.a.served_ratio"]["without"]["n"] == 0
    assert compared["failed_attempts.by_error.incumbent_busy"]["without"]["mean"] == 0.0
