"""What a timeline says of a run is what happened in it."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from sim.core.ports import StepReport
from sim.execution.runner import run_one
from sim.scenario.load import load_dict
from sim.timeline.drawing import step_name
from sim.timeline.excerpt import Excerpt, StepLog
from sim.timeline.timeline import timeline
from tests.cluster.scenarios import fleet
from tests.results.builders import Book, mixed_run, pooled_facts, pooled_run
from tests.timeline.format import breaches, events
from tests.timeline.test_format import RUNS

FOUR = [
    {"arrival": 0.0, "promptTokens": 1000, "outputTokens": 3, "session": "a"},
    {"arrival": 0.0, "promptTokens": 500, "outputTokens": 21, "session": "b"},
]


def step(**changes: Any) -> StepReport:
    plain = StepReport("qwen-0", 10.5, 11.0, 1, 0, 2, 300, 1, 3, 0.5, (), ())
    return plain._replace(**changes)


def by_hand(*reports: StepReport, start_s: float = 10.0, end_s: float = 20.0) -> list[dict]:
    log = StepLog(Excerpt(start_s, end_s))
    for report in reports:
        log.stepped(report)
    found = events(timeline(mixed_run(), log).text)
    assert breaches(found) == []
    return found


def run(scenario: dict[str, Any], start_s: float = 0.0, end_s: float = 60.0):
    """Events, step reports and result of a run."""
    log = StepLog(Excerpt(start_s, end_s))
    result = run_one(load_dict(scenario).variants[0], 1, observer=log)
    return events(timeline(result, log).text), log.reports, result


def tracks(found: list[dict]) -> dict[int, str]:
    return {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}


def slices(found: list[dict], track: str) -> list[tuple[float, float, str]]:
    """Start, end (s) and name of the slices of tracks of a name."""
    names = tracks(found)
    return [
        (event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6, event["name"])
        for event in found
        if event["ph"] == "X" and names[event["tid"]] == track
    ]


def test_a_request_is_queue_prefill_and_decode_on_its_pod() -> None:
    """The one thing a timeline is opened for: where the time to the first token went."""
    found = by_hand()
    assert slices(found, "requests") == [
        # qwen-0: the first request came before the excerpt and is cut at its start.
        *[(10.0, 12.0, "request 0"), (10.0, 12.0, "decode")],
        *[(12.25, 17.0, "request 2"), (12.25, 15.0, "prefill"), (15.0, 17.0, "decode")],
        *[(16.0, 18.0, "request 5"), (16.0, 17.0, "prefill"), (17.0, 18.0, "decode")],
        *[(17.0, 19.0, "request 6"), (17.0, 19.0, "queue")],
        *[(18.0, 20.0, "request 7"), (18.0, 19.0, "queue"), (19.0, 20.0, "prefill")],
        *[(19.0, 20.0, "request 8"), (19.0, 20.0, "queue")],
    ]
    assert slices(found, "requests 2") == [
        *[(10.0, 14.0, "request 1"), (10.0, 10.5, "queue"), (10.5, 11.0, "prefill")],
        (11.0, 14.0, "decode"),
        *[(13.0, 14.0, "request 3"), (13.0, 14.0, "queue")],
    ]


def test_a_request_says_what_became_of_it() -> None:
    """The reader would have to look the figures up in the tables."""
    args = next(event for event in by_hand() if event["name"] == "request 2")["args"]
    assert args == {
        **{"session": "B", "turn": 1, "attempt": 1, "outcome": "spill", "reason": "waiting"},
        **{"status": "completed", "arrival_s": 12.0, "hold_s": 0.25, "queue_s": 0.0},
        **{"prefill_s": 2.75, "ttft_s": 3.0, "decode_s": 2.0},
        **{"prompt_tokens": 300, "cached_tokens": 0, "computed_tokens": 300},
        **{"output_tokens": 5, "preemptions": 0},
    }


def test_placements_last_as_long_as_the_proxy_held_the_request() -> None:
    """A hold, or a refusal by the proxy, would be taken for time on the pod."""
    found = by_hand()
    assert slices(found, "proxy-0") == [
        (10.0, 10.0, "sticky to qwen-0"),
        (12.0, 12.25, "spill (waiting) to qwen-1"),
        (13.0, 13.0, "unkeyed to qwen-1"),
        (16.0, 16.0, "migrated (not_ready) to qwen-0"),
        (17.0, 17.0, "new to qwen-1"),
        (18.0, 18.0, "sticky to qwen-0"),
        (19.0, 19.0, "new to qwen-1"),
    ]
    assert slices(found, "not placed") == [(15.0, 15.0, "rejected (no_ready_pod)")]


def test_arrows_lead_from_turn_to_placement_to_pod() -> None:
    """One would have to search for the place where a turn was served."""
    chains: dict[str, list[str]] = {}
    for event in by_hand():
        if "bind_id" in event:
            chains.setdefault(event["bind_id"], []).append(event["name"])
    assert chains["0x3"] == ["turn 1", "spill (waiting) to qwen-1", "request 2"]
    assert chains["0x6"] == ["migrated (not_ready) to qwen-0", "request 5"]  # no session
    assert "0x1" not in chains  # it arrived before the excerpt
    assert "0x5" not in chains  # it was never placed


def test_a_session_is_turns_and_the_time_between_them() -> None:
    """Think time of people and tools would be taken for time in the system."""
    rows = [
        {"session": "a", "arrival": "1s", "promptTokens": 1000, "outputTokens": 11},
        {"session": "a", "think": "2s", "promptTokens": 2000, "outputTokens": 11},
    ]
    found, _, result = run(fleet({"kind": "script", "rows": rows}, {"kind": "round-robin"}))
    ends = result.requests.end_s.round(6).tolist()
    assert slices(found, "w/a") == [
        (1.0, ends[0], "turn 1"),
        (ends[0], round(ends[0] + 2.0, 6), "between turns"),
        (round(ends[0] + 2.0, 6), ends[1], "turn 2"),
    ]


def test_the_steps_of_a_pod_follow_one_another_and_are_all_there() -> None:
    """A hole in the track would be taken for an idle pod, work would be missing or counted twice.

    T0: 10 ms + 0.05 ms per prefill token + 0.1 ms per decode.
    """
    scenario = fleet({"kind": "script", "rows": FOUR}, {"kind": "round-robin"}, replicas=1)
    found, _, _ = run(scenario)
    named = [(round(end - start, 6), name) for start, end, name in slices(found, "steps")]
    assert named == [
        (0.085, "prefill 1500"),
        (0.0204, "2 decodes, 2 steps"),
        (0.1818, "1 decode, 18 steps"),
    ]
    steps = slices(found, "steps")
    assert all(before[1] == after[0] for before, after in pairwise(steps))


def test_a_step_names_its_prefill_its_decodes_and_whom_it_threw_out() -> None:
    """What a step was busy with could not be read on the track."""
    assert step_name(step(prefill_tokens=8191, decoders=12)) == "prefill 8191 + 12 decodes"
    assert step_name(step(steps=34, decoders=12)) == "12 decodes, 34 steps"
    assert step_name(step(preempted=(4, 5))) == "2 decodes, 2 preempted"


@pytest.mark.parametrize(
    ("name", "at_once"),
    [("preemptions", 1), ("several preempted at once", 2), ("a full pool of slots", 0)],
)
def test_steps_account_for_every_token_of_the_run(name: str, at_once: int) -> None:
    """What pods say to an observer would not be what they did: prompts, answers, preemptions."""
    _, reports, result = run(RUNS[name])
    assert max(len(report.preempted) for report in reports) >= at_once
    totals = result.facts.closed
    assert (sum(pod.preemptions for pod in totals) > 0) == (at_once > 0)
    for index, pod in enumerate(result.facts.pods):
        mine = [report for report in reports if report.pod == pod]
        assert sum(report.prefill_tokens for report in mine) == totals[index].computed_tokens
        assert sum(len(report.preempted) for report in mine) == totals[index].preemptions
        assert sum(report.steps for report in mine) == totals[index].steps
        busy_s = sum(report.end_s - report.start_s for report in mine)
        assert busy_s == pytest.approx(totals[index].busy_s)
        for report in mine:
            assert sum(tokens for _, tokens in report.chunks) == report.prefill_tokens


def test_chunks_and_preemptions_are_drawn_inside_their_request() -> None:
    """One would see that a prompt took long, but not whose tokens stood in between."""
    found, reports, result = run(RUNS["preemptions"])
    computed = Counter[int]()
    thrown_out = Counter[int]()
    for report in reports:
        thrown_out.update(report.preempted)
        for request, tokens in report.chunks:
            computed[request] += tokens
    stacks: dict[int, int] = {}
    drawn, instants = Counter[int](), Counter[int]()
    for event in found:
        if event["name"].startswith("request "):
            stacks[event["tid"]] = int(event["name"].split()[1])
        elif event["name"].endswith(" tokens"):
            drawn[stacks[event["tid"]]] += int(event["name"].split()[0])
        elif event["ph"] == "i":
            instants[stacks[event["tid"]]] += 1
    assert drawn == computed
    assert instants == thrown_out
    assert dict(thrown_out) == {
        index: times for index, times in enumerate(result.requests.preemptions) if times
    }


def test_a_client_that_leaves_during_a_step_cuts_its_slices() -> None:
    """The chunk would stick out of its request, and viewers would drop it."""
    chunk = step(start_s=18.5, end_s=21.0, prefill_tokens=60, chunks=((6, 60),), pod="qwen-1")
    found = by_hand(chunk)
    assert (18.5, 19.0, "60 tokens") in slices(found, "requests")


def test_counters_follow_the_steps_and_fall_to_zero_when_idle() -> None:
    """An idle pod would seem to go on with its last load."""
    found = by_hand(
        step(start_s=9.0, end_s=10.5, running=2, waiting=0, kv_usage=0.25),
        step(start_s=10.5, end_s=11.0, running=2, waiting=0, kv_usage=0.5),
        step(start_s=12.0, end_s=14.0, running=1, waiting=3, kv_usage=0.5),
    )
    pod = next(e["pid"] for e in found if e["ph"] == "M" and e["args"].get("name") == "qwen-0")
    load = [
        (event["ts"] / 1e6, *event["args"].values())
        for event in found
        if event["ph"] == "C" and event["name"] == "requests" and event["pid"] == pod
    ]
    assert load == [(10.0, 2, 0), (11.0, 0, 0), (12.0, 1, 3), (14.0, 0, 0)]
    kv = [
        (event["ts"] / 1e6, event["args"]["percent"])
        for event in found
        if event["name"] == "KV cache" and event["pid"] == pod
    ]
    assert kv == [(10.0, 25.0), (10.5, 50.0), (11.0, 0.0), (12.0, 50.0), (14.0, 0.0)]


def test_what_the_router_polled_is_shown_beside_the_load() -> None:
    """A placement on old metrics would look like a bad policy."""
    polled = [
        (event["ts"] / 1e6, event["args"]) for event in by_hand() if event["name"] == "as polled"
    ]
    assert polled == [
        (10.0, {"in_flight": 1, "waiting": 0, "running": 1}),
        (10.0, {"in_flight": 0, "waiting": 0, "running": 0}),
        (15.0, {"in_flight": 0, "waiting": 0, "running": 0}),
        (15.0, {"in_flight": 1, "waiting": 0, "running": 1}),
    ]


def test_steps_in_flight_at_the_end_of_the_run_are_shown_up_to_it() -> None:
    """A pod in the middle of a long span would look idle in the last seconds."""
    rows = [{"arrival": 0.0, "promptTokens": 100, "outputTokens": 1000}]
    found, _, result = run(
        fleet({"kind": "script", "rows": rows}, {"kind": "round-robin"}, 1, {"measure": "1s"})
    )
    assert result.facts.end_s == 1.0
    assert [(start, end) for start, end, _ in slices(found, "steps")] == [(0.0, 0.015), (0.015, 1)]
    assert slices(found, "requests")[-1] == (0.015, 1.0, "decode")


@pytest.mark.parametrize("name", RUNS)
def test_watching_changes_nothing(name: str) -> None:
    """A run with a timeline would not be the run that was to be explained."""
    scenario = load_dict(RUNS[name]).variants[0]
    log = StepLog(Excerpt(0.0, 1e9))
    assert run_one(scenario, 1, observer=log).digest == run_one(scenario, 1).digest
    assert bool(log.reports) == (name != "refusals")


def pooled(start_s: float = 0.0, end_s: float = 110.0) -> list[dict]:
    found = events(timeline(pooled_run(), StepLog(Excerpt(start_s, end_s))).text)
    assert breaches(found) == []
    return found


def test_a_pool_is_who_was_resident_and_how_it_changed_hands() -> None:
    """Nobody would see what a request waits for while no pod computes anything."""
    found = pooled()
    assert slices(found, "resident") == [(12.0, 44.0, "b"), (50.0, 61.0, "a"), (86.0, 90.5, "b")]
    assert slices(found, "swaps") == [
        *[(5.0, 12.0, "cold > b"), (5.0, 12.0, "load")],
        *[(44.0, 50.0, "b > a"), (44.0, 45.0, "unload"), (45.0, 50.0, "load")],
        *[(61.0, 71.0, "a > b (deadline)"), (61.0, 63.0, "unload"), (63.0, 71.0, "load")],
        *[(76.0, 86.0, "cold > b"), (76.0, 86.0, "load")],
        *[(90.5, 91.5, "b > a (error)"), (90.5, 91.0, "unload"), (91.0, 91.5, "load")],
        (95.0, 110.0, "cold > a"),
    ]
    skips = [(event["ts"] / 1e6, event["name"]) for event in found if event["ph"] == "i"]
    assert skips == [(16.0, "request 2 skips a")]


def test_a_pool_shows_whom_it_holds() -> None:
    """A request that waits for a model would not be seen anywhere until it is placed."""
    found = pooled()
    assert slices(found, "held") == [
        (5.0, 12.0, "request 0 for b"),
        (44.0, 50.0, "request 3 for a"),
        (61.0, 71.0, "request 4 for b"),
        (76.0, 86.0, "request 4 for b"),
        (95.0, 110.0, "request 6 for a"),
    ]
    assert slices(found, "held 2") == [(96.0, 99.0, "request 7 for a")]
    results = [event["args"]["result"] for event in found if " for " in event["name"]]
    assert results == [
        *("granted", "granted", "swap_deadline_exceeded", "granted"),
        *("still held", "cancelled"),
    ]


def test_a_pool_is_cut_where_the_excerpt_ends() -> None:
    """Slices would begin before the first second that is shown."""
    found = pooled(62.0, 80.0)
    assert slices(found, "resident") == []
    assert slices(found, "swaps") == [
        *[(62.0, 71.0, "a > b (deadline)"), (62.0, 63.0, "unload"), (63.0, 71.0, "load")],
        *[(76.0, 80.0, "cold > b"), (76.0, 80.0, "load")],
    ]


@pytest.mark.parametrize(
    ("start_s", "end_s", "elsewhere_s"),
    [(13.0, 40.0, 44.0), (92.0, 94.0, 95.0), (0.0, 1.0, 5.0), (63.0, 70.0, None)],
)
def test_an_excerpt_without_a_swap_says_where_the_next_is(
    start_s: float, end_s: float, elsewhere_s: float | None
) -> None:
    """One would look for the swaps of a pool in a minute that has none."""
    drawn = timeline(pooled_run(), StepLog(Excerpt(start_s, end_s)))
    assert drawn.swap_elsewhere_s == elsewhere_s


def test_an_excerpt_after_the_last_swap_leads_back_to_the_first() -> None:
    """One would be told that there is no swap, in a run that has some."""
    book = Book()
    for start_s in (5.0, 20.0):
        book.swap(start_s, "a", end_s=start_s + 2.0)
    result = book.freeze(pooled_facts())
    assert timeline(result, StepLog(Excerpt(50.0, 60.0))).swap_elsewhere_s == 5.0
