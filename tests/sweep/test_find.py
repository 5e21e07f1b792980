"""``podsim find``: the bisection, its targets, and answers that are known from elsewhere."""

import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim.sweep
from sim.core.errors import UserError
from sim.core.stats import Interval
from sim.results.metrics import METRICS
from sim.scenario.load import load
from sim.sweep.bisection import Edge, contradictions, edge
from sim.sweep.search import SearchSpace, judge, search_space
from sim.sweep.search_result import Answer, Judged, Trial
from sim.sweep.target import Gone, Target, check, parse
from sim.validation.theory import mmc_wait_s
from tests.sweep.conftest import ROOT
from tests.sweep.here import here

SERVERS = """\
name: servers
description: requests of one second each on one pod that serves some at a time, steps of 1 ms
seeds: [1, 2, 3, 4]
window: {warmup: 50s}
engines:
  some-at-a-time: {kvBlocks: 1M, maxNumSeqs: 4, stepTime: {a: 1}}
backends: {pod: {engine: some-at-a-time, policy: {kind: least-loaded}}}
router:
  rules: [{name: all, backends: [pod]}]
  metrics: {pollInterval: 1h}
  proxy: {responseHeaderTimeout: null}
workloads:
  customers:
    kind: requests
    arrivals: {kind: poisson, rate: 2.8}
    promptTokens: 1
    outputTokens: {geometric: {mean: 1000}}
    count: 600
"""
SCRIPT = """\
name: one-by-one
engines:
  single: {kvBlocks: 1M, maxNumSeqs: 1, stepTime: {a: 100}}
backends: {pods: {engine: single, replicas: 1, policy: {kind: round-robin}}}
router: {rules: [{name: all, backends: [pods]}]}
workloads:
  eight:
    kind: script
    rows:
"""


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.executors.worker_processes", here)


@pytest.fixture
def servers(folder):
    (folder / "servers.yaml").write_text(SERVERS, encoding="utf-8")
    return "servers.yaml"


@pytest.fixture
def one_by_one(folder):
    """Eight requests at once, ten steps of 0.1 s each: behind k others on a pod TTFT is k + 0.1 s.

    A first token takes one step, an answer of ten tokens ten.
    """
    rows = "      - {arrival: 0s, promptTokens: 1, outputTokens: 10}\n" * 8
    (folder / "script.yaml").write_text(SCRIPT + rows, encoding="utf-8")
    return "script.yaml"


def test_the_smallest_number_of_servers_is_that_of_theory(servers, podsim):
    """The answer would be one too many, or one too few."""
    bound_s = 0.2
    known = next(number for number in range(3, 20) if mmc_wait_s(number, 2.8, 1.0) <= bound_s)
    result = podsim(
        *("find", servers, "--vary", "engines.some-at-a-time.maxNumSeqs=3..10"),
        *("--target", f"queue_s.mean <= {bound_s}", "--json"),
    )
    assert result.exit_code == 0, result.output
    (answer,) = json.loads(result.stdout)["answers"]
    assert (answer["value"], answer["misses"]) == (known, known - 1)
    assert answer["larger_helps"] is True
    assert answer["answer"] == f"smallest maxNumSeqs: {known} ({known - 1} misses it)"


@pytest.mark.parametrize(
    ("bound_s", "status", "pods"),
    [
        (7.15, "always", 1),
        (3.15, "found", 2),
        (3.05, "found", 3),
        (1.15, "found", 4),
        (0.15, "found", 8),
        (0.05, "never", None),
    ],
)
def test_the_smallest_number_of_pods_of_a_script_is_exact(one_by_one, bound_s, status, pods):
    """Where nothing is left to chance there would be a doubt: of 8 / n on a pod the last waits for
    all others.
    """
    (answer,) = sim.sweep.find(
        one_by_one, "backends.pods.replicas=1..9", f"ttft_s.p99 <= {bound_s}"
    )
    assert (answer.status, answer.value) == (status, pods)
    if status == "found":
        assert answer.misses == pods - 1
    assert all(trial.seeds == 2 for trial in answer.trials)


@pytest.mark.parametrize(
    ("vary", "tolerance", "value", "misses"),
    [("10..500", None, 300, 301), ("10.0..500.0", "0.4", 300.4, 300.8)],
)
def test_the_largest_step_time_is_found_to_the_tolerance(
    one_by_one, vary, tolerance, value, misses
):
    """The direction would have to be known beforehand, or the answer be less exact than asked."""
    (answer,) = sim.sweep.find(
        one_by_one,
        f"engines.single.stepTime.a={vary}",
        "ttft_s.p99 <= 0.3005",
        tolerance=tolerance,
        settings=["backends.pods.replicas=8"],
    )
    # With a pod for each request a first token takes one step.
    assert (answer.larger_helps, answer.value, answer.misses) == (False, value, misses)


def test_the_values_of_a_search_are_exact_and_end_where_they_are_to_end():
    """0.30000000000000004 would be tried, or the upper end never."""
    assert search_space("a.b=1m..10m", None) == SearchSpace("a.b", *_amounts("1m", "10m", "0.05m"))
    assert search_space("a.b=1..32", None).step == _amounts("1")[0]
    assert search_space("a.b=1k..2k", "100").last == 10
    steps = search_space("a.b=0.0..1.0", "0.4")
    assert [str(steps.quantity(index)) for index in range(steps.last + 1)] == [
        "0",
        "0.4",
        "0.8",
        "1",
    ]


def _amounts(*texts):
    from sim.sweep.quantities import parse as amount

    return [amount(text) for text in texts]


def test_each_variant_has_its_own_answer(podsim):
    """One policy's number of pods would stand for that of another."""
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..2", "--set", "slo.ttft=1s"),
        *("--target", "slo_attainment >= 0.01", "--json"),
    )
    answers = json.loads(result.stdout)["answers"]
    assert [answer["variant"] for answer in answers] == ["round-robin", "least-loaded"]
    assert {answer["status"] for answer in answers} == {"always"}
    assert result.exit_code == 1
    assert "both ends meet it" in answers[0]["answer"]


def test_ends_that_both_miss_are_shown_with_what_was_measured(podsim):
    """No answer would look like a failure of podsim."""
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..2"),
        *("--variant", "least-loaded", "--target", "ttft_s.p95 <= 1us"),
    )
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("Answer: both ends miss it: ")
    assert " at 1 and " in result.stdout.splitlines()[-1]
    assert "least-loaded: backends.pods.replicas=1: ttft_s.p95" in result.stderr


def test_straddling_intervals_get_more_seeds_and_are_said_to_be_undecided(servers, podsim):
    """A coin would be thrown, and its side be called the answer."""
    result = podsim(
        *("find", servers, "--vary", "workloads.customers.arrivals.rate=2.3..2.7"),
        *("--target", "queue_s.mean <= 0.2", "--tolerance", "0.1", "--max-seeds", "8", "--json"),
        *("--set", "workloads.customers.count=300"),
    )
    (answer,) = json.loads(result.stdout)["answers"]
    assert answer["status"] == "undecided"
    assert result.exit_code == 1
    straddling = [trial for trial in answer["trials"] if trial["verdict"] == "undecided"]
    assert straddling and {trial["seeds"] for trial in straddling} == {8}
    assert all(
        each["low"] <= 0.2 < each["high"] for trial in straddling for each in trial["figures"]
    )


def test_a_censored_time_misses_its_target(servers):
    """A fleet that is drowning, where nobody sees the late ones, would be thought fast enough."""
    (answer,) = sim.sweep.find(
        servers,
        "engines.some-at-a-time.maxNumSeqs=1..9",
        "ttft_s.p95 <= 9",
        seeds=[1, 2],
        settings=["window.measure=60s"],
    )
    assert answer.status == "found"
    first = answer.trials[0]
    assert (first.value, first.judged[0].interval.mean, first.verdict) == (1, inf, "misses")


def test_a_value_that_cannot_be_run_is_told(one_by_one):
    """A search would end in a traceback."""
    with pytest.raises(UserError, match="from 1 to"):
        sim.sweep.find(one_by_one, "backends.pods.replicas=0..4", "ttft_s.p99 <= 1")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("ttft_s.p96 <= 1", "did you mean 'ttft_s.p9"),
        ("ttft_s.p95 = 1", "must be a figure"),
        ("ttft_s.p95 <= fast", "must be a figure"),
        ("ttft_s.p95 <= 1e999999999999999999999", "is too large"),
        ("ttft_s.p95 <= 3KiB", "is in s; got 3KiB"),
        ("slo_attainment >= 0.9", "needs objectives"),
        ("by_workload.nine.ttft_s.p95 <= 1", "no workload 'nine' here; known: eight"),
        ("by_workload.eight.ttft_s.p95 <= 1", "eight is the only workload"),
    ],
)
def test_a_target_that_cannot_be_judged_is_refused(one_by_one, target, words):
    """A typing error would be searched for, and never be met."""
    with pytest.raises(UserError) as caught:
        sim.sweep.find(one_by_one, "backends.pods.replicas=1..4", target)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("target", "figures", "words"),
    [
        ("by_workload.rare.ttft_s.p95 <= 1", {"by_workload.rare.requests": 0}, "no request of"),
        ("pool.gpu.hold_s.p95 <= 9", {"pool.gpu.holds.waited": 0}, "no attempt had to wait"),
        ("pool.gpu.swap_s.p95 <= 9", {"pool.gpu.members.large.loads": 0}, "no load began"),
        (
            "pool.gpu.members.large.swap_s.p95 <= 9",
            {"pool.gpu.members.large.loads": 0, "pool.gpu.members.small.loads": 2},
            "no load began",
        ),
        ("tpot_s.p95 <= 1", {"requests_completed": 8}, "no answer had a second token"),
        ("stream_tokens_per_s.p50 >= 9", {"requests_completed": 8}, "no answer had a second"),
        ("ttft_s.p95 <= 1", {"requests": 0}, "no request arrived"),
    ],
)
def test_a_time_of_nothing_is_not_taken_for_one_that_is_too_long(target, figures, words):
    """A pool for which nobody waits missed the target of waiting a second, and so did every
    workload of which no request came: the search went the wrong way, or found no value at all.
    """
    aim = parse(target)
    gone = aim.value({"requests": 8, aim.key: None, **figures})
    assert isinstance(gone, Gone)
    assert gone.under("seed 7").startswith(f"{aim.key} is null under seed 7: {words}")


@pytest.mark.parametrize(
    ("target", "figures"),
    [
        ("by_workload.rare.ttft_s.p95 <= 1", {"by_workload.rare.requests": 3}),
        ("pool.gpu.hold_s.p95 <= 9", {"pool.gpu.holds.waited": 2}),
        ("pool.gpu.swap_s.p95 <= 9", {"pool.gpu.members.large.loads": 1}),
        ("pool.gpu.swap_s.p95 <= 9", {"pool.gpu.swap_failures.deadline": 1}),
        ("pool.gpu.members.large.swap_s.p95 <= 9", {"pool.gpu.members.large.loads": 1}),
        ("tpot_s.p95 <= 1", {"requests_completed": 0}),
        ("ttft_s.p95 <= 1", {"requests_completed": 0}),
    ],
)
def test_a_time_that_nobody_reached_misses(target, figures):
    """A fleet that answers nobody would end the search for one that answers in time."""
    aim = parse(target)
    assert aim.value({"requests": 8, aim.key: None, **figures}) == inf


def test_sessions_are_not_sought_where_there_are_none(podsim):
    """Requests without sessions were said to miss any bound on the length of a session."""
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..2"),
        *("--target", "session_s.p95 <= 60"),
    )
    assert result.exit_code == 2
    assert "session_s needs sessions" in result.stderr


def test_a_null_says_where_it_was_met(podsim):
    """After an hour of runs nobody would know at which value there was nothing to be seen."""
    result = podsim(
        *("find", "tiny.yaml", "--vary", "workloads.traffic.outputTokens=1..3"),
        *("--target", "tpot_s.p95 <= 1", "--variant", "round-robin"),
    )
    assert result.exit_code == 3
    why = "tpot_s.p95 is null under seeds 7, 8: no answer had a second token in the window"
    assert f"round-robin: workloads.traffic.outputTokens=1: {why}\n" in result.stderr
    assert result.stdout.splitlines()[-1] == f"Answer: none: at 1 {why}"


def test_a_null_of_one_variant_costs_no_other_its_answer(podsim):
    """Of three variants the second had no request under one seed: the answers of the first, for
    which the runs had been made, and of the third were never told.
    """
    text = Path("tiny.yaml").read_text(encoding="utf-8")
    changed = text.split("variants:")[0] + VARIANTS
    Path("tiny.yaml").write_text(changed, encoding="utf-8")
    search = (
        *("find", "tiny.yaml", "--vary", "engines.small.stepTime.a=1..401", "--seeds", "4"),
        *("--tolerance", "100", "--target", "ttft_s.p95 <= 0.15"),
    )
    result = podsim(*search, "--json")
    assert result.exit_code == 3
    before, rare, after = json.loads(result.stdout)["answers"]
    assert (before["status"], before["value"], before["misses"]) == ("found", 1, 101)
    assert (after["status"], after["reason"]) == ("found", None)
    why = "ttft_s.p95 is null under seed 2: no request arrived in the window"
    assert (rare["status"], rare["value"], rare["crossing"]) == ("unmeasured", None, None)
    assert rare["reason"] == f"at 1 {why}"
    # Both ends had been run when the search ended at the first of them.
    assert [(trial["value"], trial["reason"]) for trial in rare["trials"]] == [
        (1, why),
        (401, why),
    ]
    nothing = {"mean": None, "low": None, "high": None, "censored": False, "left_out": 0.0}
    assert rare["trials"][0] == {
        **{"value": 1, "seeds": 4, "verdict": "unmeasured", "reason": why},
        "figures": [{"target": "ttft_s.p95 <= 0.15", **nothing, "verdict": "unmeasured"}],
    }


VARIANTS = """\
variants:
  before: {}
  rare: {workloads.traffic.arrivals.rate: 0.05}
  after: {workloads.traffic.arrivals.rate: 2}
"""


def test_a_null_between_the_ends_keeps_what_was_tried(podsim, monkeypatch):
    """After an hour the search came to one run without the figure, and told nothing of the rest."""
    gone = Gone("ttft_s.p95 is null", ": no request arrived in the window")
    means = {0: 9.0, 8: 1.0, 4: gone}
    monkeypatch.setattr("sim.sweep.search._Search._measure", _measured_from(means))
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..9"),
        *("--variant", "least-loaded", "--target", "ttft_s.p95 <= 2"),
    )
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-5:] == [
        "replicas  ttft_s.p95  seeds",
        "       1       9 ± 0      2  misses",
        "       5        null      2  unmeasured",
        "       9       1 ± 0      2  meets",
        "Answer: none: at 5 ttft_s.p95 is null under seeds 7, 8: no request arrived in the window",
    ]


def test_a_target_that_is_missed_outweighs_a_null(podsim):
    """A script would take a target that cannot be met for one that could not be judged."""
    text = Path("tiny.yaml").read_text(encoding="utf-8")
    changed = text.split("variants:")[0] + VARIANTS
    Path("tiny.yaml").write_text(changed, encoding="utf-8")
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..2", "--seeds", "2"),
        *("--target", "ttft_s.p95 <= 1us", "--json"),
    )
    statuses = [answer["status"] for answer in json.loads(result.stdout)["answers"]]
    assert statuses == ["never", "unmeasured", "never"]
    assert result.exit_code == 1


def test_the_place_where_means_cross_is_not_beside_a_null():
    """A value at which nothing was seen would count as one that misses the target."""
    target = parse("ttft_s.p95 <= 4")

    def trial(value, mean, verdict):
        return Trial(value, (Judged(target, Interval(mean, mean, mean, 2), verdict),))

    unmeasured, met, missed = (
        *(trial(1, None, "unmeasured"), trial(3.0, 3.0, "meets"), trial(9.0, 9.0, "misses")),
    )
    answer = Answer("", "a.b", (target,), "unmeasured", None, None, None, (unmeasured, met), ())
    assert answer.crossing is None
    between = replace(answer, trials=(missed, unmeasured, met))
    assert between.crossing == (9.0, 3.0)


def test_values_of_a_range_that_cannot_be_run_are_skipped(folder, podsim):
    """A range of tensorParallel came to 6 GPUs, which cannot share the heads, and ended with
    "none: 6 cannot be run", though 8 answered the question.
    """
    (folder / "gpus.yaml").write_text(GPUS, encoding="utf-8")
    ranged, listed = (
        podsim(
            *("find", "gpus.yaml", "--vary", f"engines.some.tensorParallel={values}"),
            *("--target", "ttft_s.p95 <= 1.5", "--json"),
        )
        for values in ("1..8", "8,1,2,4")
    )
    assert (ranged.exit_code, listed.exit_code) == (0, 0), ranged.output
    (answer,), (other,) = (json.loads(each.stdout)["answers"] for each in (ranged, listed))
    assert (answer["value"], answer["misses"]) == (other["value"], other["misses"]) == (8, 4)
    assert {each["value"] for each in answer["skipped"]} == {3, 5, 6, 7}
    assert other["skipped"] == []
    assert "tensorParallel=6 cannot be run, skipped: must share out the 24" in ranged.stderr


GPUS = """\
name: gpus
engines: {some: {model: qwen3.8-27b, gpu: b200}}
backends: {pods: {engine: some, policy: {kind: round-robin}}}
router: {rules: [{name: all, backends: [pods]}]}
workloads: {one: {kind: script, rows: [{arrival: 0s, promptTokens: 100k, outputTokens: 2}]}}
"""


def test_a_figure_that_a_policy_has_not_is_told_for_its_variant(one_by_one):
    """Round robin has no home to spill from, so no bound on spills is kept or missed by it."""
    (answer,) = sim.sweep.find(one_by_one, "backends.pods.replicas=1..2", "spill_ratio <= 0.1")
    assert answer.status == "unmeasured"
    assert answer.reason.startswith("at 1 spill_ratio is null under seeds 1, 2: ")


def test_a_member_that_a_pool_has_not_is_refused_before_anything_runs():
    """A slip in the name of a member would be found after the first runs, or never."""
    (scenario, *_) = load(ROOT / "scenarios" / "pools" / "swap-budget.yaml").variants
    check(parse("pool.gpu.members.long.swap_s.p95 <= 60"), scenario)
    with pytest.raises(UserError, match="no member 'lnog' of pool gpu here; did you mean 'long'"):
        check(parse("pool.gpu.members.lnog.swap_s.p95 <= 60"), scenario)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--vary", "backends.pods.replicas=4..1"], "must go up"),
        (["--vary", "backends.pods.replicas=1..4..x"], "must be from..to"),
        (["--vary", "backends.pods.replicas=4"], "or two values or more, as in 2,4,8"),
        (["--vary", "backends.pods.replicas=a,b"], "'a' is not a number"),
        (["--vary", "window.measure=1m,4m", "--tolerance", "1s"], "is the step of a range"),
        (
            ["--vary", "a.b=1..2", "--vary", "a.c=1..2"],
            "find varies one parameter, here a.b=1..2 and",
        ),
        (["--vary", "backends.pods.replicas=1..4", "--tolerance", "0.5"], "a whole number"),
        (["--vary", "window.measure=1m..4m", "--tolerance", "0s"], "above 0"),
        (["--vary", "window.measure=1m..4m", "--tolerance", "1KiB"], "mixes units"),
        (["--vary", "seeds=1..4"], "cannot be swept"),
        (["--vary", "backends.pods.replica=1..4"], "did you mean 'replicas'"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused(podsim, options, words):
    """A slip would be searched for an hour."""
    result = podsim("find", "tiny.yaml", "--target", "ttft_s.p95 <= 1", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_every_declared_figure_can_be_a_target():
    """A figure of the summary would be unknown to the search."""
    for declared in METRICS:
        assert parse(f"{declared.key.replace('*', 'some')} >= 0.5").bound == 0.5


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("ttft_s.p95 <= 2.5", Target("ttft_s.p95", "<=", 2.5)),
        ("ttft_s.p95<250ms", Target("ttft_s.p95", "<", 0.25)),
        (" slo_attainment>=.95 ", Target("slo_attainment", ">=", 0.95)),
        ("requests_completed > 1k", Target("requests_completed", ">", 1000.0)),
    ],
)
def test_a_target_is_read(text, target):
    """Units and spaces would be a matter of luck."""
    assert parse(text) == target


def test_the_whole_interval_decides():
    """A mean that meets the target by chance would be the answer."""
    target = parse("ttft_s.p95 <= 2")
    assert target.verdict(target.interval([1.0, 1.1, 0.9])) == "meets"
    assert target.verdict(target.interval([1.0, 2.9, 1.5])) == "undecided"
    assert target.verdict(target.interval([3.0, 3.1])) == "misses"
    assert target.verdict(target.interval([2.0, 2.0])) == "meets"
    assert parse("ttft_s.p95 < 2").verdict(target.interval([2.0, 2.0])) == "misses"
    assert target.verdict(target.interval([1.0, 1.0, inf])) == "misses"
    more = parse("stream_tokens_per_s.p5 >= 20")
    assert more.value({"stream_tokens_per_s.p5": None}) == -inf
    assert more.verdict(more.interval([50.0, -inf])) == "misses"


@given(
    last=st.integers(1, 300),
    at=st.integers(0, 300),
    doubtful=st.integers(0, 12),
    upward=st.booleans(),
)
def test_the_edge_is_found_in_few_questions(last, at, doubtful, upward):
    """The bisection would miss the edge by one, or would try every value."""
    asked = []
    order = ["misses"] * at + ["undecided"] * doubtful + ["meets"] * (last + 1)
    line = order[: last + 1] if upward else order[: last + 1][::-1]

    def judge(index):
        asked.append(index)
        return line[index]

    found = edge(last, judge)
    assert len(asked) == len(set(asked)) <= 2 + 2 * last.bit_length()
    misses = [index for index, verdict in enumerate(line) if verdict == "misses"]
    meets = [index for index, verdict in enumerate(line) if verdict == "meets"]
    if line[0] == line[last]:
        assert found.upward is None
    else:
        assert found.upward is upward
        nearest = (max, min) if upward else (min, max)
        assert found == Edge(
            upward,
            nearest[0](misses) if misses else None,
            nearest[1](meets) if meets else None,
        )


def test_a_figure_that_goes_the_wrong_way_is_noticed():
    """With two places where the target is met, the search would show one as if it were the only."""

    def about(mean):
        return Interval(mean, mean - 0.1, mean + 0.1, 5)

    falling = {0: about(9.0), 4: about(3.0), 6: about(5.0), 8: about(1.0)}
    assert contradictions(falling) == [(4, 6)]
    assert contradictions({0: about(9.0), 4: about(3.0), 6: about(3.15), 8: about(1.0)}) == []
    rising = {0: about(1.0), 4: about(0.5), 8: Interval(inf, inf, inf, 5)}
    assert contradictions(rising) == [(0, 4)]


def test_a_contradiction_is_said(podsim, monkeypatch):
    """Whoever reads the answer would not know that it is one of several."""
    monkeypatch.setattr("sim.sweep.search._Search._measure", _measured_from(
        {0: 9.0, 8: 1.0, 4: 12.0, 6: 1.0, 5: 1.0}
    ))  # fmt: skip
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..9"),
        *("--variant", "least-loaded", "--target", "ttft_s.p95 <= 2"),
    )
    assert "beware: from 1 to 5 the figure went the other way" in result.stdout
    assert result.exit_code == 0


def _measured_from(means):
    """In place of runs: a TTFT for each index, or what of it there is not."""

    def measure(self, indices, number):
        for index in indices:
            for seed in self.seeds[:number]:
                mean = means[index]
                nothing = isinstance(mean, Gone)
                figures = {"requests": 0 if nothing else 9, "ttft_s.p95": None if nothing else mean}
                self.figures[index, seed] = figures

    return measure


OVERLOADED = """\
name: overloaded
seeds: [1, 2]
window: {warmup: 10s, measure: 1m}
engines: {e: {kvBlocks: 4000, maxNumSeqs: 4, stepTime: {a: 20, b: 50}}}
backends: {pods: {engine: e, replicas: 1, policy: {kind: round-robin}}}
router: {rules: [{name: all, backends: [pods]}]}
workloads:
  w: {kind: requests, arrivals: {kind: poisson, rate: 4}, promptTokens: 300, outputTokens: 100}
"""
REFUSING = {
    "rejected": ["engines.e.maxNumQueuedReqs=1"],
    "given up": ["workloads.w.patience=2500ms"],
    "timed out": ["workloads.w.clientTimeout=2500ms"],
    "failed": [
        "workloads.w.arrivals.rate=1.5",
        "events=[{kind: backend-errors, at: 20s, for: 20s, backend: pods}]",
    ],
}
"""What becomes of those who are not served, on a pod that can serve half of them."""


@pytest.mark.parametrize("cause", REFUSING)
@pytest.mark.parametrize(
    "figure",
    ["ttft_s.p50", "ttft_s.p99", "ttft_s.mean", "tpot_s.p95", "tpot_s.mean", "e2e_s.p95"],
)
def test_whoever_serves_few_does_not_meet_a_target_of_time(folder, podsim, cause, figure):
    """A backend that refused three of four requests met any target of time, since those that it
    served had no queue: "smallest replicas: 1", and not a word of the others.
    """
    (folder / "overloaded.yaml").write_text(OVERLOADED, encoding="utf-8")
    settings = [word for each in REFUSING[cause] for word in ("--set", each)]
    result = podsim(
        *("find", "overloaded.yaml", "--vary", "backends.pods.replicas=1,2", *settings, "--json"),
        *("--target", f"{figure} <= 59"),
    )
    first = json.loads(result.stdout)["answers"][0]["trials"][0]
    ((left_out, censored),) = ((each["left_out"], each["censored"]) for each in first["figures"])
    assert left_out > 0.2
    room = {"p50": 0.5, "p99": 0.01}.get(figure.rpartition(".")[2], 0.05)
    assert (first["verdict"], censored) == (
        ("misses", True) if left_out > room else ("meets", False)
    )
    assert f"({100 * left_out:.1f} % were refused, broke off or gave up)" in result.stderr


def test_the_share_left_out_is_that_of_the_seed_that_misses():
    """Of a p95 that was null under one seed of two, find said "2.6 % were refused", where it
    leaves room for 5 %: the mean over both seeds, of which the other had refused nobody."""
    figures = [{"ttft_s.p95": 1.0, "requests": 100, "error_ratio": share} for share in (0.06, 0.0)]
    judged = judge(parse("ttft_s.p95 <= 3"), dict(enumerate(figures)))
    assert (judged.verdict, judged.left_out) == ("misses", 0.06)


@pytest.mark.parametrize(
    ("key", "lost", "missed"),
    [
        *(("ttft_s.p95", 5, False), ("ttft_s.p95", 6, True), ("ttft_s.p50", 6, False)),
        *(("ttft_s.p99", 2, True), ("stream_tokens_per_s.p5", 6, True)),
        *(("stream_tokens_per_s.p50", 6, False), ("by_workload.w.e2e_s.p95", 6, True)),
    ],
)
def test_a_percentile_has_room_for_so_many_that_have_no_value(key, lost, missed):
    """Of 101 requests the 95th percentile is the 96th in order: five may go unserved."""
    at = "by_workload.w." if key.startswith("by_workload") else ""
    counts = {"requests": 101, "requests_cancelled": lost - 1, "error_ratio": 1 / 101}
    figures = {key: 1.0, **{f"{at}{name}": value for name, value in counts.items()}}
    assert (
        parse(f"{key} {'>=' if 'tokens' in key else '<='} 1").value(figures) == 1.0
    ) is not missed


def test_holds_that_nobody_waited_for_and_swaps_that_failed_leave_room_for_few():
    """All clients left after ten seconds, so that no hold was longer: the pool held nobody long."""
    figures = {
        **{"pool.gpu.hold_s.p95": 10.0, "pool.gpu.holds.waited": 20},
        **{"pool.gpu.holds.by_result.granted": 15, "pool.gpu.holds.by_result.cancelled": 10},
        **{"pool.gpu.swap_s.p95": 9.0, "pool.gpu.swaps.total": 9},
    }
    assert parse("pool.gpu.hold_s.p95 <= 11").value(figures) == inf
    assert parse("pool.gpu.swap_s.p95 <= 11").value(figures) == 9.0
    failed = {**figures, "pool.gpu.swap_failures.swap_deadline_exceeded": 3}
    assert parse("pool.gpu.swap_s.p95 <= 11").value(failed) == inf


def test_targets_hold_together(one_by_one, podsim):
    """Of two targets the last one counted, silently."""
    result = podsim(
        *("find", one_by_one, "--vary", "backends.pods.replicas=1..9"),
        *("--target", "ttft_s.p99 <= 1.15", "--target", "ttft_s.p50 <= 0.15"),
    )
    assert result.exit_code == 0, result.output
    assert "replicas  ttft_s.p99  ttft_s.p50  seeds" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "Answer: smallest replicas: 5 (4 misses it: ttft_s.p50 <= 0.15)"
    )
    (answer,) = sim.sweep.find(
        one_by_one, "backends.pods.replicas=1..9", ["ttft_s.p99 <= 1.15", "ttft_s.p50 <= 0.15"]
    )
    assert (answer.value, answer.misses, answer.unit) == (5, 4, "")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "slo_attainment >= 95",
            "no value of it can meet it; did you mean 'slo_attainment >= 0.95'",
        ),
        ("error_ratio <= 5", "every value of it meets it; did you mean 'error_ratio <= 0.05'"),
        ("error_ratio <= 1", "did you mean 'error_ratio <= 0.01'"),
        ("error_ratio < 0", "no value of it can meet it"),
        ("ttft_s.p95 >= 0", "is never below 0, so that every value of it meets it"),
        ("requests_rejected < 0", "is never below 0, so that no value of it can meet it"),
        ("slo_attainment >= 95%", "(for 95 %)"),
        ("goodput >= 3", "goodput is goodput_requests_per_s, and as a share slo_attainment"),
    ],
)
def test_a_target_that_says_nothing_is_refused(target, words):
    """Runs of ten minutes ended with "both ends miss it", since a ratio is never 95."""
    with pytest.raises(UserError) as caught:
        parse(target)
    assert words in str(caught.value)


def test_a_time_longer_than_a_run_is_no_target(podsim):
    """2,500 was meant as milliseconds, and met by whatever was tried."""
    result = podsim(
        *("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..2"),
        *("--target", "ttft_s.p95 <= 2500"),
    )
    assert result.exit_code == 2
    assert "a run lasts 21 s, in which no longer time can be seen; did you mean 2500ms?" in (
        result.stderr
    )


def test_the_same_question_again_runs_nothing(podsim, monkeypatch):
    """The same search cost the same minute of computing every time, and so did another bound."""
    search = ("find", "tiny.yaml", "--vary", "backends.pods.replicas=1..4", "--json")
    first = podsim(*search, "--target", "ttft_s.p95 <= 0.1")

    def nothing_runs(*_):
        raise AssertionError("it was run again")

    monkeypatch.setattr("sim.sweep.search.measure_all", nothing_runs)
    again = podsim(*search, "--target", "ttft_s.p95 <= 0.1")
    assert (again.exit_code, again.stdout) == (first.exit_code, first.stdout)
    assert list(Path("results/sweeps").glob("tiny-*/runs/point-00000/*/seed-7.json"))
