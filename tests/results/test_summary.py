"""Every figure of one small run, worked out by hand from ``builders.mixed_run``."""

import json
from dataclasses import replace

import pytest

from sim.core.ports import PodTotals
from sim.core.request import Reason, Status
from sim.results.metrics import METRICS, flatten, metric
from sim.results.result import RunResult
from tests.results.builders import Book, facts, mixed_run, pooled_run

SUMMARY = mixed_run().summary
FIGURES = dict(flatten(SUMMARY))

# The window [10, 20) sees eight arrivals, at 10, 12, 13, 15, 16, 17, 18 and 19 s.
BY_HAND = {
    "requests": 8,
    "requests_completed": 3,
    "requests_censored": 2,
    "requests_rejected": 1,
    "requests_failed": 1,
    "requests_cancelled": 1,
    "requests_outside_window": 1,  # at 5 s
    # seven gaps from 10 to 19 s; ends of completed ones at 12, 14, 14 and 17 s
    "offered_requests_per_s": 7 / 9,
    "completed_requests_per_s": 0.4,
    # 1, 1, 1 (the failed one) and 3 s are known, two are still growing: ranks 2.5 and 4.5 of 0..5
    "ttft_s.p50": 2.0,
    "ttft_s.p90": None,
    "ttft_s.p95": None,
    "ttft_s.p99": None,
    "ttft_s.mean": None,
    # (14 - 11) / 3 and (17 - 15) / 4; the answer of one token has none
    "tpot_s.mean": 0.75,
    "tpot_s.p50": 0.75,
    "tpot_s.p90": 0.95,
    "tpot_s.p95": 0.975,
    "tpot_s.p99": 0.995,
    # 1, 4 and 5 s are known, two are still growing
    "e2e_s.p50": 5.0,
    "e2e_s.p90": None,
    "e2e_s.p95": None,
    "e2e_s.p99": None,
    "e2e_s.mean": None,
    # 0, 0, 0.5, 1 and 1 s are known, one is still growing; the cancelled one was never admitted
    "queue_s.p50": 0.75,
    "queue_s.p90": None,
    "queue_s.p95": None,
    "queue_s.p99": None,
    "queue_s.mean": None,
    "stream_tokens_per_s.p50": 1.5,
    "stream_tokens_per_s.p5": 1.05,
    # (90 - 40 + 60 - 10) tokens in 10 s on 4 GPUs
    "output_tokens_per_s": 10.0,
    "output_tokens_per_gpu_s": 2.5,
    # 10, 50, 60, 100, 150, 200, 300, 400
    "prompt_tokens.mean": 158.75,
    "prompt_tokens.p50": 125.0,
    "prompt_tokens.p95": 365.0,
    # 96 of 200, 0 of 300, 384 of 400, 50 of 150, 48 of 100
    "prompt_cache_hit_ratio": 578 / 1150,
    "prompt_cache_hit_ratio_mean": (0.48 + 0.0 + 0.96 + 1 / 3 + 0.48) / 5,
    "requests_with_hit_ratio": 4 / 5,
    "placements.total": 7,
    "placements.by_outcome.migrated": 1,
    "placements.by_outcome.new": 2,
    "placements.by_outcome.spill": 1,
    "placements.by_outcome.sticky": 2,
    "placements.by_outcome.unkeyed": 1,
    "placements.by_reason.not_ready": 1,
    "placements.by_reason.waiting": 1,
    "spill_ratio": 1 / 7,
    "migration_ratio": 1 / 7,
    "error_ratio": 2 / 8,
    # nobody tried twice; of those in flight there is no answer yet
    "answers.by_request.200.completed": 3,
    "answers.by_request.499.cancelled": 1,
    "answers.by_request.502.not_ready": 1,
    "answers.by_request.503.no_ready_pod": 1,
    "answers.by_try.200.completed": 3,
    "answers.by_try.499.cancelled": 1,
    "answers.by_try.502.not_ready": 1,
    "answers.by_try.503.no_ready_pod": 1,
    "tries": 8,
    "try_error_ratio": 2 / 8,
    "preemptions": 3,
    "recomputed_tokens": 400,
    # 0.1, 0.3, 0.5 and 0.7; the polls at 9 s came before the window
    "kv_usage.mean": 0.4,
    "kv_usage.p95": 0.67,
    "pod_requests.qwen-0": 3,
    "pod_requests.qwen-1": 4,
    # A from 5 to 14 s, C from 13 to 14 s; B has not sent its last request
    "session_s.p50": 5.0,
    "session_s.p95": 8.6,
    # ends at 12, 14 and 17 s, two agents, 10 s; the request without an agent is nobody's turn
    "turns_per_agent_hour": 540.0,
    # attained by the answer of one token; missed by two slow, one refused, one broken off, one
    # given up;
    # unknown for the two in flight, which have waited 2 s and 1 s of 2.5 s
    "slo_attainment": 1 / 6,
    "goodput_requests_per_s": 0.1,
    **{
        f"samples.{quantity}.{kind}": size
        for quantity, sizes in {
            "ttft_s": (4, 2),
            "tpot_s": (2, 0),
            "e2e_s": (3, 2),
            "queue_s": (5, 1),
            "stream_tokens_per_s": (2, 0),
            "prompt_tokens": (8, 0),
            "prompt_cache_hit_ratio": (5, 0),
            "kv_usage": (4, 0),
            "session_s": (2, 0),
            "slo_attainment": (6, 2),
        }.items()
        for kind, size in zip(("observed", "censored"), sizes)
    },
}


@pytest.mark.parametrize("key", BY_HAND)
def test_figure_is_what_a_pencil_says(key: str) -> None:
    """The figure would not be what its definition in ``metrics`` says."""
    due = BY_HAND[key]
    assert FIGURES[key] == (None if due is None else pytest.approx(due, rel=1e-12))


def test_no_figure_is_left_out_of_the_hand_count() -> None:
    """A new figure would be reported that nobody has ever checked by hand."""
    assert set(FIGURES) == set(BY_HAND)


def abandoned_run() -> RunResult:
    """Two clients leave: one's prompt is then half computed, of the other's answer 7 tokens come.

    The first one's attempt has 20 tokens when it ends; the second client came before the window.
    """
    book = Book()
    for arrival_s, computed, emitted in ((5.0, 100, 13), (15.0, 50, 0)):
        request = book.request(arrival_s, end_s=arrival_s + 2.0, status=Status.CANCELLED)
        left = book.attempt(request, arrival_s, arrival_s)
        ended = replace(left, computed_tokens=100, emitted_tokens=20)
        book.recorder.abandoned.append(
            (ended, replace(left, computed_tokens=computed, emitted_tokens=emitted))
        )
    return book.freeze(facts(window_start_s=10.0))


def test_what_was_computed_for_nobody_is_what_came_after_its_client_had_left() -> None:
    """All of the attempt would count, or that of requests which the window leaves out."""
    assert abandoned_run().summary["abandoned_tokens"] == {"prompt": 50, "output": 20}


def test_every_figure_is_declared_and_every_declaration_reported() -> None:
    """A figure would have no unit, direction and definition, or a definition no figure."""
    others = (pooled_run().summary, abandoned_run().summary)
    used = {metric(key).key for key in FIGURES}
    used |= {metric(key).key for summary in others for key in dict(flatten(summary))}
    assert used == {declared.key for declared in METRICS}
    with pytest.raises(KeyError):
        metric("ttft_ms.p95")


def test_declarations_say_something() -> None:
    """A reader of the report would find a figure without a unit or a meaning."""
    for declared in METRICS:
        assert declared.unit
        assert len(declared.definition) > 10
        assert declared.better in {"up", "down", "none"}
        assert 0.0 <= declared.margin < 1.0


def test_summary_is_strict_json() -> None:
    """C42, C75: NaN or Infinity would make the document unreadable for other programs."""
    assert json.loads(json.dumps(SUMMARY, allow_nan=False)) == SUMMARY


def test_objectives_are_reported_only_when_given() -> None:
    """Scenarios without objectives would report an attainment of nothing."""
    book = Book()
    book.answered(1.0, 0.5)
    assert "slo_attainment" not in book.freeze(facts()).summary
    only_ttft = book.freeze(facts(slo_ttft_s=1.0)).summary
    assert only_ttft["slo_attainment"] == 1.0
    assert only_ttft["goodput_requests_per_s"] == pytest.approx(0.01)


def test_a_request_that_has_waited_beyond_the_objective_has_missed_it() -> None:
    """A jam would raise the attainment, since those stuck in it were left out."""
    book = Book()
    book.answered(1.0, 0.5)
    book.request(50.0, status=Status.IN_FLIGHT)
    assert book.freeze(facts(slo_ttft_s=1.0)).summary["slo_attainment"] == 0.5


def test_an_answer_that_takes_too_long_misses_the_objective_of_all_of_it() -> None:
    """Objectives of the first token and of the pace only were met by answers of ten minutes."""
    book = Book()
    book.answered(1.0, 0.5, stream_s=4.0, output_tokens=9)
    book.answered(2.0, 0.5, stream_s=6.0, output_tokens=9)
    book.request(90.0, status=Status.IN_FLIGHT)  # for ten seconds
    book.request(97.0, status=Status.IN_FLIGHT)  # it may still attain them
    summary = book.freeze(facts(slo_e2e_s=5.0)).summary
    assert summary["slo_attainment"] == pytest.approx(1 / 3)
    assert summary["goodput_requests_per_s"] == pytest.approx(0.01)


def test_a_client_that_gave_up_has_not_been_served_within_the_objectives() -> None:
    """Clients that leave an overloaded pod would raise its attainment: 1 of 2, where it is 1 of 4.

    The one that left without a token is not in the TTFTs of 0.5, 0.75 and 3 s, the others are.
    """
    book = Book()
    book.answered(1.0, 0.5)
    book.answered(2.0, 3.0)
    reading = book.request(10.0, status=Status.CANCELLED, end_s=15.0)
    book.attempt(reading, 10.0, 10.0, 10.75, output_tokens=40)
    queued = book.request(20.0, status=Status.CANCELLED, end_s=25.0)
    book.attempt(queued, 20.0)
    summary = book.freeze(facts(slo_ttft_s=1.0)).summary
    assert summary["slo_attainment"] == 0.25
    assert summary["samples"]["slo_attainment"] == {"observed": 4, "censored": 0}
    assert summary["samples"]["ttft_s"] == {"observed": 3, "censored": 0}
    assert summary["ttft_s"]["p50"] == 0.75
    assert summary["error_ratio"] == 0.0


def test_window_is_half_open_and_by_arrival() -> None:
    """A request at the end of the window would count twice over adjacent windows, one that
    only ends inside it would count although it arrived before."""
    book = Book()
    for arrival_s in (9.0, 10.0, 19.0, 20.0):
        book.answered(arrival_s, ttft_s=arrival_s, stream_s=5.0, output_tokens=2)
    summary = book.freeze(facts(window_start_s=10.0, window_end_s=20.0, end_s=50.0)).summary
    assert summary["requests"] == summary["requests_completed"] == 2
    assert summary["ttft_s"]["mean"] == 14.5


def test_a_run_to_the_end_measures_to_its_last_event() -> None:
    """A finite replay would divide by an infinite window, or lose its last request."""
    book = Book()
    book.answered(0.0, ttft_s=2.0)
    book.answered(4.0, ttft_s=4.0)
    result = book.freeze(
        facts(
            window_end_s=float("inf"),
            end_s=8.0,
            closed=(PodTotals(emitted_tokens=2),),
            agents=1,
            slo_ttft_s=9.0,
        )
    )
    assert result.summary["output_tokens_per_s"] == 0.25
    assert result.summary["goodput_requests_per_s"] == 0.25
    assert result.summary["turns_per_agent_hour"] == 0.0


def test_a_session_counts_when_its_last_answer_was_given() -> None:
    """The cluster that refuses most would show the shortest sessions: a turn that is refused at
    once, or whose client gives up, would end its session in no time."""
    book = Book()
    for session, status, end_s in (
        ("refused", Status.REJECTED, 1.0),
        ("left", Status.CANCELLED, 2.0),
        ("failed", Status.FAILED, 3.0),
        ("served", Status.COMPLETED, 8.0),
    ):
        book.request(1.0, session=session, closes_session=True, status=status, end_s=end_s)
    summary = book.freeze(facts()).summary
    assert summary["session_s"] == {"p50": 7.0, "p95": 7.0}
    assert summary["samples"]["session_s"] == {"observed": 1, "censored": 0}


def test_without_sessions_there_is_no_time_of_one() -> None:
    """100,000 single requests would be reported as 100,000 short sessions."""
    book = Book()
    for at in range(3):
        book.request(float(at), session=f"short/{at}", end_s=9.0)
    assert book.freeze(facts()).summary["session_s"] == {"p50": None, "p95": None}


def test_an_answer_that_was_cut_off_is_completed_as_its_definition_says() -> None:
    """Answers that outgrew their pod would vanish from every count, or count unannounced."""
    book = Book()
    request = book.request(1.0, end_s=9.0)
    book.attempt(request, 1.0, 1.0, 2.0).end_reason = Reason.LENGTH
    result = book.freeze(facts())
    assert result.summary["requests_completed"] == 1
    assert result.requests["reason"].tolist() == [Reason.LENGTH]
    assert f"reason {Reason.LENGTH}" in metric("requests_completed").definition


def test_policies_without_a_home_have_no_spill_ratio() -> None:
    """Least-loaded would be praised for spilling nothing."""
    book = Book()
    book.answered(1.0, 0.5)
    summary = book.freeze(facts()).summary
    assert summary["spill_ratio"] is None
    assert summary["migration_ratio"] is None
    assert summary["placements"]["total"] == 1


def test_an_arrival_within_a_nanosecond_of_a_boundary_has_not_queued_backwards() -> None:
    """A queue time of -1e-9 s would stand in the report."""
    book = Book()
    request = book.request(10.0, end_s=12.0)
    book.attempt(request, 10.0, 10.0 - 1e-9, 11.0)
    assert book.freeze(facts()).summary["queue_s"]["p50"] == 0.0
