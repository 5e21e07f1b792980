"""The API server in front of an engine: a request is read and tokenised before it is queued."""

from collections.abc import Callable
from functools import partial

from sim.core.content import Prompt
from sim.core.kernel import Kernel, Order
from sim.core.ports import PodObserver, PodPort, PodTotals, Published, peek
from sim.core.request import Attempt, Reason, Status
from sim.hardware.engine import FrontEnd


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

    def held_tokens(self, prompt: Prompt) -> int | None:
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
