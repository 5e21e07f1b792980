"""`podsim validate --measured`: what it prints and how it ends."""

import json

import pytest

from sim.validation import measured
from sim.validation.figures import FigureTable, MeasuredFigure

GOOD = FigureTable(
    "rtx4090, step times from its kernel tables",
    (
        MeasuredFigure("TTFT mean, s", 66.65, 65.48, 0.03),
        MeasuredFigure("waiting, mean", 110.9, 108.8),
        MeasuredFigure("preemptions", 227.0, None),
    ),
    notes=("E2E of single requests: off by 1.8% at the median",),
)
BAD = FigureTable(
    "closed loops, TPOT", (MeasuredFigure("b200, ms", 12.0, 10.0),), median_bound=0.08
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[FigureTable]:
    """The tables of the comparison, to be filled in."""
    tables: list[FigureTable] = []
    monkeypatch.setattr(measured, "validate_measured", lambda part: iter(tables))
    return tables


def test_figures_are_printed_under_their_table(podsim, found):
    """A reader could not tell what was compared with what, nor how far off it is."""
    found.append(GOOD)
    result = podsim("validate", "--measured")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["predicted", "measured", "error", "bound", "ok"],
        ["rtx4090,", "step", "times", "from", "its", "kernel", "tables"],
        ["TTFT", "mean,", "s", "66.65", "65.48", "+1.8%", "3%", "ok"],
        ["waiting,", "mean", "110.9", "108.8", "+1.9%"],
        ["preemptions", "227", "-"],
        ["median", "error", "1.9%"],
        ["p95", "error", "1.9%"],
        ["E2E", "of", "single", "requests:", "off", "by", "1.8%", "at", "the", "median"],
        [],
        ["errors", "figures", "median", "p95", "worst"],
        [
            *["rtx4090,", "step", "times", "from", "its", "kernel", "tables"],
            "3",
            "1.9%",
            "1.9%",
            "1.9%",
        ],
        ["3", "figures,", "1", "of", "them", "bounded:", "all", "hold"],
    ]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_bound_that_does_not_hold_is_a_bug_in_podsim(podsim, found):
    """A script would go on with an engine that is wrong."""
    found += [GOOD, BAD]
    result = podsim("validate", "--measured")
    assert result.exit_code == 4
    assert "  median error" in result.stdout
    assert ["median", "error", "20.0%", "8%", "NO"] in map(str.split, result.stdout.splitlines())
    assert result.stdout.endswith(
        "4 figures, 1 of them and 1 of 2 medians bounded: 1 out of bounds\n"
    )


def test_what_has_no_bound_is_not_told_to_hold_one(podsim, found):
    """A reader would believe that hundreds of figures are judged, and right."""
    found.append(
        FigureTable(
            "batches",
            (MeasuredFigure("b200, ms", 30.0, 10.0), MeasuredFigure("h100, ms", 5.0, 10.0)),
        )
    )
    result = podsim("validate", "--measured")
    assert result.exit_code == 0
    assert result.stdout.endswith("\n2 figures; nothing is bounded here\n")


def test_json_holds_the_tables_as_they_are(podsim, found):
    """A program would have to parse a table."""
    found += [GOOD, BAD]
    result = podsim("validate", "--measured", "--json")
    assert result.exit_code == 4
    good, bad = json.loads(result.stdout)
    assert (good["ok"], good["figures"][2]["measured"]) == (True, None)
    assert (bad["ok"], bad["median_bound"]) == (False, 0.08)


@pytest.mark.parametrize("arguments", [["--theory"], ["--set", "seeds=[1]"]])
def test_a_command_that_means_nothing_is_refused(podsim, arguments):
    """The wrong thing would be validated without a word."""
    result = podsim("validate", "--measured", *arguments)
    assert result.exit_code == 2
    assert "--measured is about its own data" in result.stderr


def test_one_part_can_be_asked_for(podsim, monkeypatch: pytest.MonkeyPatch):
    """Whoever works on one of them would wait for all."""
    parts = {"recordings": lambda: iter([GOOD]), "closed-loops": lambda: iter([BAD])}
    monkeypatch.setattr(measured, "PARTS", parts)
    assert podsim("validate", "--measured", "recordings").exit_code == 0
    assert podsim("validate", "--measured", "closed-loops").exit_code == 4
    assert podsim("validate", "--measured").stdout.endswith("bounded: 1 out of bounds\n")
    unknown = podsim("validate", "--measured", "loops")
    assert unknown.exit_code == 2
    assert "loops: no such part; did you mean 'closed-loops'?" in unknown.stderr
