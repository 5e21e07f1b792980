"""What a verb may import: start-up time is decided here."""

import subprocess
import sys
import time

import pytest

from sim.cli import VERBS
from tests.command import HEAVY, NOT_FOR_A_RUN, modules_after


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)])
def test_help_loads_click_and_nothing_heavy(verb):
    """Asking for help would take a second."""
    assert modules_after(*verb, "--help") & HEAVY == set()


def test_help_answers_in_under_three_tenths_of_a_second():
    """The command would feel slow before it has done anything (best of three, shared machines)."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "sim.cli", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.3


def test_a_run_loads_no_pandas_matplotlib_or_scipy_stats():
    """Every run would pay up to a second for libraries that only notebooks and plots need."""
    loaded = modules_after(
        *("run", "scenarios/quickstart.yaml", "--seeds", "2", "--jobs", "1", "--no-store")
    )
    assert "sim.runner" in loaded
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
