"""What follows for an attempt from what the proxy believes of its pool."""

from enum import Enum, auto

from sim.core.kernel import BOUNDARY_TOLERANCE_S
from sim.core.ports import Activation
from sim.pool.observed_state import ObservedState
from sim.pool.spec import ExclusivePool


class ActivationVerdict(Enum):
    """What becomes of an attempt now."""

    GRANT = auto()
    SWAP = auto()
    SKIP = auto()
    WAIT = auto()


class Decision:
    """Decides for one attempt at a time; changes nothing."""

    def __init__(self, spec: ExclusivePool, belief: ObservedState) -> None:
        self._spec = spec
        self._belief = belief

    def verdict(self, activation: Activation, now_s: float) -> ActivationVerdict:
        """By the numbers of the rule; 4 is a matter of time and of the client."""
        belief = self._belief
        if belief.swap is not None:  # 3, in both modes: the incumbent is on its way out
            return ActivationVerdict.WAIT
        if activation.member == belief.resident:  # 1, also while others wait for another member
            return (
                ActivationVerdict.GRANT
                if self._may_be_granted(activation, now_s)
                else ActivationVerdict.WAIT
            )
        if not self._is_kept(now_s):  # 2, cold or idle
            return (
                ActivationVerdict.SWAP
                if self._may_start_swap(activation, now_s)
                else ActivationVerdict.WAIT
            )
        return ActivationVerdict.SKIP if activation.if_idle else ActivationVerdict.WAIT  # 2, busy

    def is_full(self, member: str) -> bool:
        """Whether as many attempts of ``member`` are in flight or held as may be: maxHeld."""
        counts, spec = self._belief.counts[member], self._spec
        if spec.max_held is None or spec.max_in_flight is None:
            return False
        return counts.waiting + counts.in_flight >= spec.max_in_flight + spec.max_held

    @property
    def kept_until_s(self) -> float:
        """When a resident that is idle may be swapped out; its coming is over."""
        return self._belief.resident_since_s

    @property
    def heeds_others(self) -> bool:
        """Whether those who wait may keep others from a grant or a swap."""
        return self._spec.order == "fifo" or self._spec.max_wait is not None

    def precedence(self, activation: Activation) -> int:
        """Those of lower precedence are looked at first."""
        return 0

    def _is_kept(self, now_s: float) -> bool:
        """Whether there is a resident that may not be swapped out."""
        return self._belief.busy

    def _may_be_granted(self, activation: Activation, now_s: float) -> bool:
        limit = self._spec.max_in_flight
        if limit is not None and self._belief.counts[activation.member].in_flight >= limit:
            return False
        return self._may_act(activation) and not self._another_is_due(now_s)

    def _may_start_swap(self, activation: Activation, now_s: float) -> bool:
        in_its_last_instant = now_s > activation.hold_until_s - BOUNDARY_TOLERANCE_S
        return self._may_act(activation) and not in_its_last_instant

    def _may_act(self, activation: Activation) -> bool:
        return self._spec.order != "fifo" or self._belief.oldest is activation

    def _another_is_due(self, now_s: float) -> bool:
        """Whether an attempt for another member has waited for maxWait.

        Its wait counts from the end of the last swap if that is later than its
        joining, or two long queues would swap for ever without being served.
        """
        belief, limit_s = self._belief, self._spec.max_wait
        if limit_s is None:
            return False
        others = (each for each in belief.waiting if each.member != belief.resident)
        oldest = next(others, None)
        if oldest is None:
            return False
        waited_s = now_s - max(oldest.joined_s, belief.swap_ended_s)
        return waited_s > limit_s - BOUNDARY_TOLERANCE_S
