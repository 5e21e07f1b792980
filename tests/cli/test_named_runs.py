"""Which stored runs a name on the command line means."""

import os
from pathlib import Path

import pytest

from sim.cli.stored import named_place, named_runs, scenario_folders
from sim.core.errors import UserError
from sim.results.store import Origin, write
from sim.results.stored import MANIFEST
from tests.results.builders import Book, facts

ROOT = Path("results", "runs")
A, B = "a" * 64, "b" * 64


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of our own, in which nothing is stored."""
    monkeypatch.chdir(tmp_path)


def keep(
    scenario: str, scenario_hash: str = A, variant: str = "", seed: int = 1, started: str = ""
) -> Path:
    book = Book()
    book.answered(1.0, 0.5)
    made = book.freeze(facts(scenario=scenario, variant=variant, seed=seed))
    provenance = {"started": started} if started else None
    return write(made, ROOT, Origin(scenario_hash, {}, provenance=provenance))


def named(name: str) -> list[str]:
    """What a name means, as hash/variant/seed."""
    return [
        f"{run.scenario}-{run.scenario_hash[0]}/{run.variant}/{run.seed}"
        for run in named_runs(name)
    ]


def test_a_name_may_go_on_with_a_variant_and_a_seed() -> None:
    """A user would have to type hashes and the way to the results."""
    for variant in ("ring", "table"):
        for seed in (1, 2):
            keep("demo", variant=variant, seed=seed)
    everything = ["demo-a/ring/1", "demo-a/ring/2", "demo-a/table/1", "demo-a/table/2"]
    for name in (
        "demo",
        "demo/",
        "demo-aaaaaaaa",
        "demo-aaaaaaaa//",
        str(ROOT),
        f"{ROOT}/demo-aaaaaaaa",
    ):
        assert named(name) == everything
    for name in (
        "demo/ring",
        "demo/ring/",
        "demo-aaaaaaaa/ring",
        "./results/runs/demo-aaaaaaaa/ring",
    ):
        assert named(name) == everything[:2]
    for name in (
        "demo/table/seed-2",
        "demo//table/seed-2/",
        str((ROOT / "demo-aaaaaaaa/table/seed-2").resolve()),
    ):
        assert named(name) == everything[3:]


def test_a_run_without_variants_lies_in_base() -> None:
    """The only run of a scenario could not be named."""
    keep("demo")
    assert named("demo") == named("demo/base") == named("demo/base/seed-1") == ["demo-a//1"]


def test_a_name_is_not_the_beginning_of_another() -> None:
    """``b200`` would show the runs of b200-agents, and ``rm`` remove them."""
    keep("b200-agents")
    keep("b200-agents-deadbeef")
    with pytest.raises(UserError, match="'b200' is neither a folder nor a stored run"):
        named_runs("b200")
    keep("b200", B)
    assert named("b200") == ["b200-b//1"]
    assert named("b200-agents") == ["b200-agents-a//1"]
    assert [path.name for path in scenario_folders("b200-agents")] == ["b200-agents-aaaaaaaa"]


@pytest.mark.parametrize(
    "name", ["*", "demo*", "d?mo", "[d]emo", "**", "demo/*", "demo/**/seed-1", "{demo}"]
)
def test_a_name_is_no_pattern(name: str) -> None:
    """``runs rm 'demo*'`` would remove what only begins like it."""
    keep("demo")
    keep("demonstration")
    with pytest.raises(UserError):
        named_runs(name)


@pytest.mark.parametrize(
    "name", ["demo/..", "demo/../..", "demo/base/../../..", "../store/demo", "", " ", "\0"]
)
def test_a_name_leads_to_nothing_outside_the_store(name: str) -> None:
    """``runs rm demo/../..`` would remove everything."""
    keep("demo")
    with pytest.raises(UserError):
        named_runs(name)


def test_a_way_outside_the_store_is_a_folder_like_any_other() -> None:
    """Results in a neighbouring folder could not be named."""
    keep("demo")
    Path("here").mkdir()
    os.chdir("here")
    assert (
        named("../results/runs")
        == named("../results/runs/demo-aaaaaaaa/../demo-aaaaaaaa")
        == ["demo-a//1"]
    )


@pytest.mark.parametrize("swap", [False, True])
def test_of_several_scenarios_of_a_name_the_one_started_last_is_meant(swap: bool) -> None:
    """A change of the scenario would show the figures from before it."""
    first, last = (B, A) if swap else (A, B)
    keep("demo", last, seed=1, started="2026-03-01T10:00:00+00:00")
    keep("demo", first, seed=9, started="2026-03-01T09:59:59+00:00")
    assert [run.scenario_hash for run in named_runs("demo")] == [last]


def test_a_run_without_a_note_counts_by_when_it_was_stored() -> None:
    """The runs of a notebook, or of an older podsim, would never be the newest, or always."""
    plain = keep("demo", A)
    keep("demo", B, started="2026-03-01T10:00:00+00:00")
    for stored_s, newest in ((0.0, B), (4e9, A)):
        os.utime(plain / MANIFEST, (stored_s, stored_s))
        assert [run.scenario_hash for run in named_runs("demo")] == [newest]


def test_a_torn_run_of_an_older_scenario_is_in_nobodys_way() -> None:
    """One old folder that cannot be read would hide all newer results of that name."""
    (keep("demo", A, started="2026-03-01T09:00:00+00:00") / MANIFEST).write_text("")
    keep("demo", B, started="2026-03-01T10:00:00+00:00")
    assert named("demo") == ["demo-b//1"]
    with pytest.raises(UserError, match=r"cannot read a result from .*demo-aaaaaaaa/base/seed-1: "):
        named_runs("demo-aaaaaaaa")
    assert [torn.path.name for torn in named_place("demo-aaaaaaaa")[1].unreadable] == ["seed-1"]


def test_a_folder_of_the_same_name_without_runs_is_passed_over() -> None:
    """A folder ``demo`` with the scenario's file would hide the results of demo."""
    Path("demo").mkdir()
    with pytest.raises(UserError, match="demo: no stored run in this folder"):
        named_runs("demo")
    keep("demo")
    assert named("demo") == ["demo-a//1"]
    Path("demo", MANIFEST).write_text('{"name": "a web page"}')
    assert named("demo") == ["demo-a//1"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "dmeo",
            "'dmeo' is neither a folder nor a stored run below results/runs; did you mean 'demo'?",
        ),
        (
            "quickstart",
            "nor a stored run below results/runs; known: demo-aaaaaaaa (podsim runs list",
        ),
        ("demo-aaaaaaab", "did you mean 'demo-aaaaaaaa'? (podsim runs list shows all)"),
        ("demo/rong", "results/runs/demo-aaaaaaaa holds no 'rong'; did you mean 'ring'?"),
        ("demo/ring/seed-2", "holds no 'ring/seed-2'; did you mean 'ring/seed-1'?"),
        ("x" * 5000, "neither a folder nor a stored run"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(name: str, said: str) -> None:
    """A user would have to look for the right name in the folders."""
    keep("demo", variant="ring")
    with pytest.raises(UserError) as refusal:
        named_runs(name)
    assert said in str(refusal.value)


def test_an_empty_store_says_how_to_fill_it() -> None:
    """A newcomer would read that a name is wrong where there is none."""
    with pytest.raises(UserError, match="holds none; podsim run FILE stores runs there"):
        named_runs("demo")
