"""Settings of policies: what may be written, what is refused, and headers that name sessions."""

from typing import Any

import pytest
from pydantic import ValidationError

from sim.router.placement.hashing import session_key
from sim.router.placement.ring import BoundedRing, BoundedRingSpec, ConsistentHash
from sim.router.placement.table import SessionTable, SessionTableSpec
from sim.testing import keys, pods, request, router


@pytest.mark.parametrize(
    ("spec", "setting", "value"),
    [
        (SessionTableSpec, "idleTimeout", "59s"),
        (SessionTableSpec, "idleTimeout", "25h"),
        (SessionTableSpec, "idleTimeout", None),
        (SessionTableSpec, "maxSessions", 0),
        (SessionTableSpec, "kvFullAt", 0),
        (SessionTableSpec, "kvFullAt", 1.01),
        (SessionTableSpec, "waitingGap", 0),
        (SessionTableSpec, "staleGap", 0),
        (SessionTableSpec, "freshFor", 0),
        (SessionTableSpec, "cooldown", -1),
        (SessionTableSpec, "sweepInterval", "1ms"),
        (SessionTableSpec, "ties", "random"),
        (SessionTableSpec, "headers", ("x session",)),
        (BoundedRingSpec, "maxLoadPercent", 99),
        (BoundedRingSpec, "maxLoadPercent", 1.25),
        (BoundedRingSpec, "virtualNodes", 0),
        (BoundedRingSpec, "virtualNodes", 1001),
        (BoundedRingSpec, "bound", "loose"),
        (BoundedRingSpec, "floor", 2),
        (BoundedRingSpec, "idleTimeout", "30m"),
    ],
)
def test_values_out_of_range_are_refused(spec: Any, setting: str, value: object) -> None:
    """C14 and others: a setting that makes no sense would be simulated without a word."""
    with pytest.raises(ValidationError) as refused:
        spec.model_validate({"kind": spec().kind, setting: value})
    assert [error["loc"][0] for error in refused.value.errors()] == [setting]


@pytest.mark.parametrize("value", ["1m", "24h", "1h30m", 60, 86_400.0])
def test_idle_timeouts_from_a_minute_to_a_day_are_accepted(value: object) -> None:
    """C14: the limits themselves would be refused."""
    spec = SessionTableSpec.model_validate({"kind": "session-table", "idleTimeout": value})
    assert 60.0 <= spec.idle_timeout <= 86_400.0


def test_defaults_are_the_published_numbers() -> None:
    """A scenario that pins nothing would simulate another router."""
    table, ring = SessionTableSpec(), BoundedRingSpec()
    assert (table.idle_timeout, table.max_sessions, table.fresh_for) == (1800.0, 100_000, 5.0)
    assert (table.kv_full_at, table.waiting_gap, table.stale_gap) == (0.95, 4, 8)
    assert (table.cooldown, table.sweep_interval, table.virtual_nodes) == (60.0, 30.0, 100)
    assert (table.ties, table.max_load_percent) == ("fewest-bindings", None)
    assert (ring.max_load_percent, ring.virtual_nodes, ring.bound, ring.floor) == (
        125,
        100,
        "default",
        0,
    )


HEADERS = ("x-session-affinity", "x-openwebui-chat-id", "x-opencode-session")


def test_the_first_configured_header_names_the_session() -> None:
    """The order in which a client sends its headers would decide."""
    both = request(None, headers=(("X-OpenCode-Session", "b"), ("X-Session-Affinity", "a")))
    first = request(None, headers=(("x-session-affinity", "a"),))
    second = request(None, headers=(("x-opencode-session", "b"),))
    assert session_key(both, HEADERS) == session_key(first, HEADERS)
    assert session_key(both, HEADERS) != session_key(second, HEADERS)
    assert session_key(both, HEADERS[2:]) == session_key(second, HEADERS)


def test_a_session_is_known_by_a_hash_only() -> None:
    """R15: raw header values would lie in tables and exports."""
    key = session_key(request(7, headers=(("x-session-affinity", "alice"),)), HEADERS)
    assert isinstance(key, int)
    assert 0 <= key < 2**64
    assert key != 7


def test_without_a_configured_header_the_workload_names_the_session() -> None:
    """A pasted manifest would turn every agent of a synthetic workload into an unkeyed client."""
    other = (("x-data-class", "public"),)
    assert session_key(request(7, headers=other), HEADERS) == 7
    assert session_key(request(7, headers=other), ()) == 7
    assert session_key(request(None, headers=other), HEADERS) is None


@pytest.mark.parametrize("kind", [BoundedRing, ConsistentHash, SessionTable])
def test_policies_with_sessions_place_by_header(kind: type) -> None:
    """A policy would accept the setting and ignore it."""
    sender = router(kind, pods(8), headers=HEADERS)
    alice = (("x-session-affinity", "alice"),)
    places = [sender.decide(key, headers=alice) for key in keys(20)]
    assert len({place.pod for place in places}) == 1
    assert "unkeyed" not in {place.outcome for place in places}
    assert {sender.decide(None).outcome} == {"unkeyed"}
