"""A pod as others see it: the port to the router, to pools and to polls.

``sim.engine.clients`` are those who sent it something, and are told what became of it.
``sim.engine.core`` takes the steps that serve them.
"""

from collections.abc import Callable

from sim.core.content import Prompt
from sim.core.kernel import Kernel
from sim.core.ports import PodObserver, PodTotals, Published, peek
from sim.core.request import Attempt
from sim.engine.clients import Clients
from sim.engine.core import EngineCore
from sim.engine.intake import Intake
from sim.engine.lockstep import Lockstep
from sim.engine.scheduling import Scheduling
from sim.engine.steptime import StepTime


class Pod:
    """One engine process with its KV cache; a kind of engine brings its scheduler and limits.

    Pods that step together share a ``lockstep``.
    """

    def __init__(
        self,
        name: str,
        scheduler: Scheduling,
        steptime: StepTime,
        intake: Intake,
        kernel: Kernel,
        lockstep: Lockstep | None = None,
    ) -> None:
        self.name = name
        self._kernel = kernel
        self._scheduler = scheduler
        self._clients = Clients(intake)
        self._lockstep = lockstep or Lockstep(kernel)
        self._core = EngineCore(name, scheduler, steptime, self._clients, kernel, self._lockstep)

    def submit(self, attempt: Attempt) -> None:
        """Queue an attempt, or refuse it at once.

        HTTP 400 for a prompt that can never be served, 503 when the pod has
        as many requests or prompt tokens as it may.
        """
        clients = self._clients
        limit = clients.take_on(attempt, self._kernel.now_s)
        if limit is not None:
            clients.add(self._scheduler.enqueue(attempt, limit))
            self._lockstep.arrived()

    def turns_away(self, attempt: Attempt) -> bool:
        """Whether ``attempt`` is refused before its prompt is read; see ``FrontedPod``."""
        return self._clients.turn_away(attempt, self._kernel.now_s)

    def cancel(self, attempt: Attempt) -> None:
        """Forget an attempt whose client has left."""
        self._core.leave(self._clients.remove(attempt))

    def given_tokens(self, attempt: Attempt) -> int:
        """Tokens of its answer so far."""
        return self._core.given_tokens(self._clients.sequence(attempt))

    def published(self, now_s: float) -> Published:
        """What a metrics poll reads: the state after the last finished step."""
        gauges, scheduler = self._core.gauges, self._scheduler
        waiting, running, held = gauges.waiting, gauges.running, gauges.held
        done = self._lockstep.steps_done(now_s)
        if done:
            waiting, running = gauges.scheduled, len(scheduler.running)
            held = scheduler.held + scheduler.batch.blocks_for(done)
        return Published(waiting, running, held / scheduler.capacity)

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all up to ``now_s``, which must be the present instant."""
        core, lockstep, scheduler = self._core, self._lockstep, self._scheduler
        done = lockstep.steps_taken(now_s)
        return PodTotals(
            core.emitted_tokens(done),
            core.computed_tokens,
            scheduler.recomputed_tokens,
            scheduler.preemptions,
            lockstep.finished_steps + done,
            lockstep.busy_s(now_s),
        )

    def watch(self, observer: PodObserver) -> None:
        """Tell ``observer`` of every step or span when it is over."""
        self._core.observer = observer

    def report(self) -> None:
        """Tell the observer, if any, of the step or span in flight, up to its planned end."""
        self._core.report()

    def held_tokens(self, prompt: Prompt) -> int | None:
        """Leading tokens of ``prompt`` that its cache holds; see ``sim.core.ports.peek``."""
        return peek(self._scheduler, prompt)

    def stop(self) -> None:
        """The process ends, with that of the other ranks: what is in it breaks off."""
        self._lockstep.stop()

    @property
    def idle(self) -> bool:
        """Whether nobody is here, nor in a step for nothing, and all that ended have been told."""
        return self._core.idle

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call once: now, or at the end of the step after which nobody is here."""
        self._core.when_idle(callback)
