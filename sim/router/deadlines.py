"""How long the proxy waits for first tokens."""

from collections import deque
from collections.abc import Callable
from functools import partial

from sim.core.kernel import Kernel, Order
from sim.core.request import Attempt


class Deadlines:
    """Tells of attempts without a first token after their timeout.

    Attempts with one timeout run out in the order of their dispatch, so each
    timeout has a queue and one event on the clock, however many are under way.
    """

    def __init__(self, kernel: Kernel, missed: Callable[[Attempt], None]) -> None:
        self._kernel = kernel
        self._missed = missed
        self._queues: dict[float, deque[Attempt]] = {}

    def watch(self, attempt: Attempt, timeout_s: float) -> None:
        """``attempt`` has been dispatched now."""
        queue = self._queues.get(timeout_s)
        if queue is None:
            queue = self._queues[timeout_s] = deque()
        if not queue:
            self._await(attempt, timeout_s)
        queue.append(attempt)

    def _await(self, attempt: Attempt, timeout_s: float) -> None:
        due_s = attempt.dispatch_s + timeout_s
        self._kernel.at_instant(due_s, Order.HOLD_EXPIRY, partial(self._due, timeout_s))

    def _due(self, timeout_s: float) -> None:
        """Answer for the first in the queue, drop those that need no deadline any more."""
        queue = self._queues[timeout_s]
        attempt = queue.popleft()
        while queue:
            following = queue[0]
            if following.first_token_s is None and following.end_s is None:
                self._await(following, timeout_s)
                break
            queue.popleft()
        if attempt.first_token_s is None and attempt.end_s is None:
            self._missed(attempt)
