"""The physical side of a pool: one place for one member, and how it changes hands.

Knows processes and a clock, no requests. Changing hands is to drain the
incumbent, to unload it, to load the other. At most one member is ready, and
none is loaded before the other is gone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sim.core.kernel import Kernel, Order
from sim.core.ports import PoolEvent, ProcessPort
from sim.pool.loading import Drain, Loading, LoadPlans


@dataclass(frozen=True)
class SlotTiming:
    """How the slot sees things, in seconds; 0 is at once."""

    idle_probe_s: float
    always_idle: bool
    ready_poll_s: float


Phase: TypeAlias = Literal["drain_s", "unload_s", "load_s"]
"""What a change of hands consists of, by the column that has its seconds."""


@dataclass(slots=True, eq=False)
class _Change:
    """A change of hands under way: its target, the row it is written to, its present phase."""

    target: str
    event: PoolEvent
    phase: Phase | None = None
    since_s: float = 0.0

    def enter(self, phase: Phase | None, now_s: float) -> None:
        """The next phase begins, or none; the one before, if any, is written down."""
        if self.phase is not None:
            setattr(self.event, self.phase, now_s - self.since_s)
        self.phase, self.since_s = phase, now_s


class ExclusiveSlot:
    """One exclusive place; ``ended(ready)`` is called when a change of hands is over.

    It is called as an event of its own, never before ``swap_to`` returns, and
    not for a change that was aborted.
    """

    def __init__(
        self,
        kernel: Kernel,
        processes: Mapping[str, ProcessPort],
        plans: LoadPlans,
        timing: SlotTiming,
        ended: Callable[[bool], None],
    ) -> None:
        self._kernel = kernel
        self._processes = processes
        self._plans = plans
        self._timing = timing
        self._ended = ended
        self._occupant: str | None = None  # placed here or seen to be ready, not yet unloading
        self._change: _Change | None = None
        self._drain: Drain | None = None
        self._loading: tuple[str, Loading] | None = None
        self._unloading = False

    @property
    def resident(self) -> str | None:
        """The member that is ready, a draining one included."""
        occupant = self._occupant
        return occupant if occupant is not None and self._processes[occupant].ready else None

    def place(self, member: str) -> None:
        """``member`` is there from the start."""
        self._occupant = member
        self._plans.new_process(member)
        self._processes[member].start()

    def swap_to(self, member: str, event: PoolEvent) -> None:
        """Drain whoever is there, unload it, load ``member``; what was under way is aborted.

        An unload under way runs to its end first.
        """
        self.abort()
        self._change = change = _Change(member, event)
        if self._unloading:
            change.enter("unload_s", self._kernel.now_s)
        elif self.resident is None:
            self._load(change)
        elif self.resident == member:
            self._kernel.at(self._kernel.now_s, Order.READINESS, lambda: self._finish(change))
        else:
            change.enter("drain_s", self._kernel.now_s)
            self._drain = Drain(
                self._kernel,
                self._processes[self.resident],
                self._timing.idle_probe_s,
                self._timing.always_idle,
                self._drained,
            )

    def abort(self) -> None:
        """Give up what is under way: a draining incumbent stays, a load frees the slot at once.

        An unload runs to its end, which leaves the slot cold.
        """
        if self._change is not None:
            self._change.enter(None, self._kernel.now_s)
            self._change = None
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None
        if self._loading is not None:
            _, loading = self._loading
            self._loading = None
            loading.cancel()

    def lost(self, member: str) -> bool:
        """The pod of ``member`` is gone; its process has been stopped already.

        Returns whether it was resident, and not about to be swapped out.
        """
        self._plans.new_process(member)
        if self._loading is not None and self._loading[0] == member:
            self._loading[1].lost()
        elif member == self._occupant:
            if self._drain is None:
                self._occupant = None
                return True
            self._drain.lost()
        return False

    def _drained(self) -> None:
        assert self._change is not None and self._occupant is not None
        incumbent, self._occupant = self._occupant, None
        self._drain = None
        process = self._processes[incumbent]
        if not process.ready:
            self._load(self._change)
            return
        self._unloading = True
        self._change.enter("unload_s", self._kernel.now_s)
        unloaded_s = self._kernel.now_s + self._plans.unload_s(incumbent)
        self._kernel.at_instant(unloaded_s, Order.STEP_END, self._unloaded)
        process.stop()

    def _unloaded(self) -> None:
        self._unloading = False
        if self._change is not None:
            self._load(self._change)

    def _load(self, change: _Change) -> None:
        change.enter("load_s", self._kernel.now_s)
        member = change.target
        process, plan = self._processes[member], self._plans.next(member)
        loading = Loading(self._kernel, process, plan, self._timing.ready_poll_s, self._loaded)
        self._loading = (member, loading)

    def _loaded(self, ready: bool) -> None:
        assert self._change is not None and self._loading is not None
        if ready:
            self._occupant = self._change.target
        self._loading = None
        self._finish(self._change)

    def _finish(self, change: _Change) -> None:
        if self._change is change:
            change.enter(None, self._kernel.now_s)
            self._change = None
            self._ended(self.resident == change.target)
