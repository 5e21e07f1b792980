"""Loads of members: how long one takes, whether it succeeds, and one that is under way."""

from collections import deque
from collections.abc import Callable, Mapping
from math import ceil
from typing import NamedTuple

from sim.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant
from sim.ports import ProcessPort
from sim.rng import Streams
from sim.scenario.swap import Member


class LoadPlan(NamedTuple):
    """What will become of a load."""

    lasts_s: float
    succeeds: bool


class LoadPlans:
    """What becomes of the loads of the members of ``pool``.

    A load fails when an event says so, by chance (``loadFailure``, one draw
    for each load) or at its ``loadLimit``, whichever comes first.
    """

    def __init__(
        self,
        pool: str,
        members: Mapping[str, Member],
        load_s: Mapping[str, float],
        streams: Streams,
    ) -> None:
        self._members = members
        self._load_s = load_s
        self._draws = {name: streams.scalar(f"pool/{pool}/load/{name}") for name in members}
        self._scripted: dict[str, deque[float]] = {name: deque() for name in members}

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` that no earlier call is about fail."""
        self._scripted[member].extend([after_s] * loads)

    def next(self, member: str) -> LoadPlan:
        """A load of ``member`` begins."""
        load_s = self._load_s[member]
        failures_s = [min(failure_s, load_s) for failure_s in self._failures_s(member, load_s)]
        return LoadPlan(min(failures_s), False) if failures_s else LoadPlan(load_s, True)

    def _failures_s(self, member: str, load_s: float) -> list[float]:
        settings, failures_s = self._members[member], []
        if self._scripted[member]:
            failures_s.append(self._scripted[member].popleft())
        if settings.load_limit is not None and load_s > settings.load_limit:
            failures_s.append(settings.load_limit)
        chance = settings.load_failure
        if chance is not None and self._draws[member].random() < chance.probability:
            failures_s.append(load_s if chance.after is None else chance.after)
        return failures_s


class Loading:
    """One load of one process under way; ``ended(succeeded)`` is called when that is seen.

    It is seen at the first of the polls, every ``poll_s`` from the beginning,
    at or after the end of the load; at the end itself if ``poll_s`` is 0.
    """

    def __init__(
        self,
        kernel: Kernel,
        process: ProcessPort,
        plan: LoadPlan,
        poll_s: float,
        ended: Callable[[bool], None],
    ) -> None:
        self._kernel = kernel
        self._process = process
        self._plan = plan
        self._poll_s = poll_s
        self._ended = ended
        self._start_s = kernel.now_s
        self._over = False  # the load, if not yet seen
        self._cancelled = False
        process.begin_loading()
        kernel.at_instant(self._start_s + plan.lasts_s, Order.STEP_END, self._end)

    def cancel(self) -> None:
        """The load is abandoned, or what it has come to unless that was seen already."""
        self._cancelled = True
        self._process.stop()

    def lost(self) -> None:
        """The process has been stopped from outside."""
        if not self._over:
            self._finish()

    def _end(self) -> None:
        if self._cancelled or self._over:
            return
        if self._plan.succeeds:
            self._process.start()
        else:
            self._process.stop()
        self._finish()

    def _finish(self) -> None:
        self._over = True
        if self._poll_s == 0:
            self._see()
            return
        since_s = instant(self._kernel.now_s - self._start_s)
        polls = max(1, ceil((since_s - BOUNDARY_TOLERANCE_S) / self._poll_s))
        seen_s = self._start_s + polls * self._poll_s
        self._kernel.at_instant(seen_s, Order.READINESS, self._see)

    def _see(self) -> None:
        if not self._cancelled:
            self._ended(self._process.ready)
