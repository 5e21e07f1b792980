"""The policy of a backend as a ModelRouter manifest says it, so that people can paste.

- ``mode: LoadAware`` with ``sessionAffinity`` is ``session-table``;
- ``mode: LoadAware`` alone is ``least-loaded``;
- ``mode: RoundRobin`` is ``round-robin``; ``sessionAffinity`` with it is an error;
- ``maxLoadPercent`` is accepted, ignored and warned about, in either form.

``policy: {kind, ...}`` is podsim's own form and has all settings; giving both is an error.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from sim.core.document import Finding, Path, entries
from sim.core.fields import Model, whole
from sim.core.messages import findings, unknown_key

DEFAULT_KIND: Final = "least-loaded"
KINDS: Final = {"LoadAware": DEFAULT_KIND, "RoundRobin": "round-robin"}
"""The policy of each mode without sessionAffinity."""
TABLE_KIND: Final = "session-table"
LOAD_BOUND: Final = "maxLoadPercent"
AFFINITY_KEYS: Final = ("headers", "idleTimeout", "maxSessions")


class Balancing(Model):
    """How a backend spreads its requests, as a ModelRouter manifest says it."""

    mode: Literal["LoadAware", "RoundRobin"] = Field(
        description="LoadAware is the session table with sessionAffinity, else least-loaded."
    )
    session_affinity: Any = Field(
        default=None, description="Keep sessions on their pods; only with mode LoadAware."
    )
    max_load_percent: Annotated[int, whole(100, 100_000)] | None = Field(
        default=None, description="Setting of the bounded ring: accepted, ignored, warned about."
    )


@dataclass
class WrittenPolicy:
    """The ``{kind, ...}`` block of a backend, and where in the backend it is written.

    ``value`` is None when it has faults.
    """

    value: Any
    path: Path
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)


def written_policy(backend: dict[str, Any]) -> WrittenPolicy:
    """Return the policy of ``backend``, whichever form it is written in."""
    policy, balancing = backend.get("policy"), backend.get("balancing")
    if balancing is None:
        found = WrittenPolicy({"kind": DEFAULT_KIND} if policy is None else policy, ("policy",))
        if entries(policy).get("kind") == TABLE_KIND:
            found.warnings += _load_bound(policy, found.path, "the session table")
        return found
    found = _translated(balancing)
    if policy is not None:
        message = "stands beside balancing; give one of them (null takes the other away)"
        found.faults.append(Finding(("policy",), message, at_key=True))
    return found


def _load_bound(block: Any, path: Path, whose: str) -> Iterator[Finding]:
    """The warning that ``block`` has the setting of the bounded ring."""
    if entries(block).get(LOAD_BOUND) is not None:
        message = f"ignored: {whose} has no load bound"
        yield Finding((*path, LOAD_BOUND), message, at_key=True)


def _translated(balancing: Any) -> WrittenPolicy:
    found = WrittenPolicy(None, ("balancing",))
    try:
        Balancing.model_validate(balancing, by_alias=True, by_name=False)
    except ValidationError as error:
        wrong = findings(error, Balancing, balancing)
        found.faults += [each.below(found.path) for each in wrong]
    affinity, mode = entries(balancing).get("sessionAffinity"), entries(balancing).get("mode")
    mode = mode if isinstance(mode, str) else None
    found.warnings += _load_bound(balancing, found.path, f"mode {mode}")
    if affinity is None:
        if mode in KINDS:
            found.value = {"kind": KINDS[mode]}
        return found
    found.path = ("balancing", "sessionAffinity")
    if mode == "RoundRobin":
        message = "needs mode: LoadAware; RoundRobin keeps no sessions"
        found.faults.append(Finding(found.path, message, at_key=True))
    if not isinstance(affinity, dict):
        message = "must be a mapping such as {headers: [x-session-affinity]}"
        found.faults.append(Finding(found.path, message))
        return found
    known = {key: value for key, value in affinity.items() if key in AFFINITY_KEYS}
    unknown = (unknown_key(key, AFFINITY_KEYS, affinity) for key in affinity if key not in known)
    found.faults += [each.below(found.path) for each in unknown]
    found.value = {"kind": TABLE_KIND, **known}
    return found
