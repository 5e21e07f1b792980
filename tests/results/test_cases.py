"""Worked cases from public reports that concern the figures."""

import json

import pytest

from sim.core.request import Status
from sim.results.metrics import flatten
from tests.results.builders import Book, facts


def test_three_hit_rates_are_three_numbers() -> None:
    """C26: one unlabelled hit rate would be 89.1, 45 or 50 %, whichever a reader guesses."""
    book = Book()
    for arrival_s, prompt_tokens, cached_tokens, pod in (
        (1.0, 10_000, 9_000, "qwen-0"),
        (2.0, 100, 0, "qwen-1"),
    ):
        request = book.request(arrival_s, prompt_tokens=prompt_tokens, end_s=9.0)
        book.attempt(request, arrival_s, arrival_s, 9.0, pod=pod, cached_tokens=cached_tokens)
    summary = book.freeze(facts(pods=("qwen-0", "qwen-1"))).summary
    assert summary["prompt_cache_hit_ratio"] == pytest.approx(9_000 / 10_100)
    assert summary["prompt_cache_hit_ratio_mean"] == pytest.approx(0.45)
    assert summary["requests_with_hit_ratio"] == pytest.approx(0.5)


def test_a_retried_request_counts_once_for_the_hit_rate() -> None:
    """C26: a second attempt, which finds what the first one cached, would count as a hit."""
    book = Book()
    request = book.request(1.0, prompt_tokens=1_000, end_s=9.0)
    first = book.attempt(request, 1.0, 1.0, pod="qwen-0", cached_tokens=0)
    first.status, first.end_s = Status.FAILED, 2.0
    book.attempt(request, 2.0, 2.0, 3.0, pod="qwen-0", cached_tokens=800)
    result = book.freeze(facts())
    assert result.summary["prompt_cache_hit_ratio"] == 0.0
    assert result.summary["requests_with_hit_ratio"] == 0.0
    assert result.summary["placements"]["total"] == 2
    assert result.requests["attempts"].tolist() == [2]


def test_no_prompt_was_admitted_so_there_is_no_hit_rate() -> None:
    """C26: nothing looked up would read as a hit rate of 0, or NaN."""
    book = Book()
    book.attempt(book.request(1.0, status=Status.IN_FLIGHT), 1.0)
    summary = book.freeze(facts()).summary
    assert summary["prompt_cache_hit_ratio"] is None
    assert summary["prompt_cache_hit_ratio_mean"] is None
    assert summary["requests_with_hit_ratio"] is None


def test_answers_of_one_token_have_no_time_per_token() -> None:
    """C42: division by output - 1, or a TPOT of 0 that pulls every percentile down."""
    book = Book()
    for arrival_s in (1.0, 2.0, 3.0):
        book.answered(arrival_s, ttft_s=0.5, output_tokens=1)
    summary = book.freeze(facts()).summary
    assert set(summary["tpot_s"].values()) == {None}
    assert set(summary["stream_tokens_per_s"].values()) == {None}
    assert summary["e2e_s"] == summary["ttft_s"]
    assert summary["requests_completed"] == 3
    json.dumps(summary, allow_nan=False)


def test_one_longer_answer_among_short_ones_gives_the_time_per_token_alone() -> None:
    """C42: zeros of the one-token answers would enter the percentiles."""
    book = Book()
    book.answered(1.0, ttft_s=0.5, output_tokens=1)
    book.answered(2.0, ttft_s=0.5, stream_s=3.0, output_tokens=4)
    summary = book.freeze(facts()).summary
    assert set(summary["tpot_s"].values()) == {1.0}
    assert summary["samples"]["tpot_s"] == {"observed": 1, "censored": 0}


def test_nothing_completed_gives_counts_and_nulls() -> None:
    """C42, C75: a run without one completed request would print zeros or crash."""
    book = Book()
    book.attempt(book.request(1.0, status=Status.IN_FLIGHT), 1.0)
    result = book.freeze(facts())
    figures = dict(flatten(result.summary))
    assert figures["requests"] == figures["requests_censored"] == 1
    assert all(figures[f"{name}.p95"] is None for name in ("ttft_s", "tpot_s", "e2e_s", "queue_s"))
    assert "1 of the 1 requests of the window had not ended" in result.warnings[0]
    json.dumps(result.summary, allow_nan=False)


def test_fleet_percentile_is_over_all_pods_together() -> None:
    """C60: the p95 of the fleet would be a mean over pods, 5.5 s, or weighted, 1.9 s."""
    book = Book()
    for at in range(1000):
        pod, ttft_s = ("qwen-0", 1.0) if at < 900 else ("qwen-1", 10.0)
        book.answered(at * 0.05, ttft_s, pod=pod)
    summary = book.freeze(facts(pods=("qwen-0", "qwen-1"))).summary
    assert summary["ttft_s"]["p95"] == 10.0


@pytest.mark.parametrize(
    ("cold", "warm_up_s", "p95_s", "counted"),
    [(10, 0.0, 50.0, 100), (10, 10.0, 0.7, 90), (6, 0.0, 50.0, 100), (5, 0.0, 3.165, 100)],
)
def test_first_wave_is_left_out_by_arrival(
    cold: int, warm_up_s: float, p95_s: float, counted: int
) -> None:
    """C61 (i): ten cold starts of a hundred would make the p95, or vanish without a count."""
    book = Book()
    for at in range(100):
        book.answered(float(at), 50.0 if at < cold else 0.7)
    result = book.freeze(facts(window_start_s=warm_up_s, window_end_s=100.0, end_s=150.0))
    assert result.summary["ttft_s"]["p50"] == pytest.approx(0.7)
    assert result.summary["ttft_s"]["p95"] == pytest.approx(p95_s)
    assert result.summary["requests"] == counted
    assert result.summary["requests_outside_window"] == 100 - counted


def test_what_arrives_while_the_window_is_drained_is_left_out_and_counted() -> None:
    """C61 (ii): the requests behind the window would count in it, or be gone without a word."""
    book = Book()
    for arrival_s in (5.0, 10.0, 19.0, 20.0, 25.0):
        book.answered(arrival_s, 2.0)
    result = book.freeze(facts(window_start_s=10.0, window_end_s=20.0, end_s=30.0))
    assert result.summary["requests"] == 2
    assert result.summary["requests_outside_window"] == 3


def test_warm_up_longer_than_the_run_is_a_report_with_a_notice() -> None:
    """C75: zeros for every percentile would turn a comparison green."""
    book = Book()
    book.answered(1.0, 0.5)
    result = book.freeze(facts(window_start_s=600.0, window_end_s=float("inf"), end_s=30.0))
    figures = dict(flatten(result.summary))
    assert figures["requests"] == figures["placements.total"] == 0
    assert {key: value for key, value in figures.items() if value} == {"requests_outside_window": 1}
    assert figures["ttft_s.p95"] is None
    assert figures["output_tokens_per_s"] is None
    assert figures["error_ratio"] is None
    assert result.warnings == (
        "nothing was measured: the warm-up lasts 600 s and the run ended at 30 s; "
        "every percentile is null",
    )


def test_every_request_refused_is_a_report_with_a_notice() -> None:
    """C75: latencies of 0 s and an error ratio that nobody looks at."""
    book = Book()
    for arrival_s in (1.0, 2.0):
        book.request(arrival_s, status=Status.REJECTED, end_s=arrival_s)
    result = book.freeze(facts())
    assert result.summary["error_ratio"] == 1.0
    assert set(result.summary["ttft_s"].values()) == {None}
    assert result.warnings == ("every one of the 2 requests of the window refused or broken off",)


def test_a_window_in_which_nobody_came_says_so() -> None:
    """C75: an idle window would read like a fast one."""
    book = Book()
    book.answered(1.0, 0.5)
    result = book.freeze(facts(window_start_s=10.0, window_end_s=20.0, end_s=20.0))
    assert result.warnings == (
        "nothing was measured: no request arrived from 10 s to 20 s; every percentile is null",
    )
