"""The table that `podsim run` prints."""

import math
from pathlib import Path
from typing import Any

import pytest

from sim.cli.table import render
from sim.core.errors import Fault
from sim.core.recorder import RunFacts
from sim.core.request import Status
from sim.core.text import WIDTH
from sim.execution.runner import Runs
from sim.results import arrow
from sim.results.result import RunResult
from sim.results.tables import DECLARED, Tables
from sim.scenario.load import ScenarioSet, ScenarioWarning
from tests.results.builders import Book, pooled_facts, pooled_run

SUMMARY = {
    "requests_completed": 1234,
    "requests_censored": 5,
    "requests_outside_window": 678,
    "ttft_s": {"p50": 0.25, "p95": 2.5, "p99": 12.0},
    "stream_tokens_per_s": {"p50": 77.04, "p5": 28.5},
    "output_tokens_per_s": 5917.4,
    "prompt_tokens": {"p50": 75000.0},
    "prompt_cache_hit_ratio": 0.886,
    "placements": {"total": 1000, "by_reason": {"waiting": 4}},
    "spill_ratio": 0.004,
    "migration_ratio": 0.0,
    "error_ratio": 0.0,
    "preemptions": 0,
    "kv_usage": {"mean": 0.5, "p95": 0.75},
}
NO_HOME = {"spill_ratio": None, "migration_ratio": None, "placements": {"by_reason": {}}}


def result(variant: str, seed: int = 1, warnings: tuple[str, ...] = (), **changes: Any):
    """A run whose summary differs from SUMMARY in ``changes``; facts by their own names."""
    names = ("window_start_s", "window_end_s", "workload_counts")
    said = {name: changes.pop(name) for name in names if name in changes}
    facts = RunFacts(
        scenario="demo",
        variant=variant,
        seed=seed,
        **{"window_start_s": 600.0, "window_end_s": 1500.0} | said,
        end_s=1500.0,
        pods=("a-0",),
        gpus=1,
        agents=0,
        has_home=True,
        opened=(),
        closed=(),
        events=0,
    )
    empty = arrow.table([], [])
    tables = Tables(*(empty for _ in DECLARED))
    return RunResult(facts, tables, SUMMARY | changes, warnings, "digest")


def table(*results: RunResult, description: str = "", warnings: tuple[str, ...] = ()) -> str:
    scenarios = ScenarioSet(
        name="demo",
        description=description,
        source="demo.yaml",
        directory=Path(),
        seeds=(1,),
        variants=(),
        scenario_hash="0" * 64,
        all_warnings=tuple(
            ScenarioWarning(Fault("demo.yaml", 0, 0, "", text)) for text in warnings
        ),
    )
    return render(Runs(scenarios, results), None)


def row(text: str, label: str) -> str:
    """What stands beside a label, with single spaces."""
    (line,) = [line for line in text.splitlines() if line.startswith(label)]
    return " ".join(line.removeprefix(label).split())


def test_the_whole_table_of_one_seed():
    """The layout, a unit, the window or the seed would be missing or wrong."""
    text = table(
        result("ring", prompt_cache_hit_ratio=0.806, placements={"by_reason": {"bound": 107}}),
        result("least-loaded", **NO_HOME),
        description="a demonstration\nof two lines",
    )
    assert text == (
        "demo: a demonstration of two lines\n"
        "Requests that arrived from 600 s to 1,500 s of simulated time.\n"
        "One run per variant, seed 1.\n"
        "Percentiles are those of each run, over all its requests (linear, type 7).\n"
        "\n"
        "                           ring  least-loaded\n"
        "TTFT p50, s                0.25          0.25\n"
        "TTFT p95, s                2.50          2.50\n"
        "TTFT p99, s               12.00         12.00\n"
        "stream speed p50, tok/s    77.0          77.0\n"
        "stream speed p5, tok/s     28.5          28.5\n"
        "output, tok/s             5,917         5,917\n"
        "prompt cache hit, %        80.6          88.6\n"
        "spilled placements, %       0.4             –\n"
        "  reason bound, count       107             0\n"
        "migrated placements, %      0.0             –\n"
        "errors, %                   0.0           0.0\n"
        "preemptions                   0             0\n"
        "KV usage mean, %           50.0          50.0\n"
        "KV usage p95, %            75.0          75.0\n"
        "prompt p50, tokens       75,000        75,000\n"
        "requests completed        1,234         1,234\n"
        "requests censored             5             5\n"
        "requests outside window     678           678"
    )


def test_several_seeds_show_the_mean_and_the_t_interval():
    """Reported as: mean 2 of {1, 3} with t(0.975, 1) = 12.706 and a standard error of 1."""
    spread = {"p50": 1.0, "p95": None, "p99": None}
    text = table(
        result("ring", 1, ttft_s=spread | {"p95": 4.0}),
        result("ring", 2, ttft_s=spread | {"p50": 3.0}),
    )
    assert "Mean over seeds 1, 2 ± half-width of the 95 % t interval." in text.splitlines()
    assert row(text, "TTFT p50, s") == "2.00 ± 12.71"


def test_what_is_null_is_a_dash_and_what_is_null_under_some_seeds_is_marked():
    """A figure that was not measured would look like 0; the good seeds would speak for the bad."""
    spread = {"p50": 1.0, "p95": None, "p99": None}
    text = table(result("ring", 1, ttft_s=spread | {"p95": 4.0}), result("ring", 2, ttft_s=spread))
    assert row(text, "TTFT p95, s") == "–*"
    assert row(text, "TTFT p99, s") == "–"
    assert "\n* null under some seeds, " in text


@pytest.mark.parametrize(("variants", "blocks"), [(5, 1), (7, 2)])
def test_five_variants_fit_100_columns_and_more_go_into_a_further_block(variants, blocks):
    """The table would wrap in an ordinary terminal, or lose a variant."""
    names = [f"session-tab-{number}" for number in range(variants)]
    text = table(*(result(name) for name in names))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert text.count("TTFT p95, s") == blocks
    assert [word for word in text.split() if word in names] == names


def test_a_warning_that_several_seeds_share_is_printed_once():
    """Thirty-five runs would bury the table under the same sentence."""
    text = table(
        result("ring", 1, ("settles at 700.5 s",)),
        result("ring", 2, ("settles at 811.0 s", "saturated")),
        warnings=("maxLoadPercent: ignored",),
    )
    assert [line for line in text.splitlines() if line.startswith("warning")] == [
        "warning: demo.yaml: maxLoadPercent: ignored",
        "warning: ring, seed 1: settles at 700.5 s (also under seed 2)",
        "warning: ring, seed 2: saturated",
    ]


def test_facts_about_the_input_are_stated_unless_zero():
    """A trace would be sorted, or its model changes ignored, without a word."""
    counts = {"traffic": {"rows_out_of_order": 3, "rows_not_sent": 0}}
    text = table(
        result("ring", workload_counts=counts),
        result("table", workload_counts={"traffic": {"rows_out_of_order": 5}}),
    )
    assert "workload traffic: rows out of order 3 to 5 per run" in text.splitlines()
    assert "rows not sent" not in text


def test_windows_that_differ_are_stated_by_variant():
    """A figure would be read as one of another time."""
    text = table(result("ring"), result("all", window_start_s=0.0, window_end_s=math.inf))
    assert "ring: requests that arrived from 600 s to 1,500 s of simulated time" in text
    assert "all: requests that arrived from 0 s to the end of the workload" in text


def test_workloads_rules_pools_and_answers_stand_below_the_rest():
    """A reader would have to open summary.json to learn what a pool did to whom."""
    text = table(pooled_run())
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    lines = text.splitlines()
    first = lines.index("workload chat")
    assert [" ".join(line.split()) for line in lines[first : lines.index("", first)]] == [
        "workload chat",
        "TTFT p50, s 7.00",
        "TTFT p95, s –",
        "errors, % 0.0",
        "tries per request 1.17",
        "served after a retry 1",
        "fell through, % 25.0",
        "cancelled 1",
        "completed 4",
        "workload nightly",
        "TTFT p50, s 1.00",
        "TTFT p95, s 1.00",
        "errors, % 50.0",
        "completed 1",
        "rule chat",
        "served by a, % 50.0",
        "served by b, % 50.0",
        "pool desk",
        "swaps completed 3",
        "time swapping, % 44.0",
        "swap to a p50, s 6.0",
        "swap to b p50, s 8.5",
        "swaps failed (deadline) 1",
        "swaps failed (error) 1",
        "reclaims 1",
        "attempts held 5",
        "hold p95, s –",
        "busy skips 1",
        "errors beside the router 1",
        "loads of a begun 3",
        "a resident, % 11.0",
        "loads of b begun 2",
        "b resident, % 36.5",
        "errors by final answer",
        "no status connection_refused 1",
        "errors by try",
        "tries 9",
        "errors, % 22.2",
        "no status connection_refused 1",
        "503 pool_activation_timeout 1",
    ]


def test_a_row_that_no_run_knows_is_left_out():
    """Scenarios without homes or swaps would have rows of dashes, which say nothing; clients that
    gave up, or an SLO, would be seen nowhere."""
    full = result("table", requests_cancelled=1519, slo_attainment=0.951, goodput_requests_per_s=3)
    text = table(result("ring", requests_cancelled=0, slo_attainment=1.0), full)
    assert row(text, "requests cancelled") == "0 1,519"
    assert row(text, "within the SLO, %") == "100.0 95.1"
    assert row(text, "goodput, requests/s") == "– 3.00"
    text = table(result("ring", 1, **NO_HOME), result("table", 1, **NO_HOME))
    for label in ("spilled placements", "migrated placements", "cancelled", "SLO", "pool", "rule"):
        assert label not in text
    idle = table(Book().freeze(pooled_facts()))
    assert row(idle, "  swaps completed") == "0"
    assert "swap to a" not in idle
    assert "hold p95" not in idle


def test_a_wait_that_no_run_knows_is_news():
    """Nobody would see that requests or attempts waited till the end of the run."""
    spread = {"p50": 1.0, "p95": None, "p99": None}
    assert row(table(result("ring", ttft_s=spread)), "TTFT p99, s") == "–"
    book = Book()
    held = book.request(20.0, backend="a", status=Status.IN_FLIGHT)
    book.hold(held, "a", 20.0)
    text = table(book.freeze(pooled_facts()))
    assert row(text, "  attempts held") == "1"
    assert row(text, "  hold p95, s") == "–"
