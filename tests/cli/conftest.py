"""A small scenario in a folder of its own, and a way to call podsim there."""

from pathlib import Path

import pytest

from tests import command
from tests.command import Podsim

TINY = """\
name: tiny
description: two pods, forty requests
seeds: [7, 8]
engines:
  small: {kvBlocks: 10000, maxNumBatchedTokens: 2048, stepTime: {a: 10, b: 20}}
backends:
  pods: {engine: small, replicas: 2, policy: {kind: least-loaded}}
router: {rules: [{name: all, backends: [pods]}]}
workloads:
  traffic:
    {kind: requests, arrivals: {kind: poisson, rate: 4}, count: 40, promptTokens: 500,
     outputTokens: 50}
variants:
  round-robin: {backends.pods.policy: {kind: round-robin}}
  least-loaded: {}
"""


@pytest.fixture
def podsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Podsim:
    """Call podsim in a folder that holds ``tiny.yaml`` and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")
    return command.podsim
