"""The policy of a backend as a ModelRouter manifest says it, so that people can paste.

- ``mode: LoadAware`` with ``sessionAffinity`` is ``session-table``;
- ``mode: LoadAware`` alone is ``least-loaded``;
- ``mode: RoundRobin`` is ``round-robin``; ``sessionAffinity`` with it is an error (rule R17);
- ``maxLoadPercent`` is accepted, ignored and warned about, in either form (rule R18).

``policy: {kind, ...}`` is podsim's own form and has all settings; giving both is an error.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from sim.core.errors import Fault
from sim.core.fields import Model, whole
from sim.core.suggest import suggestion
from sim.scenario.nodes import (
    Mapping,
    Node,
    Path,
    Place,
    Scalar,
    beside,
    child,
    fault,
    is_null,
    plain,
    text_of,
)
from sim.scenario.translate import translate

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
class PolicyNode:
    """Where the policy of a backend is written; ``node`` is None when it has faults."""

    node: Node | None
    path: Path
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def warn_of_load_bound(self, block: Node, whose: str) -> None:
        """Warn if ``block``, which stands at the path, has the setting of the bounded ring."""
        if isinstance(block, Mapping) and not is_null(block.values.get(LOAD_BOUND)):
            message = f"ignored: {whose} has no load bound"
            self.warnings.append(fault(block.keys[LOAD_BOUND], (*self.path, LOAD_BOUND), message))


def policy_node(backend: Mapping, path: Path) -> PolicyNode:
    """The ``{kind, ...}`` block of ``backend``, whichever form it is written in."""
    policy, balancing = backend.values.get("policy"), backend.values.get("balancing")
    if is_null(balancing):
        if policy is None or is_null(policy):
            policy = _of_kind(DEFAULT_KIND, backend.place)
        found = PolicyNode(policy, (*path, "policy"))
        if text_of(child(policy, "kind")) == TABLE_KIND:
            found.warn_of_load_bound(policy, "the session table")
        return found
    assert balancing is not None
    found = _translated(balancing, (*path, "balancing"))
    if not is_null(policy):
        message = "stands beside balancing; give one of them (null takes the other away)"
        found.faults.append(fault(backend.keys["policy"], (*path, "policy"), message))
    return found


def _translated(balancing: Node, path: Path) -> PolicyNode:
    found = PolicyNode(None, path)
    try:
        Balancing.model_validate(plain(balancing), by_alias=True, by_name=False)
    except ValidationError as error:
        found.faults += translate(error, Balancing, balancing, path)
    if not isinstance(balancing, Mapping):
        return found
    affinity, written = balancing.values.get("sessionAffinity"), balancing.values.get("mode")
    mode = text_of(written)
    mode_place = balancing.place if written is None else written.place
    found.warn_of_load_bound(balancing, f"mode {mode}")
    if affinity is None or is_null(affinity):
        if mode in KINDS:
            found.node = _of_kind(KINDS[mode], mode_place)
        return found
    if mode == "RoundRobin":
        message = "needs mode: LoadAware; RoundRobin keeps no sessions"
        place = balancing.keys["sessionAffinity"]
        found.faults.append(fault(place, (*path, "sessionAffinity"), message))
    found.path = (*path, "sessionAffinity")
    found.node = _session_table(affinity, mode_place, found)
    return found


def _session_table(affinity: Node, mode_place: Place, found: PolicyNode) -> Node | None:
    if not isinstance(affinity, Mapping):
        message = "must be a mapping such as {headers: [x-session-affinity]}"
        found.faults.append(fault(affinity.place, found.path, message))
        return None
    known = {}
    for key, value in affinity.values.items():
        if key in AFFINITY_KEYS:
            known[key] = value
        else:
            hint = suggestion(key, AFFINITY_KEYS, present=beside(affinity, key))
            message = f"unknown key {key!r}{hint}"
            found.faults.append(fault(affinity.keys[key], (*found.path, key), message))
    table = _of_kind(TABLE_KIND, mode_place)
    return Mapping({**table.values, **known}, {**affinity.keys, **table.keys}, affinity.place)


def _of_kind(kind: str, place: Place) -> Mapping:
    return Mapping({"kind": Scalar(kind, place)}, {"kind": place}, place)
