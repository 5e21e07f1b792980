"""What a verb may import: start-up time is decided here."""

import ast
import os
import subprocess
import sys
from collections.abc import Collection
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from sim.cli import VERBS
from tests.command import HEAVY, NOT_FOR_A_RUN, modules_after


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)])
def test_help_loads_click_and_nothing_heavy(verb):
    """Asking for help would take a second."""
    assert modules_after(*verb, "--help") & HEAVY == set()


def calls_made_by(program: str) -> int:
    """How many functions a fresh interpreter calls for a program, those that import included."""
    counted = (
        "import sys\n"
        "calls = 0\n"
        "def count(frame, event, function):\n"
        "    global calls\n"
        "    calls += event in ('call', 'c_call')\n"
        "sys.setprofile(count)\n"
        f"{program}\n"
        "sys.setprofile(None)\n"
        "print('CALLS', calls)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", counted], capture_output=True, text=True, check=True
    )
    return int(child.stdout.rsplit("CALLS ", 1)[1])


def test_help_answers_at_once():
    """The command would feel slow before it has done anything.

    Calls are counted, since time is the machine's: what podsim adds to click makes 36,000 under
    Python 3.11, 32,000 from 3.12 on, and takes 0.04 s. One library of those that a run needs
    would double that.
    """
    helped = "from sim.cli import main; main(['--help'], standalone_mode=False)"
    click = calls_made_by("import click")
    assert calls_made_by(helped) - click < 50_000
    assert calls_made_by(f"import pydantic; {helped}") - click > 50_000  # so it would be noticed


def test_a_run_loads_no_pandas_matplotlib_or_scipy_stats():
    """Every run would pay up to a second for libraries that only notebooks and plots need."""
    loaded = modules_after(
        *("run", "scenarios/quickstart.yaml", "--seeds", "2", "--jobs", "1", "--no-store")
    )
    assert "sim.execution.runner" in loaded
    assert loaded & NOT_FOR_A_RUN == set()


@pytest.mark.parametrize("name", ["sim.explain.parts", "sim.plots.ttft_cdf", "sim.sweep.run"])
def test_the_rooms_for_scripts_are_there_after_import_sim(name):
    """The README's `sim.sweep.run(...)` ended in an AttributeError, unless something else had
    imported the room.
    """
    room, _, function = name.rpartition(".")
    program = f"import sim; print({name}.__name__, {room!r}.split('.')[1] in dir(sim))"
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert child.stdout == f"{function} True\n"


@pytest.mark.parametrize("program", ["import sim", "import sim; dir(sim); sim.sweep; sim.plots"])
def test_the_package_itself_imports_nothing_heavy(program):
    """`import sim` in a notebook or script would load every library at once."""
    child = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(child.stdout.split()) & HEAVY == set()


def by_its_name(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Python in ``folder``, which may not find podsim by its name where it was installed before."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True
    )


def test_podsim_is_there_by_its_name(tmp_path):
    """`import podsim` and `python -m podsim` did not exist: the package is called sim."""
    child = by_its_name("-m", "podsim", "--version", folder=tmp_path)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.startswith("podsim ")
    program = "import podsim, sim; print(podsim.load is sim.load, dir(podsim) == dir(sim))"
    assert by_its_name("-c", program, folder=tmp_path).stdout == "True True\n"


@pytest.mark.parametrize("shadow", ["sim.py", "sim/__init__.py"])
def test_a_sim_of_ones_own_is_told(tmp_path, shadow):
    """It was found instead of podsim's: "'sim' is not a package", or no attribute 'run'."""
    (tmp_path / shadow).parent.mkdir(exist_ok=True)
    (tmp_path / shadow).write_text("")
    child = by_its_name("-m", "podsim", "--version", folder=tmp_path)
    assert child.returncode == 1
    last = child.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path / shadow} is found before podsim's own package")


def test_no_circle_of_imports() -> None:
    """A circle fails only for whoever begins at the wrong module: `import sim.explain` did."""
    root = Path(__file__).parents[2]
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / "sim").rglob("*.py"))
    }
    graph = {
        name: _imported(ast.parse(path.read_text("utf-8")), files) for name, path in files.items()
    }
    assert tuple(TopologicalSorter(graph).static_order())  # raises CycleError


def _imported(tree: ast.Module, known: Collection[str]) -> set[str]:
    """The modules that are imported when this one is; in functions it is too late for a circle."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{each.name}" for each in node.names}
            found |= (below & set(known)) or {node.module} & set(known)
    return found
