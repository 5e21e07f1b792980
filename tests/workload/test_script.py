"""Scripted rows: when they go out, what they say, and which rows are refused."""

from itertools import pairwise

import pytest
from pydantic import ValidationError

from sim.core.errors import ScenarioError
from sim.core.request import Status
from sim.workload.agent_spec import AgentsSpec
from sim.workload.agents import Agents
from sim.workload.script import Script, ScriptSpec
from tests.workload.fakes import after, content, run


def spec(*rows, **keys):
    return ScriptSpec.model_validate({"kind": "script", "rows": rows, **keys})


def row(**keys):
    return {"arrival": 0, "promptTokens": 100, "outputTokens": 50} | keys


def waiting(**keys):
    return {"think": 5, "promptTokens": 100, "outputTokens": 50} | keys


def sent(*rows, service=None, seed=1, **keys):
    return run({"bug": (Script, spec(*rows, **keys))}, service=service, seed=seed)


def shared_with_turn_before(ran):
    requests = ran.requests
    return [b.prompt.common_prefix(a.prompt) for a, b in pairwise(requests)]


def test_think_time_starts_at_the_end_of_the_turn_before():
    """C63: if this fails, a slow pod sees turns of one session overlap that never would."""
    rows = [row(session="a"), waiting(session="a"), waiting(session="a")]
    ran = sent(*rows, service=after(10.0))
    assert ran.arrivals() == [0.0, 15.0, 30.0]
    assert [request.end_s for request in ran.requests] == [10.0, 25.0, 40.0]
    assert ran.finished_s == [40.0]


def test_fixed_arrivals_overlap():
    """C63: if this fails, replayed timestamps are silently turned into a closed loop."""
    rows = [row(session="a", arrival=arrival) for arrival in (0, 7, 14)]
    ran = sent(*rows, service=after(10.0))
    assert ran.arrivals() == [0.0, 7.0, 14.0]
    assert ran.requests[0].end_s > ran.requests[1].arrival_s
    assert [request.turn for request in ran.requests] == [1, 2, 3]


def test_a_later_prompt_continues_the_text_with_its_answer():
    """C33: if this fails, an answer that is sent back is not the one that was generated."""
    ran = sent(row(session="a"), waiting(session="a", promptTokens=200))
    first, second = ran.requests
    assert first.answer is first.prompt.node is second.prompt.node


@pytest.mark.parametrize(("tokens", "keys"), [(149, {}), (1000, {"reuseOutput": False})])
def test_a_prompt_without_room_for_the_answer_goes_on_without_it(tokens, keys):
    """If this fails, the next turn hits the KV of an answer that its prompt does not contain."""
    ran = sent(row(session="a"), waiting(session="a", promptTokens=tokens), **keys)
    first, second = ran.requests
    assert first.answer is not first.prompt.node
    assert first.answer.parent is first.prompt.node
    assert first.answer.start == 100
    assert second.prompt.common_prefix(first.prompt) == 100


def test_a_shorter_prompt_is_a_compaction():
    """C74 (vii): if this fails, a compacted prompt still matches text that it no longer holds."""
    shared = {"sharedPrefix": "tools", "sharedTokens": 40}
    rows = [
        row(session="a", **shared),
        waiting(session="a", promptTokens=90),
        waiting(session="a", promptTokens=60),
        row(session="b", promptTokens=50),
        waiting(session="b", promptTokens=20),
    ]
    ran = sent(*rows)
    a = [request for request in ran.requests if request.session_id == "bug/a"]
    b = [request for request in ran.requests if request.session_id == "bug/b"]
    assert [y.prompt.common_prefix(x.prompt) for x, y in pairwise(a)] == [40, 40]
    assert b[1].prompt.common_prefix(b[0].prompt) == 0


def test_a_compaction_after_an_edit_goes_back_to_the_true_shared_prefix():
    """If this fails, a session that once edited its system prompt is compacted to the edited one:
    its own stale text hits, and what all other sessions keep in the cache does not."""
    shared = {"sharedPrefix": "tools", "sharedTokens": 40}
    rows = [
        row(session="a", **shared),
        waiting(session="a", promptTokens=120, keptTokens=30),
        waiting(session="a", promptTokens=90),
        waiting(session="a", promptTokens=35),
        waiting(session="a", promptTokens=300),
        row(arrival=1000, **shared),
    ]
    *turns, other = (request.prompt for request in sent(*rows).requests)
    assert [turn.common_prefix(other) for turn in turns] == [40, 30, 40, 35, 35]
    assert turns[2].common_prefix(turns[1]) == 30


def test_kept_tokens_say_where_the_prefix_breaks():
    """If this fails, an edit inside a prompt, or inside an answer, cannot be written exactly."""
    rows = [
        row(session="a"),
        waiting(session="a", promptTokens=300, keptTokens=30),
        waiting(session="a", promptTokens=400, keptTokens=320),
    ]
    ran = sent(*rows)
    assert shared_with_turn_before(ran) == [30, 300]
    _, second, third = ran.requests
    assert second.answer is second.prompt.node
    assert third.prompt.node.parent is second.answer
    assert third.prompt.node.start == 320


def test_a_shared_prefix_over_the_whole_prompt_is_the_same_prompt():
    """C21: if this fails, "the same prompt again" is another prompt and never hits."""
    same = {"sharedPrefix": "p", "sharedTokens": 100}
    ran = sent(row(**same), row(arrival=1, **same), row(arrival=2, session="x", **same))
    assert shared_with_turn_before(ran) == [100, 100]
    assert len({request.answer for request in ran.requests}) == 3
    assert all(request.answer is not request.prompt.node for request in ran.requests)


def test_rows_share_exactly_what_they_say():
    """If this fails, rows share more, or less, than their shared tokens."""
    ran = sent(
        row(sharedPrefix="p", sharedTokens=60),
        row(sharedPrefix="p", sharedTokens=30),
        row(sharedPrefix="q", sharedTokens=60),
        row(sharedPrefix="p", sharedTokens=0),
        row(),
    )
    first = ran.requests[0].prompt
    shared = [request.prompt.common_prefix(first) for request in ran.requests[1:]]
    assert shared == [30, 0, 0, 0]


def test_a_session_has_one_key_for_its_life_and_another_under_another_seed():
    """C66: if this fails, a session changes its home, or no seed changes the ring's luck."""
    rows = [row(session="a"), waiting(session="a"), row(session="b"), row()]
    one, again, other = sent(*rows), sent(*rows), sent(*rows, seed=2)
    keys = {(r.session_id, r.session_key) for r in one.requests}
    assert len(keys) == 3
    assert ("bug/row-4", None) in keys
    assert keys == {(r.session_id, r.session_key) for r in again.requests}
    assert keys != {(r.session_id, r.session_key) for r in other.requests}


def test_a_client_that_leaves_does_so_at_its_time():
    """If this fails, a cancel time counts from the wrong moment, or hits an ended request."""
    rows = [row(arrival=3, cancel=2), row(arrival=3, cancel=20), row(arrival=4)]
    ran = sent(*rows, service=after(10.0))
    assert [(request.status, request.end_s) for request in ran.requests] == [
        (Status.CANCELLED, 5.0),
        (Status.COMPLETED, 13.0),
        (Status.COMPLETED, 14.0),
    ]
    assert ran.finished_s == [14.0]


def test_a_session_goes_on_after_its_client_left_a_turn():
    """If this fails, a user who stops an answer and asks again is lost."""
    rows = [row(session="a", cancel=2), waiting(session="a")]
    ran = sent(*rows, service=after(10.0))
    assert ran.arrivals() == [0.0, 7.0]
    assert set(ran.counts["bug"].values()) == {0}


@pytest.mark.parametrize("status", [Status.REJECTED, Status.FAILED])
def test_rows_behind_a_turn_that_was_not_served_are_dropped_and_counted(status):
    """C63: if this fails, turns go out on top of an answer that never came, or vanish uncounted."""
    rows = [
        row(session="a"),
        waiting(session="a"),
        waiting(session="a"),
        row(session="a", arrival=100),
        row(session="b"),
        waiting(session="b"),
    ]

    def service(request):
        fails = request.session_id == "bug/a" and request.turn == 1
        return (1.0, status if fails else Status.COMPLETED)

    ran = sent(*rows, service=service)
    assert [(request.session_id, request.turn) for request in ran.requests] == [
        ("bug/a", 1),
        ("bug/b", 1),
        ("bug/b", 2),
        ("bug/a", 4),
    ]
    assert ran.counts["bug"]["rows_not_sent"] == 2
    assert ran.finished_s == [101.0]


def test_turns_of_one_instant_go_in_their_order_however_it_was_added_up():
    """The turns of a session would change places because 0.1 + 0.2 is not 0.3 to a float."""
    rows = [row(session="a", arrival=0.1 + 0.2), row(session="a", arrival=0.3, promptTokens=2000)]
    ran = sent(*rows)
    assert [request.turn for request in ran.requests] == [1, 2]
    assert [request.prompt.tokens for request in ran.requests][1] == 2000


def test_rows_due_at_one_instant_go_in_their_order_however_they_came_to_be_due():
    """C63: if this fails, rows due at 0.5 s are placed in the order in which that became known:
    first those that arrive then, next the follow-up whose turn before ended first."""
    rows = [
        row(session="a"),
        row(session="b"),
        waiting(session="a", think=0.25),
        row(arrival=0.5),
        waiting(session="b", think=0.375),
        row(arrival=0.5),
        row(arrival=0.75),
    ]
    rows = [written | {"promptTokens": 100 + index} for index, written in enumerate(rows)]
    served_s = {"bug/a": 0.25, "bug/b": 0.125}
    rows = [row(arrival=2, id="late"), *rows]
    ran = sent(*rows, service=lambda r: (served_s.get(r.session_id, 1.0), Status.COMPLETED))
    assert ran.arrivals() == [0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.75, 2.0]
    assert [request.prompt.tokens for request in ran.requests][:-1] == list(range(100, 107))
    assert ran.counts["bug"]["rows_out_of_order"] == 5


def test_no_row_is_an_agents_turn():
    """If this fails, scripted turns beside agents raise the turns that each agent seems to make,
    though the script is none of the agents that they are divided by."""
    ran = run(
        {
            "coding": (Agents, AgentsSpec.model_validate({"kind": "agents", "agents": 1})),
            "bug": (Script, spec(row(session="a"), waiting(session="a"), row())),
        },
        horizon_s=600.0,
    )
    senders = {(request.workload, request.agent_id) for request in ran.requests}
    assert senders == {("coding", "coding/0"), ("bug", "")}


def test_the_last_turn_closes_the_session():
    """If this fails, the time of a session is never known, or known too early, or the time of a
    single request passes for that of a session."""
    ran = sent(row(session="a"), waiting(session="a"), row())
    closes = {(r.session_id, r.turn): r.closes_session for r in ran.requests}
    assert closes == {("bug/a", 1): False, ("bug/a", 2): True, ("bug/row-3", 1): False}


def test_what_is_sent_does_not_depend_on_the_cluster():
    """C66: if this fails, two policies are compared on two workloads."""
    rows = [row(session=s, arrival=a) for s, a in (("a", 0), ("b", 1))]
    rows += [waiting(session=s, promptTokens=500, think=t) for s, t in (("a", 3), ("b", 0.5))]

    def by_turn(ran):
        return content(sorted(ran.requests, key=lambda r: (r.session_id, r.turn)))

    assert by_turn(sent(*rows, service=after(0.1))) == by_turn(sent(*rows, service=after(77.0)))


def test_every_fault_has_its_place():
    """If this fails, a user mends one row at a time, or looks in the wrong line."""
    with pytest.raises(ValidationError) as caught:
        spec(
            waiting(session="a"),
            row(session="b", turn=2, id=1),
            row(session="b", id="1", keptTokens=80),
            row(session="b", keptTokens=99, promptTokens=151),
            row(session="b", keptTokens=202, promptTokens=300),
            row(session="b", promptTokens=300, sharedPrefix="p", sharedTokens=10),
            unit="ms",
        )
    (error,) = caught.value.errors()
    assert set(error["ctx"]["problems"]) == {
        ("rows.0.think", "the first row of a session needs an arrival"),
        ("rows.1.turn", "turn 2 of session 'b' comes as its turn 1"),
        ("rows.2.id", "'1' is the id of row 2 already"),
        ("rows.4.keptTokens", "the text so far has 201 tokens; got 202"),
        ("rows.5.sharedPrefix", "must be as in the session's first row (none), or left out"),
        ("unit", "only for a file; rows write their units"),
    }


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (row(think=1, session="a"), "think: a row has arrival or think, not both"),
        ({"promptTokens": 1, "outputTokens": 1}, "arrival: missing"),
        (waiting(), "only a row with a session"),
        (row(turn=1), "turn: only a row with a session"),
        (row(sharedTokens=10), "sharedPrefix: missing"),
        (row(sharedPrefix="p"), "sharedTokens: missing"),
        (row(sharedPrefix="p", sharedTokens=101), "not be above promptTokens, 100; got 101"),
        (row(session="a", keptTokens=10), "first turn has no text"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(written, said):
    """C42, C73: if this fails, a contradictory row runs and its numbers mean nothing."""
    with pytest.raises(ValidationError, match=said):
        spec(written)


@pytest.mark.parametrize("keys", [{}, {"rows": ()}, {"rows": (row(),), "file": "a.csv"}])
def test_a_script_has_rows_or_a_file(keys):
    """C75: if this fails, a script without a row runs and reports zeros."""
    with pytest.raises(ValidationError, match=r"exactly one of rows, file|at least one row"):
        ScriptSpec.model_validate({"kind": "script", **keys})


def test_a_model_that_nobody_serves_is_refused_with_its_count():
    """C74 (vi): if this fails, a recorded model name drops every request in silence."""
    rows = [row(model="gpt"), row(model="qwen"), row(model="gpt"), row(model="claude"), row()]
    with pytest.raises(ScenarioError) as caught:
        run({"bug": (Script, spec(*rows))}, models=("qwen",))
    assert str(caught.value).splitlines() == [
        "bug: rows.0.model: no backend serves 'gpt' (the first of 2 rows); served: qwen",
        "bug: rows.3.model: no backend serves 'claude'; served: qwen",
    ]
    served = run({"bug": (Script, spec(*rows))}, models=("claude", "gpt", "qwen"))
    assert [request.model for request in served.requests] == ["gpt", "qwen", "gpt", "claude", ""]


def test_a_script_says_how_many_turns_do_not_wait():
    """C63: if this fails, nobody can tell a closed loop from replayed stamps in the results."""
    closed = sent(row(session="a"), waiting(session="a"), row(), row(arrival=9, session="b"))
    assert closed.counts["bug"]["turns_at_fixed_times"] == 0
    mixed = sent(row(session="a"), row(session="a", arrival=7), waiting(session="a"))
    assert mixed.counts["bug"]["turns_at_fixed_times"] == 1


@pytest.mark.parametrize("keys", [{"firstArrival": 0}, {"speed": 2}])
def test_rows_written_in_the_scenario_are_not_moved(keys):
    """If this fails, exact times in a bug report are silently others."""
    with pytest.raises(ValidationError, match="only for a file; rows say when they come"):
        spec(row(), **keys)
