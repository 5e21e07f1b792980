"""Each metric worse alone is found and named, whatever else there is."""

import pytest

from sim.comparison import rendering
from sim.comparison.paired import compare
from sim.comparison.report import Report
from sim.results.comparison import NOT_COMPARED
from sim.results.metrics import METRICS, Metric, metric
from tests.comparison.harness import base, each_seed, only, side

SEEDS = 5
KEYS = [declared.key.replace("*", "some") for declared in METRICS]
JUDGED = [key for key in KEYS if not key.startswith(NOT_COMPARED)]


def everything(seed: int, **scaled: float) -> dict[str, float]:
    """Every figure there is, with what a seed makes of it; some of them ``scaled``."""
    values = {
        key: (100.0 + at + 3.0 * seed) * scaled.get(key, 1.0) for at, key in enumerate(KEYS, 1)
    }
    values["pool.some.swap_failures.some"] /= 1000.0  # or most swaps would have failed
    return values


def slightly(seed: int) -> float:
    """A tenth, not quite the same under every seed."""
    return 0.1 + 0.001 * seed


@pytest.mark.parametrize("key", JUDGED)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_metric_that_moves_alone_is_judged_by_its_direction(key: str, sign: float) -> None:
    """A regression in one figure would be lost among two hundred that stand still."""
    comparison = compare(
        base(*each_seed(SEEDS, everything)),
        side(*each_seed(SEEDS, lambda seed: everything(seed, **{key: 1 + sign * slightly(seed)}))),
    )
    declared = metric(key)
    moved = {"up": sign > 0.0, "down": sign < 0.0}
    expected = {True: "better", False: "worse", None: "changed"}[moved.get(declared.better)]
    assert only(comparison, key).verdict == expected
    assert {each.verdict for each in comparison.judged if each.key != key} == {"same"}
    assert (comparison.verdict == "worse") == (expected == "worse" and declared.primary)


@pytest.mark.parametrize("key", [key for key in JUDGED if metric(key).primary])
def test_what_got_worse_is_named_with_its_size(key: str) -> None:
    """A red check would leave its reader to search for the reason."""
    worse = -1.0 if metric(key).better == "up" else 1.0
    comparison = compare(
        base(*each_seed(SEEDS, everything)),
        side(*each_seed(SEEDS, lambda seed: everything(seed, **{key: 1 + worse * slightly(seed)}))),
    )
    report = Report("base", "new", (comparison,))
    size = f"{10.3 * worse:+.1f} %"
    assert f"{key} is worse: " in rendering.text_report(report)
    assert size in rendering.text_report(report)
    named = [line for line in rendering.markdown_report(report).splitlines() if "is worse" in line]
    assert len(named) == 1
    assert size in named[0]


def test_nothing_but_pods_and_sample_sizes_goes_unjudged() -> None:
    """A metric could be declared and never be compared."""
    comparison = compare(
        base(*each_seed(2, everything)), side(*each_seed(2, lambda seed: everything(seed, x=1.0)))
    )
    assert [each.key for each in comparison.judged] == JUDGED
    assert len(JUDGED) == len(KEYS) - len(NOT_COMPARED)


@pytest.mark.parametrize("declared", METRICS, ids=lambda declared: declared.key)
def test_a_primary_metric_has_a_direction(declared: Metric) -> None:
    """A metric of which nobody knows what is better would decide a check."""
    assert declared.margin >= 0.0
    assert declared.floor >= 0.0
    assert not declared.primary or declared.better in ("up", "down")
