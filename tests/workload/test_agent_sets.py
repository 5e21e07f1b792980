"""The parameter sets of coding agents: against the published self-check, and as defaults."""

from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from sim.core.rng import Streams
from sim.workload.agent_spec import AgentsSpec
from sim.workload.agents import Agents, SessionSource
from tests.workload.fakes import after, run

SESSIONS = 4000


def spec(**keys):
    return AgentsSpec.model_validate({"kind": "agents", "agents": 384} | keys)


def draw_sessions(name):
    source = SessionSource(spec(set=name))
    streams = Streams(1)
    return [source.draw(streams.get(f"session/{index}")) for index in range(SESSIONS)]


@pytest.fixture(scope="module")
def sessions():
    return draw_sessions("A")


def joined(sessions, field):
    return np.concatenate([getattr(session, field) for session in sessions])


def test_set_a_prompts_are_as_published(sessions):
    """If this fails, first prompts, growth, turns or the limit differ from the recipe."""
    prompts = joined(sessions, "prompt_tokens")
    found = np.percentile(prompts, [10, 25, 50, 75, 90])
    assert found == pytest.approx([27_700, 44_900, 73_200, 100_800, 117_300], rel=0.015)
    assert prompts.mean() == pytest.approx(72_800, rel=0.01)
    assert prompts.max() <= 128_000


def test_set_a_sessions_are_as_long_as_published(sessions):
    """If this fails, the number of turns is drawn or cut differently."""
    turns = [len(session.prompt_tokens) for session in sessions]
    assert np.mean(turns) == pytest.approx(53, abs=1.5)


def test_set_a_intends_turns_by_the_recipe():
    """If this fails, sessions that end before the context limit have another length."""
    turns = spec().turns.draw(np.random.default_rng(1), 100_000)
    spread = np.exp(4.8 + np.array([-1.2816, 0.0, 1.2816]))
    assert np.percentile(turns, [10, 50, 90]) == pytest.approx(spread, rel=0.02)
    assert turns.min() == 2


def test_set_a_first_prompts_are_fresh_or_resumed(sessions):
    """If this fails, sessions start with another text than LN(9.842, 0.237) or 40k to 125k."""
    first = np.array([session.prompt_tokens[0] for session in sessions])
    fresh, resumed = first[first < 40_000], first[first >= 40_000]
    assert len(fresh) / SESSIONS == pytest.approx(0.7, abs=0.02)
    assert np.mean(np.log(fresh)) == pytest.approx(9.842, abs=0.02)
    assert np.std(np.log(fresh)) == pytest.approx(0.237, abs=0.01)
    assert resumed.mean() == pytest.approx(82_500, rel=0.03)
    assert resumed.max() == pytest.approx(125_000, rel=0.005)


def test_set_a_outputs_are_as_published(sessions):
    """If this fails, the length of answers differs from the recipe."""
    output = joined(sessions, "output_tokens")
    assert output.mean() == pytest.approx(398, rel=0.015)
    assert np.percentile(output, [50, 90, 99]) == pytest.approx([202, 802, 3181], rel=0.02)
    assert output.min() == 80
    assert output.max() == 18_000


def test_set_a_growth_is_as_published():
    """If this fails, prompts grow by another law (mean 1,578, at least 100, at most 60,000)."""
    growth = spec().growth.draw(np.random.default_rng(1), 300_000)
    assert growth.mean() == pytest.approx(1578, rel=0.01)
    assert growth.min() >= 100
    assert growth.max() == 60_000


def test_set_a_thinks_as_recorded(sessions):
    """If this fails, recorded think times are read wrongly (median 8 s, mean 18.3 s, cap 60)."""
    think = joined(sessions, "think_s")
    assert think.mean() == pytest.approx(18.4, abs=0.3)
    quantiles = np.percentile(think, [25, 50, 75, 80])
    assert quantiles == pytest.approx([5, 8, 22, 34], rel=0.05)
    assert think.max() == 60.0
    assert np.mean(think == 60.0) == pytest.approx(0.15, abs=0.01)


def test_set_b_thinks_as_published():
    """If this fails, tool and human delays are mixed wrongly (mean 19.3 s, 36 % at 0.15 s)."""
    think = joined(draw_sessions("B"), "think_s")
    assert think.mean() == pytest.approx(19.3, abs=0.4)
    assert think.max() == 140.0
    assert np.mean(think == 0.15) == pytest.approx(0.3636, abs=0.005)


def test_set_b_is_set_a_but_for_the_delays():
    """If this fails, comparing the sets compares more than the think time."""
    a, b = (spec(set=name).model_dump() for name in "AB")
    different = {key for key in a if a[key] != b[key]}
    assert different == {"set", "think", "think_cap"}


def test_the_infinite_cache_hit_rate_is_that_of_the_recipe():
    """If this fails, edits, growth or shared prefixes are wrong (the recipe: 96.4 to 96.8 %)."""
    requests = run({"coding": (Agents, spec(agents=100))}, 1, after(5.0), 6000.0).requests
    sessions = {}
    for request in requests:
        sessions.setdefault(request.session_id, []).append(request)
    total = sum(request.prompt.tokens for request in requests)
    hit = 0
    for session in sessions.values():
        hit += min(15_000, session[0].prompt.tokens)
        for before, now in pairwise(session):
            hit += now.prompt.common_prefix(before.prompt)
    assert hit / total == pytest.approx(0.966, abs=0.003)


def test_what_is_given_wins_and_the_rest_is_the_sets():
    """If this fails, an override is lost, or takes its neighbours with it."""
    one = spec(maxContext="64k", sharedPrefix={"tokens": 8000}, compaction={"threshold": 0.5})
    assert one.max_context == 64_000
    assert (one.shared_prefix.tokens, one.shared_prefix.families) == (8000, 10)
    assert one.compaction.threshold == 0.5
    assert one.compaction.prompt == spec().compaction.prompt
    assert one.growth == spec().growth


def test_a_think_time_of_ones_own_is_not_capped():
    """C14: if this fails, ``think: 90s`` silently means 60 s."""
    generator = np.random.default_rng(1)
    own = spec(think="90s")
    assert own.think.draw(generator, 3, own.think_cap).tolist() == [90.0] * 3
    capped = spec(think="90s", thinkCap="70s")
    assert capped.think.draw(generator, 3, capped.think_cap).tolist() == [70.0] * 3
    assert spec(thinkCap="120s").think == spec().think


def test_an_unknown_set_is_the_only_thing_said():
    """If this fails, a mistyped set is reported as a dozen missing parameters."""
    with pytest.raises(ValidationError) as caught:
        spec(set="C")
    assert [error["loc"] for error in caught.value.errors()] == [("set",)]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"agents": 0}, "got 0"),
        ({"earlyEditShare": 1.5}, "got 1.5"),
        ({"freshShare": -0.1}, "got -0.1"),
        ({"sharedPrefix": {"tokens": "128k"}}, "sharedPrefix: must be shorter than the longest"),
        ({"atContextLimit": "compact", "maxContext": 20_000}, "longest prompt, 15000 tokens"),
        ({"agent": 3}, "not permitted"),
        ({"max_context": 3}, "not permitted"),
        ({"sharedPrefix": {"family": 3}}, "not permitted"),
    ],
)
def test_nonsense_is_refused(keys, said):
    """C73: if this fails, impossible agents reach the run."""
    with pytest.raises(ValidationError, match=said):
        spec(**keys)


def test_the_schema_asks_for_nothing_that_the_set_gives():
    """If this fails, an editor marks every short scenario as incomplete."""
    assert AgentsSpec.model_json_schema()["required"] == ["kind", "agents"]
