"""Requests, attempts and facts of runs that never ran, written down with exact numbers."""

from dataclasses import replace

from sim.content import Node, Prompt
from sim.ports import PodTotals
from sim.record import Recorder
from sim.request import Attempt, HttpStatus, Outcome, Request, RouterError, Status
from sim.results.result import RunFacts, RunResult

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
        )
        self.recorder.arrived(request)
        request.backend = "qwen"
        request.arrival_s = arrival_s
        request.end_s = end_s
        request.status = status
        request.http_status = ANSWERS.get(status) if http_status is None else http_status
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
    ) -> Attempt:
        """An attempt that ends as and when its request does."""
        attempt = Attempt(
            request=request,
            number=len(request.attempts) + 1,
            proxy="proxy-0",
            backend="qwen",
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

    def freeze(self, facts: RunFacts) -> RunResult:
        """The result of the run."""
        return self.recorder.freeze(facts)


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
