"""Same scenario, same seed, same digest: in every process and however runs are spread."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sim
from tests.cluster.scenarios import agents, fleet

SCENARIO = fleet(agents(32), {"kind": "session-table"}, window={"measure": "200s"}, kvBlocks=20_000)
DIGEST = """
import json, sys, sim
runs = sim.run(json.loads(sys.argv[1]), seeds=(1, 2), jobs=int(sys.argv[2]))
print(json.dumps([run.digest for run in runs.runs]))
"""


@pytest.fixture(scope="module")
def digests() -> list[str]:
    return [run.digest for run in sim.run(SCENARIO, seeds=(1, 2)).runs]


def elsewhere(jobs: int = 1, **environment: str) -> list[str]:
    """The digests that a fresh process finds."""
    command = [sys.executable, "-c", DIGEST, json.dumps(SCENARIO), str(jobs)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_run_can_be_repeated_in_one_process(digests: list[str]) -> None:
    """State that outlives a run would show in the second."""
    assert [run.digest for run in sim.run(SCENARIO, seeds=(1, 2)).runs] == digests
    assert digests[0] != digests[1]


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_no_order_comes_from_a_hash(digests: list[str], hash_seed: str) -> None:
    """A set or a dict of strings that decides an order shows under another hash seed."""
    assert elsewhere(PYTHONHASHSEED=hash_seed) == digests


def test_workers_change_nothing(digests: list[str]) -> None:
    """Order and digests must not depend on who finishes first."""
    assert elsewhere(jobs=2) == digests


def test_an_older_processor_finds_the_same(digests: list[str]) -> None:
    """Draws are rounded when made, so a libm without fused operations changes no digest."""
    assert elsewhere(GLIBC_TUNABLES="glibc.cpu.hwcaps=-FMA,-AVX2") == digests


def test_every_invariant_holds(tmp_path: Path) -> None:
    """Tiny caches, preemption and shared prefixes at once, with all checks on."""
    squeezed = fleet(
        agents(24), {"kind": "least-loaded"}, window={"measure": "200s"}, kvBlocks=9_000
    )
    squeezed["workloads"]["long-answers"] = {
        "kind": "requests",
        "arrivals": {"kind": "poisson", "rate": 2},
        "promptTokens": 1500,
        "outputTokens": 4000,
    }
    runs = sim.run(squeezed, seeds=(1, 2), check=True, store=tmp_path)
    assert sum(run.summary["preemptions"] for run in runs.runs) > 0
