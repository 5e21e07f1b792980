"""A pod: the port that router, pools and metrics polls use, with or without an API server.

``sim.engine.output_processor`` keeps the requests that the pod has accepted,
``sim.engine.core`` takes the steps that serve them. ``FrontedPod`` reads and tokenises a
request before the engine queues it.
"""

from collections.abc import Callable
from functools import partial

from sim.core.content import Prompt
from sim.core.kernel import Kernel, Order
from sim.core.ports import PodObserver, PodPort, PodTotals, Published, peek
from sim.core.request import Attempt, Reason, Status
from sim.engine.core import EngineCore
from sim.engine.lockstep import Lockstep
from sim.engine.output_processor import OutputProcessor, RequestLimits
from sim.engine.scheduling import Scheduling
from sim.engine.steptime import StepCost
from sim.hardware.engine import FrontEnd


class Pod:
    """One engine process with its KV cache; a kind of engine brings its scheduler and limits.

    Pods that step together share a ``lockstep``.
    """

    def __init__(
        self,
        name: str,
        scheduler: Scheduling,
        steptime: StepCost,
        intake: RequestLimits,
        kernel: Kernel,
        lockstep: Lockstep | None = None,
    ) -> None:
        self.name = name
        self._kernel = kernel
        self._scheduler = scheduler
        self._clients = OutputProcessor(intake)
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

    def cached_prefix_tokens(self, prompt: Prompt) -> int | None:
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


class FrontedPod:
    """A pod of any kind behind its API server, which works on any number of requests at once.

    A request costs ``perRequest`` and ``perPromptToken`` for each token of its
    prompt, cached or not: text is tokenised and hashed before anything can be
    found. Until then the engine, its metrics included, does not know of it.
    Where it has as many requests as it may, one more is refused before that; of
    a burst each is looked at when nobody of it counts yet, and again when it is
    tokenised (vllm-project/vllm#58192).
    """

    def __init__(self, pod: PodPort, front_end: FrontEnd, kernel: Kernel) -> None:
        self.name = pod.name
        self._pod = pod
        self._front_end = front_end
        self._kernel = kernel
        self._inside: dict[Attempt, None] = {}  # in the order of submission
        self._on_idle: list[Callable[[], None]] = []  # the engine has been idle, this has not

    def submit(self, attempt: Attempt) -> None:
        """Take an attempt; the engine gets it when the prompt is tokenised, and may refuse it."""
        ask: Callable[[Attempt], bool] | None = getattr(self._pod, "turns_away", None)
        if ask is not None and ask(attempt):
            return
        tokens = attempt.request.prompt.tokens
        takes_s = self._front_end.per_request + self._front_end.per_prompt_token * tokens
        self._inside[attempt] = None
        ready_s = self._kernel.now_s + takes_s
        self._kernel.at(ready_s, Order.ARRIVAL, partial(self._hand_over, attempt))

    def cancel(self, attempt: Attempt) -> None:
        """The client has left: the engine never gets to see what is not tokenised yet."""
        if attempt in self._inside:
            del self._inside[attempt]
            self._ask_again()
        else:
            self._pod.cancel(attempt)

    def given_tokens(self, attempt: Attempt) -> int:
        """Tokens of its answer so far; none before the engine has it."""
        return 0 if attempt in self._inside else self._pod.given_tokens(attempt)

    def published(self, now_s: float) -> Published | None:
        """Answer a metrics poll, of what the engine knows."""
        return self._pod.published(now_s)

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of the engine."""
        return self._pod.totals(now_s)

    def watch(self, observer: PodObserver) -> None:
        """The steps are those of the engine."""
        self._pod.watch(observer)

    def report(self) -> None:
        """Tell the observer of what the engine has in flight."""
        self._pod.report()

    def cached_prefix_tokens(self, prompt: Prompt) -> int | None:
        """Leading tokens of ``prompt`` that the engine's cache holds."""
        return peek(self._pod, prompt)

    @property
    def idle(self) -> bool:
        """Whether nobody is here and the engine has nobody."""
        return not self._inside and self._pod.idle

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call once when the engine is idle and nobody is on the way to it."""
        self._pod.when_idle(partial(self._engine_idle, callback))

    def stop(self) -> None:
        """Both end: first those are told who are in the engine, then those who are not yet."""
        inside, self._inside = self._inside, {}
        self._on_idle.clear()
        self._pod.stop()
        for attempt in inside:
            if attempt.status == Status.IN_FLIGHT:
                attempt.break_off(self._kernel.now_s, Reason.CONNECTION_LOST)

    def _hand_over(self, attempt: Attempt) -> None:
        if attempt in self._inside:
            del self._inside[attempt]
            self._pod.submit(attempt)
            self._ask_again()

    def _engine_idle(self, callback: Callable[[], None]) -> None:
        if self._inside:
            self._on_idle.append(callback)
        else:
            callback()

    def _ask_again(self) -> None:
        """Somebody has left for the engine, or for good."""
        callbacks, self._on_idle = self._on_idle, []
        for callback in callbacks:
            self.when_idle(callback)
