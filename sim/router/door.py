"""Where requests come in and answers go out, whichever way they take in between."""

from collections.abc import Callable

from sim.kernel import Kernel
from sim.record import Recorder
from sim.request import Answer, HttpStatus, Request, Status


class Door:
    """Takes note of arrivals and answers; ``on_end`` hears of requests that are over for good."""

    def __init__(self, kernel: Kernel, recorder: Recorder) -> None:
        self._kernel = kernel
        self._recorder = recorder
        self.on_end: Callable[[Request], None] | None = None

    def arrives(self, request: Request) -> None:
        """``request`` is here, for the first time or again."""
        now_s = self._kernel.now_s
        if request.tries == 0:
            request.arrival_s = now_s
            self._recorder.arrived(request)
        else:
            request.rule = request.backend = ""
        request.tries += 1
        request.sent_s = now_s

    def answers(
        self,
        request: Request,
        status: str,
        http_status: int | None,
        reason: str | None,
        retry_after_s: float | None = None,
    ) -> None:
        """This try of ``request`` is over; its client may have it try again."""
        request.status = status
        request.http_status = http_status
        request.reason = reason
        request.retry_after_s = retry_after_s
        request.end_s = self._kernel.now_s
        request.trip = None
        if request.on_end is not None:
            request.on_end(request)
        if self.on_end is not None and request.end_s is not None:
            self.on_end(request)

    def leaves(self, request: Request) -> None:
        """The client of ``request`` leaves, and no try is under way.

        It was waiting for its next one; nothing happens if the request is over.
        """
        if request.end_s is None:
            client_closed = HttpStatus.CLIENT_CLOSED_REQUEST, Answer.CLIENT_CLOSED
            self.answers(request, Status.CANCELLED, *client_closed)
