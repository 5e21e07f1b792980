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
