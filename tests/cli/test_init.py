"""`podsim init` writes the quickstart, once."""

from pathlib import Path

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


def test_a_folder_that_is_not_there_is_a_users_mistake(podsim):
    """It would be reported as a bug of podsim."""
    result = podsim("init", "missing/quickstart.yaml")
    assert result.exit_code == 2
    assert result.stderr == "error: missing/quickstart.yaml: No such file or directory\n"


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
