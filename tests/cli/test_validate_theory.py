"""`podsim validate --theory`: what it prints and how it ends."""

import json

import pytest

from sim.validation import queues
from sim.validation.case import TheoryRow

GOOD = TheoryRow("queue/mm1", "off Lindley, most, s", 0.0, 4e-12, None, None, "<= 1e-09", True)
MEAN = TheoryRow("queue/mm1", "wait, s", 2.5, 2.48, 2.4, 2.56, "± 10 %", True)
BAD = TheoryRow("fleet", "time - random's, s", None, 0.1, -0.1, 0.3, "below 0", False)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[TheoryRow]:
    """The rows of the comparison, to be filled in."""
    rows: list[TheoryRow] = []
    monkeypatch.setattr(queues, "validate_theory", lambda folder, jobs: iter(rows))
    return rows


def test_rows_are_printed_under_their_scenario(podsim, found):
    """A reader could not tell what was compared with what."""
    found += [GOOD, MEAN]
    result = podsim("validate", "--theory")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["predicted", "measured", "99", "%", "interval", "bound", "ok"],
        ["queue/mm1"],
        ["off", "Lindley,", "most,", "s", "0", "4e-12", "<=", "1e-09", "ok"],
        ["wait,", "s", "2.5", "2.48", "2.4", "to", "2.56", "±", "10", "%", "ok"],
        [],
        ["2", "comparisons,", "none", "out", "of", "bounds"],
    ]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_row_out_of_bounds_is_a_bug_in_podsim(podsim, found):
    """A script would go on with an engine that is wrong."""
    found += [GOOD, BAD]
    result = podsim("validate", "--theory")
    assert result.exit_code == 4
    assert result.stdout.splitlines()[-3].endswith("NO")
    assert result.stdout.endswith("2 comparisons, 1 out of bounds\n")


def test_json_holds_the_rows_as_they_are(podsim, found):
    """A program would have to parse a table."""
    found += [MEAN, BAD]
    result = podsim("validate", "--theory", "--json")
    assert result.exit_code == 4
    mean, bad = json.loads(result.stdout)
    assert (mean["predicted"], mean["low"], mean["ok"]) == (2.5, 2.4, True)
    assert (bad["scenario"], bad["predicted"], bad["ok"]) == ("fleet", None, False)


def test_without_its_folder_it_says_what_to_name(podsim):
    """Outside of the sources a reader would see a traceback."""
    result = podsim("validate", "--theory")
    assert result.exit_code == 2
    assert "scenarios/theory: no single-server.yaml; name the folder" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--theory", "--set", "seeds=[1]"]])
def test_a_command_that_means_nothing_is_refused(podsim, arguments):
    """The wrong thing would be validated without a word."""
    result = podsim("validate", *arguments)
    assert result.exit_code == 2
    assert "FILE" in result.stderr or "--set" in result.stderr
