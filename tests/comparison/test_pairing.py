import math
from dataclasses import replace
from typing import Any

import pytest

from sim.comparison.paired import compare
from sim.comparison.report import report, variants_report
from sim.comparison.sides import Side
from tests.comparison.harness import base, each_seed, seeds, side

SAME = seeds("ttft_s.p95", [1.0, 1.1, 1.2])


def joined(*sides: Side, label: str = "new") -> Side:
    """The runs of several sides as one."""
    return Side(label, "small", tuple(run for each in sides for run in each.runs))


def changed(given: Side, **changes: Any) -> Side:
    """The same runs, of another making."""
    return Side(given.label, given.scenario, tuple(replace(run, **changes) for run in given.runs))


def test_another_scenario_is_not_comparable() -> None:
    """The work of two load levels would be compared, and the easier one be better."""
    comparison = compare(base(*SAME), changed(side(*SAME), variant_hash="0123456789"))
    assert comparison.verdict == "incomparable"
    assert comparison.judged == ()
    (fault,) = comparison.unpaired
    assert fault.reason == "not the same scenario (hashes hash and 01234567)"


def test_one_run_of_another_scenario_is_enough() -> None:
    """Only the first seed would be looked at."""
    good, bad = side(*SAME[:2]), side(SAME[2], first_seed=3)
    mixed = joined(good, changed(bad, variant_hash="other"))
    assert compare(base(*SAME), mixed).verdict == "incomparable"


def test_the_settings_that_differ_are_named() -> None:
    """A reader would compare two files by eye to find out what is not the same."""
    old = {"backends": {"qwen": {"replicas": 4, "policy": {"kind": "ring"}}}, "seeds": [1, 2]}
    new = {"backends": {"qwen": {"replicas": 5, "policy": {"kind": "ring", "limit": 2}}}}
    comparison = compare(
        changed(base(*SAME), settings=old),
        changed(side(*SAME), settings=new, variant_hash="other"),
    )
    assert comparison.unpaired[0].reason.endswith(
        "; backends.qwen.replicas is 4 in base, 5 in new; seeds is [1, 2] in base, not set in new; "
        "backends.qwen.policy.limit is not set in base, 2 in new"
    )


def test_equal_settings_of_another_hash_leave_the_files() -> None:
    """A trace that was replaced would be a difference that nobody can name."""
    settings = {"workloads": {"replay": {"file": "trace.jsonl"}}}
    comparison = compare(
        changed(base(*SAME), settings=settings),
        changed(side(*SAME), settings=settings, variant_hash="other"),
    )
    assert comparison.unpaired[0].reason.endswith(
        "; the settings are alike, a file that they name is not"
    )


def test_across_takes_the_users_word() -> None:
    """What-if questions about another number of pods would need a scenario of their own."""
    comparison = compare(base(*SAME), changed(side(*SAME), variant_hash="other"), across=True)
    assert comparison.verdict == "same"


def test_unknown_hashes_are_not_equal_ones() -> None:
    """Two runs of which nothing is known would be of one scenario."""
    unknown = {"variant_hash": "", "scenario_hash": ""}
    comparison = compare(changed(base(*SAME), **unknown), changed(side(*SAME), **unknown))
    assert comparison.verdict == "incomparable"


def test_runs_without_a_variant_hash_are_known_by_their_scenario() -> None:
    """Runs that an older podsim has stored could not be compared any more."""
    old = changed(base(*SAME), variant_hash="")
    assert compare(old, side(*SAME)).verdict == "same"
    assert compare(old, changed(side(*SAME), scenario_hash="other")).verdict == "incomparable"


def test_a_variant_that_vanished_is_not_passed_over() -> None:
    """A check over what there is now would be green when half of it is gone."""
    both = joined(base(*SAME), base(*SAME, variant="table"), label="base")
    comparison = compare(both, side(*SAME))
    assert comparison.verdict == "incomparable"
    assert [fault.variant for fault in comparison.unpaired] == ["table"]
    assert comparison.unpaired[0].reason == "new has no such variant"


def test_a_worse_variant_beats_one_that_vanished() -> None:
    """A regression would hide behind whatever cannot be compared."""
    both = joined(base(*SAME), base(*SAME, variant="table"), label="base")
    worse = side(*seeds("ttft_s.p95", [2.0, 2.1, 2.2]))
    assert compare(both, worse).verdict == "worse"


def test_a_variant_that_only_new_has_is_a_remark() -> None:
    """Adding a variant to a scenario would turn its check red."""
    both = joined(side(*SAME), side(*SAME, variant="table"))
    comparison = compare(base(*SAME), both)
    assert comparison.verdict == "same"
    assert comparison.notes == ("table is only in new: nothing to compare it with",)


def test_two_variants_of_one_scenario_are_compared_by_seed() -> None:
    """The question of which policy is better could not be asked of one run."""
    faster = side(*seeds("ttft_s.p95", [0.5, 0.6, 0.7]), variant="table")
    comparison = compare(base(*SAME), changed(faster, variant_hash="another"))
    assert comparison.verdict == "better"
    assert {each.variant for each in comparison.judged} == {"ring → table"}


def test_two_variants_of_two_scenarios_are_not() -> None:
    """Names that happen to differ would excuse workloads that do."""
    other = changed(side(*SAME, variant="table"), variant_hash="x", scenario_hash="y")
    assert compare(base(*SAME), other).verdict == "incomparable"


def test_what_one_variant_cannot_have_decides_nothing_between_two() -> None:
    """A ring could not be compared with a policy that never spills."""
    ring = each_seed(3, lambda seed: {"ttft_s.p95": 1.0, "spill_ratio": 0.1})
    least = each_seed(3, lambda seed: {"ttft_s.p95": 0.5, "spill_ratio": None})
    comparison = compare(base(*ring), side(*least, variant="least-loaded"))
    assert comparison.verdict == "better"
    assert comparison.notes == ("ring → least-loaded: without a meaning in new: spill_ratio",)
    assert compare(base(*ring), side(*least)).verdict == "incomparable"


def test_seeds_that_one_side_lacks_are_left_out_and_said() -> None:
    """Runs would be paired by their place in a list."""
    comparison = compare(base(*SAME), side(*SAME, first_seed=2))
    assert comparison.pairs == 2
    ratios = (1.0 / 1.1, 1.1 / 1.2)
    assert comparison.judged[0].change == pytest.approx(math.sqrt(math.prod(ratios)) - 1.0)
    assert comparison.notes == (
        "ring: seed 1 only in base",
        "ring: seed 4 only in new",
    )


def test_without_a_seed_in_common_nothing_is_compared() -> None:
    """No pair at all would be no difference."""
    comparison = compare(base(*SAME), side(*SAME, first_seed=11))
    assert comparison.verdict == "incomparable"
    assert comparison.unpaired[0].reason == (
        "no seed in common: base has seeds 1, 2, 3, new seeds 11, 12, 13"
    )


def test_a_figure_that_this_podsim_does_not_know_is_a_remark() -> None:
    """Results of another version would end in a traceback."""
    strange = [{**each, "ttft_s.p96": 1.0} for each in SAME]
    comparison = compare(base(*strange), side(*strange))
    assert comparison.verdict == "same"
    assert comparison.notes == ("ring: not known to this podsim: ttft_s.p96",)


def test_figures_that_all_variants_lack_are_one_remark() -> None:
    """Two new figures were ten remarks: one for each of them and each variant."""
    old, new = {"ttft_s.p95": 1.0}, {"ttft_s.p95": 1.0, "tries": 9, "e2e_s.p95": 2.0}
    names = ("ring", "table", "hash")

    def sides(label: str, *summaries: dict[str, Any]) -> Side:
        each = zip(names, summaries, strict=True)
        return joined(*(side(of, of, variant=name) for name, of in each), label=label)

    before = sides("base", old, old, old)
    assert compare(before, sides("new", new, new, new)).notes == (
        "all variants: not in base, so not compared: tries, e2e_s.p95",
    )
    assert compare(before, sides("new", new, old, new)).notes == (
        "ring, hash: not in base, so not compared: tries, e2e_s.p95",
    )


def named(scenario: str, given: Side) -> Side:
    return replace(given, scenario=scenario)


def test_scenarios_are_paired_by_name_and_none_is_forgotten() -> None:
    """A scenario whose runs are gone would be skipped; a new one would be an error."""
    bases = [named("a", base(*SAME)), named("b", base(*SAME))]
    news = [named("b", side(*SAME)), named("c", side(*SAME))]
    found = report("base", "new", bases, news)
    assert [(each.scenario, each.verdict) for each in found.comparisons] == [
        ("a", "incomparable"),
        ("b", "same"),
    ]
    assert found.comparisons[0].reason == "new has no runs of it"
    assert found.notes == ("c is only in new: nothing to compare it with",)
    assert found.verdict == "incomparable"


def test_one_scenario_on_each_side_may_have_two_names() -> None:
    """A scenario that was renamed would have vanished; its hash knows better."""
    found = report("base", "new", [named("a", base(*SAME))], [named("b", side(*SAME))])
    assert found.verdict == "same"


def test_nothing_at_all_is_not_comparable() -> None:
    """A comparison of nothing would be green."""
    assert report("base", "new", [], []).verdict == "incomparable"
    assert compare(Side("base", "a", ()), Side("new", "a", ())).verdict == "incomparable"


def test_variants_of_one_run_are_compared_with_the_first() -> None:
    """Whoever asks which variant is best would call podsim once for each pair."""
    ring = base(*SAME)
    slow = base(*seeds("ttft_s.p95", [2.0, 2.1, 2.2]), variant="slow")
    found = variants_report("run", [joined(ring, slow, base(*SAME, variant="x"), label="run")])
    assert [(each.base, each.new, each.verdict) for each in found.comparisons] == [
        ("ring", "slow", "worse"),
        ("ring", "x", "identical"),
    ]
    assert variants_report("run", [ring]).verdict == "incomparable"
