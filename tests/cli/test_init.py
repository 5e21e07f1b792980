"""`podsim init` writes the quickstart, once."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_what_is_written_is_the_quickstart_of_the_repository_and_is_valid(podsim, tmp_path):
    """The template would drift from the scenario that is documented and tested, or not load."""
    result = podsim("init")
    assert (result.exit_code, result.stderr) == (0, "")
    written = (tmp_path / "quickstart.yaml").read_bytes()
    assert written == (ROOT / "scenarios/quickstart.yaml").read_bytes()
    assert podsim("validate", "quickstart.yaml").exit_code == 0


def test_an_existing_file_is_kept_unless_forced(podsim, tmp_path):
    """A user's scenario would be overwritten."""
    mine = tmp_path / "tiny.yaml"
    before = mine.read_bytes()
    result = podsim("init", "tiny.yaml")
    assert result.exit_code == 2
    assert result.stderr == "error: tiny.yaml exists; --force overwrites it\n"
    assert mine.read_bytes() == before
    assert podsim("init", "tiny.yaml", "--force").exit_code == 0
    assert mine.read_bytes() != before


def test_other_shipped_scenarios_are_written_by_name(podsim, tmp_path):
    """A wheel brought no scenario but the quickstart, so the README's were not there to run."""
    names = podsim("init", "--list").stdout.split()
    assert {"quickstart", "b200-agents", "llamacpp-desk", "swap-budget"} <= set(names)
    for name in names:
        assert podsim("init", name).exit_code == 0
        assert podsim("validate", f"{name}.yaml").exit_code == 0
    (source,) = (ROOT / "scenarios").rglob("swap-budget.yaml")
    assert (tmp_path / "swap-budget.yaml").read_bytes() == source.read_bytes()
    assert "did you mean 'swap-budget'?" in podsim("init", "swap-buget").stderr
    assert podsim("init", "x.json").exit_code == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("least-loaded", "there is one already, see podsim list policies"),
        ("json", "Python has json already; choose another name"),
        ("class", "Python has class already; choose another name"),
        (
            "Prefix_Score",
            "must be small letters and digits in words joined by hyphens, such as prefix-score",
        ),
        (
            "../away",
            "must be small letters and digits in words joined by hyphens, such as prefix-score",
        ),
    ],
)
def test_a_policy_is_not_called_as_something_else_is(podsim, tmp_path, name, said):
    """The package would stand in the way of another, or could not be imported."""
    result = podsim("init", "--policy", name)
    assert (result.exit_code, result.stderr) == (2, f"error: --policy {name}: {said}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_a_package_that_is_there_is_kept(podsim, tmp_path):
    """Somebody's policy would be overwritten by a fresh one."""
    assert podsim("init", "--policy", "prefix-score").exit_code == 0
    mine = tmp_path / "prefix-score/src/prefix_score.py"
    mine.write_text("mine")
    result = podsim("init", "--policy", "prefix-score")
    said = "error: prefix-score exists; choose another name, or move it away\n"
    assert (result.exit_code, result.stderr) == (2, said)
    assert mine.read_text() == "mine"
    assert podsim("init", "--policy", "other", "file.yaml").exit_code == 2
