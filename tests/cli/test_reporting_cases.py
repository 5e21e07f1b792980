"""Worked cases from public reports about what the command line prints."""

import json
import re

import numpy as np
import pytest

import sim
from sim.core.stats import PERCENTILE_METHOD
from sim.results.metrics import METRICS
from sim.results.tables import DECLARED

PERCENTILES = (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99))


def run(podsim, *options):
    """``podsim run`` in this process, which is quicker for so little."""
    return podsim("run", "tiny.yaml", "--jobs", 1, "--no-store", *options)


def cells(text: str, label: str) -> list[str]:
    """What stands beside a label, variant by variant."""
    (line,) = [line for line in text.splitlines() if line.startswith(label)]
    return line.removeprefix(label).split()


def test_c58_a_notebook_and_the_command_line_give_the_same_percentiles(podsim):
    """C58: a report and a notebook would differ in the third digit, and nobody know which is right.

    From the rows of the requests table on, by numpy, to the digit that is printed.
    """
    ran = sim.run("tiny.yaml", seeds=[3], variants="least-loaded").runs[0]
    document = json.loads(run(podsim, "--seed", 3, "--json").stdout)
    (told,) = [run for run in document["runs"] if run["variant"] == "least-loaded"]
    assert told["summary"] == ran.summary
    requests = ran.requests
    ttft_s = (requests.first_token_s - requests.arrival_s).to_numpy()
    for name, percent in PERCENTILES:
        assert told["summary"]["ttft_s"][name] == np.percentile(ttft_s, percent)
    text = run(podsim, "--seed", 3, "--variant", "least-loaded").stdout
    assert cells(text, "TTFT p95, s") == [f"{np.percentile(ttft_s, 95):.2f}"]


def test_c58_the_method_is_named_wherever_percentiles_are(podsim):
    """C58: nearest rank, n + 1 or linear: a reader could not compute the figure again."""
    for options in ((), ("--seed", 3)):
        assert f"({PERCENTILE_METHOD})" in run(podsim, *options).stdout
    for declared in METRICS:
        if re.search(r"\.p\d+$", declared.key):
            assert PERCENTILE_METHOD in declared.definition


def test_c60_over_seeds_it_is_the_mean_of_their_p95s_and_says_so(podsim):
    """C60: a mean of two p95s would pass for the p95 of all requests of both seeds."""
    runs = sim.run("tiny.yaml", variants="least-loaded").runs
    each = [np.percentile(run.requests.first_token_s - run.requests.arrival_s, 95) for run in runs]
    pooled = np.percentile(
        np.concatenate([run.requests.first_token_s - run.requests.arrival_s for run in runs]), 95
    )
    assert pooled != pytest.approx(np.mean(each), rel=1e-6)
    printed = run(podsim, "--variant", "least-loaded")
    assert "Mean over seeds 7, 8 ± half-width of the 95 % t interval." in printed.stdout
    assert "Percentiles are those of each run, over all its requests" in printed.stdout
    document = json.loads(run(podsim, "--variant", "least-loaded", "--json").stdout)
    figure = document["comparison"]["ttft_s.p95"]["least-loaded"]
    assert figure["mean"] == pytest.approx(np.mean(each))
    assert figure["n"] == 2
    assert figure["high"] > figure["mean"] > figure["low"]


def test_c61_requests_outside_the_window_are_counted_in_the_table(podsim):
    """C61: the requests of a cold start would be left out without a word."""
    window = ("--set", "window.warmup=3s", "--seed", 3, "--variant", "least-loaded")
    text = run(podsim, *window).stdout
    document = json.loads(run(podsim, *window, "--json").stdout)
    summary = document["runs"][0]["summary"]
    assert cells(text, "requests outside window") == [f"{summary['requests_outside_window']}"]
    assert summary["requests_outside_window"] > 0
    assert summary["requests"] + summary["requests_outside_window"] == 40


def test_c62_what_was_achieved_stands_beside_what_was_offered(podsim):
    """C62: a cluster that falls behind would show its own pace as if it were the load."""
    slow = ("--set", "engines.small.stepTime={a: 1000}", "--set", "engines.small.maxNumSeqs=1")
    constant = ("--set", "workloads.traffic.arrivals={kind: constant, rate: 10}")
    short = ("--set", "workloads.traffic.outputTokens=1", "--set", "backends.pods.replicas=1")
    options = (*slow, *constant, *short, "--variant", "round-robin", "--seed", 1)
    text = run(podsim, *options).stdout
    assert cells(text, "offered, requests/s") == ["10.00"]
    assert cells(text, "completed, requests/s") == ["1.00"]


def test_c66_the_report_says_which_seed_was_used(podsim, tmp_path):
    """C66: a seed on the command line would be read and the file's be used, or the reverse."""
    for options, said in (
        ((), "seeds 7, 8 "),
        (("--seed", 3), "seed 3."),
        (("--seeds", 3), "seeds 1 to 3 "),
    ):
        assert said in run(podsim, *options).stdout
    documents = [json.loads(run(podsim, "--seed", seed, "--json").stdout) for seed in (1, 2, 3)]
    assert len({each["runs"][0]["digest"] for each in documents}) == 3


@pytest.mark.parametrize("written", ["30s", "30000ms", "30", "0.5m"])
def test_c69_a_duration_is_the_same_however_it_is_written(podsim, tmp_path, written):
    """C69: a think time of 30 would be 30 s to one reader and 30 ms to another; it is seconds."""
    rows = "[{session: a, arrival: 0s, promptTokens: 100, outputTokens: 5}, "
    rows += f"{{session: a, think: {written}, promptTokens: 200, outputTokens: 5}}]"
    script = f"workloads={{w: {{kind: script, rows: {rows}}}}}"
    (tmp_path / "tiny.yaml").write_text(
        (tmp_path / "tiny.yaml").read_text().partition("workloads:")[0]
    )
    ran = sim.run("tiny.yaml", settings=script, seeds=[1])
    requests = ran.runs[0].requests
    assert requests.arrival_s[1] - requests.end_s[0] == pytest.approx(30.0, abs=1e-9)


def test_c69_every_figure_and_column_carries_its_unit():
    """C69: a column of milliseconds would be read as seconds."""
    for declared in METRICS:
        parts = declared.key.split(".")
        if declared.unit == "s":
            assert any(part.endswith("_s") for part in parts), declared.key
        elif declared.unit.endswith("/s"):
            assert parts[0].endswith("_s") or "_per_" in declared.key, declared.key
        elif declared.unit == "ratio":
            assert re.search(r"ratio|usage|attainment", declared.key), declared.key
        else:
            assert not any(part.endswith(("_s", "_ms")) for part in parts), declared.key
    columns = [column for table in DECLARED.values() for column in table]
    for column in columns:
        assert column.name.endswith("_s") == (column.unit == "s"), column.name
        assert not re.search(r"_(ms|us|ns|min|h)$", column.name), column.name
