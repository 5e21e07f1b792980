"""A member that comes and goes beside others: down, loading, ready, stopping; its idle time."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf

from sim.core.kernel import Kernel, Order
from sim.core.ports import PoolContext, ProcessPort
from sim.pool.loading import Drain, Loading, LoadPlans


class Idleness:
    """Calls ``expired(member)`` when a member has been idle for as long as was said."""

    def __init__(self, kernel: Kernel, expired: Callable[[str], None]) -> None:
        self._kernel = kernel
        self._expired = expired
        self._spells: dict[str, int] = {}  # the idle spell of each member that is idle
        self._number = 0

    def begin(self, member: str, lasts_s: float) -> None:
        """It is idle from now on; a spell that was running is over."""
        self._number += 1
        number = self._spells[member] = self._number

        def due() -> None:
            if self._spells.get(member) == number:
                del self._spells[member]
                self._expired(member)

        self._kernel.at_instant(self._kernel.now_s + lasts_s, Order.RECLAIM, due)

    def end(self, member: str) -> None:
        """It has something to do, or is not there any more."""
        self._spells.pop(member, None)


class State(Enum):
    """What a member is."""

    DOWN = auto()
    LOADING = auto()
    READY = auto()
    STOPPING = auto()


@dataclass(frozen=True)
class Callbacks:
    """Who is told of a member, by its name.

    ``loaded(member, ready)`` says that a load is over, ``stopped(member)``
    that what ``Runner.stop`` has asked for is done.
    """

    loaded: Callable[[str, bool], None]
    stopped: Callable[[str], None]


class Runner:
    """The process of ``member``; knows no other, and no requests.

    Stopping is to drain and to unload. Neither is done before ``stop`` returns.
    """

    def __init__(
        self,
        kernel: Kernel,
        member: str,
        process: ProcessPort,
        plans: LoadPlans,
        told: Callbacks,
    ) -> None:
        self._kernel = kernel
        self._member = member
        self._process = process
        self._plans = plans
        self._told = told
        self._loading: Loading | None = None
        self._drain: Drain | None = None
        self._until_s = inf  # when what stops is killed
        self.state = State.DOWN
        self.drained_s = 0.0  # when nobody was in it any more, at its last end

    @property
    def ready(self) -> bool:
        """Whether it serves and is to go on serving."""
        return self.state is State.READY

    def place(self) -> None:
        """It is ready, without a load."""
        self._plans.new_process(self._member)
        self._process.start()
        self.state = State.READY

    def load(self) -> None:
        """A load begins; it must be down."""
        assert self.state is State.DOWN
        self.state = State.LOADING
        plan = self._plans.next(self._member)
        self._loading = Loading(self._kernel, self._process, plan, 0.0, self._loaded)

    def abort(self) -> None:
        """The load under way is given up: it is down at once, and nobody is told."""
        assert self._loading is not None
        loading, self._loading = self._loading, None
        self.state = State.DOWN
        self.drained_s = self._kernel.now_s
        loading.cancel()

    def stop(self, grace_s: float = inf) -> None:
        """It ends when nobody is in it any more; after ``grace_s`` it is killed and is gone."""
        assert self.ready
        self.state = State.STOPPING
        self._until_s = self._kernel.now_s + grace_s
        drain = Drain(self._kernel, self._process, 0.0, False, self._drained)
        self._drain = drain
        if grace_s < inf:
            self._kernel.at_instant(self._until_s, Order.IDLE_PROBE, lambda: self._cut_off(drain))

    def lost(self) -> None:
        """Its pod is gone; the process has been stopped already."""
        self._plans.new_process(self._member)
        if self._loading is not None:
            self._loading.lost()
        elif self._drain is not None:
            self._drain.lost()
        elif self.ready:
            self.state = State.DOWN
            self.drained_s = self._kernel.now_s

    def _loaded(self, ready: bool) -> None:
        self._loading = None
        self.state = State.READY if ready else State.DOWN
        self.drained_s = self._kernel.now_s
        self._told.loaded(self._member, ready)

    def _cut_off(self, drain: Drain) -> None:
        if self._drain is drain:
            drain.cancel()
            self._drained()

    def _drained(self) -> None:
        self._drain = None
        self.drained_s = self._kernel.now_s
        if not self._process.ready:
            self._stopped()
            return
        unloaded_s = self.drained_s + self._plans.unload_s(self._member)
        gone_s = min(unloaded_s, max(self._until_s, self.drained_s))
        self._kernel.at_instant(gone_s, Order.STEP_END, self._stopped)
        self._process.stop()

    def _stopped(self) -> None:
        self.state = State.DOWN
        self._told.stopped(self._member)


def runners(context: PoolContext, plans: LoadPlans, told: Callbacks) -> dict[str, Runner]:
    """One for each member of a pool."""
    return {
        member: Runner(context.kernel, member, process, plans, told)
        for member, process in context.processes.items()
    }
