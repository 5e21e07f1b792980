"""Replay of recorded sessions: order, delays, prefixes, sub-agents, and files that are wrong."""

import gzip
import json
from collections import defaultdict
from itertools import pairwise

import pytest
from pydantic import ValidationError

from sim.core.errors import ScenarioError
from sim.core.request import Status
from sim.workload.sessions import Sessions, SessionsSpec
from tests.workload.fakes import after, content, run

ID_TOKENS = 64


def call(prompt, output=10, think=0.0, api=0.0, kind="n", runs=None, model="m"):
    """A recorded request; without ``runs`` its ids count from 1."""
    blocks = prompt // ID_TOKENS
    if runs is None:
        runs = [[1, blocks]] if blocks else []
    return {
        "t": 0.0,
        "type": kind,
        "model": model,
        "in": prompt,
        "out": output,
        "think_time": think,
        "api_time": api,
        "hash_runs": runs,
    }


def sub_agent(t, duration_ms, *calls, kind="Explore"):
    return {
        "t": t,
        "type": "subagent",
        "subagent_type": kind,
        "duration_ms": duration_ms,
        "tool_tokens": 64,
        "system_tokens": 64,
        "requests": list(calls),
    }


def session(*requests, tools=100, system=28, **keys):
    return {
        "block_size": ID_TOKENS,
        "tool_tokens": tools,
        "system_tokens": system,
        "requests": list(requests),
    } | keys


@pytest.fixture
def play(tmp_path):
    """Write sessions and replay them."""

    def replay(*lines, seed=1, service=None, horizon_s=1e9, **keys):
        text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
        (tmp_path / "t.jsonl").write_text(text)
        written = {"kind": "sessions", "agents": 1, "file": "t.jsonl", "ramp": 0}
        spec = SessionsSpec.model_validate(written | {"sessionsPerAgent": 1} | keys)
        workloads = {"real": (Sessions, spec)}
        return run(workloads, seed, service or after(10.0), horizon_s, tmp_path)

    return replay


def kept(ran):
    return [b.prompt.common_prefix(a.prompt) for a, b in pairwise(ran.requests)]


def test_a_call_that_begins_with_all_ids_repeats_the_whole_prompt_and_its_answer(play):
    """If this fails, the tokens behind the last full block, or the answer, are lost."""
    ran = play(session(call(1000, output=50), call(1050), call(1055)))
    first, second, third = ran.requests
    assert kept(ran) == [1000, 1050]
    assert first.answer is first.prompt.node is second.prompt.node
    # 1055 tokens cannot hold the 1050 of the prompt and the 10 of its answer.
    assert second.answer is not third.prompt.node
    assert second.answer.start == 1050


def test_reuse_output_false_strips_answers(play):
    """If this fails, thinking tokens that clients strip are cached all the same."""
    ran = play(session(call(1000, output=50), call(2000)), reuseOutput=False)
    first, second = ran.requests
    assert first.answer is not second.prompt.node
    assert kept(ran) == [1000]


def test_the_match_breaks_at_the_first_id_that_differs(play):
    """If this fails, an edit early in the prompt keeps what lies behind it, or loses all."""
    edited = [[1, 4], [900, 11]]
    ran = play(session(call(960), call(960, runs=edited), call(1500, runs=[[1, 4], [900, 19]])))
    assert kept(ran) == [4 * ID_TOKENS, 960]


def test_equal_ids_in_another_place_are_no_match(play):
    """If this fails, single ids are matched although the text before them differs."""
    ran = play(session(call(640), call(640, runs=[[50, 1], [2, 9]])))
    assert kept(ran) == [0]


def test_a_text_may_go_back_to_what_it_was_before(play):
    """If this fails, a call that returns to an older state is matched with the last one only."""
    aside = [[1, 2], [900, 8]]
    ran = play(session(call(640), call(640, runs=aside), call(1280, runs=[[1, 20]])))
    first, second, third = (request.prompt for request in ran.requests)
    assert second.common_prefix(first) == 2 * ID_TOKENS
    assert third.common_prefix(first) == 640
    assert third.common_prefix(second) == 2 * ID_TOKENS
    assert third.node is not first.node


def test_runs_may_be_cut_anywhere(play):
    """If this fails, two ways to write one sequence of ids do not match."""
    ran = play(session(call(640, runs=[[1, 4], [5, 6]]), call(960, runs=[[1, 9], [10, 6]])))
    assert kept(ran) == [640]


def test_a_shorter_prompt_with_the_same_ids_is_its_beginning(play):
    """If this fails, tokens behind the end of a shortened prompt count as repeated."""
    ran = play(session(call(1000), call(990), call(1500)))
    assert kept(ran) == [990, 990]
    assert ran.requests[2].prompt.common_prefix(ran.requests[0].prompt) == 990


def test_sessions_share_the_tools_of_their_first_model(play):
    """If this fails, tool and system prompts are not shared, or shared too far or too widely."""
    lines = [
        session(call(1000), call(2000), tools=300, system=100),
        session(call(1000), call(2000), tools=200, system=100),
        session(call(1000, model="other"), call(2000, model="m"), tools=300, system=100),
        session(call(150), call(2000), tools=300, system=100),
    ]
    ran = play(*lines, sessionsPerAgent=4)
    firsts = [request for request in ran.requests if request.turn == 1]
    lengths = {request.session_id: request.prompt.segments()[0][1] for request in firsts}
    assert sorted(lengths.values()) == [150, 300, 400, 400]
    shared = sorted(
        one.prompt.common_prefix(other.prompt)
        for i, one in enumerate(firsts)
        for other in firsts[:i]
    )
    assert shared == [0, 0, 0, 150, 150, 300]
    assert ran.counts["real"]["model_changes_ignored"] == 1


@pytest.mark.parametrize(
    ("think", "kinds", "pauses"),
    [
        ("recorded", "nnn", [20.0, 5.0]),
        ("corrected", "nnn", [17.0, 0.0]),  # 20 - 3 of its own, 5 - 7 of its own
        ("corrected", "nss", [18.0, 2.0]),  # 20 - 2 of the call before, 5 - 3 of the call before
    ],
)
def test_delays_follow_the_rule_of_the_recording(play, think, kinds, pauses):
    """If this fails, think times hold the call that the recording proxy doubled."""
    calls = [
        call(1000, api=2.0, kind=kinds[0]),
        call(2000, think=20.0, api=3.0, kind=kinds[1]),
        call(3000, think=5.0, api=7.0, kind=kinds[2]),
    ]
    ran = play(session(*calls), think=think)
    assert [b.arrival_s - a.end_s for a, b in pairwise(ran.requests)] == pauses


def test_delays_start_at_the_end_of_the_response_and_are_capped(play):
    """C63: if this fails, turns overlap on a slow cluster, or a night's pause stops an agent."""
    calls = [call(1000), call(2000, think=20.0), call(3000, think=3600.0)]
    slow = play(session(*calls), service=after(100.0), cap="30s")
    assert slow.arrivals() == [0.0, 120.0, 250.0]


def test_a_session_ends_before_its_first_prompt_beyond_the_limit(play):
    """If this fails, longer prompts are sent, or a later compaction brings the session back."""
    ran = play(
        session(call(1000), call(2000), call(5000), call(2000)),
        session(call(1000), call(5000), call(2000)),
        maxContext=4000,
        sessionsPerAgent=2,
    )
    assert [request.prompt.tokens for request in ran.requests] == [1000, 2000] * 2
    assert [request.closes_session for request in ran.requests] == [False, True] * 2
    assert ran.counts["real"]["sessions"] == 1
    assert ran.counts["real"]["sessions_left_out"] == 1


def test_an_answer_without_a_token_has_one(play):
    """If this fails, a request that can never end is sent, or nobody is told of the change."""
    ran = play(session(call(1000, output=0), call(1001)))
    assert ran.requests[0].output_tokens == 1
    assert ran.requests[0].answer is ran.requests[1].prompt.node
    assert ran.counts["real"]["empty_outputs_raised"] == 1


FANNED_OUT = session(
    call(1000, api=5.0),
    sub_agent(36.0, 30_000, call(1000, think=0.0), call(2000, think=4.0)),
    sub_agent(27.0, 20_000, call(1000)),
    call(3000, think=40.0),
    call(4000),
)
"""The parent waits 5 to 45; its sub-agents run 6 to 36 and 7 to 27."""


def test_sub_agents_run_in_parallel_and_their_parent_waits(play):
    """If this fails, sub-agents queue up behind each other, or the parent overtakes them."""
    ran = play(FANNED_OUT, think="recorded", service=after(10.0))
    times = [(r.session_id, r.turn, r.arrival_s, r.end_s) for r in ran.requests]
    assert times == [
        ("real/0/0", 1, 0.0, 10.0),
        ("real/0/0/1", 1, 11.0, 21.0),
        ("real/0/0/2", 1, 12.0, 22.0),
        ("real/0/0/1", 2, 25.0, 35.0),
        # 9 s of the recorded 40 s lay behind the last sub-agent.
        ("real/0/0", 2, 44.0, 54.0),
        ("real/0/0", 3, 54.0, 64.0),
    ]
    assert ran.finished_s == [64.0]


def test_sub_agents_have_keys_of_their_own_or_their_parents(play):
    """If this fails, the placement of sub-agents cannot be chosen, or is not what was chosen."""
    own = {r.session_id: r.session_key for r in play(FANNED_OUT).requests}
    parents = {
        r.session_id: r.session_key for r in play(FANNED_OUT, subAgents="parent-key").requests
    }
    assert len(set(own.values())) == 3
    assert set(parents.values()) == {own["real/0/0"]}


def test_skipped_sub_agents_leave_the_recorded_delay(play):
    """If this fails, a session without its sub-agents is faster than it was recorded."""
    ran = play(FANNED_OUT, subAgents="skip", think="recorded")
    assert [request.session_id for request in ran.requests] == ["real/0/0"] * 3
    assert ran.arrivals() == [0.0, 50.0, 60.0]


def test_sub_agents_share_their_tools_with_each_other_only(play):
    """If this fails, a sub-agent finds its parent's tool prompt cached, or not its sibling's."""
    ran = play(FANNED_OUT)
    prompts = {r.session_id: r.prompt for r in ran.requests if r.turn == 1}
    parent, one, two = (prompts[f"real/0/0{end}"] for end in ("", "/1", "/2"))
    assert one.common_prefix(two) == 128
    assert one.common_prefix(parent) == 0


def test_sub_agents_behind_the_last_call_are_waited_for(play):
    """If this fails, the agent's next session begins while its sub-agents still run."""
    lone = session(call(1000), call(2000), sub_agent(500.0, 1000, call(1000)))
    ran = play(lone, sessionsPerAgent=2, cap="7s")
    times = [(r.session_id, r.arrival_s) for r in ran.requests]
    assert times[2:4] == [("real/0/0/1", 27.0), ("real/0/1", 37.0)]


def test_a_sub_agent_without_a_duration_starts_when_it_was_launched(play):
    """If this fails, a sub-agent that was started and left alone begins at a wrong time."""
    launched = session(
        call(1000, api=5.0), sub_agent(8.0, None, call(1000)), call(2000), call(3000)
    )
    ran = play(launched)
    assert [(r.session_id, r.arrival_s) for r in ran.requests[1:3]] == [
        ("real/0/0/1", 13.0),
        ("real/0/0", 23.0),
    ]


MANY = [session(call(1000 + 100 * i), call(2000 + i), call(3000, think=3.0)) for i in range(12)]


def first_prompts(requests):
    order = defaultdict(list)
    for request in requests:
        if request.turn == 1:
            order[request.agent_id].append(request.prompt.tokens)
    return order


def test_every_agent_plays_all_sessions_in_an_order_of_its_own(play):
    """If this fails, agents march in step, or some sessions are never played."""
    order = first_prompts(play(*MANY, agents=3, sessionsPerAgent=24).requests)
    everything = [1000 + 100 * i for i in range(12)]
    rounds = [mine[start : start + 12] for mine in order.values() for start in (0, 12)]
    assert all(sorted(one) == everything for one in rounds)
    assert len({tuple(one) for one in rounds}) == 6


def test_a_session_dealt_again_is_a_new_conversation(play):
    """If this fails, the second time a session is played it hits its own first life."""
    ran = play(session(call(1000), call(2000)), sessionsPerAgent=3)
    firsts = [request for request in ran.requests if request.turn == 1]
    assert len({request.session_key for request in firsts}) == 3
    shared = {a.prompt.common_prefix(b.prompt) for a in firsts for b in firsts if a is not b}
    assert shared == {128}


def test_the_cluster_changes_when_and_never_what(play):
    """C66: if this fails, two policies are compared on two workloads."""

    def varying(request):
        return (0.1 + request.session_key % 90, Status.COMPLETED)

    def lists(service, **keys):
        requests = play(*MANY, FANNED_OUT, service=service, sessionsPerAgent=20, **keys).requests
        by_session = defaultdict(list)
        for request in requests:
            by_session[request.session_id].append(request)
        return {name: repr(content(mine)) for name, mine in sorted(by_session.items())}

    fast = lists(after(0.1), agents=3)
    assert len(fast) > 60
    assert fast == lists(after(50.0), agents=3) == lists(varying, agents=3)
    more = lists(after(0.1), agents=5)
    assert {name: more[name] for name in fast} == fast
    assert lists(after(0.1), agents=3, seed=2) != fast


def test_a_turn_that_is_not_completed_ends_its_session(play):
    """C63: if this fails, an agent talks on over a lost answer, or asks at once for ever."""

    def service(request):
        lost = request.session_id == "real/0/0"
        return (0.0, Status.REJECTED) if lost else (10.0, Status.COMPLETED)

    ran = play(session(call(1000), call(2000)), sessionsPerAgent=2, service=service)
    times = [(r.session_id, r.turn, r.arrival_s) for r in ran.requests]
    assert times == [("real/0/0", 1, 0.0), ("real/0/1", 1, 1.0), ("real/0/1", 2, 11.0)]
    assert ran.counts["real"]["sessions_broken_off"] == 1
    assert len(ran.finished_s) == 1


def test_a_sub_agent_that_breaks_off_does_not_stop_its_parent(play):
    """If this fails, a refused sub-agent leaves its parent waiting for ever."""

    def service(request):
        lost = request.session_id.count("/") == 3
        return (1.0, Status.FAILED if lost else Status.COMPLETED)

    ran = play(FANNED_OUT, service=service)
    assert [(r.session_id, r.turn) for r in ran.requests[-2:]] == [("real/0/0", 2), ("real/0/0", 3)]
    assert ran.counts["real"]["sessions_broken_off"] == 2


def test_first_requests_are_spread_over_the_ramp(play):
    """If this fails, all agents ask in the first instant."""
    ran = play(*MANY, agents=200, ramp="30s", horizon_s=30.0, service=after(100.0))
    arrivals = ran.arrivals()
    assert len(arrivals) == 200
    assert 13 < sum(arrivals) / 200 < 17


def test_gzip_and_blank_lines_change_nothing(play, tmp_path):
    """If this fails, a packed file, or one with a blank last line, is another workload."""
    plain = play(*MANY)
    assert content(play(*MANY[:5], "", *MANY[5:], "  ").requests) == content(plain.requests)
    play(*MANY)
    packed = tmp_path / "t.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "t.jsonl").read_bytes()))
    spec = SessionsSpec.model_validate(
        {"kind": "sessions", "agents": 1, "file": packed.name, "ramp": 0, "sessionsPerAgent": 1}
    )
    unpacked = run({"real": (Sessions, spec)}, 1, after(10.0), directory=tmp_path)
    assert content(unpacked.requests) == content(plain.requests)


def said_about(play, tmp_path, *lines, **keys):
    with pytest.raises(ScenarioError) as caught:
        play(*lines, **keys)
    prefix = str(tmp_path / "t.jsonl")
    return [line.removeprefix(prefix) for line in str(caught.value).splitlines()]


def test_every_fault_of_a_file_is_named_with_line_and_value(play, tmp_path):
    """C74: if this fails, a bad line is skipped, becomes 0, or hides the next fault."""
    good = session(call(1000), call(2000))
    inner = sub_agent(3.0, -1, call(1000) | {"type": "subagent"})
    lines = [
        good,
        "{not json",
        "[]",
        session(call(0), call(2000) | {"out": -1, "think_time": "soon"}),
        session(call(1000, runs=[[1, 0]]), call(1000) | {"model": None}),
        session(call(1000), inner, {"type": "x"}, 7, call(1000, think=float("nan"))),
        session(),
        {key: value for key, value in good.items() if key != "tool_tokens"},
        session(call(1000, runs=[[1, 16]]), sub_agent(1.0, 5, call(64, runs=[[1, 2]]))),
    ]
    positive = "must be a whole number of tokens, at least 1"
    seconds = "must be seconds from 0 to 3.16224e+07"
    found = said_about(play, tmp_path, *lines)
    assert found[0].startswith(":2:2: is not JSON: ")
    assert found[1:] == [
        ":3:1: must be a session, an object; got a list",
        f":4:1: requests[0].in: {positive}; got 0",
        ":4:1: requests[1].out: must be a whole number of tokens, 0 or more; got -1",
        f":4:1: requests[1].think_time: {seconds}; got 'soon'",
        ":5:1: requests[0].hash_runs: must be a list of [first id, count of ids]",
        ":5:1: requests[1].model: must be a name; got nothing",
        ":6:1: requests[1].requests[0].type: must be one of n, s, subagent; got 'subagent'",
        ":6:1: requests[1].duration_ms: must be milliseconds from 0 to 3.16224e+10; got -1",
        ":6:1: requests[2].type: must be one of n, s, subagent; got 'x'",
        ":6:1: requests[3]: must be an object; got 7",
        f":6:1: requests[4].think_time: {seconds}; got nan",
        ":7:1: requests: must be a list of requests; got an empty list",
        ":8:1: tool_tokens: must be a whole number of tokens, 0 or more; "
        "got nothing: the key is missing",
        ":9:1: requests[0].hash_runs: lists 16 full blocks; the prompt has 15",
        ":9:1: requests[1].requests[0].hash_runs: lists 2 full blocks; the prompt has 1",
    ]


def test_a_session_that_is_there_twice_is_refused(play, tmp_path):
    """If this fails, a trace that was joined with itself counts every session double."""
    one = session(call(1000), call(2000))
    assert said_about(play, tmp_path, one, one | {"id": "a"}, one | {"id": "a"}) == [
        ":3:1: id: 'a' is the id of the session in line 2 already"
    ]
    assert said_about(play, tmp_path, one | {"id": 7}) == [":1:1: id: must be a name; got 7"]


def test_a_file_without_a_usable_session_is_refused(play, tmp_path):
    """C75: if this fails, an empty trace gives an empty report that looks like success."""
    assert said_about(play, tmp_path) == [": is empty; one session per line is needed"]
    short = session(call(1000), call(200_000))
    assert said_about(play, tmp_path, short) == [
        ": no session has two requests of at most 128000 tokens"
    ]


def test_damaged_and_foreign_files_are_refused(tmp_path):
    """C76: if this fails, a file cut short in a download, or a foreign one, is a traceback."""
    whole = gzip.compress(json.dumps(session(call(1000), call(2000))).encode())
    damaged = {"cut.gz": whole[:-9], "bits.gz": whole[:20] + b"xxxx" + whole[24:], "u": b"\xff\xfe"}
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
        spec = SessionsSpec.model_validate({"kind": "sessions", "agents": 1, "file": name})
        with pytest.raises(ScenarioError, match=r"damaged gzip file|UTF-16"):
            run({"real": (Sessions, spec)}, directory=tmp_path)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"agents": 0}, "got 0"),
        ({"think": "guessed"}, "'corrected' or 'recorded'"),
        ({"subAgents": "both"}, "'own-key', 'parent-key' or 'skip'"),
        ({"cap": -1}, "got -1"),
    ],
)
def test_nonsense_is_refused(keys, said):
    """C73: if this fails, an option that means nothing is accepted."""
    written = {"kind": "sessions", "agents": 1, "file": "t.jsonl"}
    with pytest.raises(ValidationError, match=said):
        SessionsSpec.model_validate(written | keys)
