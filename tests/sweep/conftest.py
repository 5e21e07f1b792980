"""A small scenario in a folder of its own, and ways to sweep it there."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import command
from tests.command import Podsim

TINY = """\
name: tiny
seeds: [7, 8]
window: {warmup: 1s, measure: 20s}
engines:
  small: {kvBlocks: 10000, maxNumBatchedTokens: 2048, stepTime: {a: 10, b: 20}}
backends:
  pods: {engine: small, replicas: 2, policy: {kind: least-loaded}}
router: {rules: [{name: all, backends: [pods]}]}
workloads:
  traffic:
    {kind: requests, arrivals: {kind: poisson, rate: 4}, promptTokens: 500, outputTokens: 50}
variants:
  round-robin: {backends.pods.policy: {kind: round-robin}}
  least-loaded: {}
"""
ROOT = Path(__file__).parents[2]

Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which holds ``tiny.yaml`` and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    return tmp_path


@pytest.fixture
def podsim(folder: Path) -> Podsim:
    """Call podsim in ``folder``."""
    return command.podsim


@pytest.fixture
def started(folder: Path) -> Iterator[Started]:
    """Start podsim in a process group of its own, of which nothing is left afterwards."""
    children = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        child = subprocess.Popen(
            [sys.executable, "-m", "sim.cli", *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
