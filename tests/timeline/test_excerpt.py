"""Which part of a run is shown, and how large that can become."""

import pytest

from sim.execution.runner import run_one
from sim.scenario.load import load_dict
from sim.timeline.excerpt import Excerpt, StepLog
from sim.timeline.timeline import MOST_EVENTS, timeline
from tests.timeline.format import breaches, events
from tests.timeline.test_format import RUNS


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("600s..11m", Excerpt(600.0, 660.0)),
        ("0s..250ms", Excerpt(0.0, 0.25)),
        ("1h30m..2h", Excerpt(5400.0, 7200.0)),
    ],
)
def test_an_excerpt_is_two_times_with_units(text: str, excerpt: Excerpt) -> None:
    """Scenario files and the command line would write times in two ways."""
    assert Excerpt.parse(text) == excerpt


@pytest.mark.parametrize(
    "text", ["", "..", "60s", "60s..", "1..2", "2s..1s", "1s..1s", "-1s..1s", "1s...2s", "1s..2x"]
)
def test_anything_else_is_told_with_what_would_be_right(text: str) -> None:
    """A slip of the pen would give an empty file, or one of another part of the run."""
    with pytest.raises(ValueError, match=r"600s\.\.11m|before it ends"):
        Excerpt.parse(text)


@pytest.mark.parametrize(
    ("interval_s", "inside"),
    [
        ((8.0, 10.0), False),
        ((8.0, 10.1), True),
        ((10.0, 10.0), True),
        ((19.9, 25.0), True),
        ((20.0, 20.0), False),
        ((20.0, 21.0), False),
        ((5.0, 25.0), True),
    ],
)
def test_an_excerpt_is_half_open(interval_s: tuple[float, float], inside: bool) -> None:
    """What is at a border would be in two neighbouring excerpts or in none."""
    assert Excerpt(10.0, 20.0).meets(*interval_s) == inside


def test_clipping_keeps_what_nests_nested() -> None:
    """Rounded apart, an inner slice could stick out by a microsecond."""
    excerpt = Excerpt(0.0000004, 1.0)
    inner = excerpt.clipped_us(0.1234565, 0.9999996)
    outer = excerpt.clipped_us(0.1234565, 1.5)
    assert excerpt.clipped_us(0.0, 0.3) == (0, 300_000)
    assert inner[0] == outer[0]
    assert inner[1] <= outer[1] == 1_000_000


@pytest.mark.parametrize("most_events", [0, 100, 500, 1_000])
def test_a_timeline_ends_before_it_has_too_many_events(most_events: int) -> None:
    """A long window or a fast fleet would give a file that no viewer opens."""
    log = StepLog(Excerpt(30.0, 90.0))
    result = run_one(load_dict(RUNS["agents"]).variants[0], 1, observer=log)
    whole = timeline(result, log)
    assert (whole.cut, whole.excerpt) == (False, log.excerpt)
    assert 1_000 < whole.events < MOST_EVENTS
    cut = timeline(result, log, most_events)
    names_and_first_values = 6 * (2 + len(result.facts.pods))
    assert most_events // 3 <= cut.events <= most_events + names_and_first_values
    assert (cut.cut, cut.excerpt.start_s) == (True, 30.0)
    found = events(cut.text)
    assert breaches(found) == []
    assert all(event["ts"] < cut.excerpt.end_s * 1e6 for event in found if event["ph"] != "M")
