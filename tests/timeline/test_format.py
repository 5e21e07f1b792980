"""The file of a timeline opens in trace viewers, whatever happened in the run."""

from typing import Any

import pytest

from sim.execution.runner import run_one
from sim.scenario.load import load_dict
from sim.timeline.chrome_trace import Flow, Lanes, Trace
from sim.timeline.excerpt import Excerpt, StepLog
from sim.timeline.timeline import Timeline, timeline
from tests.cluster.scenarios import T0, agents, fleet
from tests.timeline.format import breaches, events

SCARCE = {"kvBlocks": 140, "blockSize": 16, "maxNumBatchedTokens": 256}
CROWD = [
    {"arrival": 0.05 * index, "session": f"s{index % 5}", "promptTokens": 700, "outputTokens": 200}
    for index in range(20)
]
SHORT = [{"arrival": 0.0, "promptTokens": 10, "outputTokens": 100}] * 40
RING = {"kind": "bounded-ring", "maxLoadPercent": 125}
SLOTS = {"kind": "llamacpp", "stepTime": T0, "ctxSize": 2000, "cacheRam": 0}
RUNS: dict[str, dict[str, Any]] = {
    "agents": fleet(agents(), RING, window={"warmup": 30, "measure": 60}),
    "preemptions": fleet({"kind": "script", "rows": CROWD}, {"kind": "round-robin"}, **SCARCE),
    "several preempted at once": fleet(
        {"kind": "script", "rows": SHORT}, {"kind": "round-robin"}, kvBlocks=50
    ),
    "an API server": fleet(agents(8), RING, window={"measure": 60}, frontEnd={"perRequest": "5ms"}),
    "a full pool of slots": fleet({"kind": "script", "rows": CROWD}, {"kind": "round-robin"})
    | {"engines": {"e": SLOTS}},
    "refusals": fleet({"kind": "script", "rows": CROWD}, {"kind": "round-robin"}, kvBlocks=40),
    "no sessions": fleet(
        {
            **{"kind": "requests", "arrivals": {"kind": "poisson", "rate": 8}, "count": 200},
            **{"promptTokens": 500, "outputTokens": 50},
        },
        {"kind": "least-loaded"},
    ),
}


def drawn(scenario: dict[str, Any], start_s: float = 0.0, end_s: float = 60.0) -> Timeline:
    """The timeline of a run under seed 1."""
    log = StepLog(Excerpt(start_s, end_s))
    result = run_one(load_dict(scenario).variants[0], 1, observer=log)
    return timeline(result, log)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("start_s", "end_s"), [(0.0, 60.0), (1.2345678, 2.3456789), (31.0, 90.0)])
def test_every_rule_of_the_format_is_kept(name: str, start_s: float, end_s: float) -> None:
    """Viewers drop what breaks a rule, silently, or draw it at a wrong place."""
    shown = drawn(RUNS[name], start_s, end_s)
    found = events(shown.text)
    assert breaches(found) == []
    assert shown.events == len(found)


def test_a_breach_would_be_seen() -> None:
    """The check itself would be blind: each of these is one that viewers do not forgive."""
    trace = Trace()
    track = trace.track(trace.process("p"), "t")
    trace.slice(track, "first", (0, 10))
    trace.slice(track, "overlaps", (5, 15), flow=Flow(1, "in"))
    trace.instant(track, "fine", 7)
    found = [*events(trace.rendered({})), {"ph": "B", "name": "x", "pid": 1, "tid": 9, "ts": 1}]
    kinds = [breach.split(":")[0].split(" {")[0] for breach in breaches(found)]
    assert kinds == [
        *("fields", "no such thread", "overlaps", "out of order", "an arrow from nowhere")
    ]


def test_of_slices_that_begin_at_once_the_outer_is_written_first() -> None:
    """Perfetto would drop the outer one: it reads slices of one instant in file order."""
    trace = Trace()
    track = trace.track(trace.process("p"), "t")
    trace.slice(track, "outer", (5, 20))
    trace.slice(track, "inner", (5, 9))
    trace.instant(track, "instant", 5)
    trace.slice(track, "early", (0, 5))
    found = [event["name"] for event in events(trace.rendered({})) if "ts" in event]
    assert found == ["early", "outer", "inner", "instant"]


def test_lanes_are_used_again_and_no_more_than_are_needed() -> None:
    """A pod with a thousand short requests would get a thousand tracks."""
    trace = Trace()
    lanes = Lanes(trace, trace.process("p"), "requests")
    intervals = [(0, 10), (5, 8), (8, 12), (10, 11), (11, 11), (11, 20)]
    used = [lanes.track(interval).thread for interval in intervals]
    first, second = used[0], used[1]
    assert used == [first, second, second, first, first, first]
    names = [event["args"].get("name") for event in events(trace.rendered({}))]
    assert [name for name in names if name] == ["p", "requests", "requests 2"]
