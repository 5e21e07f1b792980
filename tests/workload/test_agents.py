"""Agents in a closed loop: when they ask, what they say, and how their sessions end."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from sim.core.request import Status
from sim.workload.agent_spec import AgentsSpec
from sim.workload.agents import PAUSE_S, Agents, SessionSource
from tests.workload.fakes import after, content, run


def spec(**keys):
    return AgentsSpec.model_validate({"kind": "agents", "agents": 4} | keys)


def ran(seed=1, service=None, horizon_s=3000.0, **keys):
    return run({"coding": (Agents, spec(**keys))}, seed, service or after(5.0), horizon_s)


def by_agent(requests):
    mine = defaultdict(list)
    for request in requests:
        mine[request.agent_id].append(request)
    return mine


def by_session(requests):
    mine = defaultdict(list)
    for request in requests:
        mine[request.session_id].append(request)
    return list(mine.values())


def pauses_s(requests):
    """Per agent: end of a response to the next request."""
    return {
        agent: [round(b.arrival_s - a.end_s, 6) for a, b in pairwise(mine) if a.end_s is not None]
        for agent, mine in by_agent(requests).items()
    }


SHORT = {"turns": 4, "freshShare": 1, "earlyEditShare": 0, "growth": 1000, "output": 400}
"""Sessions of four turns that differ in their first prompts and think times only."""


def test_an_agent_waits_for_the_end_and_then_thinks():
    """C63: if this fails, think time counts from the arrival, or turns of an agent overlap."""
    slow = ran(service=after(60.0), think=5, horizon_s=1000.0)
    for mine in by_agent(slow.requests).values():
        assert [b.arrival_s - a.arrival_s for a, b in pairwise(mine)] == pytest.approx(
            [65.0] * (len(mine) - 1)
        )


def test_the_cluster_changes_when_and_never_what():
    """C66: if this fails, two policies are compared on two workloads."""

    def varying(request):
        return (0.01 + (request.session_key % 1000) / 20, Status.COMPLETED)

    runs = [ran(service=service) for service in (after(0.1), after(40.0), varying)]
    for agent in by_agent(runs[0].requests):
        lists = [by_agent(one.requests)[agent] for one in runs]
        shortest = min(len(mine) for mine in lists)
        assert shortest > 20
        assert len({repr(content(mine[:shortest])) for mine in lists}) == 1
        thinks = [pauses_s(mine[:shortest])[agent] for mine in lists]
        assert thinks[0][: shortest - 2] == thinks[1][: shortest - 2] == thinks[2][: shortest - 2]


def test_seeds_give_different_lists_and_neighbours_give_the_same():
    """C66: if this fails, a seed does nothing, or one workload shifts another one's draws."""
    alone = ran(horizon_s=500.0)
    workloads = {"other": (Agents, spec(agents=9)), "coding": (Agents, spec())}
    beside = run(workloads, 1, after(5.0), 500.0)
    mine = [request for request in beside.requests if request.workload == "coding"]
    assert content(mine) == content(alone.requests)
    assert [r.arrival_s for r in mine] == alone.arrivals()
    assert content(ran(seed=2, horizon_s=500.0).requests) != content(alone.requests)


def test_more_agents_leave_the_first_ones_alone():
    """C66: if this fails, a larger fleet of agents is another sample, not a larger one."""
    few, many = ran(horizon_s=500.0), ran(horizon_s=500.0, agents=7)
    for agent, mine in by_agent(few.requests).items():
        assert content(mine) == content(by_agent(many.requests)[agent])


def test_identifiers_and_turns():
    """If this fails, results cannot be joined by session, or a table never forgets one."""
    requests = ran(agents=1, horizon_s=300.0, **SHORT).requests
    assert {request.agent_id for request in requests} == {"coding/0"}
    names = [(request.session_id, request.turn, request.closes_session) for request in requests]
    assert names[:5] == [
        ("coding/0/0", 1, False),
        ("coding/0/0", 2, False),
        ("coding/0/0", 3, False),
        ("coding/0/0", 4, True),
        ("coding/0/1", 1, False),
    ]
    keys = {request.session_id: request.session_key for request in requests}
    assert len(set(keys.values())) == len(keys) > 1
    assert all(0 <= key < 2**64 for key in keys.values())


def test_fresh_agents_begin_at_turn_one_over_the_ramp():
    """If this fails, all agents ask at once, or begin where the scenario does not say."""
    requests = ran(agents=400, horizon_s=30.0, ramp="30s", think=1000).requests
    assert len(requests) == 400
    assert {request.turn for request in requests} == {1}
    arrivals = np.array([request.arrival_s for request in requests])
    assert arrivals.max() < 30.0
    assert np.mean(arrivals) == pytest.approx(15.0, abs=1.5)
    assert np.histogram(arrivals, 3, (0, 30))[0].min() > 100


def test_agents_in_the_middle_of_a_session_look_like_agents_at_work():
    """If this fails, "mid-session" begins at unlikely places, e.g. every session equally often.

    The prompts of agents met at a random turn are those of the self-check
    (mean 72.8k); sessions dealt without regard to their length give 60k.
    """
    requests = ran(agents=2000, horizon_s=30.0, start="mid-session", think=1000).requests
    prompts = np.array([request.prompt.tokens for request in requests])
    assert prompts.mean() == pytest.approx(72_800, rel=0.03)
    assert len({request.session_key for request in requests}) == 2000
    assert len({request.prompt.node for request in requests}) > 1990
    assert np.mean([request.turn for request in requests]) > 30


def test_an_answer_that_fits_into_the_next_prompt_is_part_of_it():
    """If this fails, the cache gets credit for answers that are not sent back, or none at all."""
    for growth, sent_back in ((1000, True), (400, True), (399, False)):
        first, second, *_ = ran(agents=1, **(SHORT | {"growth": growth})).requests
        assert (first.answer is second.prompt.node) is sent_back
        assert second.prompt.common_prefix(first.prompt) == first.prompt.tokens
        assert second.prompt.tokens == first.prompt.tokens + growth


def test_reuse_output_false_keeps_every_answer_apart():
    """If this fails, clients that strip answers still find them cached."""
    first, second, *_ = ran(agents=1, reuseOutput=False, **SHORT).requests
    assert first.answer is not first.prompt.node
    assert first.answer.start == first.prompt.tokens
    assert second.prompt.common_prefix(first.prompt) == first.prompt.tokens


def test_sessions_of_a_family_share_the_prefix_and_no_others_anything():
    """If this fails, tool and system prompts are stored once per session, or once for all."""
    keys = SHORT | {"freshPrompt": 20_000, "sharedPrefix": {"families": 3}}
    firsts = [s[0] for s in by_session(ran(agents=30, horizon_s=60.0, **keys).requests)]
    shared = {a.prompt.common_prefix(b.prompt) for a in firsts for b in firsts if a is not b}
    assert shared == {0, 15_000}
    roots = {request.prompt.segments()[0][0] for request in firsts}
    assert len(roots) == 3


def test_families_follow_zipf():
    """If this fails, the most common tool prompt has the wrong share (zipf 1, 10 families)."""
    requests = ran(agents=3000, horizon_s=30.0, think=1000).requests
    roots = [request.prompt.segments()[0][0] for request in requests]
    shares = sorted((roots.count(root) / len(roots) for root in set(roots)), reverse=True)
    harmonic = sum(1 / k for k in range(1, 11))
    assert shares == pytest.approx([1 / k / harmonic for k in range(1, 11)], abs=0.02)


def test_a_first_prompt_shorter_than_the_prefix_is_its_beginning():
    """If this fails, a short first prompt shares nothing, or more tokens than it has."""
    keys = SHORT | {"freshPrompt": 9_000, "sharedPrefix": {"families": 1}}
    one, two = by_session(ran(agents=2, **keys).requests)[:2]
    assert one[0].prompt.common_prefix(two[0].prompt) == 9_000
    assert one[3].prompt.tokens == two[3].prompt.tokens == 12_000
    assert one[3].prompt.common_prefix(two[3].prompt) == 9_000


def test_early_edits_keep_what_lies_before_the_edit():
    """If this fails, edits are too rare or too many, or keep too much or nothing."""
    sessions = by_session(ran(agents=200, horizon_s=2000.0, earlyEditShare=0.05).requests)
    turns = edits = 0
    for session in sessions:
        for before, now in pairwise(session):
            turns += 1
            kept = now.prompt.common_prefix(before.prompt)
            if kept < before.prompt.tokens:
                edits += 1
                low = min(15_000, session[0].prompt.tokens)
                assert low <= kept <= max(low, now.prompt.tokens // 2)
                assert before.answer is not now.prompt.node
    assert turns > 10_000
    assert edits / turns == pytest.approx(0.05, rel=0.1)


def test_a_session_ends_at_the_context_limit():
    """If this fails, prompts pass the limit, or sessions end before it."""
    keys = SHORT | {"turns": 1000, "growth": 10_000, "maxContext": "100k", "freshPrompt": 20_000}
    session = by_session(ran(agents=1, **keys).requests)[0]
    assert [request.prompt.tokens for request in session] == list(range(20_000, 100_001, 10_000))
    assert session[-1].closes_session


@pytest.mark.parametrize(
    "turns",
    ["100M", 10_001, {"uniform": {"min": 1, "max": 10_001}}, {"geometric": {"mean": 10_001}},
     {"lognormal": {"median": 10_001, "sigma": 1}}, {"lognormal": {"mu": 20, "sigma": 0}}],
)  # fmt: skip
def test_sessions_without_end_are_refused(turns):
    """C73: if this fails, memory for all turns of a session is asked for before its first."""
    with pytest.raises(ValidationError, match=r"turns: a session has at most 10k turns; got \d"):
        spec(turns=turns)


def test_a_draw_beyond_the_limit_ends_there():
    """C73: if this fails, a long tail of a drawn number of turns exhausts the memory."""
    source = SessionSource(spec(turns={"lognormal": {"median": 9000, "sigma": 10}}, growth=1,
                                maxContext="1M"))  # fmt: skip
    lengths = [len(source.draw(np.random.default_rng(n)).prompt_tokens) for n in range(9)]
    assert max(lengths) == 10_000


def test_a_compaction_at_every_turn_is_drawn_quickly():
    """C73: if this fails, drawing a session takes time quadratic in its turns: minutes."""
    source = SessionSource(
        spec(turns=10_000, growth="1M", maxContext=100_000, atContextLimit="compact")
    )
    session = source.draw(np.random.default_rng(1))
    assert len(session.prompt_tokens) == 10_000
    assert max(session.prompt_tokens) <= 75_000


def test_compaction_goes_on_from_the_shared_prefix():
    """If this fails, a compacted session ends, keeps its old text cached, or passes the limit."""
    keys = SHORT | {
        "turns": 20,
        "growth": 10_000,
        "freshPrompt": 20_000,
        "maxContext": "100k",
        "atContextLimit": "compact",
        "compaction": {"threshold": 0.6, "prompt": 30_000},
    }
    session = by_session(ran(agents=1, **keys).requests)[0]
    sawtooth = [20, 30, 40, 50, 60] + [30, 40, 50, 60] * 4
    assert [request.prompt.tokens // 1000 for request in session] == sawtooth[:20]
    kept = [b.prompt.common_prefix(a.prompt) for a, b in pairwise(session)]
    rewritten = [a.prompt.tokens > b.prompt.tokens for a, b in pairwise(session)]
    assert [tokens for tokens, anew in zip(kept, rewritten, strict=True) if anew] == [15_000] * 4
    assert not any(a.answer is b.prompt.node for a, b in pairwise(session) if a.turn == 5)


@pytest.mark.parametrize("status", [Status.REJECTED, Status.FAILED, Status.CANCELLED])
def test_a_turn_that_is_not_completed_ends_its_session(status):
    """C63: if this fails, an agent talks on over a lost answer, stops for ever, or is uncounted."""

    def service(request):
        lost = request.session_id == "coding/0/0" and request.turn == 2
        return (1.0, status if lost else Status.COMPLETED)

    one = ran(agents=1, service=service, horizon_s=500.0, **SHORT)
    names = [(request.session_id, request.turn) for request in one.requests[:4]]
    assert names == [("coding/0/0", 1), ("coding/0/0", 2), ("coding/0/1", 1), ("coding/0/1", 2)]
    assert one.counts == {"coding": {"sessions_broken_off": 1}}


def test_agents_do_not_hammer_a_cluster_that_refuses_at_once():
    """C54: if this fails, an agent without think time asks for ever at one instant."""
    keys = {"think": 0, "horizon_s": 100.0, "ramp": 0, "agents": 1}
    refused = ran(service=lambda request: (0.0, Status.REJECTED), **keys)
    assert refused.arrivals() == [PAUSE_S * i for i in range(100)]


def test_a_number_of_sessions_makes_the_workload_finite():
    """If this fails, a finite run never ends, ends early, or says so twice."""
    one = ran(agents=3, sessionsPerAgent=2, horizon_s=1e6, **SHORT)
    assert len(one.requests) == 3 * 2 * 4
    assert one.finished_s == [max(request.end_s for request in one.requests)]
    assert ran(horizon_s=100.0).finished_s == []
