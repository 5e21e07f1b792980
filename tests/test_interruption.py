"""Ctrl-C and SIGTERM at random instants: podsim ends at once, with what was finished and no more.

``PODSIM_INSTANTS=80`` tries as many instants of each command; a few are tried otherwise.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sim.results.stored import found_runs
from tests.command import started

ROOT = Path(__file__).parents[1]
PATIENCE_S = 300.0
"""So long is only waited for what never comes."""
INSTANTS = int(os.environ.get("PODSIM_INSTANTS", "4"))
SCENARIO = "scenarios/quickstart.yaml"
COMMANDS = {
    "run": ("run", SCENARIO, "--seeds", "1000", "--jobs", "2"),
    "run here": ("run", SCENARIO, "--seeds", "1000", "--jobs", "1"),
    "sweep": (
        *("sweep", SCENARIO, "--grid", "backends.qwen.replicas=4..8..1"),
        *("--seeds", "1000", "--jobs", "2"),
    ),
}


def wait_for(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal: before that Python itself is starting."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def in_group(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = place.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(place.parent.name))
    return found


@pytest.mark.parametrize("instant", range(INSTANTS))
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interruption_at_any_instant_costs_the_runs_in_flight(
    tmp_path: Path, command: str, instant: int
) -> None:
    """Now and then a traceback came, a worker went on, half a run was left or the next one begun;
    or the first interruption was lost, in a ``__del__`` or while a lock was taken.
    """
    chance = random.Random(f"{command} {instant}")
    number = chance.choice([signal.SIGINT, signal.SIGTERM])
    send = os.killpg if number == signal.SIGINT else os.kill  # as a terminal and as kill do
    with started(*COMMANDS[command], "--out", str(tmp_path / "out")) as child:
        wait_for(lambda: catches(child.pid, signal.SIGTERM) or child.poll() is not None)
        time.sleep(chance.uniform(0.0, 4.0))
        send(child.pid, number)
        sent_s = time.monotonic()
        stdout, stderr = child.communicate(timeout=PATIENCE_S)
        took_s = time.monotonic() - sent_s
        wait_for(lambda: not in_group(child.pid))
    assert (child.returncode, stdout, "Traceback" in stderr) == (130, "", False), stderr
    assert stderr.endswith("interrupted\n") and stderr.count("\n") <= 2
    assert took_s < 5.0
    assert list(tmp_path.rglob(".*")) == []
    assert found_runs(tmp_path).unreadable == ()
    for run in found_runs(tmp_path).runs:
        run.read()
    for place in tmp_path.rglob("*.json"):
        json.loads(place.read_text(encoding="utf-8"))
