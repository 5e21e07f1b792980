"""Designs: which values a text stands for, in which order points come, what is refused."""

from time import thread_time

import pytest

from sim.core.errors import ScenarioError
from sim.sweep.design import design


def values_of(**given) -> tuple[str, ...]:
    """The values of a design with one axis."""
    return tuple(value for (value,) in design(**given).points)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("4..16..4", "4 8 12 16"),
        ("4..15..4", "4 8 12"),
        ("16..4..-6", "16 10 4"),
        ("0.1..0.5..0.1", "0.1 0.2 0.3 0.4 0.5"),
        ("1m..10m..3m", "1m 4m 7m 10m"),
        ("30s..2m..30s", "30s 60s 90s 120s"),
        ("64KiB..1MiB..480KiB", "65536B 557056B 1048576B"),
        ("1k..3k..500", "1000 1500 2000 2500 3000"),
        ("-1..1..1", "-1 0 1"),
        ("1..4", "1 2 3 4"),
        ("7..7", "7"),
    ],
)
def test_a_range_has_exact_values_with_both_ends(text, values):
    """0.30000000000000004 pods would be asked for, or the last point would be lost."""
    assert values_of(grid=[f"a.b={text}"]) == tuple(values.split())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,4", ["1", "2", "4"]),
        ("5", ["5"]),
        ("1m, 90s", ["1m", "90s"]),
        ("null,2s", ["null", "2s"]),
        (
            "{kind: bounded-ring, maxLoadPercent: 125},{kind: session-table}",
            ["{kind: bounded-ring, maxLoadPercent: 125}", "{kind: session-table}"],
        ),
        ("'a, b',[1, 2],c", ["'a, b'", "[1, 2]", "c"]),
        ("../a.csv,../b.csv", ["../a.csv", "../b.csv"]),
    ],
)
def test_a_list_is_split_where_yaml_splits_it(text, values):
    """A policy with two settings would be torn apart at its comma."""
    assert values_of(grid=[f"a.b={text}"]) == tuple(values)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..64..7", "1 2 4 8 16 32 64"),
        ("1..4..7", "1 2 3 4"),
        ("1k..4k..3", "1000 2000 4000"),
        ("1s..4s..3", "1s 2s 4s"),
        ("10..1..2", "10 1"),
        ("0.5..2..3", "0.5 1 2"),
        ("1.0..100.0..5", "1 3.16228 10 31.6228 100"),
    ],
)
def test_a_log_axis_has_equal_ratios_and_keeps_counts_whole(text, values):
    """2.5 replicas would be refused, or a count would be run twice."""
    assert values_of(log=[f"a.b={text}"]) == tuple(values.split())


def test_values_that_are_computed_have_six_digits():
    """The last bits of a power differ between machines, and with them every digest."""
    assert values_of(log=["a.b=1s..2s..4"]) == ("1s", "1.25992s", "1.5874s", "2s")
    assert all(len(value) <= 8 for value in values_of(random=["a.b=0.5..9.5"], points=50, seed=3))


def test_random_points_are_those_of_their_seed_and_path():
    """A sweep could not be repeated, or one more axis would change the points of all others."""
    alone = design(random=["a.b=1..64"], points=20, seed=5)
    together = design(random=["c.d=x,y", "a.b=1..64"], points=20, seed=5)
    longer = design(random=["a.b=1..64"], points=30, seed=5)
    other = design(random=["a.b=1..64"], points=20, seed=6)
    values = [point[0] for point in alone.points]
    assert values == [point[1] for point in together.points]
    assert values == [point[0] for point in longer.points][:20]
    assert values != [point[0] for point in other.points]
    assert alone.hash == design(random=["a.b=1..64"], points=20, seed=5).hash


def test_random_values_fill_their_interval():
    """The ends of an interval of whole numbers would never be drawn, or more than these."""
    values = {int(value) for value in values_of(random=["a.b=1..4"], points=200, seed=1)}
    assert values == {1, 2, 3, 4}
    assert set(values_of(random=["a.b={kind: x},{kind: y}"], points=50, seed=1)) == {
        "{kind: x}",
        "{kind: y}",
    }
    durations = values_of(random=["a.b=1m..2m"], points=50, seed=1)
    assert all(value.endswith("m") and 1.0 <= float(value[:-1]) < 2.0 for value in durations)


def test_points_are_the_product_the_last_axis_fastest_random_ones_within():
    """The order of the table would be another one than that of the command."""
    points = design(grid=["a.b=1,2"], log=["c.d=1..4..3"], random=["e.f=1..9"], points=2)
    drawn = values_of(random=["e.f=1..9"], points=2, seed=1)
    assert points.points == tuple(
        (one, other, third) for one in "12" for other in ("1", "2", "4") for third in drawn
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"grid": ["a.b=0.5..16"]}, "'0.5..16' has no step; a range is from..to..step"),
        ({"grid": ["a.b=1k..4k"]}, "'1k..4k' has no step"),
        ({"grid": ["a.b=1m..4m"]}, "'1m..4m' has no step"),
        ({"grid": ["a.b=16..4"]}, "steps of 1 do not lead from 16 to 4"),
        ({"grid": ["a.b=4..16.."]}, "from..to..step"),
        ({"grid": ["a.b=1..1e9999999999999999999..1"]}, "1e9999999999999999999 is too large"),
        ({"grid": ["a.b=1e-999999..1e999999..1"]}, "1e-999999 is too large, or too small"),
        ({"log": ["a.b=1..1e999999..3"]}, "1e999999 is too large"),
        ({"random": ["a.b=1..1e999999"], "points": 3}, "1e999999 is too large"),
        ({"grid": ["a.b=4..16..0"]}, "the step is 0"),
        ({"grid": ["a.b=4..16..-1"]}, "do not lead from 4 to 16"),
        ({"grid": ["a.b=1..1e9..1"]}, "at most 100,000"),
        ({"grid": ["a.b=1..999..1", "a.c=1..999..1"]}, "998,001 points; at most 100,000"),
        ({"grid": ["a.b=1m..1GiB..1m"]}, "mixes units"),
        ({"grid": ["a.b=1x..3x..1x"]}, "unknown unit 'x'"),
        ({"grid": ["a.b="]}, "has no values"),
        ({"grid": ["a.b"]}, "must be path=values"),
        ({"grid": ["a..b=1"]}, "must be path=values"),
        ({"grid": ["a.b=1,{"]}, "--grid a.b=1,{"),
        ({"grid": ["a.b=1,1"]}, "the value 1 twice"),
        ({"grid": ["a.b=1,2", "a.b=3"]}, "--grid a.b sets as well"),
        ({"grid": ["a.b.c=1,2", "a.b={}"]}, "--grid a.b.c sets as well"),
        ({"grid": ["a.b=1,2"], "settings": ["a.b=3"]}, "--set a.b=3 sets as well"),
        ({"grid": ["seeds=1,2"]}, "--seeds N"),
        ({"grid": ["name=a,b"]}, "cannot be swept"),
        ({"log": ["a.b=0..8..3"]}, "above 0"),
        ({"log": ["a.b=1..8"]}, "from..to..points"),
        ({"random": ["a.b=8..1"], "points": 3}, "must go up"),
        ({}, "at least one axis"),
    ],
)
def test_what_cannot_be_meant_is_said(given, words):
    """A slip would run something else for hours."""
    with pytest.raises(ScenarioError) as caught:
        design(**given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "folder"),
    [
        ({"grid": ["window.warmup=60s,2m"]}, "5b755c00"),
        ({"log": ["a.b=1..4..7"], "settings": ["c.d=1"]}, "043dcbc8"),
        ({"random": ["a.b=1..3"], "points": 9}, "e9b7f7d6"),
    ],
)
def test_a_design_keeps_the_name_of_its_folder(given, folder):
    """Runs that an earlier podsim of this form kept would not be found, and be made anew.

    The names are those of before equal values were refused: what the axes and
    draws stand for, drawn twice or not, is still the same.
    """
    assert design(**given).hash == folder


def test_all_faults_of_a_design_are_told_at_once():
    """One fault a try: six tries for six slips."""
    with pytest.raises(ScenarioError) as caught:
        design(grid=["a=4..1", "seeds=1"], log=["b=0..1..3"], random=["c=2..1"], points=3)
    assert len(caught.value.faults) == 4


def test_a_setting_of_a_block_may_hold_a_swept_part():
    """``--set backends.a.policy={...}`` and a sweep of one number in it are both meant."""
    assert design(grid=["a.b.c=1,2"], settings=["a.b={c: 3}"]).points == (("1",), ("2",))


def test_a_hundred_thousand_values_are_read_at_once():
    """Each value was sought among all before it: minutes before anything was checked."""

    def cost_s(count: int) -> float:
        started_s = thread_time()
        assert len(values_of(grid=[f"a.b=1..{count}"])) == count
        return thread_time() - started_s

    # Ten times as many take ten times as long, not a hundred times, on whatever machine.
    assert min(cost_s(100_000) for _ in range(2)) < 40 * min(cost_s(10_000) for _ in range(3))
