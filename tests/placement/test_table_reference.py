"""The session table decision by decision against a literal reading of its rules."""

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.router.placement.table import SessionTable
from sim.testing import keys, pods, router
from tests.placement.reference import ReferenceTable, clockwise

# Small numbers, so that every rule comes up within a few events. Times are
# multiples of 1/4 s, where both sides compute exactly.
NUMBERS: dict[str, Any] = {
    "idle_timeout": 60.0,
    "max_sessions": 4,
    "fresh_for": 5.0,
    "kv_full_at": 0.95,
    "waiting_gap": 2,
    "stale_gap": 3,
    "cooldown": 20.0,
}
SESSIONS = [*keys(7), None]
VIRTUAL_NODES = 3
START_PODS = 3
MOST_PODS = 5


class Pair:
    """The policy and its reference, fed with the same events."""

    def __init__(self) -> None:
        self.fleet = pods(START_PODS)
        self.router = router(SessionTable, self.fleet, virtual_nodes=VIRTUAL_NODES, **NUMBERS)
        self.reference = ReferenceTable(**NUMBERS)
        self.members = dict(enumerate(self.fleet.names))
        self.now_s = 0.0
        self.running: list[int] = []
        self.seen = Counter[tuple[str, str | None]]()

    def send(self, session: int) -> None:
        if True not in self.fleet.ready:
            return
        key = SESSIONS[session]
        walk = [] if key is None else clockwise(key, "1", self.members, VIRTUAL_NODES)
        outcome, reason, allowed = self.reference.judge(key, self.fleet, self.now_s, walk)
        before = list(self.fleet.in_flight)
        place = self.router.send(key, self.now_s)
        assert (place.outcome, place.reason) == (outcome, reason)
        assert place.pod in allowed
        if place.reason == "kv_full":
            own = self.reference.entries[key][0] if key is not None else -1
            assert before[place.pod] <= before[own]
        self.reference.note(key, outcome, place.pod, self.now_s)
        self.running.append(place.pod)
        self.seen[outcome, reason] += 1

    def end(self, which: int) -> None:
        if self.running:
            self.router.end(self.running.pop(which % len(self.running)))

    def poll(self, pod: int, waiting: int, kv_usage: float) -> None:
        slot = pod % len(self.fleet.names)
        self.fleet.waiting[slot] = waiting
        self.fleet.kv_usage[slot] = kv_usage
        self.fleet.polled_s[slot] = self.now_s

    def switch(self, pod: int) -> None:
        slot = pod % len(self.fleet.names)
        if slot in self.members:
            self.fleet.ready[slot] = not self.fleet.ready[slot]

    def join(self) -> None:
        if len(self.fleet.names) < MOST_PODS:
            name = f"qwen-{len(self.fleet.names)}"
            self.members[self.router.join(name, self.now_s)] = name

    def leave(self, pod: int) -> None:
        slot = pod % len(self.fleet.names)
        if slot in self.members and len(self.members) > 1:
            del self.members[slot]
            self.router.leave(slot, self.now_s)

    def sleep(self, quarters: int) -> None:
        self.now_s += quarters / 4

    def tick(self) -> None:
        self.router.tick(self.now_s)
        self.reference.sweep(self.now_s)

    def play(self, event: tuple[Any, ...]) -> None:
        name, *arguments = event
        getattr(self, name)(*arguments)
        assert self.router.policy.bindings == len(self.reference.entries)
        assert self.router.policy.bindings <= NUMBERS["max_sessions"]
        assert min(self.fleet.in_flight) >= 0


pod = st.integers(0, MOST_PODS - 1)
send = st.tuples(st.just("send"), st.integers(0, len(SESSIONS) - 1))
event = st.one_of(
    send,
    send,
    send,
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("poll"), pod, st.integers(0, 2), st.sampled_from([0.5, 0.95])),
    st.tuples(st.just("switch"), pod),
    st.tuples(st.just("join")),
    st.tuples(st.just("leave"), pod),
    st.tuples(st.just("sleep"), st.sampled_from([1, 20, 21, 79, 80, 160, 240, 241])),
    st.tuples(st.just("tick")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(event, max_size=80))
def test_any_sequence_of_events_is_decided_by_the_rules(events: list[tuple[Any, ...]]) -> None:
    """Some order of events would reach a state in which a rule is missed or two are mixed up."""
    pair = Pair()
    for each in events:
        pair.play(each)


def test_long_sequences_meet_every_rule() -> None:
    """The comparison above would agree because some rule is never reached."""
    seen = Counter[tuple[str, str | None]]()
    for seed in range(15):
        chance = random.Random(seed)
        pair = Pair()
        for _ in range(1500):
            pair.play(_draw(chance))
        seen += pair.seen
    rare = {outcome: seen[outcome] for outcome in seen if seen[outcome] < 20}
    assert rare == {}
    assert set(seen) == {
        ("new", None),
        ("sticky", None),
        ("spill", "waiting"),
        ("spill", "kv_full"),
        ("migrated", "not_ready"),
        ("home", None),
        ("unkeyed", None),
    }


def _draw(chance: random.Random) -> tuple[Any, ...]:
    name = chance.choices(
        ["send", "end", "poll", "switch", "join", "leave", "sleep", "tick"],
        [40, 25, 60, 3, 0.2, 0.1, 12, 2],
    )[0]
    if name == "send":
        return name, chance.randrange(len(SESSIONS))
    if name == "end":
        return name, chance.randrange(30)
    if name == "poll":
        return name, chance.randrange(MOST_PODS), chance.randrange(3), chance.choice([0.5, 0.95])
    if name == "sleep":
        return name, chance.choice([1, 1, 1, 4, 4, 8, 20, 21, 80, 241])
    return (name, chance.randrange(MOST_PODS)) if name in ("switch", "leave") else (name,)
