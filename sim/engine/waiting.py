"""Scheduling policies: who of the waiting goes first, and who of the running is preempted."""

from bisect import insort
from collections import deque

from sim.engine.batch import Sequence


class FirstCome(deque[Sequence]):
    """``fcfs``: in order of arrival; the last admitted is preempted, and goes to the head."""

    def put(self, sequence: Sequence) -> None:
        """A new request."""
        self.append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """A request that was preempted."""
        self.appendleft(sequence)

    def take(self) -> Sequence:
        """Remove and return the head."""
        return self.popleft()

    def victim(self, running: dict[Sequence, None]) -> Sequence:
        """Who is preempted; ``running`` is in order of admission."""
        return next(reversed(running))


class ByPriority(list[Sequence]):
    """``priority``: by (priority, arrival), preempted ones too; the greatest is preempted."""

    def put(self, sequence: Sequence) -> None:
        """A new request."""
        insort(self, sequence, key=urgency)

    def put_back(self, sequence: Sequence) -> None:
        """A request that was preempted."""
        self.put(sequence)

    def take(self) -> Sequence:
        """Remove and return the head."""
        return self.pop(0)

    def victim(self, running: dict[Sequence, None]) -> Sequence:
        """Who is preempted."""
        return max(running, key=urgency)


def urgency(sequence: Sequence) -> tuple[int, int]:
    """Whoever has the least is served first; lower priorities are more urgent, as in vLLM."""
    return sequence.priority, sequence.arrival
