"""C70: what counts as one request when clients try again."""

import json

import pytest

from sim.core.request import Answer, Reason, Status
from sim.results.metrics import flatten
from sim.results.result import RunResult
from tests.results.builders import Book, facts


def thousand(final_tries: int) -> RunResult:
    """1,000 users: 890 are served at once, 100 after one 503 and 5 s, 10 never.

    Those 10 are refused ``final_tries`` times.
    """
    book = Book()
    for user in range(1000):
        arrival_s = user * 0.05
        if user % 10 == 3:  # 100 users
            request = book.request(arrival_s, end_s=arrival_s + 6.0)
            book.tried_again(request, arrival_s, arrival_s, Answer.POOL_ACTIVATION_TIMEOUT)
            book.attempt(request, arrival_s + 5.0, arrival_s + 5.0, arrival_s + 5.5)
        elif user % 100 == 7:  # 10 users
            end_s = arrival_s + 5.0 * (final_tries - 1)
            refused = {"status": Status.REJECTED, "reason": Answer.POOL_ACTIVATION_TIMEOUT}
            request = book.request(arrival_s, end_s=end_s, **refused)
            for retry in range(final_tries - 1):
                sent_s = arrival_s + 5.0 * retry
                book.tried_again(request, sent_s, sent_s, Answer.POOL_ACTIVATION_TIMEOUT)
        else:
            book.answered(arrival_s, 0.5)
    return book.freeze(facts())


@pytest.mark.parametrize(("final_tries", "tries", "refused"), [(1, 1100, 110), (2, 1110, 120)])
def test_users_and_tries_have_error_rates_of_their_own(
    final_tries: int, tries: int, refused: int
) -> None:
    """C70: ten errors in a hundred tries would be told to somebody whose users see one."""
    summary = thousand(final_tries).summary
    assert summary["error_ratio"] == pytest.approx(0.010)
    assert summary["tries"] == tries
    assert summary["try_error_ratio"] == pytest.approx(refused / tries)
    assert round(100 * summary["try_error_ratio"], 1) == (10.0 if final_tries == 1 else 10.8)
    figures = dict(flatten(summary))
    assert figures["answers.by_request.200.completed"] == 990
    assert figures["answers.by_request.503.pool_activation_timeout"] == 10
    assert figures["answers.by_try.503.pool_activation_timeout"] == refused
    assert figures["requests"] == 1000


def test_time_to_the_first_token_counts_from_the_first_try_and_refusals_have_none() -> None:
    """C70: a 503 answered at once would count as a TTFT of 0 and make the p50 better."""
    result = thousand(1)
    ttft_s = result.requests.first_token_s - result.requests.arrival_s
    assert result.summary["samples"]["ttft_s"] == {"observed": 990, "censored": 0}
    assert ttft_s.min() == pytest.approx(0.5)
    retried = ttft_s[result.requests.tries == 2]
    assert len(retried) == 100
    assert retried.min() >= 5.0
    assert result.summary["ttft_s"]["p50"] == pytest.approx(0.5)
    assert result.summary["ttft_s"]["p95"] == pytest.approx(5.5)
    json.dumps(result.summary, allow_nan=False)


def test_every_status_is_counted_apart() -> None:
    """C70: an outage, a full queue and a prompt too long would be one number of errors."""
    book = Book()
    for number, (http_status, status, reason) in enumerate(
        (
            (503, Status.REJECTED, Answer.POOL_ACTIVATION_TIMEOUT),
            (502, Status.REJECTED, Answer.ALL_BACKENDS_FAILED),
            (502, Status.FAILED, Answer.ALL_BACKENDS_FAILED),
            (400, Status.REJECTED, Reason.PROMPT_TOO_LONG),
            (429, Status.REJECTED, Answer.CONCURRENCY_LIMIT),
        )
    ):
        request = book.request(
            float(number), status=status, http_status=http_status, reason=reason, end_s=9.0
        )
        if status == Status.FAILED:
            book.attempt(request, float(number), float(number))
    summary = book.freeze(facts()).summary
    assert summary["answers"]["by_request"] == {
        "400": {"prompt_too_long": 1},
        "429": {"concurrency_limit": 1},
        "502": {"all_backends_failed": 2},
        "503": {"pool_activation_timeout": 1},
    }
    assert (summary["requests_rejected"], summary["requests_failed"]) == (4, 1)
    assert summary["error_ratio"] == 1.0
    assert set(summary["ttft_s"].values()) == {None}
