"""The sentences of a report: who is ahead, how sure that is, what is seen in a drawing."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sim.core.recorder import RunFacts
from sim.report import figures
from sim.report.answers import answers, verdicts
from sim.report.study import Study
from sim.results.report_rows import ReportRow
from sim.results.result import RunResult
from sim.results.stored import StoredRun
from tests.results.builders import Book, facts, pooled_run

SUMMARY = Book().freeze(facts()).summary


class Told(StoredRun):
    """A stored run whose summary lies in its manifest."""

    def summary(self) -> dict[str, Any]:
        """Its figures."""
        return dict(self.manifest["summary"])

    @property
    def facts(self) -> RunFacts:
        """Those of a run that is measured from 10 s to 20 s."""
        return facts(window_start_s=10.0, window_end_s=20.0)


def study(values: Mapping[str, Mapping[int, float | None]]) -> Study:
    """Runs that differ in their p95 of TTFT: by variant and seed."""
    stored, results = [], []
    for variant, by_seed in values.items():
        for seed, p95 in by_seed.items():
            spread = dict.fromkeys(("mean", "p50", "p90", "p95", "p99"), p95)
            summary = {**SUMMARY, "ttft_s": spread}
            manifest = {
                "facts": {"scenario": "demo"},
                "scenario_hash": "abc",
                "variant_hash": variant,
                "variants": list(values),
                "variant": variant,
                "seed": seed,
                "digest": f"{variant}-{seed}",
                "summary": summary,
            }
            stored.append(Told(Path("nowhere"), manifest))
            about = replace(facts(), variant=variant, seed=seed)
            empty = Book().freeze(facts()).tables
            results.append(RunResult(about, empty, summary, (), f"{variant}-{seed}"))
    return Study(tuple(stored), tuple(results))


def ttft_finding(values: Mapping[str, Mapping[int, float | None]]) -> str:
    """What the first screen says of the p95."""
    found = study(values)
    told = answers(found)
    (answer,) = [each for each in told if each.title == "TTFT p95"]
    return answer.finding


def test_the_lowest_is_named_with_the_highest():
    """The first screen would not say what came out."""
    said = ttft_finding(
        {"a": {1: 2.0, 2: 2.1, 3: 2.05}, "b": {1: 1.0, 2: 1.1, 3: 1.04}, "c": {1: 3, 2: 3.1, 3: 3}}
    )
    assert said == "TTFT p95 is lowest with b, 1.05 s, against 3.03 s with c"


def test_what_may_be_chance_is_said_to():
    """Three noisy seeds would decide what is bought."""
    said = ttft_finding({"a": {1: 1.0, 2: 4.0, 3: 2.0}, "b": {1: 2.0, 2: 1.0, 3: 3.0}})
    assert said.endswith("; 3 seeds do not settle whether that is more than chance")


def test_what_is_within_the_margin_counts_as_none():
    """A difference that matters to nobody would look like a winner."""
    said = ttft_finding({"a": {1: 1.0, 2: 1.1, 3: 1.2}, "b": {1: 1.01, 2: 1.11, 3: 1.21}})
    assert said.endswith("; a difference of less than 5 % counts as none")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": {1: 1.0}, "b": {1: 2.0}}, " (one seed, which says nothing about chance)"),
        ({"a": {1: 1.0}, "b": {2: 2.0}}, " (no seed in common)"),
        ({"a": {1: 1.0, 2: 1.0}, "b": {1: 1.0, 2: 1.0}}, "is 1.00 s with every variant"),
        ({"a": {1: 1.0, 2: None}, "b": {1: 2.0, 2: 2.0}}, "TTFT p95 is not known of a"),
        ({"": {1: 1.0, 2: 3.0}}, "TTFT p95 is 2.00 s"),
    ],
)
def test_special_cases_are_worded_as_what_they_are(values: Any, said: str):
    """One seed, unknown values or a single variant would read like a finding."""
    assert ttft_finding(values).endswith(said)


def test_bars_begin_at_zero_and_intervals_do_not_leave_the_box():
    """A bar would be longer than its figure, or the best look twice as good as it is."""
    found = study({"a": {1: 1.0, 2: 3.0}, "b": {1: 4.0, 2: 4.0}})
    told = answers(found)
    (answer,) = [each for each in told if each.title == "TTFT p95"]
    first, second = answer.standings
    half = 12.706  # of {1, 3}: t(0.975, 1) times a standard error of 1
    assert first.bar == pytest.approx(2.0 / (2.0 + half), rel=1e-4)
    assert first.low == 0.0
    assert first.high == 1.0
    assert second.bar == pytest.approx(4.0 / (2.0 + half), rel=1e-4)


def test_verdicts_need_two_seeds_and_two_variants():
    """A table of nothing but "inconclusive" would take the first page."""
    for values in ({"a": {1: 1.0, 2: 2.0}}, {"a": {1: 1.0}, "b": {1: 2.0}}):
        found = study(values)
        assert list(verdicts(found)) == []


def test_verdicts_say_of_whose_requests_they_are():
    """Four rows called "TTFT p95, s" stood below each other, and none said of which workload."""
    found = study({"a": {1: 1.0, 2: 2.0}, "b": {1: 2.0, 2: 4.0}})
    rows = [
        ReportRow("TTFT p50, s", "ttft_s.p50"),
        *(ReportRow("workload chat"), ReportRow("  TTFT p95, s", "ttft_s.p95")),
        *(ReportRow("rule of no primary metric"), ReportRow("  preemptions", "preemptions")),
        *(ReportRow("pool card"), ReportRow("  hold p95, s", "ttft_s.p95")),
    ]
    vars(found)["rows"] = rows
    (table,) = verdicts(found)
    assert [(row.label, bool(row.cells)) for row in table.rows] == [
        ("TTFT p50, s", True),
        *(("workload chat", False), ("TTFT p95, s", True)),
        *(("pool card", False), ("hold p95, s", True)),
    ]


def test_verdicts_on_many_variants_stand_in_several_tables():
    """Nine variants would run off the paper."""
    found = study({f"v{at}": {1: 1.0 + at, 2: 1.1 + at, 3: 1.0 + at} for at in range(7)})
    tables = list(verdicts(found))
    assert [table.variants for table in tables] == [("v1", "v2", "v3", "v4"), ("v5", "v6")]
    (row,) = [row for row in tables[0].rows if row.label == "TTFT p95, s"]
    assert [verdict and verdict[0] for verdict in row.cells] == ["worse"] * 4


def test_of_many_variants_a_sentence_names_the_ends():
    """A caption would list nine numbers."""
    found = study({f"v{at}": {1: 1.0 + at} for at in range(5)})
    said = figures.of_ttft(found)
    assert said.endswith("95 % within 1.00 s (v0) to 5.00 s (v4).")
    alike = study({f"v{at}": {1: 1.0} for at in range(5)})
    said = figures.of_ttft(alike)
    assert said.endswith("95 % within 1.00 s with every variant.")  # not 1.00 (v0) to 1.00 (v0)


def test_moves_are_counted_within_sessions():
    """Sessions that stay would be said to move, or moves of others be missed."""
    rows = pd.DataFrame(
        [
            ("early", "x", 5.0),  # began before the window
            ("a", "x", 10.0),
            ("b", "y", 11.0),
            ("early", "y", 12.0),
            ("a", "x", 13.0),
            ("b", "x", 14.0),
            ("b", "y", 15.0),
            ("once", "y", 16.0),
            ("late", "x", 20.0),
            ("late", "y", 21.0),
            (None, "x", 12.0),
            ("b", None, 16.0),  # never placed
        ],
        columns=["session_id", "pod", "arrival_s"],
    )
    assert figures.count_moves(rows, (10.0, 20.0)) == (2, 1, 2)
    assert figures.count_moves(rows, (30.0, 40.0)) == (0, 0, 0)
    found = polled(study({"a": {1: 1.0}}), requests=rows.assign(variant="a", seed=1))
    assert list(figures.of_sessions(found, found.stored[0])) == [
        "1 of 2 sessions with two turns or more that begin in the window stay on one pod; the "
        "others make 2 moves in all."
    ]


def polled(found: Study, polls: pd.DataFrame | None = None, **tables: pd.DataFrame) -> Study:
    """The study as if its runs had these tables."""
    vars(found.material).update(polls={found.variants[0]: polls}, **tables)
    return found


def load(rows: pd.DataFrame) -> str:
    """What is said of the load of these polls."""
    found = polled(study({"a": {1: 1.0}}), rows)
    return "".join(figures.of_load(found, found.stored[0]))


def test_load_is_averaged_over_the_polls_of_the_window():
    """The rush of the warm-up, or the polls of another pod, would count as load."""
    rows = pd.DataFrame(
        {
            "time_s": [0.0, 0.0, 11.0, 11.0, 12.0, 12.0, 999.0, 999.0],
            "pod": ["a", "b"] * 4,
            "in_flight": [90, 90, 1, 4, 2, 6, 70, 70],
        }
    )
    assert load(rows) == (
        "On average over the window's polls, 5.0 requests are in flight on b, the busiest pod, and "
        "1.5 on a, the least busy one; the highest poll is 6."
    )
    assert load(rows[rows["time_s"] == 0.0]) == ""


@pytest.mark.parametrize(
    ("in_flight", "said"),
    [
        ([0.0242, 0.0], "0.024 requests are in flight on a, the busiest pod, and 0.0 on b"),
        ([2.0, 2.0], "2.0 requests are in flight on each pod; the highest"),
        ([1.96], "2.0 requests are in flight on a; the highest"),
    ],
)
def test_a_load_of_little_or_the_same_everywhere_is_said_as_such(in_flight: list[float], said: str):
    """A pool that is rarely asked had "0.0" on its busiest and on its least busy pod; of equal pods
    one was both.
    """
    pods = list("ab")[: len(in_flight)]
    assert said in load(pd.DataFrame({"time_s": 15.0, "pod": pods, "in_flight": in_flight}))


def of_run(sentence: Any, run: RunResult) -> str:
    """A sentence about the first run of a study, whose result is this."""
    found = study({"a": {1: 1.0}})
    found = Study(found.stored, (run,))
    return "".join(sentence(found, found.stored[0]))


def test_a_pool_is_summed_up():
    """A timeline would stand there without what it cost."""
    said = of_run(figures.of_pools, pooled_run())
    assert said.startswith(
        "In desk, 3 swaps were completed in the window and swaps took 44.0 % of it;"
    )
    assert "a 11.0 % and b 36.5 % of the time" in said
