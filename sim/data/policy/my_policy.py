"""A placement policy to start from: a session stays on its pod unless that one is much busier.

``MyPolicySpec`` is what a scenario may say: fields in snake_case, which YAML has in camelCase
(``memory_lasts`` is ``memoryLasts``). Field types with units are in ``sim.core.fields``:
``Duration`` and ``PositiveDuration`` (30s, 250ms; seconds in Python), ``Tokens`` and
``PositiveTokens`` (75k), ``Bytes`` and ``PositiveBytes`` (64KiB), ``Probability``, and
``Annotated[int, whole(low, high)]`` or ``Annotated[float, real(low, high)]`` for numbers in a
range; beside them ``bool``, ``Literal[...]`` for a choice of words, and tuples of these. Give each
a default that could be written out, and a description.

``MyPolicy`` decides. What it is told is in ``sim.router.views``; it may not write into what it
sees, and draws at random from ``context.streams`` only, so that a run can be repeated.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sim.core.fields import Model, PositiveDuration, PositiveTokens, whole
from sim.core.registry import family
from sim.core.request import Outcome, Reason, RequestView
from sim.router.placement.ties import draw, least_loaded, ready_pods, tie_stream
from sim.router.views import Place, PodView, PolicyContext


class MyPolicySpec(Model):
    """A session stays on its pod; long prompts and overload send it to the least loaded one."""

    kind: Literal["my-policy"] = "my-policy"
    slack: Annotated[int, whole(0, 10_000)] = Field(
        default=4, description="Requests that its pod may carry beyond the least loaded one."
    )
    long_prompt: PositiveTokens = Field(
        default=200_000, description="From so many tokens on a prompt goes to the least loaded pod."
    )
    memory_lasts: PositiveDuration = Field(
        default=1800.0, description="A session that has been silent for longer is a new one."
    )


@family(MyPolicySpec)
class MyPolicy:
    """One instance per proxy and backend; a proxy that restarts starts with a new one."""

    observes: ClassVar[frozenset[type]] = frozenset()  # facts for observe(): Ended, Tick ...
    has_home: ClassVar[bool] = True  # sessions have a pod of their own, so spills mean something
    tick_interval_s: float | None = None

    def __init__(self, spec: MyPolicySpec, context: PolicyContext) -> None:
        self._spec = spec
        self._ties = tie_stream(context)
        self._last: dict[int, tuple[int, float]] = {}  # pod and time, by session key

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Decide where the request goes; at least one pod is ready."""
        free = least_loaded(pods.in_flight, ready_pods(pods.ready))
        least = draw(self._ties, free)
        key = request.session_key
        if key is None:
            return Place(least, Outcome.UNKEYED)
        pod, used_s = self._last.get(key, (least, now_s))
        known = key in self._last and now_s - used_s <= self._spec.memory_lasts
        if not known:
            place = Place(least, Outcome.NEW)
        elif not pods.ready[pod]:
            place = Place(least, Outcome.MIGRATED, Reason.NOT_READY)
        elif pods.in_flight[pod] <= pods.in_flight[least] + self._allowed(request):
            place = Place(pod, Outcome.STICKY)
        else:
            place = Place(least, Outcome.SPILL, Reason.BOUND)
        self._last[key] = (place.pod, now_s)
        return place

    def observe(self, fact: Any) -> None:
        """Take note of a fact of one of the types in ``observes``: none."""

    def _allowed(self, request: RequestView) -> int:
        return 0 if request.prompt_tokens >= self._spec.long_prompt else self._spec.slack
