"""The README: every command, scenario and figure in it is tried."""

import re
import shlex
import subprocess
import sys
from inspect import signature
from operator import attrgetter
from pathlib import Path

import pytest

import sim
from sim.cli import main
from sim.scenario.load import load_text
from tests.command import podsim

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """Every command line of the README, comments left out."""
    return [
        shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()
    ]


def test_it_starts_with_exactly_the_two_commands_of_a_newcomer():
    """Somebody with a fresh machine would have to search, or to install something first."""
    assert [line[:2] for line in commands()[:2]] == [["make", "run"], ["make", "test"]]
    assert README.index("```sh") < 200
    assert len(blocks("sh")[0].splitlines()) == 2


def test_every_command_exists_and_its_files_too():
    """A command would be copied from here and fail."""
    lines = [line[1:] for line in commands() if line[0] == "podsim"]
    assert len(lines) >= 7
    for verb, *arguments in lines:
        command = main.get_command(main.make_context("podsim", [verb]), verb)
        context = command.make_context(verb, list(arguments))
        file = context.params.get("file")
        assert verb == "init" or file is None or (ROOT / file).is_file()


def test_the_import_of_manifests_writes_a_scenario(tmp_path: Path):
    """The command would fail on the files that it names, or write what cannot be read."""
    ((_, *arguments),) = [line for line in commands() if line[:2] == ["podsim", "import"]]
    target = tmp_path / arguments[-1]
    manifests = sorted(str(file) for file in ROOT.glob(arguments[1]))
    ran = podsim("import", *manifests, arguments[-2], target)
    assert ran.exit_code == 0
    assert load_text(target.read_text("utf-8"), str(target)).name == "desk"


@pytest.mark.parametrize("text", blocks("yaml"), ids=["scenario", "script", "pool"])
def test_every_scenario_in_it_is_valid(text):
    """The first thing that a reader types in would be refused."""
    assert load_text(text, "README.md").warnings == ()


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch):
    """The first lines in a notebook would fail."""
    monkeypatch.chdir(ROOT)
    (text,) = blocks("python")
    names: dict = {}
    exec(text, names)
    requests = names["runs"].requests
    assert len(requests) > 1000
    assert set(requests["status"]) <= {"completed", "in_flight"}


def test_every_function_of_sim_in_it_is_there():
    """`sim.sweep.run(...)` and its like stood in sentences, which nobody had tried."""
    names = re.findall(r"\bsim((?:\.[a-z_]+)+)\(", README)
    assert {".run", ".sweep.run", ".sweep.read", ".sweep.find", ".explain.parts"} <= set(names)
    for name in names:
        assert callable(attrgetter(name[1:])(sim))


def test_the_arguments_of_sim_run_are_all_in_it():
    """`settings=` was left out: a reader would write a copy of the scenario for each change."""
    section = README.split("\n## Python\n")[1].split("\n## ")[0]
    for argument in ("variants", "seeds", "settings", "jobs", "store"):
        assert argument in signature(sim.run).parameters
        assert f"{argument}=" in section


def test_the_table_of_make_run_is_what_make_run_prints(tmp_path):
    """The README would show figures that nobody gets."""
    (run,) = re.findall(r"podsim (run .*)", (ROOT / "Makefile").read_text("utf-8"))
    printed = subprocess.run(
        [sys.executable, "-m", "sim.cli", *shlex.split(run), "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert blocks("text")[0] == printed.replace(str(tmp_path), "results/runs")


def test_the_table_of_pools_is_an_excerpt_of_what_is_printed():
    """The first figures about pools that a reader sees would be those of some earlier version."""
    excerpt = README.split("<!-- pools -->\n```text\n")[1].split("```\n<!-- end -->")[0]
    scenario = ROOT / "scenarios" / "pools" / "assistant-and-coder.yaml"
    ran = podsim("run", scenario, "--no-store")
    assert ran.exit_code == 0
    printed = ran.stdout.splitlines()
    assert [line for line in excerpt.splitlines() if line not in printed] == []
