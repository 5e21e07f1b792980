"""Loads of a member: how long one takes, whether it succeeds, and the drain before it."""

from collections import deque
from collections.abc import Callable, Mapping
from math import ceil, inf
from typing import NamedTuple

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant
from sim.core.ports import PoolContext, ProcessPort
from sim.hardware.loading import Member


class Drain:
    """Calls ``drained`` once the process is idle or gone, at an idle probe.

    The first probe is at the instant of its making, the next ones every
    ``interval_s`` while somebody is there. With an interval of 0 the end is
    seen when it comes. While the process does not answer its idle probe
    somebody may be there, so it counts as busy (LLMKube's fails closed).
    """

    def __init__(
        self,
        kernel: Kernel,
        process: ProcessPort,
        interval_s: float,
        always_idle: bool,
        drained: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._process = process
        self._interval_s = interval_s
        self._always_idle = always_idle
        self._drained = drained
        self._start_s = kernel.now_s
        self._probes = 0
        self._over = False
        self._probe_now()

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self._over = True

    def lost(self) -> None:
        """The process is gone, and with it whoever was there."""
        if not self._over:
            self._over = True
            self._drained()

    def _probe_now(self) -> None:
        # Never within the callback that made it idle, which may be a step of the process itself.
        self._kernel.at(self._kernel.now_s, Order.IDLE_PROBE, self._probe)

    def _probe(self) -> None:
        if self._over:
            return
        silent_s = self._process.silent_until_s["idle"]
        silent = silent_s > self._kernel.now_s + BOUNDARY_TOLERANCE_S
        if self._always_idle or not self._process.ready or (self._process.idle and not silent):
            self._over = True
            self._drained()
        elif self._interval_s == 0 and not silent:
            self._process.when_idle(self._probe_now)
        elif self._interval_s == 0:
            if silent_s < inf:
                self._kernel.at_instant(silent_s, Order.IDLE_PROBE, self._probe)
        else:
            self._probes += 1
            next_s = self._start_s + self._probes * self._interval_s
            self._kernel.at_instant(next_s, Order.IDLE_PROBE, self._probe)


class LoadPlan(NamedTuple):
    """What will become of a load: it comes to an end after ``lasts_s``, perhaps never.

    One that is not seen to be ready after ``limit_s`` fails then.
    """

    lasts_s: float
    succeeds: bool
    limit_s: float = inf


class LoadPlans:
    """What becomes of the loads and unloads of the members of ``pool``.

    A load fails when an event says so or by chance (``loadFailure``, one draw
    for each load), whichever comes first; until then it is not ready. One that
    lasts longer than its ``loadLimit``, or makes no progress for ``stall_s``,
    fails then.

    The first unload of a process may take longer than the later ones. Who is
    not there at the start has been unloaded before.
    """

    def __init__(
        self,
        pool: str,
        members: Mapping[str, Member],
        context: PoolContext,
        stall_s: float = inf,
    ) -> None:
        self._members = members
        self._context = context
        self._stall_s = stall_s
        streams = context.streams
        self._draws = {name: streams.scalar(f"pool/{pool}/load/{name}") for name in members}
        self._scripted: dict[str, deque[float]] = {name: deque() for name in members}
        self._never_unloaded: set[str] = set()

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` that no earlier call is about fail."""
        self._scripted[member].extend([after_s] * loads)

    def new_process(self, member: str) -> None:
        """The process of ``member`` has never been unloaded."""
        self._never_unloaded.add(member)

    def unload_s(self, member: str) -> float:
        """An unload of ``member`` begins: how long it takes."""
        unload_s = self._context.unload_s[member]
        if member in self._never_unloaded:
            self._never_unloaded.remove(member)
            unload_s += self._context.pinning_s.get(member, 0.0)
        return unload_s

    def next(self, member: str) -> LoadPlan:
        """A load of ``member`` begins."""
        load_s = self._context.load_s[member]
        failures_s = self._failures_s(member, load_s)
        lasts_s = min(failures_s, default=load_s)
        progress_s = load_s if lasts_s <= load_s else 0.0  # one that hangs makes none
        limit_s = min(self._members[member].load_limit or inf, progress_s + self._stall_s)
        plan = LoadPlan(lasts_s, not failures_s, limit_s)
        if lasts_s > limit_s:
            plan = LoadPlan(limit_s, False, limit_s)
        if not plan.succeeds:
            self.new_process(member)
        return plan

    def _failures_s(self, member: str, load_s: float) -> list[float]:
        failures_s = [self._scripted[member].popleft()] if self._scripted[member] else []
        chance = self._members[member].load_failure
        if chance is not None and self._draws[member].random() < chance.probability:
            failures_s.append(load_s if chance.after is None else chance.after)
        return failures_s


class Loading:
    """One load of one process under way; ``ended(succeeded)`` is called when that is seen.

    It is seen at the first of the polls, every ``poll_s`` from the beginning,
    at or after the end of the load; at the end itself if ``poll_s`` is 0. A
    process whose readiness probe does not answer is not ready until it does.
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
        self._look_at(self._start_s + plan.lasts_s)

    def cancel(self) -> None:
        """The load is abandoned, or what it has come to unless that was seen already."""
        self._cancelled = True
        self._process.stop()

    def lost(self) -> None:
        """The process has been stopped from outside."""
        if not self._over:
            self._finish()

    def _look_at(self, time_s: float) -> None:
        if time_s < inf:
            self._kernel.at_instant(time_s, Order.STEP_END, self._end)

    def _end(self) -> None:
        if self._cancelled or self._over:
            return
        now_s, limit_s = self._kernel.now_s, self._start_s + self._plan.limit_s
        silent_s = self._process.silent_until_s["readiness"]
        if not self._plan.succeeds:
            self._process.stop()
        elif silent_s <= now_s + BOUNDARY_TOLERANCE_S:
            self._process.start()
        elif now_s < limit_s - BOUNDARY_TOLERANCE_S:
            self._look_at(min(silent_s, limit_s))
            return
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
