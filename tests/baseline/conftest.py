"""A repository with two small scenarios, and a way to call podsim baseline in it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.command import podsim

SCENARIOS = Path("scenarios", "regression")
BASELINES = Path("results", "baselines")

TINY = """\
name: {name}
description: two pods, forty requests
seeds: [1, 2, 3]
engines:
  small: {{kvBlocks: 2000, maxNumBatchedTokens: 2048, stepTime: {{a: 10.37194, b: 20.71337}}}}
backends:
  pods: {{engine: small, replicas: 2, policy: {{kind: least-loaded}}}}
router: {{rules: [{{name: all, backends: [pods]}}]}}
workloads:
  traffic:
    {{kind: requests, arrivals: {{kind: poisson, rate: 4}}, count: 40, promptTokens: 500,
     outputTokens: 50}}
"""
VARIANTS = """\
variants:
  round-robin: {backends.pods.policy: {kind: round-robin}}
  least-loaded: {}
"""

Baseline = Callable[..., Result]


def call(verb: str, *arguments: str) -> Result:
    """Call ``podsim baseline`` in the current folder, in one process."""
    return podsim("baseline", verb, "--jobs", 1, *arguments)


def _fill(folder: Path) -> None:
    """``several`` has two variants, ``single`` has none."""
    scenarios = folder / SCENARIOS
    scenarios.mkdir(parents=True)
    (scenarios / "several.yaml").write_text(TINY.format(name="several") + VARIANTS, "utf-8")
    (scenarios / "single.yaml").write_text(TINY.format(name="single"), "utf-8")


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Baseline:
    """Call ``podsim baseline`` in a folder with two scenarios that have not been run."""
    _fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    return call


@pytest.fixture(scope="session")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same scenarios, their baselines and a changelog that explains them."""
    folder = tmp_path_factory.mktemp("updated")
    _fill(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        printed = call("update")
    assert printed.exit_code == 0
    lines = [line for line in printed.stdout.splitlines() if line.startswith("- baseline:")]
    text = "\n".join(lines).replace("<why it changed>", "first figures")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{text}\n", "utf-8")
    return folder


@pytest.fixture
def kept(updated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Baseline:
    """Call ``podsim baseline`` in a copy of that folder."""
    shutil.copytree(updated, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return call
