"""The baselines that come with podsim, and what others may copy; make test makes their runs."""

import re
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sim.baseline.files import missing, places, stored
from sim.cli import main
from tests.baseline.conftest import BASELINES, SCENARIOS

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "podsim-baseline.yml"
PAGE = (ROOT / "docs/how-to/ci.md").read_text("utf-8")
ACTION = re.findall(r"^```yml\n(.*?)^```", PAGE, re.M | re.S)


def test_every_scenario_has_a_baseline_and_every_baseline_a_scenario():
    """A regression scenario would guard nothing, or a baseline belong to nobody."""
    found = places(ROOT / SCENARIOS, ROOT / BASELINES)
    assert found.stale == ()
    assert len(found.known) >= 4
    for place in found.known:
        baseline = stored(place.baseline)
        assert baseline is not None
        assert baseline.seeds == place.scenarios.seeds
        assert len(baseline.seeds) >= 5
        hashes = {
            each.variant: place.scenarios.variant_hash(at)
            for at, each in enumerate(place.scenarios.variants)
        }
        assert {each.name: each.variant_hash for each in baseline.variants} == hashes
        assert place.baseline.stat().st_size < 100_000
        assert missing([baseline], ROOT / "CHANGELOG.md") == []


def test_make_test_runs_the_check():
    """The baselines would lie there, and nobody look at them."""
    target = (ROOT / "Makefile").read_text("utf-8").split("\ntest:")[1].split("\n\n")[0]
    assert "$(BIN)/podsim baseline check\n" in f"{target}\n"


def commands(steps: list[dict]) -> list[list[str]]:
    """The podsim commands in the steps of a workflow or an action."""
    texts = [step["run"] for step in steps if "run" in step]
    lines = [shlex.split(line) for text in texts for line in text.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "podsim"]


def parsed(verb: str, subcommand: str, *arguments: str) -> dict:
    """The options of a command line, as the command reads them; it is not run."""
    group = main.get_command(main.make_context("podsim", [verb]), verb)
    context = group.make_context(verb, [subcommand, *arguments])
    command = group.get_command(context, subcommand)
    return command.make_context(subcommand, list(arguments), parent=context).params


def test_the_workflow_checks_and_shows_what_it_found():
    """Who copies it would have a job that fails to start, or a table that nobody sees."""
    document = YAML(typ="safe").load(WORKFLOW)
    assert document["on"] == {"pull_request": None}
    (job,) = document["jobs"].values()
    ((verb, *arguments),) = commands(job["steps"])
    options = parsed(verb, *arguments)
    written = [str(path) for path in options["outputs"]]
    assert (options["scenarios"], options["baselines"]) == (SCENARIOS, BASELINES)
    shown = [step for step in job["steps"] if "GITHUB_STEP_SUMMARY" in step.get("run", "")]
    kept = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert [step["run"].split()[1] for step in shown] + [step["with"]["path"] for step in kept] == (
        written
    )
    # A red check must not keep its own table from being shown.
    assert all("!cancelled()" in step["if"] for step in (*shown, *kept))


@pytest.mark.parametrize("text", ACTION)
def test_the_action_in_the_readme_is_one(text):
    """Who copies it would have an action that does not load, or calls what does not exist."""
    document = YAML(typ="safe").load(text)
    assert {"name", "description", "inputs", "runs"} <= set(document)
    assert document["runs"]["using"] == "composite"
    steps = document["runs"]["steps"]
    assert all(step["shell"] == "bash" for step in steps if "run" in step)
    used = re.findall(r"inputs\.(\w+)", text)
    assert set(used) == set(document["inputs"])
    ((verb, *arguments),) = commands(steps)
    options = parsed(verb, *arguments)
    assert [str(path) for path in options["outputs"]] == ["podsim-baseline.md"]


def test_there_is_an_action_in_the_readme():
    """The test above would have nothing to look at, and pass."""
    assert len(ACTION) == 1
