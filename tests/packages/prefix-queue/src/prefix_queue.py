"""Requests wait in the router until a pod has room; the pod that should have most of a prompt wins.

The policy predicts what a pod has cached of a session by the last request that ended there. It
holds a request while every pod is full, and rejects prompts above a limit.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sim.core.fields import Model, PositiveDuration, PositiveTokens, whole
from sim.core.registry import family
from sim.core.request import Outcome, Reason, RequestView
from sim.router.placement.ties import ready_pods
from sim.router.views import Decision, Ended, Hold, Place, PodView, PolicyContext, Reject


class PrefixQueueSpec(Model):
    """At most so many requests on each pod, the others wait in the router."""

    kind: Literal["prefix-queue"] = "prefix-queue"
    max_in_flight: Annotated[int, whole(1, 10_000)] = Field(
        default=8, description="Requests that a pod serves at a time."
    )
    ask_again: PositiveDuration = Field(
        default=0.05, description="How long a request is held before the pods are looked at again."
    )
    longest_prompt: PositiveTokens = Field(
        default=1_000_000, description="Longer prompts are rejected with 413."
    )


@family(PrefixQueueSpec)
class PrefixQueue:
    """One instance per proxy and backend."""

    observes: ClassVar[frozenset[type]] = frozenset((Ended,))
    has_home: ClassVar[bool] = True
    reasons: ClassVar[frozenset[str]] = frozenset(("full",))
    tick_interval_s: float | None = None

    def __init__(self, spec: PrefixQueueSpec, context: PolicyContext) -> None:
        self._spec = spec
        self._cached: dict[int, tuple[int, int]] = {}  # pod and tokens, by session key

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Decision:
        """Decide where the request goes; at least one pod is ready."""
        if request.prompt_tokens > self._spec.longest_prompt:
            return Reject(413, "prompt_too_long")
        room = [
            pod for pod in ready_pods(pods.ready) if pods.in_flight[pod] < self._spec.max_in_flight
        ]
        if not room:
            return Hold(now_s + self._spec.ask_again)
        least = min(room, key=lambda pod: (pods.in_flight[pod], pod))
        if request.session_key is None:
            return Place(least, Outcome.UNKEYED, predicted_cached_tokens=0)
        if request.session_key not in self._cached:
            return Place(least, Outcome.NEW, predicted_cached_tokens=0)
        pod, tokens = self._cached[request.session_key]
        if pod in room:
            return Place(pod, Outcome.STICKY, None, min(tokens, request.prompt_tokens))
        reason = "full" if pods.ready[pod] else Reason.NOT_READY
        outcome = Outcome.SPILL if pods.ready[pod] else Outcome.MIGRATED
        return Place(least, outcome, reason, 0)

    def observe(self, fact: Any) -> None:
        """Remember what the pod of a request that has ended should have cached."""
        if fact.request.session_key is not None and fact.status == "completed":
            self._cached[fact.request.session_key] = (fact.pod, fact.request.prompt_tokens)
