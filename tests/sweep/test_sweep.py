"""``podsim sweep`` and ``sim.sweep.run``: what is in the table, what is kept, what is told."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import sim
import sim.sweep
from sim.core.errors import ScenarioError, UserError
from sim.results import arrow
from sim.sweep.design import design
from sim.sweep.runs import Measured
from sim.sweep.sweep import load_points
from sim.sweep.table import figures
from tests.sweep.here import here

GRID = ("--grid", "backends.pods.replicas=1..3..2", "--grid", "window.measure=5s,10s")


def only(folder: Path, pattern: str = "results/sweeps/*/table.parquet") -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.executors.worker_processes", here)


def test_a_row_per_run_in_design_order_with_the_figures_of_a_run(podsim, folder):
    """The table would hold something else than ``podsim run`` measures, or in another order."""
    assert podsim("sweep", "tiny.yaml", *GRID).exit_code == 0
    table = sim.sweep.read(only(folder))
    assert len(table) == 2 * 2 * 2 * 2
    keys = ["point", "backends.pods.replicas", "window.measure", "variant", "seed"]
    rows = [
        (point, replicas, measure_s, variant, seed)
        for point, (replicas, measure_s) in enumerate(
            (replicas, measure_s) for replicas in (1, 3) for measure_s in (5.0, 10.0)
        )
        for variant in ("round-robin", "least-loaded")
        for seed in (7, 8)
    ]
    assert list(table[keys].itertuples(index=False, name=None)) == rows
    runs = sim.run("tiny.yaml", settings=["backends.pods.replicas=3", "window.measure=10s"])
    last = table[table["point"] == 3].reset_index(drop=True)
    assert list(last["digest"]) == [run.digest for run in runs.runs]
    assert list(last["ttft_s.p95"]) == [run.summary["ttft_s"]["p95"] for run in runs.runs]
    assert list(last["samples.ttft_s.observed"]) == [
        run.summary["samples"]["ttft_s"]["observed"] for run in runs.runs
    ]
    assert set(table["status"]) == {"completed"}
    assert not any(name.startswith("pod_requests.") for name in table.columns)


def test_swept_values_are_numbers_in_base_units_where_they_are_numbers(podsim, folder):
    """An analyst would plot against the text "1m" or sort 10 before 2."""
    policies = "backends.pods.policy={kind: random},{kind: round-robin}"
    grids = ("window.measure=5s,0.1m", "engines.small.kvBlocks=9k,10k", policies)
    options = [word for grid in grids for word in ("--grid", grid)]
    base = ("--seeds", "1", "--variant", "least-loaded")
    assert podsim("sweep", "tiny.yaml", *options, *base).exit_code == 0
    table = sim.sweep.read(only(folder))
    assert sorted(set(table["window.measure"])) == [5.0, 6.0]
    whole = ("point", "seed", "engines.small.kvBlocks")
    assert {str(table[name].dtype) for name in whole} == {"int64"}
    assert sorted(set(table["engines.small.kvBlocks"])) == [9000, 10000]
    assert set(table["backends.pods.policy"]) == {"{kind: random}", "{kind: round-robin}"}


def test_what_variants_say_is_swept_in_one_variant_only(podsim, folder):
    """``sweep --help`` recommended a grid of policies over variants that are policies: of six runs
    four were repetitions, each policy under the names of all."""
    policies = "backends.pods.policy={kind: random},{kind: round-robin}"
    refused = podsim("sweep", "tiny.yaml", "--grid", policies)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        "--grid: backends.pods.policy: variant round-robin sets backends.pods.policy, and would "
    )
    assert refused.stderr.endswith("\n1 fault; nothing was run\n")
    with pytest.raises(ScenarioError, match="variant round-robin sets"):
        sim.sweep.run("tiny.yaml", grid={"backends.pods.policy": [{"kind": "random"}]})
    within = ("--grid", "variants.round-robin.window.measure=5s,0.1m", "--seeds", "1")
    refused = podsim("sweep", "tiny.yaml", *within)
    assert refused.exit_code == 2
    assert "give --variant NAME as well" in refused.stderr
    assert podsim("sweep", "tiny.yaml", *within, "--variant", "round-robin").exit_code == 0
    table = sim.sweep.read(only(folder))
    assert list(table["variants.round-robin.window.measure"]) == [5.0, 6.0]
    assert set(table["variant"]) == {"round-robin"}
    assert table["digest"].nunique() == 2
    with pytest.raises(ScenarioError, match="give --variant NAME"):
        sim.sweep.find("tiny.yaml", within[1].replace("5s,0.1m", "5s..6s"), "ttft_s.p95 <= 1")


def test_null_beside_numbers_is_null(podsim, folder):
    """Without an objective and with one could not be told apart by value."""
    assert podsim("sweep", "tiny.yaml", "--grid", "slo.ttft=null,2s", "--set", "slo.tpot=1s",
                  "--seeds", 1).exit_code == 0  # fmt: skip
    table = sim.sweep.read(only(folder))
    assert [None if pd.isna(value) else value for value in table["slo.ttft"]] == [None, None, 2, 2]


def test_a_name_that_a_family_lacks_counts_nothing_and_a_figure_that_is_not_there_is_null():
    """A mean over points would leave out those where something never happened."""
    runs = [
        Measured("a", {"spill_ratio": None, "placements.by_outcome.spill": 3}, ()),
        Measured("b", {"ttft_s.p95": 1.5, "pod_requests.pods-0": 7}, ()),
        None,
    ]
    assert figures(runs) == {
        "ttft_s.p95": [None, 1.5, None],
        "placements.by_outcome.spill": [3, 0.0, None],
        "spill_ratio": [None, None, None],
    }


def test_the_same_command_makes_nothing_anew(podsim, folder, monkeypatch):
    """A finished sweep would be simulated again, or the table would change."""
    first = podsim("sweep", "tiny.yaml", *GRID)
    before = only(folder).read_bytes()
    only(folder).unlink()
    monkeypatch.setattr("sim.sweep.executors.worker_processes", None)  # nobody may be asked
    again = podsim("sweep", "tiny.yaml", *GRID)
    assert again.exit_code == 0
    assert "16 of 16 runs are kept" in again.stderr
    assert again.stdout == first.stdout
    assert only(folder).read_bytes() == before


def test_more_seeds_cost_only_themselves(podsim, folder):
    """Whoever finds five seeds too few would pay for them twice."""
    podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1,2", "--seeds", "2")
    more = podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1,2", "--seeds", "3")
    assert "8 of 12 runs are kept" in more.stderr
    assert list(sim.sweep.read(only(folder))["seed"]) == [1, 2, 3] * 4


def test_runs_of_another_scenario_or_podsim_are_not_taken_for_these(podsim, folder, monkeypatch):
    """Yesterday's figures would stand in today's table."""
    grid = ("--grid", "backends.pods.replicas=1,2", "--seeds", "1")
    podsim("sweep", "tiny.yaml", *grid)
    old = only(folder).read_bytes()
    text = Path("tiny.yaml").read_text(encoding="utf-8")
    Path("tiny.yaml").write_text(text.replace("rate: 4", "rate: 5"), encoding="utf-8")
    other = podsim("sweep", "tiny.yaml", *grid)
    assert "4 kept runs are of another podsim or another form of the scenario" in other.stderr
    assert only(folder).read_bytes() != old
    Path("tiny.yaml").write_text(text, encoding="utf-8")
    podsim("sweep", "tiny.yaml", *grid)
    assert only(folder).read_bytes() == old
    monkeypatch.setattr("sim.sweep.sweep.version", lambda _: "9.9")
    monkeypatch.setattr("sim.sweep.runs.check_machine", lambda _: None)
    newer = podsim("sweep", "tiny.yaml", *grid)
    assert "4 kept runs are of another podsim" in newer.stderr


def test_a_damaged_kept_run_is_made_anew(podsim, folder):
    """One bad byte on the disk would end every sweep there."""
    podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1,2")
    before = only(folder).read_bytes()
    kept = sorted(folder.glob("results/sweeps/*/runs/*/*/*.json"))
    kept[0].write_text("{", encoding="utf-8")
    kept[1].write_text("[" * 100_000, encoding="utf-8")
    kept[2].write_text("[]", encoding="utf-8")
    again = podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1,2")
    assert "5 of 8 runs are kept" in again.stderr
    assert only(folder).read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"figures": None},
        {"figures": {}},
        {"figures": {"nobody.knows": 1.0}},
        {"figures": {"requests": "many"}},
        {"warnings": "many"},
        {"digest": 5},
    ],
)
def test_a_kept_run_that_is_still_json_but_not_what_was_kept_is_made_anew(podsim, folder, changes):
    """The sweep ended in a traceback, or the table had other figures without a word."""
    grid = ("--grid", "backends.pods.replicas=1,2", "--seeds", "1")
    podsim("sweep", "tiny.yaml", *grid)
    before = only(folder).read_bytes()
    place = min(folder.glob("results/sweeps/*/runs/*/*/*.json"))
    place.write_text(json.dumps(json.loads(place.read_text()) | changes), encoding="utf-8")
    again = podsim("sweep", "tiny.yaml", *grid)
    assert again.exit_code == 0
    assert "3 of 4 runs are kept" in again.stderr
    assert "1 kept runs are of another podsim or another form of the scenario, or damaged" in (
        again.stderr
    )
    assert only(folder).read_bytes() == before


def test_every_faulty_point_is_told_before_anything_runs(podsim, folder):
    """An hour of runs would end at the first point that is no scenario."""
    result = podsim(
        *("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=0..2..1"),
        *("--grid", "engines.small.maxNumSeqs=8,-1", "--grid", "window.mesure=5s,10s"),
        *("--set", "backends.pod.replicas=2"),
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--grid backends.pods.replicas=0: backends.pods.replicas: must be" in result.stderr
    assert "--grid engines.small.maxNumSeqs=-1: engines.small.maxNumSeqs: must be" in result.stderr
    assert "did you mean 'measure'" in result.stderr
    assert "no backend 'pod' here; did you mean 'pods'?" in result.stderr
    assert result.stderr.count("backends.pods.replicas: must be") == 1
    assert not Path("results").exists()


def test_a_fault_of_some_points_names_one_of_them(podsim, folder):
    """A fault that stands in the file only at some points could not be understood."""
    result = podsim(
        *("sweep", "tiny.yaml", "--grid", "engines.small.maxNumBatchedTokens=2048,64"),
        *("--grid", "engines.small.maxNumSeqs=32,128"),
    )
    assert result.exit_code == 2
    at = "(at engines.small.maxNumBatchedTokens=64, engines.small.maxNumSeqs=128)"
    assert at in result.stderr


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (["--grid", "window.measure=60s,1m,2m"], "window.measure: 60s and 1m are the same value"),
        (["--grid", "engines.small.stepTime.a=1.0,2,1"], "1.0 and 1 are the same value"),
        (["--grid", "engines.small.kvBlocks=1k,1000,1e3"], "1k, 1000 and 1e3 are the same value"),
        (
            [
                "--grid",
                "backends.pods.policy={kind: random},{'kind': 'random'},{kind: round-robin}",
                *("--variant", "least-loaded"),
            ],
            "{kind: random} and {'kind': 'random'} are the same value",
        ),
        (
            ["--grid", "backends.pods.replicas=1,2", "--grid", "window.measure=5s,10s,5000ms"],
            "window.measure: 5s and 5000ms are the same value",
        ),
        (
            [
                *("--grid", "window.measure=60s,1m"),
                *("--random", "backends.pods.replicas=1..4", "--points", "2"),
            ],
            "60s and 1m are the same value",
        ),
        (
            ["--grid", "window.measure=60s,1m", "--grid", "backends.pods.replicas=0,1"],
            "60s and 1m are the same value",
        ),
    ],
)
def test_two_writings_of_one_value_are_refused_with_both(podsim, folder, axes, words):
    """Each of two equal points was simulated, and looked in the table like another setting."""
    result = podsim("sweep", "tiny.yaml", *axes)
    assert result.exit_code == 2
    assert f"{words}; give only one\n" in result.stderr
    assert result.stdout == "" and not (folder / "results").exists()


def test_from_python_two_writings_of_one_value_are_refused(folder):
    """1 and 1.0 of a list in a notebook would be two points."""
    with pytest.raises(ScenarioError, match=r"replicas: 1 and 1\.0 are the same value"):
        sim.sweep.run("tiny.yaml", grid={"backends.pods.replicas": [1, 1.0]})


@pytest.mark.parametrize(
    ("hashes", "words"),
    [
        ({"11": "p", "12": "q", "21": "p", "22": "r"}, ""),
        ({"11": "p", "12": "q", "21": "q", "22": "p"}, ""),
        ({"11": "p", "12": "q", "21": "p", "22": "q"}, "--grid: a.b: 1 and 2 are the same value"),
        ({"11": "p", "12": "p", "21": "q", "22": "q"}, "--log: c.d: 1 and 2 are the same value"),
    ],
)
def test_values_are_one_only_if_they_are_beside_every_other_axis(monkeypatch, hashes, words):
    """A grid would be refused for two points that happen to be equal, where a value is the default
    that another axis has brought; or the wrong axis be blamed.
    """

    def loaded(settings, _):
        return SimpleNamespace(scenario_hash=hashes["".join(each[-1] for each in settings)])

    monkeypatch.setattr("sim.sweep.sweep.Loader", lambda _: SimpleNamespace(load=loaded))
    made = design(grid=["a.b=1,2"], log=["c.d=1..2..2"])
    if not words:
        assert len(load_points({}, made)) == 4
        return
    with pytest.raises(ScenarioError) as caught:
        load_points({}, made)
    assert str(caught.value) == f"{words}; give only one"


def test_draws_may_be_alike(podsim, folder):
    """Whoever draws five times from two numbers of pods was to have five points, and their
    average to be that of the draws.
    """
    draws = ("--random", "backends.pods.replicas=1..2", "--points", "5", "--seeds", "1")
    result = podsim("sweep", "tiny.yaml", *draws, "--set", "window.measure=2s")
    assert result.exit_code == 0, result.stderr
    assert sim.sweep.read(only(folder))["point"].nunique() == 5


def test_one_seed_is_run_at_each_point_and_kept_for_a_sweep_of_more(podsim, folder):
    """podsim run had --seed and sweep had not: to look at seed 3 one had to run 1 and 2."""
    grid = ("--grid", "backends.pods.replicas=1,2")
    result = podsim("sweep", "tiny.yaml", *grid, "--seed", "3")
    assert result.exit_code == 0, result.stderr
    assert "2 points, 4 runs, seeds 3.\n" in result.stdout
    assert list(sim.sweep.read(only(folder))["seed"]) == [3] * 4
    assert "4 of 12 runs are kept" in podsim("sweep", "tiny.yaml", *grid, "--seeds", "3").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--grid", "a.b=1", "--seed", "1", "--seeds", "2"], "give only one"),
        (["--grid", "a.b=1", "--seed", "-1"], "-1 is not in the range"),
        (["--grid", "a.b=1", "--seed", str(2**63)], "not in the range up to 2^63 - 1"),
        (["--random", "a.b=1..2"], "give both"),
        (["--grid", "backends.pods.replicas=1", "--points", "3"], "give both"),
        (["--grid", "backends.pods.replicas=1", "--address", "tcp://a:1"], "--executor dask"),
        (["--grid", "backends.pods.replicas=1", "--variant", "ring"], "unknown variant 'ring'"),
        ([], "at least one axis"),
    ],
)
def test_options_that_contradict_each_other_are_refused(podsim, arguments, words):
    """Half of what was typed would be ignored."""
    result = podsim("sweep", "tiny.yaml", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not Path("results").exists()


def test_the_summary_has_a_line_per_point_and_variant_and_json_all_figures(podsim):
    """Neither a reader nor a script would get means and intervals."""
    text = podsim("sweep", "tiny.yaml", *GRID)
    lines = text.stdout.splitlines()
    assert lines[0] == "tiny: 4 points, 16 runs, seeds 7, 8."
    assert lines[3].split()[:3] == ["replicas", "measure", "variant"]
    assert [line.split()[:3] for line in lines[4:6]] == [
        ["1", "5s", "round-robin"],
        ["1", "5s", "least-loaded"],
    ]
    document = json.loads(podsim("sweep", "tiny.yaml", *GRID, "--json").stdout)
    first = document["points"][0]
    assert first["settings"] == {"backends.pods.replicas": "1", "window.measure": "5s"}
    runs = sim.run("tiny.yaml", settings=["backends.pods.replicas=1", "window.measure=5s"])
    assert first["figures"]["ttft_s.p95"] == runs.comparison["ttft_s.p95"]["round-robin"]
    assert document["failed"] == []


def test_the_table_goes_where_it_is_asked_for(podsim, folder):
    """``-o`` would be ignored."""
    podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1", "--out", "kept",
           "-o", "a/b.parquet")  # fmt: skip
    assert arrow.read(folder / "a/b.parquet").num_rows == 4
    assert len(list((folder / "kept").glob("tiny-*/runs/*/*/*.json"))) == 4


def test_from_python_the_same_table(podsim, folder):
    """Notebooks would get other figures than the command line."""
    podsim("sweep", "tiny.yaml", *GRID)
    grid = {"backends.pods.replicas": [1, 3], "window.measure": "5s,10s"}
    made = sim.sweep.run("tiny.yaml", grid=grid, store="other")
    assert only(folder, "other/*/table.parquet").read_bytes() == only(folder).read_bytes()
    assert made.failed == ()
    pd.testing.assert_frame_equal(made.table, sim.sweep.read(made.folder))


def test_from_python_values_may_be_mappings_and_random(folder):
    """Policies could be swept on the command line only."""
    made = sim.sweep.run(
        "tiny.yaml",
        grid={"backends.pods.policy": [{"kind": "random"}]},
        random={"backends.pods.replicas": [1, 2]},
        points=3,
        variants=["least-loaded"],
        seeds=[3],
    )
    assert len(made.table) == 3
    assert set(made.table["backends.pods.replicas"]) <= {1, 2}
    with pytest.raises(UserError, match="points"):
        sim.sweep.run("tiny.yaml", random={"backends.pods.replicas": [1, 2]})
    with pytest.raises(ScenarioError, match="tensorParallel"):
        sim.sweep.run("tiny.yaml", grid={"engines.small.tensorParallel": [0, 1]})


def test_from_python_values_may_come_from_numpy(folder):
    """``np.arange`` ended in "Object of type int64 is not JSON serializable"."""
    made = sim.sweep.run("tiny.yaml", grid={"backends.pods.replicas": np.arange(1, 3)}, seeds=[1])
    assert list(made.table["backends.pods.replicas"]) == [1, 1, 2, 2]


@pytest.mark.parametrize("kind", ["grid", "log", "random"])
@pytest.mark.parametrize("values", [3, 1.5, None, {"kind": "random"}])
def test_from_python_values_that_are_no_list_are_told_what_they_should_be(folder, kind, values):
    """``grid={"...": 3}`` ended in "'int' object is not iterable", a policy that was not in a list
    was taken for a list of its keys.
    """
    axes = {kind: {"backends.pods.policy": values}, "points": int(kind == "random")}
    with pytest.raises(UserError, match=r"^backends.pods.policy: must be a text such as .* got "):
        sim.sweep.run("tiny.yaml", **axes)


def test_no_table_is_told_kindly(folder):
    """A notebook would show a traceback of pyarrow."""
    with pytest.raises(UserError, match="cannot read a table"):
        sim.sweep.read("nowhere")


def test_what_is_beyond_the_end_of_a_run_is_said_to_be_late(podsim):
    """A p95 that no run had seen was a dash, explained by runs that had failed."""
    result = podsim(
        *("sweep", "tiny.yaml", "--grid", "workloads.traffic.arrivals.rate=1,99", "--seeds", "2"),
        *("--set", "engines.small.maxNumSeqs=1"),
    )
    *_, drowned = [line for line in result.stdout.splitlines() if line.startswith("99")]
    assert drowned.split()[2:4] == ["late", "late"]
    assert "late: beyond the end of the run under some seed" in result.stdout
    assert "failed" not in result.stdout


def test_a_table_is_csv_where_its_name_says_so(podsim, folder):
    """``sweep -o x.csv`` wrote Parquet: its first four bytes were PAR1."""
    sweep = ("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1,2", "--seeds", "1")
    assert podsim(*sweep, "-o", "x.csv").exit_code == podsim(*sweep, "-o", "x.parquet").exit_code
    whole = sim.sweep.read("x.parquet")
    read = pd.read_csv("x.csv")
    assert list(read.columns) == list(whole.columns)
    pd.testing.assert_frame_equal(read, whole, check_dtype=False)


def test_what_a_sweep_was_set_to_is_told(podsim, folder):
    """What was set over the file stood nowhere, and a column that no run knew was left out."""
    slow = ("--set", "engines.small.stepTime={a: 9000}", "--seeds", "1")
    told = podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1,2", *slow).stdout
    assert "Set over the file: engines.small.stepTime={a: 9000}\n" in told
    assert "TTFT p95, s" in told


def test_a_notebook_shows_one_line(folder):
    """A cell that ended in a sweep, a scenario or a comparison was 20,000 characters long."""
    made = sim.sweep.run("tiny.yaml", grid={"backends.pods.replicas": [1, 2]}, seeds=[1, 2])
    assert repr(made) == "Sweep(tiny: backends.pods.replicas, 2 points, 8 runs)"
    assert repr(sim.load("tiny.yaml")) == "ScenarioSet(tiny: round-robin, least-loaded)"
    runs = sim.run("tiny.yaml", seeds=[1, 2])
    judged = sim.compare(runs, variants=("round-robin", "least-loaded"))
    assert repr(judged) == f"Comparison(tiny, base → new: {judged.verdict})"
    answers = sim.sweep.find(
        "tiny.yaml", "backends.pods.replicas=1..2", "error_ratio <= 0", variants=["round-robin"]
    )
    said = "round-robin: error_ratio <= 0: always, backends.pods.replicas = 1, 2 values tried"
    assert repr(answers) == f"(Answer({said}),)"
