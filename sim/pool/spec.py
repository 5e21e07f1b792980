"""The settings of a pool of kind ``model-pool``.

The defaults are LLMKube's, where it has such a setting, else what it does without one.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field
from pydantic.alias_generators import to_camel

from sim.core.errors import Fault
from sim.core.fields import (
    DURATION,
    MAX_DURATION_S,
    Duration,
    Model,
    Name,
    PositiveDuration,
    Quantity,
    whole,
)
from sim.core.rules import Problem, rule
from sim.hardware.loading import SwapTimes
from sim.scenario.pool import Pool, RouterSide

COLD: Final = "cold"
DEFAULT_RECLAIM_POLL_S: Final = 30.0
MAX_REQUESTS: Final = 1_000_000

UNBUDGETED_SWAP_S: Final = 240.0
"""Bound of a swap without a swapBudget: twice the default timeout to response headers."""

ProbeInterval: TypeAlias = Annotated[
    float, Quantity("a duration", "3s or 100ms", DURATION, 0.01, MAX_DURATION_S, or_zero=True)
]
"""Seconds from one look to the next; 0 sees everything at once."""

ReclaimTime: TypeAlias = Annotated[
    float, Quantity("a duration", "300s", DURATION, 0.01, MAX_DURATION_S)
]
"""Seconds of idleness; two members that took turns every nanosecond would serve nobody."""

WaitLimit: TypeAlias = Annotated[
    float, Quantity("a duration", "60s", DURATION, 0.001, MAX_DURATION_S)
]
"""Seconds; longer than an instant, or nobody would be granted between two swaps."""


class Compat(Model):
    """What LLMKube answered before it was fixed."""

    swap_deadline_status: Literal[502, 503] = Field(
        default=503, description="HTTP status when the swap bound ends before the hold."
    )
    all_busy_status: Literal[502, 503] = Field(
        default=503, description="HTTP status when every backend of a rule was skipped as busy."
    )
    tie_order: Literal["swap-first", "hold-first", "random"] = Field(
        default="swap-first",
        description="Which ends first when a swap bound and holds end at the same instant.",
    )


class ExclusivePool(Pool):
    """One slot whose members take turns: what kinds of such pools have in common."""

    knows_if_idle: ClassVar[bool] = True

    swap_policy: Literal["sticky", "reclaim"] = Field(
        default="sticky",
        description="sticky: the member used last stays; reclaim: the default comes back.",
    )
    default: Name | None = Field(
        default=None,
        description="Member that warms a pool which is cold at the start, and that reclaim "
        "brings back.",
    )
    reclaim_after: ReclaimTime = Field(
        default=300.0, description="Idle time after which reclaim brings the default back."
    )
    reclaim_poll: ProbeInterval | None = Field(
        default=None,
        description="Time between two looks whether the resident is idle, for reclaim; "
        "reclaimAfter, at most 30s, when missing; 0 is exact.",
    )
    initial: Name | None = Field(
        default=None,
        description="Member that is ready at the start, or cold; the default when missing.",
    )
    swap_budget: PositiveDuration | None = Field(
        default=300.0,
        description="Bounds each hold and each swap; null for none: then the response header "
        "timeout bounds holds, and 240s swaps.",
    )
    order: Literal["coalesce", "fifo"] = Field(
        default="coalesce",
        description="fifo: only the oldest attempt may be granted or start a swap.",
    )
    wake_order: Literal["joining", "random"] = Field(
        default="joining", description="Order in which held attempts are looked at again."
    )
    grant_target_waiters_first: bool = Field(
        default=True,
        description="After a swap those who wait for its target are granted before others are "
        "looked at.",
    )
    max_in_flight: Annotated[int, whole(1, MAX_REQUESTS)] | None = Field(
        default=None, description="Attempts in flight per member; others are held."
    )
    max_held: Annotated[int, whole(0, MAX_REQUESTS)] | None = Field(
        default=None,
        description="Attempts held per member beside maxInFlight; others get 503 at once.",
    )
    max_wait: WaitLimit | None = Field(
        default=None,
        description="Once an attempt for another member has waited this long, nothing more is "
        "granted to the resident until it was served.",
    )
    idle_probe: Literal["exact", "always-idle"] = Field(
        default="exact",
        description="always-idle: an image without a probe, which is cut off mid-request.",
    )
    idle_probe_interval: ProbeInterval = Field(
        default=3.0, description="Time between two probes whether the incumbent is idle."
    )
    ready_poll_interval: ProbeInterval = Field(
        default=1.0, description="Time between two looks whether a load is over."
    )
    belief_recheck: Duration = Field(
        default=5.0,
        description="Age after which the next attempt has the proxy check who is resident.",
    )
    recheck_on_error: bool = Field(
        default=True, description="Check who is resident when a member cannot be connected to."
    )
    quarantine_pooled: bool = Field(
        default=False,
        description="Quarantine a member that cannot be connected to, as other pods are.",
    )
    swap_error_to: Literal["all", "first"] = Field(
        default="all",
        description="Who is told that a swap has failed; with first the others start a new one.",
    )
    reload_incumbent: bool = Field(
        default=False,
        description="Whether the former resident is loaded again when a swap has left the slot "
        "cold.",
    )
    compat: Compat = Field(
        default=Compat(), description="Behaviour of versions that have been mended since."
    )

    @property
    def exclusive(self) -> bool:
        """Members take turns on one slot."""
        return True

    @property
    def probes_idle(self) -> bool:
        """Unless the image has no such probe."""
        return self.idle_probe == "exact"

    @property
    def router_side(self) -> RouterSide:
        """How the router treats the members."""
        return RouterSide(
            self.quarantine_pooled,
            self.compat.swap_deadline_status,
            self.compat.all_busy_status,
        )

    @property
    def reclaims(self) -> bool:
        """Whether the default comes back."""
        return self.swap_policy == "reclaim"

    @property
    def samples_for_ever(self) -> bool:
        """Reclaim looks whether the resident is idle, unless it is told."""
        return self.reclaims and self.reclaim_poll_s > 0

    @property
    def reclaim_poll_s(self) -> float:
        """Seconds between two looks whether the resident is idle; 0 is exact."""
        if self.reclaim_poll is None:
            return min(self.reclaim_after, DEFAULT_RECLAIM_POLL_S)
        return self.reclaim_poll

    @property
    def swap_bound_s(self) -> float:
        """Seconds that a swap may take from its start, draining included."""
        return UNBUDGETED_SWAP_S if self.swap_budget is None else self.swap_budget

    def warnings(self, times: Mapping[str, SwapTimes]) -> list[Fault]:
        """Members whose swaps end at their bound even when nobody has to drain."""
        bound_s = self.swap_bound_s
        bound = f"{bound_s:.4g} s" + (" without one" if self.swap_budget is None else "")
        found = [*super().warnings(times), *self._means_nothing()]
        for member, its in times.items():
            unloading = {name: each.unload_s for name, each in times.items() if name != member}
            other = min(unloading, key=lambda name: unloading[name], default=None)
            message = ""
            if bound_s < its.load_s:
                message = (
                    f"{bound} is shorter than {member}'s load of {its.load_s:.4g} s: it can never "
                    "be loaded for a request"
                )
            elif other is not None and bound_s < unloading[other] + its.load_s:
                message = (
                    f"{bound} is shorter than {unloading[other]:.4g} s to unload {other} and "
                    f"{its.load_s:.4g} s to load {member}: such a swap always fails"
                )
            else:
                message = self._first_swap_fails(member, times)
            if message:
                found.append(Fault("pool", 0, 0, "swapBudget", message))
        return found

    def _first_swap_fails(self, member: str, times: Mapping[str, SwapTimes]) -> str:
        """What is said when only a first unload takes too long; nothing when none does."""
        bound_s, load_s = self.swap_bound_s, times[member].load_s
        for other, its in times.items():
            if other != member and bound_s < its.first_unload_s + load_s:
                return (
                    f"{bound_s:.4g} s is shorter than {its.first_unload_s:.4g} s to unload {other} "
                    f"for the first time and {load_s:.4g} s to load {member}: such a swap fails"
                )
        return ""

    def _means_nothing(self) -> Iterator[Fault]:
        """Times that are given and that nobody looks at."""
        given = self.model_fields_set
        if not self.reclaims:
            for key in sorted({"reclaim_after", "reclaim_poll"} & given):
                message = "means nothing with swapPolicy sticky: nothing is reclaimed"
                yield Fault("pool", 0, 0, to_camel(key), message)
        hold_s = self.swap_budget
        if self.max_wait is not None and hold_s is not None and self.max_wait >= hold_s:
            message = f"never reached: swapBudget ends every hold after {hold_s:g} s"
            yield Fault("pool", 0, 0, "maxWait", message)
        if not self.probes_idle and "idle_probe_interval" in given:
            message = "means nothing with idleProbe always-idle: nobody is asked"
            yield Fault("pool", 0, 0, "idleProbeInterval", message)

    @property
    def ready_at_start(self) -> str | None:
        """The member that is ready at time 0; None when the pool is cold."""
        ready = self.default if self.initial is None else self.initial
        return None if ready == COLD else ready

    @rule
    def _calls_no_member_cold(self) -> Iterator[Problem]:
        if COLD in self.members:
            yield "members", f"{COLD!r} means that nobody is ready; name it otherwise"

    @rule
    def _has_its_default(self) -> Iterator[Problem]:
        if self.default is not None and self.default not in self.members:
            members = ", ".join(self.members)
            yield "default", f"must be one of the members ({members}); got {self.default!r}"

    @rule
    def _has_its_initial(self) -> Iterator[Problem]:
        if self.initial is not None and self.initial not in (*self.members, COLD):
            members = ", ".join(self.members)
            message = f"must be {COLD} or one of the members ({members}); got {self.initial!r}"
            yield "initial", message

    @rule
    def _reclaims_for_somebody(self) -> Iterator[Problem]:
        if self.reclaims and self.default is None:
            yield "swapPolicy", "reclaim needs default, the member to bring back"

    @rule
    def _holds_for_the_resident(self) -> Iterator[Problem]:
        if self.max_held is not None and self.max_in_flight is None:
            yield "maxHeld", "needs maxInFlight: without it nobody is held for the resident"

    @rule
    def _waits_in_some_order(self) -> Iterator[Problem]:
        if self.order == "fifo" and self.max_wait is not None:
            message = "means nothing with order fifo: nobody passes those who wait for longer"
            yield "maxWait", message

    @rule
    def _wakes_in_some_order(self) -> Iterator[Problem]:
        if self.order == "fifo" and self.wake_order == "random":
            yield "wakeOrder", "random means nothing with order fifo; use joining"


class ModelPool(ExclusivePool):
    """One exclusive slot whose members take turns, as LLMKube's ModelPool."""

    kind: Literal["model-pool"] = "model-pool"
