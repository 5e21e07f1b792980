"""The recorded sessions that come with podsim, against the published statistics of the trace."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sim.workload.sessions import Sessions, SessionsSpec
from tests.workload.fakes import after, run

TRACES = Path(__file__).parents[2] / "scenarios" / "traces"
FILE = "weka_v8_sessions_rle.jsonl.gz"
BLOCK = 64


def play_each_once(**keys):
    """One agent that plays every session once, without waiting."""
    written = {"kind": "sessions", "agents": 1, "file": FILE, "sessionsPerAgent": 452, "ramp": 0}
    spec = SessionsSpec.model_validate(written | {"subAgents": "skip"} | keys)
    return run({"real": (Sessions, spec)}, 1, after(1.0), directory=TRACES)


def by_session(requests):
    mine = {}
    for request in requests:
        mine.setdefault(request.session_id, []).append(request)
    return list(mine.values())


@pytest.fixture(scope="module")
def played():
    return play_each_once()


@pytest.fixture(scope="module")
def sessions(played):
    return by_session(played.requests)


def test_the_cut_leaves_what_was_published(played, sessions):
    """If this fails, the 128k cut, or which sessions count, differs from the published one."""
    assert len(sessions) == 452
    assert len(played.requests) == 21_066
    prompts = [request.prompt.tokens for request in played.requests]
    assert np.percentile(prompts, [50, 90, 99]) == pytest.approx(
        [78_200, 118_000, 127_000], rel=0.005
    )
    assert np.mean(prompts) == pytest.approx(76_600, rel=0.002)
    assert np.mean([request.output_tokens for request in played.requests]) == pytest.approx(
        415, abs=1
    )
    assert np.percentile([len(s) for s in sessions], [50, 90]) == pytest.approx([41, 92], abs=1)
    assert played.counts["real"] == {
        "sessions": 452,
        "sessions_left_out": 130,
        "session_requests": 21_066,
        "model_changes_ignored": 18,
        "empty_outputs_raised": 10,
        "sessions_broken_off": 0,
    }


@pytest.mark.parametrize(
    ("think", "cap", "mean_s"),
    [("recorded", "60s", 18.3), ("corrected", "60s", 12.4), ("corrected", "120s", 19.4)],
)
def test_delays_are_those_published(think, cap, mean_s):
    """If this fails, the doubled calls of the recording are corrected by another rule, or not."""
    sessions = by_session(play_each_once(think=think, cap=cap).requests)
    pauses = [b.arrival_s - a.end_s for session in sessions for a, b in pairwise(session)]
    assert np.mean(pauses) == pytest.approx(mean_s, abs=0.15)


def test_infinite_cache_hit_rates_are_those_published(sessions):
    """If this fails, what a prompt repeats is not what was recorded.

    Block by block, whole prompts only, each session on its own: 96.4 %, and
    96.8 % if the tool and system prompt is there already.
    """
    total = own = warm = 0
    for session in sessions:
        prompts = [request.prompt for request in session]
        total += sum(prompt.tokens for prompt in prompts)
        warm += prompts[0].segments()[0][1]
        for index in range(1, len(prompts)):
            said = max(prompts[index].common_prefix(earlier) for earlier in prompts[:index])
            own += said // BLOCK * BLOCK
    assert own / total == pytest.approx(0.964, abs=0.0007)
    assert (own + warm) / total == pytest.approx(0.968, abs=0.0007)


def test_every_prompt_matches_the_recorded_ids(sessions):
    """If this fails, some prompt shares more or fewer blocks with the past than its ids say.

    The oracle keeps plain id sequences and compares them with every earlier
    request of the session.
    """
    recorded = []
    for line in gzip.decompress((TRACES / FILE).read_bytes()).splitlines():
        calls = [c for c in json.loads(line)["requests"] if c["type"] != "subagent"]
        length = next((i for i, c in enumerate(calls) if c["in"] > 128_000), len(calls))
        recorded.append(calls[:length])
    by_lengths = {tuple(c["in"] for c in calls): calls for calls in recorded}
    checked = 0
    for session in sessions[::18]:
        calls = by_lengths[tuple(request.prompt.tokens for request in session)]
        paths = [
            [first + i for first, count in call["hash_runs"] for i in range(count)]
            for call in calls
        ]
        for index in range(1, len(session)):
            ids = max(leading(paths[index], paths[earlier]) for earlier in range(index))
            prompts = [request.prompt for request in session[: index + 1]]
            tokens = max(prompts[index].common_prefix(prompt) for prompt in prompts[:index])
            assert ids * BLOCK <= tokens < (ids + 1) * BLOCK
            checked += 1
    assert checked > 900


def leading(one, other):
    equal = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        equal += 1
    return equal


def test_sub_agents_are_replayed_with_their_sessions():
    """If this fails, the recorded sub-agents are lost, or counted twice."""
    requests = play_each_once(subAgents="own-key").requests
    own = [request for request in requests if request.session_id.count("/") == 2]
    subs = {request.session_id for request in requests if request.session_id.count("/") == 3}
    assert len(own) == 21_066
    assert len(subs) == 35
    assert len(requests) - len(own) == 362
