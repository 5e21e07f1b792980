"""What a policy must have and may answer: what is wrong with one is said when it comes."""

from collections.abc import Callable, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, TypeAlias, get_args

from sim.core.errors import Misuse
from sim.core.request import Outcome, Reason, RequestView
from sim.router.views import Decision, Fact, Hold, Place, PodView, Policy, Reject, Tick

Choice: TypeAlias = Callable[[RequestView, PodView, float], Decision]

OUTCOMES: Final = frozenset(
    {
        *(Outcome.NEW, Outcome.STICKY, Outcome.HOME, Outcome.SPILL),
        *(Outcome.MIGRATED, Outcome.UNKEYED, Outcome.PLACED),
    }
)
REASONS: Final = frozenset({Reason.BOUND, Reason.WAITING, Reason.KV_FULL, Reason.NOT_READY})
"""Why a policy places away from home; one may have others in its ``reasons``."""

LONGEST_HOLD_S: Final = 86_400.0
"""No client waits for a day: whoever is held for longer is held for ever."""
MOST_HOLDS: Final = 100_000
"""Holds of a request after which it will never be sent: a second each would be more than a day."""
SHORTEST_TICK_S: Final = 0.01
"""As of polls (``sim.core.fields.PollInterval``): at 10 ms a run does little else already."""


def known_reasons(policy: Policy) -> frozenset[str | None]:
    """The reasons that ``policy`` may give, none among them; raises ``Misuse`` for a bad policy."""
    for fault in _faults(policy):
        raise Misuse(fault, policy)
    return REASONS | {None} | frozenset(getattr(policy, "reasons", ()))


def _faults(policy: Any) -> list[str]:
    missing = [
        name for name in ("observes", "has_home", "tick_interval_s") if not hasattr(policy, name)
    ]
    if missing:
        return [f"has no attribute {name}: see sim.router.views.Policy" for name in missing]
    faults = []
    facts = {each.__name__: each for each in get_args(Fact)}
    observes, interval_s = policy.observes, policy.tick_interval_s
    if not isinstance(observes, frozenset | set) or not observes <= set(facts.values()):
        known = ", ".join(facts)
        faults.append(f"observes must be a frozenset of the classes {known}; got {observes!r}")
    elif Tick in observes and interval_s is None:
        faults.append("observes Tick, but its tick_interval_s is None: none would ever come")
    if not isinstance(policy.has_home, bool):
        faults.append(f"has_home must be True or False; got {policy.has_home!r}")
    if interval_s is not None and not (_is_real(interval_s) and interval_s >= SHORTEST_TICK_S):
        least = f"a number of seconds from {SHORTEST_TICK_S:g}"
        faults.append(f"tick_interval_s must be None or {least}; got {interval_s!r}")
    reasons = getattr(policy, "reasons", ())
    if isinstance(reasons, str) or not all(isinstance(each, str) for each in reasons):
        faults.append(f"reasons must be a frozenset of words; got {reasons!r}")
    return faults


def guarded_choice(policy: Policy, reasons: frozenset[str | None]) -> Choice:
    """``policy.choose``, which raises ``Misuse`` when a run cannot take what it answers."""

    def choose(request: RequestView, pods: PodView, now_s: float) -> Decision:
        return examined(policy.choose(request, pods, now_s), policy, pods.ready, reasons)

    return choose


def examined(
    decision: Any, policy: Policy, ready: Sequence[bool], reasons: frozenset[str | None]
) -> Decision:
    """The ``decision`` of ``policy`` in plain numbers; raises ``Misuse`` when it may not be given.

    ``reasons`` are those that it knows. When a hold may end depends on the
    request: ``end_of_hold``.
    """
    if isinstance(decision, Place):
        pod, outcome, reason, predicted = decision
        _refuse(policy, decision, _fault_of_place(decision, ready, reasons))
        return Place(int(pod), outcome, reason, None if predicted is None else int(predicted))
    if isinstance(decision, Reject):
        _refuse(policy, decision, _fault_of_reject(decision))
        return Reject(int(decision.http_status), decision.reason)
    if isinstance(decision, Hold):
        return decision
    raise Misuse(f"answered {decision!r}: must be a Place, a Hold or a Reject", policy)


def end_of_hold(hold: Hold, policy: Policy, now_s: float, since_s: float, holds: int) -> float:
    """When ``policy`` is asked again; raises ``Misuse`` when that is never, or for ever.

    The request has been at the backend since ``since_s`` and been held ``holds`` times.
    """
    _refuse(policy, hold, _fault_of_hold(hold, now_s, since_s, holds))
    return float(hold.until_s)


def _refuse(policy: Policy, decision: Decision, fault: str) -> None:
    if fault:
        raise Misuse(f"answered {_shown(decision)}: {fault}", policy)


def _shown(decision: Decision) -> str:
    """As it was written, without what was left out."""
    values = list(decision)
    while values[-1] is None:
        del values[-1]
    return f"{type(decision).__name__}({', '.join(map(repr, values))})"


def _fault_of_place(place: Place, ready: Sequence[bool], reasons: frozenset[str | None]) -> str:
    pod, predicted = place.pod, place.predicted_cached_tokens
    if not _is_whole(pod) or not 0 <= pod < len(ready):
        return f"pod must be a whole number from 0 to {len(ready) - 1}"
    if not ready[pod]:
        return f"pod {pod} is not ready; only {', '.join(_slots(ready))}"
    if place.outcome not in OUTCOMES:
        return f"outcome must be one of {', '.join(sorted(OUTCOMES))}"
    if place.reason not in reasons:
        known = ", ".join(sorted(word for word in reasons if word is not None))
        return f"reason must be None or one of {known}, or of those in a set `reasons` of its class"
    if predicted is not None and not (_is_whole(predicted) and predicted >= 0):
        return "predicted_cached_tokens must be None or a whole number from 0"
    return ""


def _fault_of_hold(hold: Hold, now_s: float, since_s: float, holds: int) -> str:
    until_s = hold.until_s
    if not _is_real(until_s):
        return "until_s must be a number of seconds"
    if until_s <= now_s:
        return f"until_s must be later than now, {now_s!r}: it would be asked again for ever"
    if until_s > since_s + LONGEST_HOLD_S:
        return f"the request would be held for more than a day, since {since_s:g} s"
    if holds >= MOST_HOLDS:
        return f"the request has been held {holds:,} times since {since_s:g} s, as if for ever"
    return ""


def _fault_of_reject(reject: Reject) -> str:
    if not _is_whole(reject.http_status) or not 400 <= reject.http_status <= 599:
        return "http_status must be that of an error, from 400 to 599"
    if not isinstance(reject.reason, str):
        return "reason must be a word"
    return ""


def _slots(ready: Sequence[bool]) -> list[str]:
    return [str(slot) for slot, serves in enumerate(ready) if serves]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
