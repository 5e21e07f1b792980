"""Numbers that can be simulated and cannot be meant are warned of before a run."""

import json
from pathlib import Path

import pytest

from sim.core.registry import Registry
from sim.scenario.load import load_text
from sim.workload.distributions import CountForms, GeometricCount, LognormalCount, UniformCount
from tests.scenario.conftest import GOOD


def test_rows_of_files_count_as_well(tmp_path: Path, registry: Registry) -> None:
    """An imported fleet with a trace of 128k prompts on maxModelLen 32768 gave no warning."""
    rows = "arrival_s,promptTokens,outputTokens\n0,100,1\n1,5000,1\n"
    (tmp_path / "rows.csv").write_text(rows, "utf-8")
    line = json.dumps(
        {"arrival_s": 0, "prompt_tokens": 5000, "output_tokens": 1, "sequence_block_runs": []}
    )
    (tmp_path / "recording.jsonl").write_text(line + "\n", "utf-8")
    for kind, file, said in (
        ("script", "rows.csv", "file: 1 of 2 prompts are longer, up to 5,000 tokens: pods"),
        ("recording", "recording.jsonl", "file: 1 of 1 prompts are longer, up to 5,000 tokens"),
    ):
        setting = f"workloads.load={{kind: {kind}, file: {file}}}"
        (found,) = load_text(GOOD, "f.yaml", [setting], tmp_path, registry).warnings
        assert said in found


@pytest.mark.parametrize(
    ("drawn", "limit", "share"),
    [
        (CountForms(constant=10), 10, 0.0),
        (CountForms(constant=11), 10, 1.0),
        (CountForms(uniform=UniformCount(min=1, max=10)), 7, 0.3),
        (CountForms(lognormal=LognormalCount(median=100, sigma=1.0)), 99, 0.502),
        (CountForms(lognormal=LognormalCount(median=100, sigma=1.0, max=200)), 200, 0.0),
        (CountForms(lognormal=LognormalCount(median=400, sigma=1.0, min=300)), 299, 1.0),
        (CountForms(geometric=GeometricCount(mean=10.0)), 5, 0.59049),
    ],
)
def test_the_share_above_a_limit_is_that_of_the_distribution(
    drawn: CountForms, limit: int, share: float
) -> None:
    """A warning would name a share that no run has."""
    assert drawn.share_above(limit) == pytest.approx(share, abs=1e-3)
