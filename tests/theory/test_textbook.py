"""The scenarios of theory: all within their bounds, and not when the engine is wrong."""

from pathlib import Path

import pytest

from sim.core.errors import UserError
from sim.core.request import Outcome
from sim.engine import scheduler
from sim.engine.spec import kv_blocks
from sim.engine.steptime import StepCost
from sim.router.placement.load import PowerOfTwo
from sim.router.placement.ring import BoundedRing
from sim.scenario.load import load, load_text
from sim.validation.case import TheoryRow
from sim.validation.queues import COMPARISONS, compare, validate_theory

FOLDER = Path(__file__).parents[2] / "scenarios/theory"
PATHWISE = {
    "single-server": "off Lindley",
    "many-servers": "behind Kiefer-Wolfowitz, most",
    "processor-sharing": "busy periods off Lindley",
    "machine-repair": "off Lindley",
    "placement": "off Lindley",
    "power-of-two": "off Lindley",
}
SHORT = ("seeds=[1, 2]", "window.warmup=0s")


def rows(name: str, *settings: str) -> list[TheoryRow]:
    return list(compare(COMPARISONS[name], load(FOLDER / f"{name}.yaml", settings)))


def short(name: str) -> list[TheoryRow]:
    closed = name == "machine-repair"
    length = "window.measure=300s" if closed else "workloads.customers.count=600"
    return rows(name, *SHORT, length)


def pathwise(name: str) -> list[bool]:
    return [row.ok for row in short(name) if row.what.startswith(PATHWISE[name])]


def test_every_scenario_of_the_folder_is_compared():
    """A file would lie there that nobody runs."""
    assert {path.stem for path in FOLDER.iterdir()} == set(COMPARISONS)


@pytest.mark.parametrize("name", COMPARISONS)
def test_podsim_is_what_the_textbook_says(name):
    """`podsim validate --theory` would fail: arrivals, queue, engine or tables are wrong."""
    assert [row for row in rows(name) if not row.ok] == []


@pytest.mark.parametrize("name", PATHWISE)
def test_steps_that_are_five_percent_too_long_are_found(name, monkeypatch):
    """An engine that is slightly slow would pass; each request is compared, so few are enough."""
    assert all(pathwise(name))
    _slow_down(monkeypatch)
    found = pathwise(name)
    assert found and not any(found)


def test_steps_that_are_five_percent_too_long_show_in_the_mean(monkeypatch):
    """The production cost model could be off by what nobody would forgive."""
    _slow_down(monkeypatch)
    (row,) = rows("state-dependent")
    assert row.predicted < row.low
    assert not row.ok


def test_a_bound_that_is_one_too_high_is_found(monkeypatch):
    """The ring could put one request too many on a pod."""
    right = BoundedRing.bound
    assert all(row.ok for row in short("bounded-hashing"))
    monkeypatch.setattr(BoundedRing, "bound", lambda self, pods: right(self, pods) + 1)
    assert [row.ok for row in short("bounded-hashing")] == [False, True]


def test_a_choice_among_fewer_is_found(monkeypatch):
    """Power of two could take the first that it draws and nobody would see it."""
    monkeypatch.setattr(PowerOfTwo, "choose", _first_drawn)
    exact, average = rows("power-of-two", "seeds=[1, 2, 3]")
    assert exact.ok
    assert average.predicted < average.low
    assert not average.ok


def test_a_cache_of_half_the_size_is_found(monkeypatch):
    """Blocks could be lost, or hits counted by another rule than LRU's."""
    monkeypatch.setattr(scheduler, "kv_blocks", lambda engine: kv_blocks(engine) // 2)
    for row in rows("prefix-cache", "seeds=[1, 2, 3]"):
        assert row.high < row.predicted
        assert not row.ok


def test_nothing_is_run_when_a_scenario_is_missing(tmp_path):
    """A typing error in the folder's name would cost half a minute, or pass."""
    with pytest.raises(UserError, match=r"no single-server\.yaml"):
        list(validate_theory(tmp_path))


@pytest.mark.parametrize(
    ("name", "written", "instead", "why"),
    [
        ("many-servers", "rate: 2.8", "rate: 5", "no steady state at a load of 1.25"),
        (
            "many-servers",
            "{geometric: {mean: 1000}}",
            "{uniform: {min: 1, max: 9}}",
            "tokens must be",
        ),
        ("machine-repair", "{exponential: {mean: 10s}}", "1s", "think must be exponential"),
        ("bounded-hashing", "  unbounded:", "  other:", "the variants unbounded are missing"),
        (
            "machine-repair",
            "engines:",
            "engines:\n  other: {kvBlocks: 1, stepTime: {a: 1}}",
            "one engine, backend and workload",
        ),
    ],
)
def test_a_scenario_that_theory_does_not_know_is_answered_kindly(name, written, instead, why):
    """Who changes a file to try another load would be told of a bug in podsim."""
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    assert text.count(written) == 1
    scenarios = load_text(text.replace(written, instead), name, SHORT)
    with pytest.raises(UserError, match=f"{name}: no theory to compare with: .*{why}"):
        list(compare(COMPARISONS[name], scenarios))


def test_a_workload_of_another_kind_is_answered_kindly():
    """A comparison would read the rate of arrivals that are none."""
    scenarios = load(FOLDER / "machine-repair.yaml", ("seeds=[1]", "window.measure=10s"))
    with pytest.raises(UserError, match="needs a workload of kind requests, not agents"):
        list(compare(COMPARISONS["many-servers"], scenarios))


def _slow_down(monkeypatch: pytest.MonkeyPatch) -> None:
    build = StepCost.__init__

    def slower(self, coefficients):
        linear = coefficients.model_dump(exclude={"computed", "prefilling"})
        scaled = {key: value * 1.05 for key, value in linear.items()}
        build(self, coefficients.model_copy(update=scaled))

    monkeypatch.setattr(StepCost, "__init__", slower)


def _first_drawn(self, request, pods, now_s):
    from sim.router.placement.load import Place, draw, ready_pods

    return Place(draw(self._stream, ready_pods(pods.ready)), Outcome.PLACED)
