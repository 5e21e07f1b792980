"""``podsim baseline update``: what a file looks like, and when it is written."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.core.errors import InvariantError, WorkerError
from tests.baseline.conftest import BASELINES, SCENARIOS, TINY

FILE = BASELINES / "several.json"


def edited(old: str, new: str, name: str = "several") -> None:
    """Change a scenario."""
    file = SCENARIOS / f"{name}.yaml"
    assert old in file.read_text("utf-8")
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the second scenario's runs end in ``error``."""
    from sim.baseline import files as making

    simulate = making.run_set

    def run_set(scenarios, **how):
        if scenarios.name == "single":
            raise error
        return simulate(scenarios, **how)

    monkeypatch.setattr(making, "run_set", run_set)


def test_a_file_has_a_line_for_each_metric_of_each_variant(kept):
    """A diff in a pull request would be one long line, or one number per line."""
    lines = FILE.read_text("utf-8").splitlines()
    ttft = [line for line in lines if '"ttft_s.p95"' in line]
    assert len(ttft) == 2
    assert all(
        len(json.loads(f"{{{line.strip().rstrip(',')}}}")["ttft_s.p95"]) == 3 for line in ttft
    )
    assert max(map(len, lines)) < 200
    document = json.loads("\n".join(lines))
    assert list(document) == ["form", "scenario", "made_with", "seeds", "variants"]
    assert list(document["variants"]) == ["round-robin", "least-loaded"]
    variant = document["variants"]["round-robin"]
    assert list(variant) == ["variant_hash", "digests", "figures"]
    assert [len(digest) for digest in variant["digests"]] == [32] * 3
    assert not [key for key in variant["figures"] if key.startswith(("pod_requests", "samples"))]


def test_values_are_those_of_the_runs_to_six_digits(kept):
    """Figures would be rounded until a regression of a percent no longer shows."""
    from sim.execution.runner import run_set
    from sim.scenario.load import load

    document = json.loads(FILE.read_text("utf-8"))
    for run in run_set(load(SCENARIOS / "several.yaml")).runs:
        variant = document["variants"][run.variant]
        at = document["seeds"].index(run.seed)
        assert variant["digests"][at] == run.digest
        for percentile, value in run.summary["ttft_s"].items():
            figure = variant["figures"][f"ttft_s.{percentile}"][at]
            assert figure == pytest.approx(value, rel=5e-6)
            assert len(f"{figure}".replace(".", "").strip("0")) <= 6
        assert variant["figures"]["requests_completed"][at] == run.summary["requests_completed"]


def test_a_second_update_writes_nothing(kept):
    """Every update would touch every file."""
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in BASELINES.iterdir()}
    again = kept("update")
    assert again.stdout == "several: unchanged\nsingle: unchanged\n"
    assert before == {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in BASELINES.iterdir()}


def test_other_versions_alone_are_no_change(kept):
    """A new numpy that changes nothing would show in every baseline, and want a reason for it."""
    old = FILE.read_text("utf-8").replace('"podsim": "', '"podsim": "0.0.')
    FILE.write_text(old, "utf-8")
    assert kept("update").stdout == "several: unchanged\nsingle: unchanged\n"
    assert FILE.read_text("utf-8") == old
    assert kept("check").exit_code == 0


def test_an_update_says_what_has_changed_and_asks_why(kept):
    """Who changes a baseline would find out from a red check how to explain it."""
    edited("least-loaded: {}", "least-loaded: {engines.small.maxNumSeqs: 3}")
    updated = kept("update")
    assert "several: results/baselines/several.json changes least-loaded\n" in updated.stdout
    assert "single: unchanged\n" in updated.stdout
    (line,) = [line for line in updated.stdout.splitlines() if line.startswith("- baseline:")]
    assert line.startswith("- baseline: several ")
    edited("  least-loaded:", "  fewest:")
    assert "several.json gains fewest; loses least-loaded" in kept("update").stdout
    edited("seeds: [1, 2, 3]", "seeds: [1, 2]")
    assert "several.json changes round-robin, fewest" in kept("update").stdout


def test_only_the_named_scenarios_are_updated(baseline):
    """An update of one scenario would take as long as that of all, and change others."""
    assert "single: results/baselines/single.json is new\n" in baseline("update", "single").stdout
    assert [file.name for file in BASELINES.iterdir()] == ["single.json"]
    by_file = baseline("update", "scenarios/regression/several.yaml", "--no-changelog")
    assert by_file.stdout == "several: results/baselines/several.json is new\n"
    wrong = baseline("update", "singel")
    assert wrong.exit_code == 2
    assert "singel: no scenario of that name; did you mean 'single'?" in wrong.stderr


def test_an_unreadable_baseline_is_written_anew(kept):
    """The command that every message names would itself refuse to help."""
    FILE.write_text("<<<<<<< HEAD\n", "utf-8")
    assert "several.json is new" in kept("update").stdout
    assert kept("check").exit_code == 0


def test_a_baseline_without_a_scenario_is_told_of(kept):
    """It would lie there for ever, and nobody would know that it guards nothing."""
    (SCENARIOS / "single.yaml").unlink()
    updated = kept("update")
    assert updated.exit_code == 0
    assert "single.json has no scenario in scenarios/regression; delete it" in updated.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvariantError("INV-1"), 4),
        (WorkerError("a worker process was killed by SIGKILL"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_a_scenario_whose_runs_fail_keeps_its_baseline(kept, monkeypatch, error, code):
    """Half of the runs would become a baseline, or none."""
    before = {file: file.read_bytes() for file in BASELINES.iterdir()}
    edited("rate: 4", "rate: 6")
    edited("rate: 4", "rate: 6", "single")
    failing(monkeypatch, error)
    assert kept("update").exit_code == code
    after = {file: file.read_bytes() for file in BASELINES.iterdir()}
    assert list(after) == list(before)
    assert {file.name: after[file] == before[file] for file in before} == {
        "several.json": False,
        "single.json": True,
    }


def test_a_full_disk_leaves_the_old_baseline(kept, monkeypatch):
    """A baseline would be cut short, and the check red for the wrong reason."""
    before = FILE.read_bytes()
    edited("rate: 4", "rate: 6")

    def full(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    updated = kept("update")
    assert updated.exit_code == 2
    assert "several.json: cannot write the baseline: No space left on device" in updated.stderr
    assert FILE.read_bytes() == before
    assert sorted(file.name for file in BASELINES.iterdir()) == ["several.json", "single.json"]


def test_an_interrupted_update_keeps_what_is_done(baseline):
    """Ctrl-C in real processes would leave half a file, workers, or a traceback."""
    long = TINY.format(name="single").replace("count: 40", "count: 900000")
    (SCENARIOS / "single.yaml").write_text(long, "utf-8")
    command = [sys.executable, "-m", "sim.cli", "baseline", "update", "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        deadline_s = time.monotonic() + 300.0
        while not FILE.exists() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT if FILE.exists() else signal.SIGKILL)
        try:
            _, said = process.communicate(timeout=300.0)
        finally:
            process.kill()
    # Python ends itself by the signal when that has come in the middle of an import; a shell
    # says 130 to both.
    assert process.returncode in (130, -signal.SIGINT)
    assert said == "interrupted\n"
    assert [file.name for file in BASELINES.iterdir()] == ["several.json"]
