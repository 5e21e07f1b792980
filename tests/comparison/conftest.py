"""Stored runs of a tiny scenario in a folder of its own, and a way to call podsim there."""

import shutil
from pathlib import Path

import pytest

from tests import command
from tests.command import Podsim

TINY = """\
name: tiny
seeds: [1, 2, 3, 4, 5]
window: {measure: 20s}
engines:
  small: {kvBlocks: 10000, maxNumBatchedTokens: 2048, stepTime: {a: 10, b: 20}}
backends:
  pods: {engine: small, replicas: 2, policy: {kind: least-loaded}}
router: {rules: [{name: all, backends: [pods]}]}
workloads:
  traffic:
    {kind: requests, arrivals: {kind: poisson, rate: 4}, promptTokens: 500, outputTokens: 50}
variants:
  two: {}
  one: {backends.pods.replicas: 1}
"""


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``base`` and ``slow``: runs of the scenario, and of the same on an engine that is slower.

    ``again`` are the runs of ``base``, made once more.
    """
    place = tmp_path_factory.mktemp("stored")
    (place / "tiny.yaml").write_text(TINY, encoding="utf-8")
    for folder, settings in (
        ("base", ()),
        ("again", ()),
        ("slow", ("--set", "engines.small.stepTime.a=15")),
    ):
        arguments = ("run", place / "tiny.yaml", "--jobs", 1, "--out", place / folder)
        result = command.podsim(*arguments, *settings)
        assert result.exit_code == 0, result.output
    return place


@pytest.fixture
def podsim(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Podsim:
    """Call podsim in a folder that holds a copy of the stored runs."""
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return command.podsim
