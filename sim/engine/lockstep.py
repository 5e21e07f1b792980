"""When the steps of the ranks of one engine start and end: all at once.

The data-parallel ranks of a mixture-of-experts model exchange tokens in every
MoE layer, so a step of one is a step of all: it lasts as long as the slowest
rank's, and a rank without work runs an empty one meanwhile. When nobody has
work nobody steps. A pod that shares its steps with nobody is a lockstep of one.

Between two changes of a batch the ranks coast: a *span* is any number of decode
steps in closed form, up to the next completion, to the step whose KV blocks are
not there, or to the step at which another rank becomes the slowest. An arrival
or a cancellation, at whichever rank, cuts it at a step boundary. Steps that
prefill or that are short of blocks go one at a time, for all ranks.
"""

from functools import partial
from typing import Protocol

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order
from sim.engine.steptime import Span, slowest


class Rank(Protocol):
    """What takes steps: a scheduler with its queue, batch and KV cache."""

    def steps_ahead(self) -> int | None:
        """How many decode steps need no scheduling; None when nobody runs or waits here."""

    def span(self, start_s: float) -> Span:
        """Begin decode steps without scheduling; how long they would last on their own."""

    def schedule(self, start_s: float) -> float | None:
        """Begin one step; how many seconds it would last on its own, None for an empty one."""

    def finish(self, steps: int, end_s: float) -> None:
        """The last ``steps`` steps begun have ended."""

    def halt(self, steps: int) -> None:
        """Of the steps begun ``steps`` have ended, and no other ever will."""

    def hang_up(self) -> None:
        """All ranks have been halted: tell those who were here."""


class Lockstep:
    """Starts and ends the steps of its ranks, which are in the order of their joining."""

    def __init__(self, kernel: Kernel) -> None:
        self.steps = 0  # in flight: 0 when idle
        self.finished_steps = 0
        self._kernel = kernel
        self._ranks: list[Rank] = []
        self.start_s = 0.0  # of the step or span in flight
        self.end_s = 0.0  # of the step or span in flight, as planned or cut
        self._span: Span | None = None  # what is in flight when it is a span
        self._plan = 0  # number of the present plan: wake-ups of older ones are stale
        self._planning = False  # a planning event is on its way
        self._busy_s = 0.0

    def join(self, rank: Rank) -> None:
        """Take in a rank, before anything has been sent to it."""
        self._ranks.append(rank)

    def arrived(self) -> None:
        """A rank has something new in its queue."""
        if self.steps == 0:
            self._plan_at(self._kernel.now_s)
        elif self._span is not None:
            self._cut_for_arrival(self._span)

    def left(self) -> None:
        """A client has left: what it held is free at the end of the step in flight."""
        if self._span is not None:
            self._cut(self._span, self._span.steps_until(self._kernel.now_s) + 1)

    def stop(self) -> None:
        """The process of all ranks ends now, in the middle of what is in flight."""
        now_s = self._kernel.now_s
        ranks, ended = tuple(self._ranks), self.steps_taken(now_s)
        for rank in ranks:
            rank.halt(ended)
        self.finished_steps += ended
        self._busy_s = self.busy_s(now_s)
        self.steps = 0
        self._span = None
        self._plan += 1
        self._ranks.clear()  # what has been planned finds nobody
        for rank in ranks:
            rank.hang_up()

    @property
    def stopped(self) -> bool:
        """Whether its process has ended."""
        return not self._ranks

    def steps_done(self, now_s: float) -> int:
        """How many steps of the span in flight have ended at ``now_s``."""
        return 0 if self._span is None else min(self._span.steps_until(now_s), self.steps)

    def steps_begun(self, now_s: float) -> int:
        """How many of the steps in flight have begun before ``now_s``, if any of them has."""
        return (
            self.steps
            if self._span is None
            else min(self._span.steps_before(now_s) + 1, self.steps)
        )

    def steps_taken(self, now_s: float) -> int:
        """How many steps of the span in flight have ended, ``now_s`` being the present instant.

        One that ends at this very instant counts from its turn in the order of events on: not
        where a window opens or the horizon lies, but where a client leaves.
        """
        if self._span is None:
            return 0
        span, ended = self._span, self._kernel.phase >= Order.STEP_END
        return min(span.steps_until(now_s) if ended else span.steps_before(now_s), self.steps)

    def busy_s(self, now_s: float) -> float:
        """Seconds before ``now_s``, which is the present, in which there was a step in flight."""
        return self._busy_s + (now_s - self.start_s if self.steps else 0.0)

    # -- planning -------------------------------------------------------------------------

    def _plan_at(self, start_s: float) -> None:
        """Plan the step that starts at ``start_s``, after everything else of this instant."""
        if not self._planning:
            self._planning = True
            self.start_s = start_s
            self._kernel.at(self._kernel.now_s, Order.PLANNING, self._planned)

    def _plan_next(self, start_s: float) -> None:
        """Plan now if nothing else is due within the tolerance of this boundary, else after it."""
        due_s = self._kernel.next_s()
        if due_s > start_s + BOUNDARY_TOLERANCE_S:
            self._begin(start_s)
        else:
            self._planning = True
            self.start_s = start_s
            self._kernel.at(max(due_s, self._kernel.now_s), Order.PLANNING, self._planned)

    def _planned(self) -> None:
        self._planning = False
        self._begin(self.start_s)

    def _begin(self, start_s: float) -> None:
        """Start the next step or span of all ranks at ``start_s``, if any of them has work."""
        self._plan += 1
        self.start_s = start_s
        if len(self._ranks) == 1:
            self._begin_alone(self._ranks[0], start_s)
        else:
            self._begin_together(self._ranks, start_s)

    def _begin_alone(self, rank: Rank, start_s: float) -> None:
        steps = rank.steps_ahead()
        if steps:
            self.steps = steps
            self._span = rank.span(start_s)
            self._wake_at(self._span.end_s(steps))
        elif steps is not None:
            lasts_s = rank.schedule(start_s)
            if lasts_s is not None:
                self.steps = 1
                self._wake_at(start_s + lasts_s)

    def _begin_together(self, ranks: list[Rank], start_s: float) -> None:
        ahead = [rank.steps_ahead() for rank in ranks]
        known = [steps for steps in ahead if steps is not None]
        if not known:
            return
        # An empty step never decides: what it costs every step does.
        if all(known):
            spans = [rank.span(start_s) for rank in ranks]
            working = [span for span, steps in zip(spans, ahead) if steps is not None]
            self._span, self.steps = slowest(working, min(known))
            self._wake_at(self._span.end_s(self.steps))
            return
        lasting_s = [each for rank in ranks if (each := rank.schedule(start_s)) is not None]
        if lasting_s:
            self.steps = 1
            self._wake_at(start_s + max(lasting_s))

    def _wake_at(self, end_s: float) -> None:
        self.end_s = end_s
        # A step that began up to the tolerance ago may be over already.
        wake_s = max(end_s, self._kernel.now_s)
        self._kernel.at(wake_s, Order.STEP_END, partial(self._woken, self._plan))

    # -- the end of a step or span --------------------------------------------------------

    def _woken(self, plan: int) -> None:
        if plan == self._plan:
            self._finish()
            self._plan_next(self.end_s)

    def _finish(self) -> None:
        """What is in flight takes effect at its end."""
        steps, end_s = self.steps, self.end_s
        self.finished_steps += steps
        self._busy_s += end_s - self.start_s
        self.steps = 0
        self._span = None
        for rank in self._ranks:
            rank.finish(steps, end_s)

    def _cut(self, span: Span, steps: int) -> None:
        """End the span in flight after ``steps`` steps instead of where it was planned to end."""
        if steps < self.steps:
            self._plan += 1
            self.steps = steps
            self._wake_at(span.end_s(steps))

    def _cut_for_arrival(self, span: Span) -> None:
        """An arrival is taken in at the next step boundary, or at the one it has just met.

        What arrives because a client has left at this very instant is too late
        for the step that starts at it: planning came before the client left.
        """
        now_s = self._kernel.now_s
        done = self.steps_done(now_s)
        boundary_s = span.end_s(done)
        too_late = self._kernel.phase > Order.PLANNING
        if too_late or now_s - boundary_s > BOUNDARY_TOLERANCE_S:
            self._cut(span, done + 1)
        elif done < self.steps:
            self._plan += 1
            self.steps = done
            self.end_s = boundary_s
            if done:
                self._finish()
            self._span = None
            self._plan_at(boundary_s)
