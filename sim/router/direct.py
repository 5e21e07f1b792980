"""Traffic that reaches the pods of a backend beside the router."""

from itertools import cycle

from sim.core.kernel import Kernel
from sim.core.recorder import Recorder
from sim.core.request import DIRECT, Answer, Attempt, HttpStatus, Outcome, Request, Status
from sim.router.door import Door
from sim.router.upstream import Upstream


class Direct:
    """The service of a backend: its pods in turn, no rule, no pool, no deadline, no retries.

    A pod that is not there refuses the connection, which is the client's answer.
    """

    def __init__(self, upstream: Upstream, door: Door, kernel: Kernel, recorder: Recorder) -> None:
        self._upstream = upstream
        self._turns = cycle(range(len(upstream.pods)))
        self._door = door
        self._kernel = kernel
        self._recorder = recorder

    def submit(self, request: Request) -> None:
        """A request arrives now, for the first time or again."""
        now_s = self._kernel.now_s
        self._door.arrives(request)
        request.backend = self._upstream.name
        pod = next(self._turns)
        attempt = Attempt(
            request=request,
            number=len(request.attempts) + 1,
            proxy=DIRECT,
            backend=self._upstream.name,
            pod_index=pod,
            pod=self._upstream.pods[pod].name,
            outcome=Outcome.PLACED,
            reason=None,
            decided_s=now_s,
            dispatch_s=now_s,
            listener=self,
        )
        request.attempts.append(attempt)
        self._recorder.dispatched(attempt)
        self._upstream.send(attempt)

    def cancel(self, request: Request) -> None:
        """The client leaves; nothing happens if the request is over already."""
        attempt = request.attempts[-1]
        if attempt.end_s is not None:
            self._door.leaves(request)
            return
        attempt.status = Status.CANCELLED
        attempt.end_s = self._kernel.now_s
        attempt.http_status = HttpStatus.CLIENT_CLOSED_REQUEST
        self._upstream.pods[attempt.pod_index].cancel(attempt)
        self.ended(attempt)

    def first_token(self, attempt: Attempt) -> None:
        """Nobody but the client hears of it."""

    def ended(self, attempt: Attempt) -> None:
        """A pod reports the end of an attempt, however it ended."""
        gone = attempt.status == Status.CANCELLED
        reason = Answer.CLIENT_CLOSED if gone else attempt.end_reason
        self._door.answers(attempt.request, attempt.status, attempt.http_status, reason)
