"""`podsim import`: manifests in, a scenario out, and nothing lost or half-written on the way."""

import re
from pathlib import Path

import pytest

from tests.manifests.samples import DATA, SAMPLES

LOAD_AWARE = DATA / "load-aware.yaml"


def test_stdout_is_the_scenario_and_stderr_what_is_not_in_it(podsim):
    """A pipe into a file would hold notes, or the notes be lost."""
    result = podsim("import", LOAD_AWARE)
    assert result.exit_code == 0
    assert result.stdout.startswith("# Imported by podsim from ")
    assert "ignored: " not in result.stdout
    assert f"skipped: {LOAD_AWARE}:47:1: Deployment dashboard" in result.stderr


def test_the_file_that_is_written_is_valid_and_it_is_said_how_to_run_it(podsim, tmp_path: Path):
    """The next command that is shown would fail."""
    result = podsim("import", LOAD_AWARE, "-o", "fleet.yaml")
    assert result.stdout == "Wrote fleet.yaml. Run it with: podsim run fleet.yaml\n"
    assert (tmp_path / "fleet.yaml").read_text("utf-8") == podsim("import", LOAD_AWARE).stdout
    assert podsim("validate", "fleet.yaml").exit_code == 0


def test_an_existing_file_is_kept_unless_forced(podsim, tmp_path: Path):
    """A scenario that somebody has completed by hand would be overwritten."""
    mine = tmp_path / "tiny.yaml"
    before = mine.read_bytes()
    refused = podsim("import", LOAD_AWARE, "-o", "tiny.yaml")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == "error: tiny.yaml exists; --force overwrites it\n"
    assert mine.read_bytes() == before
    assert podsim("import", LOAD_AWARE, "-o", "tiny.yaml", "--force").exit_code == 0
    assert mine.read_bytes() != before


@pytest.mark.parametrize("text", ["kind: [", "kind: 1", "\x00", ""])
def test_nothing_is_written_when_a_manifest_is_wrong(podsim, tmp_path: Path, text: str):
    """Half a scenario would stand there, or the old one be gone."""
    (tmp_path / "m.yaml").write_text(text, "utf-8")
    before = (tmp_path / "tiny.yaml").read_bytes()
    result = podsim("import", "m.yaml", LOAD_AWARE, "-o", "tiny.yaml", "--force")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("m.yaml")
    assert (tmp_path / "tiny.yaml").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.yaml", "tiny.yaml"]


def test_all_files_that_cannot_be_read_are_named(podsim):
    """A typing error in two names would take two attempts."""
    result = podsim("import", "one.yaml", "two.yaml", LOAD_AWARE)
    assert result.exit_code == 2
    assert result.stderr.count("cannot be read: no such file or directory") == 2


def test_a_folder_that_is_not_there_is_a_users_mistake(podsim):
    """It would be reported as a bug of podsim."""
    result = podsim("import", LOAD_AWARE, "-o", "missing/fleet.yaml")
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr


def test_what_the_scenario_still_lacks_is_said_with_its_place_there(podsim):
    """A user would be told to run it, and be refused."""
    result = podsim("import", DATA / "unknown.yaml", "-o", "fleet.yaml")
    assert result.exit_code == 0
    assert "to add: " in result.stderr
    lack = r"^fleet\.yaml:[0-9]+:[0-9]+: engines\.mystery-v2: the step time is unknown"
    assert re.search(lack, result.stderr, re.MULTILINE)
    assert "Complete it with: podsim validate fleet.yaml" in result.stdout


@pytest.mark.parametrize("sample", [name for name in SAMPLES if name != "unknown"])
def test_imported_scenarios_run_as_they_are(podsim, sample: str):
    """The stand-ins would be refused, or no request find its way through the rules."""
    files = [DATA / name for name in SAMPLES[sample]]
    assert podsim("import", *files, "--gpu", "h100", "-o", "fleet.yaml").exit_code == 0
    result = podsim(
        "run", "fleet.yaml", "--no-store", "--jobs", "1", "--check", "--set", "window.measure=5m"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "requests completed" in result.stdout


@pytest.mark.parametrize("sample", ["gate.yaml", "card.yaml"])
def test_what_is_assumed_runs(podsim, sample: str):
    """`--assume` would end in a scenario that has to be completed all the same."""
    result = podsim("import", "--assume", DATA / sample, "-o", "fleet.yaml")
    assert (result.exit_code, "Run it with" in result.stdout) == (0, True)
    assert "is assumed" in result.stderr
    assert podsim("validate", "fleet.yaml").exit_code == 0
    ran = podsim("run", "fleet.yaml", "--no-store", "--jobs", "1", "--set", "window.measure=5m")
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_the_model_of_a_service_is_given_by_name(podsim):
    """A slip in the option would be a traceback, or no model at all."""
    unknown = DATA / "unknown.yaml"
    given = podsim(
        "import", unknown, "--gpu", "h100", "--model", "mystery.v2=meta-llama/Llama-2-13b"
    )
    assert "model: llama-2-13b  # --model" in given.stdout
    for wrong in ("mystery.v2", "=qwen3-8b", "a=b=c", "nobody=qwen3-8b"):
        refused = podsim("import", unknown, "--model", wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
    twice = podsim("import", unknown, "--model", "mystery.v2=qwen3-8b", "--model", "mystery.v2=q")
    assert "mystery.v2 has two models, qwen3-8b and q" in twice.stderr


def test_traffic_comes_from_a_scenario_of_ones_own(podsim):
    """One's own workload would be ignored."""
    result = podsim("import", LOAD_AWARE, "--workload", "tiny.yaml")
    assert result.exit_code == 0
    assert "kind: requests" in result.stdout
    assert "STAND IN" not in result.stdout
    assert "seeds: [7, 8]  # from tiny.yaml" in result.stdout
    assert "ignored: tiny.yaml:4:1: engines: only window, seeds" in result.stderr


def test_what_the_scenario_is_warned_of_is_said_at_once(podsim, tmp_path: Path):
    """One's own workload asked for a model that nobody serves, and import said nothing of it."""
    (tmp_path / "w.yaml").write_text(
        "window: {measure: 1m}\n"
        "workloads: {w: {kind: requests, arrivals: {kind: poisson, rate: 1}, promptTokens: 10, "
        "outputTokens: 1, model: nobody}}\n"
    )
    unknown = ("import", DATA / "unknown.yaml", "--assume")
    result = podsim(*unknown, "--workload", "w.yaml", "-o", "fleet.yaml")
    told = podsim("validate", "fleet.yaml").stdout
    (warning,) = [line for line in told.splitlines() if line.startswith("warning: fleet.yaml")]
    assert warning in result.stderr.splitlines()
