"""What a pod's metrics endpoint says: the state that the last finished step has left."""

from sim.engine.batch import Sequence


class Gauges:
    """Published values, and of the queue what the latest scheduling has seen of it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.running = 0
        self.held = 0  # KV blocks
        self.scheduled = 0  # queue as the latest scheduling left it: what the next will publish
        self._left = 0  # those of them whose clients have gone since
        self._arrivals = 0  # attempts that had arrived by the latest scheduling

    def schedule(self, waiting: int, arrivals: int) -> None:
        """A step has been scheduled."""
        self.scheduled = waiting
        self._arrivals = arrivals

    def leave_queue(self, sequence: Sequence) -> None:
        """A client that leaves during a step is not in the queue published at its end."""
        if sequence.arrival < self._arrivals:
            self._left += 1

    def publish(self, running: int, held: int) -> None:
        """A step has ended."""
        self.waiting = self.scheduled - self._left
        self._left = 0
        self.running = running
        self.held = held
