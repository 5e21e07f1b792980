"""How a policy came to its place, in words."""

from typing import Any

from sim.core.request import DIRECT, Outcome, Reason
from sim.explain.view import PodSeen, View


def sentence(placement: dict[str, Any], seen: View | None, ran_on: str | None) -> str:
    """Which decision sent a request where it went.

    ``placement`` is a row of the placements table, ``seen`` what the router saw, if that is
    known, and ``ran_on`` the pod of the turn before.
    """
    pod, outcome, reason = placement["pod"], placement["outcome"], placement["reason"]
    named = f"{outcome} ({reason})" if reason else outcome
    if placement["proxy"] == DIRECT:
        return f"to {pod}: beside the router, the pods of {placement['backend']} in turn"
    policy = f" by {seen.policy}" if seen is not None else ""
    why = _why(placement, seen, ran_on)
    return f"to {pod}{policy}: {named}{': ' + why if why else ''}"


def _why(placement: dict[str, Any], seen: View | None, ran_on: str | None) -> str:
    outcome, reason = placement["outcome"], placement["reason"]
    home = seen.home if seen is not None and seen.home is not None else ran_on
    match outcome:
        case Outcome.NEW:
            return "its session is new to the router; the least loaded pod"
        case Outcome.STICKY:
            return "where its session is bound"
        case Outcome.HOME:
            return "the home of its session"
        case Outcome.UNKEYED:
            return "it has no session key; the least loaded pod"
        case Outcome.MIGRATED:
            return f"{home} was not ready" if home else "the pod of its session was not ready"
    if outcome == Outcome.SPILL and reason == Reason.BOUND:
        return _beyond_bound(seen)
    if outcome == Outcome.SPILL and home is not None:
        return _backed_up(seen, home, placement["pod"], reason)
    return ""


def _beyond_bound(seen: View | None) -> str:
    """A ring: the home may carry no more."""
    if seen is None or seen.home is None or seen.bound is None:
        return "its home had as many in flight as it may"
    home = _pod(seen, seen.home)
    return f"its home {home.pod} had {home.in_flight} in flight, the bound was {seen.bound}"


def _backed_up(seen: View | None, home: str, chosen: str, reason: str | None) -> str:
    """A session table: the pod of the session has requests waiting, or its KV cache is full."""
    if seen is None or home not in {pod.pod for pod in seen.pods}:
        return f"away from {home}, where the turn before it ran"
    own, other = _pod(seen, home), _pod(seen, chosen)
    said = f"{own.pod} had {own.in_flight} in flight and {own.waiting} waiting"
    if reason == Reason.KV_FULL:
        said += f", its KV cache {100.0 * own.kv_usage:.0f} % full"
    if own.metrics_age_s is None or own.metrics_age_s > 0.0:
        age = "never" if own.metrics_age_s is None else f"{own.metrics_age_s:.1f} s before"
        said += f" (polled {age})"
    return f"{said}; {other.pod} had {other.in_flight} in flight"


def _pod(seen: View, name: str) -> PodSeen:
    return next(pod for pod in seen.pods if pod.pod == name)
