"""Policies without memory: they know which pods are ready and, some, how busy they are."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Literal

from pydantic import Field

from sim.core.fields import Model
from sim.core.registry import family
from sim.core.request import Outcome, RequestView
from sim.router.placement.ties import Rotation, draw, least_loaded, ready_pods, tie_stream
from sim.router.views import Place, PodView, PolicyContext


class LeastLoadedSpec(Model):
    """Fewest requests in flight from this proxy."""

    kind: Literal["least-loaded"] = "least-loaded"
    ties: Literal["rotate", "random", "first-index"] = Field(
        default="rotate",
        description="Who gets the request when several pods carry the least: each in turn, "
        "a seeded random one, or the first (which sends everything to pod 0 under light load).",
    )


class RoundRobinSpec(Model):
    """Each ready pod in turn."""

    kind: Literal["round-robin"] = "round-robin"


class PowerOfTwoSpec(Model):
    """Of two random ready pods the one with fewer requests in flight."""

    kind: Literal["power-of-two"] = "power-of-two"


class RandomSpec(Model):
    """A random ready pod."""

    kind: Literal["random"] = "random"


@family(LeastLoadedSpec)
class LeastLoaded:
    """Fewest requests in flight; ties as the spec says."""

    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None

    def __init__(self, spec: LeastLoadedSpec, context: PolicyContext) -> None:
        ways: dict[str, Callable[[Sequence[int]], int]] = {
            "rotate": Rotation().take,
            "random": partial(draw, tie_stream(context)),
            "first-index": itemgetter(0),
        }
        self._break_tie = ways[spec.ties]

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on one of the least-loaded ready pods."""
        tied = least_loaded(pods.in_flight, ready_pods(pods.ready))
        return Place(self._break_tie(tied), Outcome.PLACED)

    def observe(self, fact: Any) -> None:
        """Nothing to note: loads are read when a request comes."""


@family(RoundRobinSpec)
class RoundRobin:
    """Each ready pod in turn; a pod that leaves or comes back does not restart the turn."""

    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None

    def __init__(self, spec: RoundRobinSpec, context: PolicyContext) -> None:
        self._rotation = Rotation()

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on the next ready pod."""
        return Place(self._rotation.take(ready_pods(pods.ready)), Outcome.PLACED)

    def observe(self, fact: Any) -> None:
        """Nothing to note: readiness is read when a request comes."""


@family(PowerOfTwoSpec)
class PowerOfTwo:
    """Two distinct random ready pods, the one with fewer in flight; a tie is a fair coin."""

    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None

    def __init__(self, spec: PowerOfTwoSpec, context: PolicyContext) -> None:
        self._stream = tie_stream(context)

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on the better of two random pods."""
        among = ready_pods(pods.ready)
        first = draw(self._stream, among)
        if len(among) == 1:
            return Place(first, Outcome.PLACED)
        among.remove(first)
        second = draw(self._stream, among)
        # Either of the two was as likely to be drawn first, so keeping it is fair.
        fewer = second if pods.in_flight[second] < pods.in_flight[first] else first
        return Place(fewer, Outcome.PLACED)

    def observe(self, fact: Any) -> None:
        """Nothing to note: loads are read when a request comes."""


@family(RandomSpec)
class Random:
    """Any ready pod with the same chance."""

    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None

    def __init__(self, spec: RandomSpec, context: PolicyContext) -> None:
        self._stream = tie_stream(context)

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on a random ready pod."""
        return Place(draw(self._stream, ready_pods(pods.ready)), Outcome.PLACED)

    def observe(self, fact: Any) -> None:
        """Nothing to note: readiness is read when a request comes."""
