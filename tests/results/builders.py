"""Requests, attempts and facts of runs that never ran, written down with exact numbers."""

from dataclasses import replace

from sim.core.content import Node, Prompt
from sim.core.ports import PodTotals, PoolEvent
from sim.core.recorder import Recorder, RunFacts
from sim.core.request import (
    Answer,
    Attempt,
    FailedAttempt,
    HttpStatus,
    Outcome,
    PoolError,
    Reason,
    Request,
    Retry,
    RouterError,
    Status,
)
from sim.results.freeze import freeze
from sim.results.result import RunResult

ANSWERS = {
    Status.COMPLETED: HttpStatus.OK,
    Status.CANCELLED: HttpStatus.CLIENT_CLOSED_REQUEST,
    Status.REJECTED: HttpStatus.UNAVAILABLE,
    Status.FAILED: HttpStatus.SERVER_ERROR,
}
"""What clients get unless a test says otherwise."""


class NoListener:
    """Nobody waits for these attempts."""

    def first_token(self, attempt: Attempt) -> None:
        """Never called."""

    def ended(self, attempt: Attempt) -> None:
        """Never called."""


class Book:
    """A recorder and short ways to write into it, in order of arrival."""

    def __init__(self) -> None:
        self.recorder = Recorder()

    def request(
        self,
        arrival_s: float,
        *,
        prompt_tokens: int = 100,
        session: str = "",
        agent: str = "",
        closes_session: bool = False,
        status: str = Status.COMPLETED,
        end_s: float | None = None,
        http_status: int | None = None,
        reason: str | None = None,
        workload: str = "",
        rule: str = "",
        backend: str = "qwen",
    ) -> Request:
        """A request that arrives; it gets no attempt here."""
        node = Node()
        request = Request(
            session_id=session,
            agent_id=agent,
            turn=1,
            session_key=None,
            prompt=Prompt(node, prompt_tokens),
            answer=node,
            output_tokens=1,
            closes_session=closes_session,
            workload=workload,
        )
        self.recorder.arrived(request)
        request.tries = 1
        request.rule = rule
        request.backend = backend
        request.arrival_s = arrival_s
        request.end_s = end_s
        request.status = status
        broke = reason in (Reason.CONNECTION_REFUSED, Answer.PROXY_RESTART)
        request.http_status = None if broke else http_status or ANSWERS.get(status)
        request.reason = reason
        return request

    def attempt(
        self,
        request: Request,
        dispatch_s: float,
        scheduled_s: float | None = None,
        first_token_s: float | None = None,
        *,
        pod: str = "qwen-0",
        outcome: str = Outcome.PLACED,
        reason: str | None = None,
        cached_tokens: int = 0,
        output_tokens: int = 1,
        proxy: str = "proxy-0",
    ) -> Attempt:
        """An attempt that ends as and when its request does."""
        attempt = Attempt(
            request=request,
            number=len(request.attempts) + 1,
            proxy=proxy,
            backend=request.backend,
            pod_index=0,
            pod=pod,
            outcome=outcome,
            reason=reason,
            decided_s=dispatch_s,
            dispatch_s=dispatch_s,
            listener=NoListener(),
            scheduled_s=scheduled_s,
            first_token_s=first_token_s,
            end_s=request.end_s,
            status=request.status,
            http_status=request.http_status,
            end_reason=request.reason,
            cached_tokens=cached_tokens,
            computed_tokens=request.prompt.tokens - cached_tokens,
            emitted_tokens=0 if first_token_s is None else output_tokens,
        )
        request.hold_s = dispatch_s - request.arrival_s
        request.attempts.append(attempt)
        self.recorder.dispatched(attempt)
        return attempt

    def answered(
        self,
        arrival_s: float,
        ttft_s: float,
        stream_s: float = 0.0,
        output_tokens: int = 1,
        pod: str = "qwen-0",
    ) -> Request:
        """A completed request that was admitted the moment it came."""
        first_s = arrival_s + ttft_s
        request = self.request(arrival_s, end_s=first_s + stream_s)
        self.attempt(request, arrival_s, arrival_s, first_s, pod=pod, output_tokens=output_tokens)
        return request

    def passed_over(
        self, request: Request, backend: str, start_s: float, end_s: float, error: str
    ) -> None:
        """A backend of its rule did not serve the present try."""
        failure = FailedAttempt(request, request.tries, backend, None, start_s, end_s, error, None)
        self.recorder.failed_attempts.append(failure)

    def tried_again(
        self,
        request: Request,
        sent_s: float,
        end_s: float,
        reason: str,
        http_status: int | None = HttpStatus.UNAVAILABLE,
        status: str = Status.REJECTED,
    ) -> None:
        """The present try is not the last one."""
        retry = Retry(
            *(request, request.tries, request.model, sent_s, end_s),
            *(status, http_status, reason, 5.0),
        )
        self.recorder.retries.append(retry)
        request.tries += 1

    def hold(
        self,
        request: Request,
        member: str,
        start_s: float,
        end_s: float | None = None,
        result: str | None = "granted",
        kind: str = "hold",
    ) -> None:
        """An attempt is held for a member of the pool, or is skipped; without an end, till now."""
        result = None if end_s is None else result
        event = PoolEvent(
            kind,
            "desk",
            start_s,
            member,
            request_id=request.request_id,
            end_s=end_s,
            result=result,
        )
        self.recorder.pool_events.append(event)

    def swap(
        self,
        start_s: float,
        member: str,
        from_member: str | None = None,
        end_s: float | None = None,
        result: str | None = "completed",
        cause: str = "request",
        *,
        phases_s: tuple[float | None, float | None, float | None] = (None, None, None),
    ) -> None:
        """The pool changes hands; ``phases_s`` are drain, unload and load."""
        result = None if end_s is None else result
        event = PoolEvent(
            *("swap", "desk", start_s, member, from_member, None, cause, end_s, result), *phases_s
        )
        self.recorder.pool_events.append(event)

    def freeze(self, facts: RunFacts) -> RunResult:
        """The result of the run."""
        return freeze(self.recorder, facts)


FACTS = RunFacts(
    scenario="by-hand",
    variant="",
    seed=1,
    window_start_s=0.0,
    window_end_s=100.0,
    end_s=100.0,
    pods=("qwen-0",),
    gpus=1,
    agents=0,
    has_home=False,
    opened=(PodTotals(),),
    closed=(PodTotals(),),
    events=0,
)


def facts(**changes: object) -> RunFacts:
    """Facts of a run of 100 s on one pod, measured from start to end, with ``changes``."""
    return replace(FACTS, **changes)


def mixed_run() -> RunResult:
    """One request of every fate, on two pods, measured from 10 s to 20 s.

    The figures that follow from it are worked out in ``test_summary.py``.
    """
    book = Book()
    early = book.request(5.0, prompt_tokens=100, session="A", agent="a1", end_s=12.0)
    book.attempt(early, 5.0, 5.0, 6.0, outcome="new", output_tokens=4)
    second = book.request(
        10.0, prompt_tokens=200, session="A", agent="a1", end_s=14.0, closes_session=True
    )
    book.attempt(second, 10.0, 10.5, 11.0, outcome="sticky", cached_tokens=96, output_tokens=4)
    spilled = book.request(12.0, prompt_tokens=300, session="B", agent="a2", end_s=17.0)
    book.attempt(
        spilled,
        12.25,
        12.25,
        15.0,
        pod="qwen-1",
        outcome="spill",
        reason="waiting",
        output_tokens=5,
    )
    single = book.request(13.0, prompt_tokens=400, session="C", end_s=14.0, closes_session=True)
    book.attempt(single, 13.0, 14.0, 14.0, pod="qwen-1", outcome="unkeyed", cached_tokens=384)
    book.request(
        15.0,
        prompt_tokens=10,
        status=Status.REJECTED,
        reason=RouterError.NO_READY_POD,
        end_s=15.0,
    )
    failed = book.request(
        16.0, prompt_tokens=150, status=Status.FAILED, http_status=502, end_s=18.0
    )
    book.attempt(
        failed,
        16.0,
        16.0,
        17.0,
        outcome="migrated",
        reason="not_ready",
        cached_tokens=50,
        output_tokens=2,
    )
    left = book.request(17.0, prompt_tokens=60, status=Status.CANCELLED, end_s=19.0)
    book.attempt(left, 17.0, pod="qwen-1", outcome="new")
    prefilling = book.request(18.0, prompt_tokens=100, status=Status.IN_FLIGHT)
    book.attempt(prefilling, 18.0, 19.0, outcome="sticky", cached_tokens=48)
    queued = book.request(19.0, prompt_tokens=50, status=Status.IN_FLIGHT)
    book.attempt(queued, 19.0, pod="qwen-1", outcome="new")
    for time_s, in_flight, usages in (
        (9.0, (1, 0), (0.9, 0.8)),
        (10.0, (1, 0), (0.1, 0.3)),
        (15.0, (0, 1), (0.5, 0.7)),
    ):
        for pod in (0, 1):
            book.recorder.sampled(time_s, pod, in_flight[pod], 0, in_flight[pod], usages[pod])
    return book.freeze(
        facts(
            window_start_s=10.0,
            window_end_s=20.0,
            end_s=20.0,
            pods=("qwen-0", "qwen-1"),
            gpus=4,
            agents=2,
            has_home=True,
            opened=(
                PodTotals(emitted_tokens=40, preemptions=1, recomputed_tokens=7),
                PodTotals(emitted_tokens=10),
            ),
            closed=(
                PodTotals(emitted_tokens=90, preemptions=3, recomputed_tokens=307),
                PodTotals(emitted_tokens=60, preemptions=1, recomputed_tokens=100),
            ),
            slo_ttft_s=2.5,
            slo_tpot_s=0.6,
        )
    )


def pooled_run() -> RunResult:
    """A pool of a and b in all its states, a backend beside it, measured from 10 s to 110 s.

    ``a`` is loaded from 45 to 50 s, from 91 s (and fails after half a second) and from 95 s to the
    end; ``b`` from 5 to 12 s, from 63 s (and is given up at 71 s) and from 76 to 86 s. The figures
    that follow from it are worked out in ``test_pools.py`` and ``test_served.py``.
    """
    book = Book()
    early = book.request(5.0, workload="chat", rule="batch", backend="b", end_s=20.0)
    book.swap(5.0, "b", end_s=12.0, phases_s=(None, None, 7.0))
    book.hold(early, "b", 5.0, 12.0)
    book.attempt(early, 12.0, 12.0, 13.0, pod="b-0")
    beside = book.request(14.0, workload="nightly", backend="b", end_s=40.0)
    book.attempt(beside, 14.0, 14.0, 15.0, pod="b-0", proxy="direct")
    fell = book.request(16.0, workload="chat", rule="chat", backend="b", end_s=30.0)
    book.hold(fell, "a", 16.0, 16.0, PoolError.INCUMBENT_BUSY, kind="skip")
    book.passed_over(fell, "a", 16.0, 16.0, PoolError.INCUMBENT_BUSY)
    book.hold(fell, "b", 16.0, 16.0)
    book.attempt(fell, 16.0, 16.0, 18.0, pod="b-0")
    swapped = book.request(44.0, workload="chat", rule="chat", backend="a", end_s=60.0)
    book.swap(44.0, "a", "b", 50.0, phases_s=(0.0, 1.0, 5.0))
    book.hold(swapped, "a", 44.0, 50.0)
    book.attempt(swapped, 50.0, 50.0, 51.0, pod="a-0")
    again = book.request(61.0, workload="chat", rule="batch", backend="b", end_s=90.0)
    book.swap(61.0, "b", "a", 71.0, "deadline", phases_s=(0.0, 2.0, 8.0))
    book.hold(again, "b", 61.0, 71.0, PoolError.SWAP_DEADLINE)
    book.passed_over(again, "b", 61.0, 71.0, PoolError.SWAP_DEADLINE)
    book.tried_again(again, 61.0, 71.0, Answer.POOL_ACTIVATION_TIMEOUT)
    book.swap(76.0, "b", None, 86.0, phases_s=(None, None, 10.0))
    book.hold(again, "b", 76.0, 86.0)
    book.attempt(again, 86.0, 86.0, 87.0, pod="b-0")
    again.hold_s = 20.0
    book.swap(90.5, "a", "b", 91.5, "error", "reclaim", phases_s=(0.0, 0.5, 0.5))
    refused = book.request(
        92.0,
        workload="nightly",
        backend="a",
        status=Status.FAILED,
        reason=Reason.CONNECTION_REFUSED,
        end_s=92.0,
    )
    book.attempt(refused, 92.0, pod="a-0", proxy="direct")
    held = book.request(95.0, workload="chat", rule="chat", backend="a", status=Status.IN_FLIGHT)
    book.swap(95.0, "a")
    book.hold(held, "a", 95.0)
    left = book.request(
        96.0,
        workload="chat",
        rule="chat",
        backend="a",
        status=Status.CANCELLED,
        reason=Answer.CLIENT_CLOSED,
        end_s=99.0,
    )
    book.hold(left, "a", 96.0, 99.0, "cancelled")
    left.hold_s = 3.0
    placed = book.request(100.0, workload="chat", rule="other", backend="x", end_s=103.0)
    book.attempt(placed, 100.0, 100.0, 101.0, pod="x-0", outcome="spill")
    return book.freeze(pooled_facts())


def pooled_facts() -> RunFacts:
    """Facts of ``pooled_run``."""
    return facts(
        window_start_s=10.0,
        window_end_s=110.0,
        end_s=110.0,
        pods=("a-0", "b-0", "x-0"),
        gpus=2,
        has_home=True,
        opened=(PodTotals(), PodTotals(loading_s=5.0, loads=1), PodTotals()),
        closed=(
            PodTotals(busy_s=10.0, ready_s=11.0, loading_s=20.5, loads=3),
            PodTotals(busy_s=32.0, ready_s=36.5, loading_s=25.0, loads=3),
            PodTotals(busy_s=3.0),
        ),
        workload_counts={"chat": {}, "nightly": {}},
        rules={"chat": ("a", "b"), "batch": ("b",), "other": ("x",)},
        pools={"desk": {"a": "a-0", "b": "b-0"}},
        exclusive_pools=("desk",),
        lives_s={"a-0": ((50.0, 61.0),), "b-0": ((12.0, 44.0), (86.0, 90.5))},
    )
