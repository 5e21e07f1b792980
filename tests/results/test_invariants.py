"""Each rule finds the run that breaks it, and no other rule is needed to."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from sim.core.ports import PodTotals
from sim.core.request import Answer, HttpStatus, Reason, Status
from sim.invariants import INVARIANTS, check_all, check_cheap
from sim.results.result import RunResult
from tests.results.builders import Book, facts, mixed_run, pooled_run


def drained_run() -> RunResult:
    """Three completed requests on one pod, all of its totals inside the window."""
    book = Book()
    for arrival_s in (1.0, 2.0, 30.0):
        book.answered(arrival_s, ttft_s=0.5, stream_s=2.0, output_tokens=5)
    for time_s, in_flight in ((0.0, 0), (1.0, 0), (2.0, 1), (3.0, 2), (5.0, 0)):
        book.recorder.sampled(time_s, 0, in_flight, 0, in_flight, 0.5)
    totals = PodTotals(emitted_tokens=15, computed_tokens=300, busy_s=7.0)
    return book.freeze(facts(closed=(totals,)))


Break = Callable[[RunResult], RunResult]


def cell(table: str, column: str, row: int, value: object) -> Break:
    """A run in which one cell of one table says something else."""

    def broken(result: RunResult) -> RunResult:
        whole = getattr(result.tables, table)
        at = whole.column_names.index(column)
        values = whole.column(column).to_pylist()
        values[row] = value
        field = whole.schema.field(column)
        changed = whole.set_column(at, field, pa.array(values, field.type))
        return replace(result, tables=replace(result.tables, **{table: changed}))

    return broken


def totals(**changes: float) -> Break:
    """A run whose pod has counted something else."""

    def broken(result: RunResult) -> RunResult:
        closed = (replace(result.facts.closed[0], **changes),)
        return replace(result, facts=replace(result.facts, closed=closed))

    return broken


def without_last_placement(result: RunResult) -> RunResult:
    """A run that has lost an attempt."""
    placements = result.tables.placements
    shorter = placements.slice(0, placements.num_rows - 1)
    return replace(result, tables=replace(result.tables, placements=shorter))


BREAKS: dict[str, list[tuple[Break, str]]] = {
    "INV-1": [
        (cell("requests", "request_id", 2, 1), "request id is not its row: 1 rows (2)"),
        (cell("requests", "status", 0, "lost"), "unknown status: 1 rows (0)"),
        (cell("requests", "status", 0, "in_flight"), "has ended and is in flight, or neither"),
    ],
    "INV-2": [
        (cell("requests", "computed_tokens", 1, 99), "cached + computed is not the prompt"),
        (cell("requests", "cached_tokens", 1, 1), "cached + computed exceeds the prompt"),
        (cell("requests", "output_tokens", 1, 0), "a first token and no tokens"),
        (cell("requests", "first_token_s", 1, None), "tokens without a first token"),
    ],
    "INV-4": [
        (cell("requests", "scheduled_s", 1, 1.9), "scheduled_s before what precedes it"),
        (cell("placements", "first_token_s", 1, 1.0), "first_token_s before what precedes it"),
        (cell("requests", "end_s", 2, 200.0), "end_s after the end of the run"),
        (cell("requests", "arrival_s", 1, 0.5), "arrived before the request above it"),
    ],
    "INV-12": [
        (totals(busy_s=101.0), "qwen-0: busy for 101.0 s of 100.0 s"),
        (totals(steps=-1), "qwen-0: steps falls by 1"),
    ],
    "INV-18": [
        (cell("pods", "kv_usage", 0, 1.5), "kv_usage outside [0, 1]"),
        (cell("pods", "waiting", 0, -1), "waiting below zero"),
        (cell("requests", "hold_s", 0, -0.5), "held for a negative time"),
    ],
    "INV-19": [
        (without_last_placement, "attempts are not its placement rows: 1 rows (2)"),
        (cell("placements", "attempt", 1, 2), "attempts not numbered 1, 2, ..."),
        (cell("placements", "request_id", 1, 7), "no such request"),
        (cell("placements", "dispatch_s", 1, 1.5), "dispatch is not that of the last attempt"),
    ],
    "INV-20": [
        (totals(emitted_tokens=14), "tokens emitted by pods: 14.0, by the tables 15"),
        (totals(computed_tokens=301), "prompt tokens computed by pods: 301.0, by the tables 300"),
        (totals(preemptions=1), "preemptions of pods: 1.0, by the tables 0"),
    ],
    "INV-21": [
        (cell("pods", "in_flight", 3, 1), "in_flight of qwen-0 is not what is under way at poll"),
        (cell("pods", "in_flight", 4, 1), "in_flight of qwen-0 is not what is under way at poll"),
    ],
    "INV-22": [
        (cell("requests", "http_status", 0, 500), "completed and not 200"),
        (cell("requests", "first_token_s", 0, None), "completed without a first token"),
        (cell("requests", "status", 0, "rejected"), "rejected after a first token"),
        (cell("requests", "status", 0, "rejected"), "rejected and no error"),
        (cell("requests", "status", 0, "cancelled"), "cancelled and not 499"),
        (cell("requests", "status", 0, "in_flight"), "in flight and answered"),
        (cell("requests", "http_status", 0, None), "completed and not 200"),
    ],
}


def totals_of(pod: int, **changes: float) -> Break:
    """A run of which one of several pods has counted something else."""

    def broken(result: RunResult) -> RunResult:
        closed = list(result.facts.closed)
        closed[pod] = replace(closed[pod], **changes)
        return replace(result, facts=replace(result.facts, closed=tuple(closed)))

    return broken


def with_facts(**changes: object) -> Break:
    """A run of which something else is known."""
    return lambda result: replace(result, facts=replace(result.facts, **changes))


OVERLAPPING = {"a-0": ((40.0, 61.0),), "b-0": ((12.0, 44.0),)}

# Rows of the pools table: 2 is the skip, 4 and 6 swaps, 5 and 7 holds, 12 one that is still held.
POOL_BREAKS: dict[str, list[tuple[Break, str]]] = {
    "INV-23": [
        (cell("retries", "request_id", 0, 99), "a try of no request: 1 rows (0)"),
        (cell("retries", "try", 0, 2), "tries not numbered 1, 2, ...: 1 rows (0)"),
        (cell("retries", "end_s", 0, 60.0), "a try that ends before it is sent: 1 rows (0)"),
        (cell("requests", "tries", 4, 3), "tries are not its rows of retries: 1 rows (4)"),
        (cell("requests", "tries", 3, 0), "tries are not its rows of retries: 1 rows (3)"),
    ],
    "INV-24": [
        (
            cell("pools", "start_s", 4, 11.9),
            "a swap before the one above is over: 1 rows (4)",
        ),
        (cell("pools", "end_s", 4, None), "a swap before the one above is over: 1 rows (6)"),
        (totals_of(0, ready_s=23.5), "desk: members loading or ready for 100.5 s of 100.0 s"),
        (totals_of(1, loading_s=37.5), "desk: members loading or ready for 100.5 s of 100.0 s"),
        (
            with_facts(lives_s=OVERLAPPING),
            "desk: b and a at 40.0 s",
        ),
        (totals_of(0, loading_s=89.5), "desk: a loading or ready for 100.5 s of 100.0 s"),
        (totals_of(1, busy_s=37.0), "desk: b busy for 37.0 s, ready for 36.5 s"),
    ],
    "INV-25": [
        (cell("pools", "result", 5, "completed"), "a result that its kind cannot have"),
        (cell("pools", "result", 4, "granted"), "a result that its kind cannot have"),
        (cell("pools", "result", 5, None), "ended without a result, or not ended with one"),
        (cell("pools", "end_s", 5, None), "ended without a result, or not ended with one"),
        (cell("pools", "end_s", 5, 43.0), "ended before it began"),
        (cell("pools", "request_id", 2, None), "a hold of no request: 1 rows (2)"),
        (cell("pools", "end_s", 5, None), "still held for a request that is over: 1 rows (5)"),
        (cell("requests", "hold_s", 4, 19.0), "held for less than by pools: 1 rows (4)"),
    ],
}


@pytest.mark.parametrize(
    ("rule", "broken", "words"),
    [(rule, broken, words) for rule, cases in POOL_BREAKS.items() for broken, words in cases],
)
def test_a_broken_run_of_a_pool_is_found(rule: str, broken: Break, words: str) -> None:
    """Two members at once, or a hold that never ended, would be reported as figures."""
    found = [text for text in check_all(broken(pooled_run())) if text.startswith(f"{rule}: ")]
    assert any(words in text for text in found), found


def test_tries_that_overlap_are_found() -> None:
    """A client would wait for two answers to one request."""
    book = Book()
    request = book.request(1.0, end_s=9.0)
    book.tried_again(request, 1.0, 3.0, Answer.POOL_INCUMBENT_BUSY)
    book.tried_again(request, 2.0, 4.0, Answer.POOL_INCUMBENT_BUSY)
    found = check_all(book.freeze(facts()))
    assert "INV-23: sent again before the try above was over: 1 rows (0)" in found


def polled(in_flight: int, **changes: object) -> list[str]:
    """What INV-21 says of a proxy that counts so many at 20 s; one attempt came through it at 10
    s and one beside it at 12 s, both under way till 30 s."""
    book = Book()
    for at_s, proxy in ((10.0, "proxy-0"), (12.0, "direct")):
        request = book.request(at_s, end_s=30.0)
        book.attempt(request, at_s, at_s, at_s + 1.0, proxy=proxy)
    book.recorder.sampled(20.0, 0, in_flight, 0, 2, 0.5)
    result = book.freeze(facts(**changes))
    return [text for text in check_all(result) if text.startswith("INV-21: ")]


def test_a_proxy_does_not_count_what_passes_it_by() -> None:
    """DirectService traffic would look like a count that is wrong."""
    assert polled(1) == []
    assert polled(0) != []
    assert polled(2) != []


def test_a_proxy_that_has_restarted_counts_from_nothing() -> None:
    """What was under way before the restart would look like a count that is wrong."""
    assert polled(0, restarts_s=(15.0,)) == []
    assert polled(1, restarts_s=(15.0,)) != []
    assert polled(1, restarts_s=(5.0, 25.0)) == []
    assert polled(0, restarts_s=(5.0, 25.0)) != []


def test_a_broken_connection_has_no_status() -> None:
    """A restart of the proxy would count as an answer that somebody got wrong."""
    book = Book()
    book.request(1.0, status=Status.FAILED, reason=Answer.PROXY_RESTART, end_s=2.0)
    assert check_all(book.freeze(facts())) == []
    book.request(1.0, status=Status.FAILED, end_s=2.0).http_status = None
    assert check_all(book.freeze(facts())) == ["INV-22: failed and no error: 1 rows (1)"]


def test_the_first_token_of_an_earlier_try_is_no_fault_of_the_last() -> None:
    """A client whose answer broke off and who is then refused would stop the run."""
    book = Book()
    request = book.request(1.0, status=Status.REJECTED, reason=Answer.NO_ROUTE, end_s=9.0)
    book.attempt(request, 1.0, 1.0, 2.0).status = Status.FAILED
    assert found_by("INV-22", book) == ["INV-22: rejected after a first token: 1 rows (0)"]
    book.tried_again(request, 1.0, 3.0, Reason.CONNECTION_LOST, None, Status.FAILED)
    assert found_by("INV-22", book) == []


def found_by(rule: str, book: Book) -> list[str]:
    """What a rule finds in a run."""
    return [text for text in check_all(book.freeze(facts())) if text.startswith(f"{rule}: ")]


def test_sound_runs_break_nothing() -> None:
    """A rule that cries wolf would stop every run with exit code 4."""
    assert check_all(drained_run()) == []
    assert check_all(mixed_run()) == []
    assert check_all(pooled_run()) == []
    assert check_all(Book().freeze(facts())) == []


@pytest.mark.parametrize(
    ("rule", "broken", "words"),
    [(rule, broken, words) for rule, cases in BREAKS.items() for broken, words in cases],
)
def test_a_broken_run_is_found(rule: str, broken: Break, words: str) -> None:
    """The rule would be passed by the very run that it exists to stop."""
    found = [text for text in check_all(broken(drained_run())) if text.startswith(f"{rule}: ")]
    assert any(words in text for text in found), found


@pytest.mark.parametrize(
    ("status", "http_status", "fault"),
    [
        (Status.COMPLETED, HttpStatus.BAD_REQUEST, "completed and not 200"),
        (Status.COMPLETED, None, "completed and not 200"),
        (Status.CANCELLED, HttpStatus.OK, "cancelled and not 499"),
        (Status.REJECTED, HttpStatus.OK, "rejected and no error"),
        (Status.FAILED, HttpStatus.OK, "failed and no error"),
        (Status.IN_FLIGHT, HttpStatus.OK, "in flight and answered"),
    ],
)
def test_an_answer_that_actors_got_wrong_is_found_in_every_run(
    status: str, http_status: int | None, fault: str
) -> None:
    """The tables would write the code that fits the status, and so hide what a pod or a proxy
    really answered from the rule that looks for it."""
    book = Book()
    request = book.request(1.0, status=status, end_s=None if status == Status.IN_FLIGHT else 3.0)
    attempt = book.attempt(request, 1.0, 1.0, 2.0 if status == Status.COMPLETED else None)

    def found() -> list[str]:
        return [text for text in check_cheap(book.freeze(facts())) if text.startswith("INV-22: ")]

    assert found() == []
    request.http_status = attempt.http_status = http_status
    assert found() == [f"INV-22: {fault}: 1 rows (0)"]


def lost_run(error: str) -> Book:
    """A pod that has counted 100 of 200 prompt tokens, for the second of two requests broke off."""
    book = Book()
    book.answered(1.0, ttft_s=0.5, stream_s=2.0, output_tokens=5)
    request = book.request(2.0, status=Status.FAILED, end_s=4.0, reason=error)
    attempt = book.attempt(request, 2.0, 2.0)
    request.http_status = attempt.http_status = None
    attempt.end_reason = error
    return book


@pytest.mark.parametrize(
    ("error", "violations"),
    [
        (Reason.CONNECTION_LOST, []),
        (
            Reason.CONNECTION_REFUSED,
            ["INV-20: prompt tokens computed by pods: 100.0, by the tables 200"],
        ),
        (
            Reason.CONTEXT_EXCEEDED,
            [
                "INV-20: prompt tokens computed by pods: 100.0, by the tables 200",
                "INV-22: failed and no error: 1 rows (1)",
            ],
        ),
    ],
)
def test_a_step_that_never_ended_and_its_answer_are_missed_only_when_a_pod_was_lost(
    error: str, violations: list[str]
) -> None:
    """A run with a lost pod would stop with exit code 4; or, once connections may break, a pod
    that forgets what it computed, or what it has to answer, would be taken for a lost one."""
    book = lost_run(error)
    totals = PodTotals(emitted_tokens=5, computed_tokens=100)
    assert check_cheap(book.freeze(facts(closed=(totals,)))) == violations


def test_the_tokens_of_a_lost_pod_are_still_those_of_its_clients() -> None:
    """A pod that is lost would not be asked what it has emitted."""
    book = lost_run(Reason.CONNECTION_LOST)
    totals = PodTotals(emitted_tokens=6, computed_tokens=100)
    assert check_cheap(book.freeze(facts(closed=(totals,)))) == [
        "INV-20: tokens emitted by pods: 6.0, by the tables 5"
    ]


def test_littles_law_finds_a_stay_that_ends_before_it_begins() -> None:
    """A negative time in the system would cancel out in the mean."""
    found = check_all(cell("requests", "end_s", 0, -50.0)(drained_run()))
    assert any(text.startswith("INV-11: ") for text in found), found


def test_a_violation_names_the_first_offenders() -> None:
    """A bug report would not say which requests to look at."""
    run = drained_run()
    for row in range(3):
        run = cell("requests", "http_status", row, 500)(run)
    assert check_all(run) == ["INV-22: completed and not 200: 3 rows (0, 1, 2)"]


def test_every_run_pays_for_the_cheap_rules_only() -> None:
    """A run without --check would sort its tables, or check nothing."""
    assert check_cheap(totals(emitted_tokens=14)(drained_run())) != []
    assert check_cheap(without_last_placement(drained_run())) == []


def test_rules_are_numbered_and_say_what_they_demand() -> None:
    """Two rules would share a number, or the table of rules hold an empty line."""
    assert len({rule.id for rule in INVARIANTS}) == len(INVARIANTS)
    assert all(rule.statement.endswith(".") for rule in INVARIANTS)
    assert {rule.id for rule in INVARIANTS} == {*BREAKS, *POOL_BREAKS, "INV-11"}
