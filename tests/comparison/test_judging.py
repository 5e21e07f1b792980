"""Values that comparators stumble over: unknown, missing, zero, neutral, late, all alike."""

import math
from typing import Any

import pytest
from scipy.stats import ttest_1samp

from sim.comparison.paired import compare
from sim.comparison.sides import MetricVerdict
from tests.comparison.harness import base, each_seed, only, seeds, side

NOISE = [0.0, 0.01, -0.01, 0.02, -0.02]
LATE = {"samples.ttft_s.censored": 3}


def ttft(
    values: list[Any], new: list[Any], *, old_too: bool = True, **others: Any
) -> MetricVerdict:
    """The verdict on the TTFT of ``new`` against that of ``values``."""
    before = seeds("ttft_s.p95", values, **(others if old_too else {}))
    comparison = compare(base(*before), side(*seeds("ttft_s.p95", new, **others)))
    return only(comparison, "ttft_s.p95")


def around(mean: float, count: int = 5) -> list[float]:
    return [mean * (1.0 + each) for each in (NOISE * count)[:count]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "fast", True])
@pytest.mark.parametrize("seed", [1, 5])
def test_what_is_no_number_is_not_comparable(bad: Any, seed: int) -> None:
    """NaN is neither larger nor smaller than a threshold, so that it would pass every check."""
    spoilt: list[Any] = around(1.0)
    spoilt[seed - 1] = bad
    judged = ttft(around(1.0), spoilt)
    assert judged.verdict == "incomparable"
    assert judged.reason == f"no usable number in new under seed {seed}"
    assert ttft(spoilt, around(1.0)).reason == f"no usable number in base under seed {seed}"


def test_two_seeds_that_disagree_by_much_are_inconclusive() -> None:
    """The t interval of one degree of freedom is so wide in logarithms that exp overflowed."""
    judged = ttft([1e-6, 1.0], [1.0, 1e-90])
    assert judged.verdict == "inconclusive"
    assert judged.high is not None and math.isfinite(judged.high)


def test_nan_on_both_sides_is_not_equal() -> None:
    """A figure that became NaN once would be the same ever after, digests and all."""
    spoilt = seeds("ttft_s.p95", [math.nan] * 3)
    comparison = compare(base(*spoilt, digest="one"), side(*spoilt, digest="one"))
    assert comparison.verdict == "incomparable"


def test_a_metric_that_new_lacks_is_not_passed_over() -> None:
    """A comparison over what both have would never see a figure vanish."""
    both = each_seed(5, lambda seed: {"ttft_s.p95": 1.0, "error_ratio": 0.0})
    comparison = compare(base(*both), side(*seeds("error_ratio", [0.0] * 5)))
    assert only(comparison, "ttft_s.p95").verdict == "incomparable"
    assert only(comparison, "ttft_s.p95").reason == "new has no such figure"
    assert comparison.verdict == "incomparable"


def test_a_metric_that_only_new_has_is_a_remark() -> None:
    """A new figure would turn every older baseline red."""
    both = each_seed(5, lambda seed: {"ttft_s.p95": 1.0, "error_ratio": 0.0})
    comparison = compare(base(*seeds("error_ratio", [0.0] * 5)), side(*both))
    assert [each.key for each in comparison.judged] == ["error_ratio"]
    assert comparison.verdict == "same"
    assert comparison.notes == ("ring: not in base, so not compared: ttft_s.p95",)


def test_errors_that_rise_from_zero_are_worse_in_their_own_unit() -> None:
    """A share of nothing is infinite or undefined: it would fail always, or never."""
    before = base(*seeds("error_ratio", [0.0] * 5))
    judged = only(
        compare(before, side(*seeds("error_ratio", [0.01, 0.012, 0.009, 0.011, 0.01]))),
        "error_ratio",
    )
    assert judged.verdict == "worse"
    assert not judged.relative
    assert judged.change == pytest.approx(0.0104)
    assert judged.margin == 0.0
    constant = only(compare(before, side(*seeds("error_ratio", [0.01] * 5))), "error_ratio")
    assert (constant.verdict, constant.low, constant.high) == ("worse", 0.01, 0.01)


def test_one_error_under_one_seed_of_five_proves_nothing() -> None:
    """Any chance error would turn a check red where the base had none."""
    judged = only(
        compare(
            base(*seeds("error_ratio", [0.0] * 5)),
            side(*seeds("error_ratio", [0.0, 0.0, 0.001, 0.0, 0.0])),
        ),
        "error_ratio",
    )
    assert judged.verdict == "inconclusive"
    assert judged.seeds_needed == 22  # the first n with t * sqrt(5) < sqrt(n)


def test_errors_that_vanish_are_better() -> None:
    """A change to zero would be no change."""
    judged = only(
        compare(
            base(*seeds("error_ratio", [0.01, 0.012, 0.009, 0.011, 0.01])),
            side(*seeds("error_ratio", [0.0] * 5)),
        ),
        "error_ratio",
    )
    assert (judged.verdict, judged.change) == ("better", -1.0)


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        ("ttft_s.p95", "worse"),
        ("output_tokens_per_s", "better"),
        ("prompt_tokens.mean", "changed"),
    ],
)
def test_a_rise_is_what_the_metric_says_it_is(key: str, verdict: str) -> None:
    """Directions would be flipped, or a neutral figure called better."""
    comparison = compare(base(*seeds(key, around(100.0))), side(*seeds(key, around(120.0))))
    assert only(comparison, key).verdict == verdict


def test_within_the_margin_is_the_same_however_significant() -> None:
    """A difference of 1 % that is beyond doubt would be a regression."""
    judged = ttft([1.0] * 5, [1.01, 1.0101, 1.0099, 1.01, 1.01])
    assert judged.verdict == "same"
    assert judged.low is not None
    assert judged.low > 0.0


def test_beyond_the_margin_is_worse_only_when_significant() -> None:
    """A mean that one seed has moved would be a regression."""
    assert ttft([1.0] * 5, [1.0, 1.0, 1.0, 1.0, 1.6]).verdict == "inconclusive"
    assert ttft([1.0] * 5, [1.1, 1.12, 1.11, 1.13, 1.14]).verdict == "worse"


def test_a_mean_within_the_margin_is_the_same_only_when_the_interval_is() -> None:
    """No difference on average, with seeds that go either way, would be proof of none."""
    judged = ttft([1.0] * 5, [0.85, 1.15, 1.0, 1.1, 0.92])
    assert judged.verdict == "inconclusive"
    assert judged.seeds_needed is not None
    assert judged.seeds_needed > 5


def test_a_change_below_the_floor_is_none() -> None:
    """Half of a tenth of a millisecond would be a change of 50 %."""
    assert ttft([1e-4] * 5, [1.5e-4] * 5).verdict == "same"
    assert ttft([0.0] * 5, [5e-4] * 5).verdict == "same"
    assert ttft([0.0] * 5, [2e-3] * 5).verdict == "worse"


def test_one_ulp_is_the_same_even_without_a_margin() -> None:
    """Summing in another order would be a regression in a metric whose margin is zero."""
    up = math.nextafter(0.1, 1.0)
    judged = only(
        compare(base(*seeds("error_ratio", [0.1] * 5)), side(*seeds("error_ratio", [up] * 5))),
        "error_ratio",
    )
    assert judged.verdict == "same"


def test_nothing_that_differs_is_the_same() -> None:
    """Equal figures of runs that differ elsewhere would be inconclusive, or identical."""
    assert ttft(around(1.0), around(1.0)).verdict == "same"


def test_the_same_to_the_bit_is_identical() -> None:
    """Unchanged code would be judged by statistics."""
    figures = seeds("ttft_s.p95", around(1.0))
    comparison = compare(base(*figures, digest="one"), side(*figures, digest="one"))
    assert comparison.verdict == "identical"
    assert (comparison.pairs, comparison.identical) == (5, 5)
    assert only(comparison, "ttft_s.p95").verdict == "identical"


@pytest.mark.parametrize("key", ["pod_requests.fleet-0", "samples.ttft_s.observed"])
def test_identical_are_all_figures_also_those_that_are_not_compared(key: str) -> None:
    """A summary that says something else of the same tables would be identical."""
    figures = each_seed(3, lambda seed: {"ttft_s.p95": 1.0, key: 10})
    other = each_seed(3, lambda seed: {"ttft_s.p95": 1.0, key: 11})
    comparison = compare(base(*figures, digest="one"), side(*other, digest="one"))
    assert comparison.verdict == "same"
    assert comparison.identical == 0


def test_a_figure_more_is_not_identical() -> None:
    """What a newer podsim counts besides would be compared with nothing, and be identical."""
    figures = each_seed(3, lambda seed: {"ttft_s.p95": 1.0})
    more = each_seed(3, lambda seed: {"ttft_s.p95": 1.0, "tries": 3})
    for old, new in ((figures, more), (more, figures)):
        comparison = compare(base(*old, digest="one"), side(*new, digest="one"))
        assert comparison.identical == 0
        assert comparison.verdict != "identical"


@pytest.mark.parametrize("new", [1.0, 2.0, 0.0])
def test_one_seed_decides_nothing(new: float) -> None:
    """One pair of runs would be a verdict, of whatever its chance was."""
    judged = ttft([1.0], [new])
    assert judged.verdict == "inconclusive"
    assert judged.reason == "one seed says nothing about chance"
    assert judged.change == new - 1.0
    assert (judged.low, judged.high, judged.seeds_needed) == (None, None, None)


def test_late_requests_are_worse_than_any_number() -> None:
    """The p95 of a run that ended saturated is null, and null would be left out."""
    judged = ttft(around(1.0), [None] * 5, old_too=False, **LATE)
    assert judged.verdict == "worse"
    assert judged.base == pytest.approx(1.0)
    assert judged.new is None
    assert judged.reason == (
        "new has no value for it under 5 seeds from 1 to 5: "
        "requests were still on their way at the end"
    )


def test_late_requests_of_the_base_are_better_now() -> None:
    """Relief from saturation would not be comparable."""
    before = base(*seeds("ttft_s.p95", [None] * 5, **LATE))
    comparison = compare(before, side(*seeds("ttft_s.p95", around(1.0))))
    assert only(comparison, "ttft_s.p95").verdict == "better"


def test_late_requests_under_few_seeds_are_not_the_same() -> None:
    """The seeds that still know the figure would speak for the one that saturated."""
    late: list[Any] = [*around(1.0, 9), None]
    judged = ttft(around(1.0, 10), late, old_too=False, **LATE)
    assert judged.verdict == "inconclusive"
    assert judged.n == 9
    assert "new has no value for it under seed 10" in judged.reason
    assert ttft(
        around(1.0, 10), [0.5 * each if each else None for each in late], **LATE
    ).verdict == ("inconclusive")


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_what_would_decide_is_more_than_there_is(factor: float) -> None:
    """Advice was for 2 seeds to somebody who had 10: sizes were decided, lateness was not."""
    late: list[Any] = [*(factor * each for each in around(1.0, 9)), None]
    judged = ttft(around(1.0, 10), late, old_too=False, **LATE)
    assert judged.verdict == "inconclusive"
    assert judged.seeds_needed == 50  # five of them late on one side only: 1 in 32


def test_seeds_under_which_nobody_knows_it_are_needed_too() -> None:
    """Of ten seeds five told something, and the advice was as if all did."""
    wobble = [0.9, 1.4, 1.0, 1.2, 1.5]
    all_known = ttft([1.0] * 5, wobble)
    half: list[Any] = [each for value in wobble for each in (value, None)]
    old: list[Any] = [each for value in wobble for each in (1.0, None)]
    needed = ttft(old, half, **LATE).seeds_needed
    assert all_known.seeds_needed is not None
    assert needed == 2 * all_known.seeds_needed


@pytest.mark.parametrize("value", [1e200, 10**400])
def test_numbers_too_large_to_reckon_with_are_not_comparable(value: float) -> None:
    """Their squares, and integers that no float holds, ended the program."""
    judged = ttft(around(1.0), [value, 1.0, 1.0, 1.0, 1.0])
    assert judged.verdict == "incomparable"
    assert judged.reason == "no usable number in new under seed 1"


def test_late_under_one_seed_and_worse_under_the_others_is_worse() -> None:
    """A figure that is null somewhere would hide that it is worse everywhere else."""
    new: list[Any] = [*around(1.5, 9), None]
    assert ttft(around(1.0, 10), new, old_too=False, **LATE).verdict == "worse"


@pytest.mark.parametrize(
    ("late", "of", "verdict"),
    [
        *((3, 4, "worse"), (4, 4, "worse"), (2, 4, "inconclusive"), (3, 3, "worse")),
        *((2, 2, "inconclusive"), (5, 40, "worse"), (4, 40, "inconclusive")),
    ],
)
def test_late_under_most_seeds_is_worse_whatever_the_others_say(late, of, verdict) -> None:
    """An e2e_s.p95 that three of four runs never saw was "inconclusive, about 6 seeds"."""
    new: list[Any] = [*[None] * late, *[1.0] * (of - late)]
    judged = ttft(around(1.0, of), new, old_too=False, **LATE)
    assert judged.verdict == verdict
    assert judged.seeds_needed is None or judged.seeds_needed > of
    assert f"has no value for it under {'seeds' if late < 5 else '5 seeds'}" in judged.reason


def test_a_time_is_compared_as_a_ratio() -> None:
    """Of 484 s to 7 s the change was -98.5 % with an interval from -309.2 % to +112.2 %."""
    judged = ttft([1400.0, 30.0, 22.0], [9.0, 6.0, 6.0])
    assert judged.relative
    logs = [math.log(new / old) for old, new in ((1400.0, 9.0), (30.0, 6.0), (22.0, 6.0))]
    known = ttest_1samp(logs, 0.0)
    assert judged.change == pytest.approx(math.exp(sum(logs) / 3) - 1.0)
    assert judged.p_value == pytest.approx(known.pvalue)
    low, high = known.confidence_interval(0.95)
    assert (judged.low, judged.high) == pytest.approx((math.expm1(low), math.expm1(high)))
    assert judged.low > -1.0


def test_a_time_that_is_zero_somewhere_is_compared_in_seconds() -> None:
    """Zero is no ratio of anything, and a share of a mean would reach below nothing."""
    judged = ttft([4.0, 0.0, 0.1], [0.0, 0.0, 0.2])
    assert (judged.relative, judged.change) == (False, pytest.approx(-1.3))


def test_no_more_than_all_can_be_lost() -> None:
    """Half of the spills less was [-143.0, +39.9] %."""
    found = compare(
        base(*seeds("error_ratio", [0.3, 0.0, 0.1])), side(*seeds("error_ratio", [0.0] * 3))
    )
    judged = only(found, "error_ratio")
    assert (judged.change, judged.low) == (-1.0, -1.0)


def served(refused: float, ttft_s: float, seed: int) -> dict[str, float]:
    """A run of which a share was refused."""
    wobble = 1.0 + 0.01 * (seed % 3)
    return {
        **{"requests": 1000.0, "error_ratio": refused * wobble, "requests_cancelled": 0.0},
        **{"ttft_s.p95": ttft_s * wobble, "ttft_s.p50": ttft_s * wobble / 10.0},
    }


def test_whoever_refuses_most_is_not_the_fastest() -> None:
    """A change that refused a third of the requests was better in TTFT, without a word."""
    found = compare(
        base(*each_seed(5, lambda seed: served(0.0, 2.0, seed))),
        side(*each_seed(5, lambda seed: served(0.3, 0.5, seed + 1))),
    )
    p95, p50 = only(found, "ttft_s.p95"), only(found, "ttft_s.p50")
    assert (p95.verdict, p50.verdict) == ("worse", "inconclusive")
    assert "30.3 % were refused, broke off or gave up" in p95.reason
    assert p50.reason == (
        "better for those served only: 30.3 % were refused, broke off or gave up in new, 0.0 % in "
        "base"
    )
    assert found.notes == (
        "ring: times and speeds are of those served: 0.0 % of the requests were refused, broke off "
        "or gave up in base, 30.3 % in new",
    )


def test_where_both_refuse_as_many_the_served_are_compared() -> None:
    """Nothing could be said of a fleet whose clients give up, whatever is changed."""
    found = compare(
        base(*each_seed(5, lambda seed: served(0.3, 2.0, seed))),
        side(*each_seed(5, lambda seed: served(0.3, 0.5, seed + 1))),
    )
    assert only(found, "ttft_s.p95").verdict == "better"
    assert (
        "30.4 % of the requests were refused, broke off or gave up in base, 30.3" in found.notes[0]
    )


def test_late_on_both_sides_is_not_known() -> None:
    """Two saturated runs would be called the same."""
    judged = ttft([None] * 5, [None] * 5, **LATE)
    assert judged.verdict == "inconclusive"
    assert "known to neither side" in judged.reason


def test_what_vanished_for_another_reason_is_not_comparable() -> None:
    """Nothing to measure would be infinitely late, or ignored."""
    judged = ttft(around(1.0), [1.0, 1.0, None, 1.0, 1.0])
    assert judged.verdict == "incomparable"
    assert judged.reason == "new had nothing to measure it by under seed 3"
    assert (
        "base had nothing to measure it by" in ttft([1.0, 1.0, None, 1.0, 1.0], around(1.0)).reason
    )


def test_what_nobody_measured_is_not_judged() -> None:
    """Spills of a policy without a home would be the same, or not comparable."""
    figures = each_seed(5, lambda seed: {"ttft_s.p95": 1.0, "spill_ratio": None})
    comparison = compare(base(*figures), side(*figures))
    assert [each.key for each in comparison.judged] == ["ttft_s.p95"]


def test_lateness_of_a_workload_is_its_own() -> None:
    """Late requests of one workload would excuse the missing figure of another."""
    key = "by_workload.chat.ttft_s.p95"
    counts = {
        "by_workload.chat.requests": 20,
        "by_workload.chat.error_ratio": 0.1,
        "by_workload.chat.requests_cancelled": 1,
    }
    before = seeds(key, around(1.0), **counts, **{"by_workload.chat.requests_completed": 17})
    late = seeds(key, [None] * 5, **counts, **{"by_workload.chat.requests_completed": 15})
    gone = seeds(key, [None] * 5, **counts, **{"by_workload.chat.requests_completed": 17}, **LATE)
    assert only(compare(base(*before), side(*late)), key).verdict == "worse"
    assert only(compare(base(*before), side(*gone)), key).verdict == "incomparable"


def test_lateness_of_a_pool_is_that_of_its_holds() -> None:
    """Requests that are still held when the run ends would leave no trace."""
    key = "pool.card.hold_s.p95"
    before = seeds(key, around(1.0))
    late = seeds(key, [None] * 5, **{"pool.card.holds.censored": 4})
    assert only(compare(base(*before), side(*late)), key).verdict == "worse"


@pytest.mark.parametrize("key", ["placements.by_reason.bound", "failed_attempts.by_error.timeout"])
def test_a_name_that_is_missing_from_a_family_is_zero(key: str) -> None:
    """Errors of a kind that never occurred before would be new figures, not errors."""
    other = f"{key.rpartition('.')[0]}.other"
    before = base(*seeds(other, [10] * 5))
    judged = only(compare(before, side(*seeds(other, [10] * 5, **{key: 7}))), key)
    assert (judged.base, judged.new) == (0.0, 7.0)
    assert judged.verdict == ("changed" if key.startswith("placements") else "worse")


def test_primary_metrics_share_the_level_and_others_do_not_use_it_up() -> None:
    """Twelve tests at 5 % each would raise a false alarm in every second comparison."""
    keys = ["ttft_s.p50", "ttft_s.p95", "e2e_s.p95", "output_tokens_per_s"]
    others = ["queue_s.p50", "tpot_s.mean"]
    wobble = {key: at for at, key in enumerate([*keys, *others])}

    def noisy(seed: int) -> dict[str, float]:
        return {key: 1.0 + 0.01 * math.sin(seed * (at + 2)) for key, at in wobble.items()}

    comparison = compare(
        base(*each_seed(6, lambda seed: dict.fromkeys(wobble, 1.0))), side(*each_seed(6, noisy))
    )
    levels = {each.key: each.level for each in comparison.judged}
    assert min(levels[key] or 0.0 for key in keys) == pytest.approx(0.05 / 4)
    assert min(levels[key] or 0.0 for key in others) == pytest.approx(0.05 / 2)


def test_a_metric_that_decides_nothing_decides_nothing() -> None:
    """One of two hundred side figures would turn a check red."""
    before = each_seed(5, lambda seed: {"ttft_s.p95": 1.0, "queue_s.p95": 1.0})
    after = each_seed(5, lambda seed: {"ttft_s.p95": 1.0, "queue_s.p95": 2.0})
    comparison = compare(base(*before), side(*after))
    assert only(comparison, "queue_s.p95").verdict == "worse"
    assert comparison.verdict == "same"
    assert comparison.named("worse", primary=False) == (only(comparison, "queue_s.p95"),)
