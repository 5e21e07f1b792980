"""A policy of another package, installed by pip as its users would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests/packages/prefix-queue"
SHORT = ("--seed=1", "--jobs=1", "--set=window.warmup=0s", "--set=window.measure=2m")
POLICY = "backends.qwen.policy={kind: prefix-queue, maxInFlight: 4, longestPrompt: 100k}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and its entry points."""
    place = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    options = ("--no-build-isolation", "--target", str(place))
    source = tmp_path_factory.mktemp("source") / PACKAGE.name
    source.mkdir()
    for file in PACKAGE.rglob("*.*"):
        if file.is_file():
            copy = source / file.relative_to(PACKAGE)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    subprocess.run([*pip, *options, str(source)], check=True, capture_output=True)
    return place


def podsim(site: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}
    command = (sys.executable, "-m", "podsim", *arguments)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_listed_and_its_keys_are_in_the_schema(installed: Path) -> None:
    """Editors would mark its keys, and nobody would find its name."""
    assert "prefix-queue" in podsim(installed, "list", "policies")
    assert "longestPrompt" in podsim(installed, "validate", "--schema")


def test_it_holds_rejects_and_predicts(installed: Path, tmp_path: Path) -> None:
    """A router that queues by itself could not be modelled: holds, refusals, predictions."""
    scenario = str(ROOT / "scenarios/quickstart.yaml")
    run = ("run", scenario, "--variant=least-loaded", *SHORT, "--set", POLICY)
    found = json.loads(podsim(installed, *run, "--json", f"--out={tmp_path}"))
    summary = found["runs"][0]["summary"]
    assert summary["answers"]["by_request"]["413"]["prompt_too_long"] > 0
    assert summary["placements"]["by_reason"]["full"] > 0
    import pandas as pd

    (table,) = tmp_path.rglob("placements.parquet")
    placements = pd.read_parquet(table)
    assert placements["predicted_cached_tokens"].max() > 10_000
    (requests,) = tmp_path.rglob("requests.parquet")
    assert pd.read_parquet(requests)["hold_s"].max() > 0.05
