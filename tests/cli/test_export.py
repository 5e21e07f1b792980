"""`podsim export`: which files it writes, what it prints, what it refuses."""

import json
from pathlib import Path
from shutil import copytree

import pytest
from prometheus_client.parser import text_string_to_metric_families

RUN = ("run", "tiny.yaml", "--jobs", 1)


@pytest.fixture
def runs(podsim) -> None:
    """The tiny scenario, both variants under both seeds, stored."""
    assert podsim(*RUN).exit_code == 0


def test_without_an_option_it_says_which_there_are(podsim, runs):
    """The reader would have to guess what there is to export."""
    result = podsim("export", "tiny")
    assert result.exit_code == 2
    assert "give --prometheus FILE, --csv FOLDER, --trace FILE, or several" in result.stderr


def test_prometheus_prints_what_a_dashboard_shows_beside_what_is_true(podsim, runs):
    """Estimates from buckets would be taken for measured percentiles."""
    result = podsim("export", "tiny/round-robin/seed-7", "--prometheus", "out.prom")
    assert result.exit_code == 0
    assert result.stderr == "metrics of 1 run: out.prom\n"
    text = Path("out.prom").read_text("utf-8")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"llmkube_router_placements", "vllm:time_to_first_token_seconds"} <= names
    assert "exact" in result.stdout and "estimated from buckets" in result.stdout
    assert "tiny round-robin seed 7" in result.stdout
    (line,) = [one for one in result.stdout.splitlines() if one.startswith("vllm:time")]
    assert line.split()[1] == "40"
    assert "variant=" not in text


def test_json_has_the_same_percentiles_and_those_of_each_series(podsim, runs):
    """A program would have to read the table, or could not tell pods apart."""
    result = podsim("export", "tiny", "--prometheus", "out.prom", "--csv", "tables", "--json")
    document = json.loads(result.stdout)
    assert len(document["runs"]) == 4
    assert document["csv"] == "tables"
    rows = [row for row in document["percentiles"] if row["histogram"].startswith("vllm:time")]
    one = [row for row in rows if (row["variant"], row["seed"]) == ("round-robin", 8)]
    assert [row["labels"].get("pod") for row in one] == [None, "pods-0", "pods-1"]
    assert one[0]["n"] == one[1]["n"] + one[2]["n"] == 40
    assert set(one[0]["exact"]) == set(one[0]["estimated_from_buckets"]) == {"p50", "p95", "p99"}
    assert 'variant="round-robin"' in Path("out.prom").read_text("utf-8")


def test_run_writes_the_same_metrics_at_once(podsim, runs):
    """`podsim run --prometheus` would be another export than `podsim export`."""
    podsim("export", "tiny", "--prometheus", "one.prom")
    result = podsim(*RUN, "--no-store", "--prometheus", "other.prom")
    assert result.exit_code == 0
    assert Path("one.prom").read_bytes() == Path("other.prom").read_bytes()
    refused = podsim(*RUN, "--prometheus", "no/such.prom")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "cannot write the metrics to no/such.prom" in refused.stderr


def test_csv_of_one_run_and_of_several(podsim, runs):
    """The tables of several runs would overwrite each other."""
    assert podsim("export", "tiny/round-robin/seed-7", "--csv", "one").exit_code == 0
    assert sorted(path.name for path in Path("one").iterdir()) == [
        *("failed_attempts.csv", "placements.csv", "pods.csv"),
        *("pools.csv", "requests.csv", "retries.csv"),
    ]
    assert podsim("export", "tiny", "--csv", "all").exit_code == 0
    places = sorted(path.parent.relative_to("all") for path in Path("all").rglob("requests.csv"))
    assert [place.parts[1:] for place in places] == [
        (variant, f"seed-{seed}") for variant in ("least-loaded", "round-robin") for seed in (7, 8)
    ]
    again = podsim("export", "tiny", "--csv", ".")
    assert (again.exit_code, again.stdout) == (2, "")
    assert "it holds other files, such as" in again.stderr


def test_runs_that_would_be_one_in_the_file_are_refused(podsim, runs):
    """Of two scenarios of one name the second took the series of the first, without a word."""
    assert podsim(*RUN, "--set", "workloads.traffic.arrivals.rate=5").exit_code == 0
    refused = podsim("export", "results/runs", "--prometheus", "all.prom", "--csv", "all")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "would be one in what is written: they have the same scenario, variant and seed" in (
        refused.stderr
    )
    assert not Path("all.prom").exists()
    assert podsim("export", "results/runs", "--csv", "all").exit_code == 0
    assert len(list(Path("all").rglob("requests.csv"))) == 8
    copytree("results/runs", "results/runs/copy")
    twice = podsim("export", "results/runs", "--csv", "twice")
    assert twice.exit_code == 2
    assert "the same scenario, hash, variant and seed" in twice.stderr


def test_a_trace_replays_by_the_command_it_names(podsim, runs):
    """The reader would get other tables, or would not know how to get any."""
    result = podsim("export", "tiny/least-loaded/seed-8", "--trace", "day.jsonl.gz")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "trace of 40 requests: day.jsonl.gz\n" in result.stderr
    command = result.stderr.splitlines()[-1].partition("podsim ")[2].split()
    document = json.loads(podsim(*command, "--json", "--jobs", 1).stdout)
    manifest = next(Path("results/runs").glob("tiny-*/least-loaded/seed-8/manifest.json"))
    before = json.loads(manifest.read_text("utf-8"))
    assert [run["digest"] for run in document["runs"]] == [before["digest"]]
    assert document["runs"][0]["variant"] == "least-loaded"


def test_a_trace_is_of_one_run(podsim, runs):
    """Which of the runs a trace is of would be left to chance."""
    result = podsim("export", "tiny", "--trace", "day.jsonl")
    assert result.exit_code == 2
    assert "these are 4; name one of them:" in result.stderr
    assert result.stderr.count("results/runs/tiny-") == 4
    alone = podsim("export", "tiny", "--csv", "x", "--trace-arrivals", "fixed")
    assert "--trace-arrivals says how --trace FILE is replayed: give both" in alone.stderr
    assert not Path("x").exists() and not Path("day.jsonl").exists()


def test_a_run_that_is_not_there_is_named(podsim):
    """A slip of the pen would end in a traceback."""
    result = podsim("export", "tinny", "--csv", "x")
    assert result.exit_code == 2
    assert "tinny" in result.stderr and "Traceback" not in result.stderr
