"""`podsim bench`: the cost of one run, seen from outside."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from sim.cli.verbs.bench import _default_variant


def test_measures_the_whole_process_of_one_run(podsim, tmp_path):
    """Start-up or the writing of results would be left out, or another run measured."""
    result = podsim("bench", "tiny.yaml", "--json", "--seed", 3)
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found["variant"], found["seed"], found["requests"]) == ("least-loaded", 3, 40)
    assert found["requests_per_cpu_s"] == pytest.approx(40 / found["cpu_s"])
    assert found["events_per_cpu_s"] == pytest.approx(found["events"] / found["cpu_s"])
    assert found["simulated_s_per_cpu_s"] == pytest.approx(found["simulated_s"] / found["cpu_s"])
    assert found["cpu_s"] > 0.05  # an interpreter with numpy cannot start in less
    assert 20e6 < found["peak_memory_bytes"] < 1e9
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_prints_rates_with_their_units(podsim):
    """A number would stand there without its meaning."""
    lines = podsim("bench", "tiny.yaml", "--variant", "round-robin").stdout.splitlines()
    assert lines[0].startswith("variant round-robin, seed 1: 40 requests, ")
    assert [line.rsplit(maxsplit=1)[0].strip() for line in lines[1:]] == [
        "CPU time, s",
        "wall-clock time, s",
        "requests per CPU-second",
        "events per CPU-second",
        "simulated seconds per CPU-second",
        "peak memory, MB",
    ]


def test_prefers_the_session_table_then_least_loaded_then_the_first(podsim, tmp_path):
    """Two people would bench different variants of one file without noticing."""
    scenario = tmp_path / "tiny.yaml"
    assert _default_variant(scenario) == "least-loaded"
    text = scenario.read_text(encoding="utf-8")
    scenario.write_text(text.replace("  least-loaded: {}", "  session-table: {}"), "utf-8")
    assert _default_variant(scenario) == "session-table"
    scenario.write_text(text.replace("  least-loaded: {}", "  other: {}"), "utf-8")
    assert _default_variant(scenario) == "round-robin"
    scenario.write_text(text.split("variants:")[0], "utf-8")
    assert _default_variant(scenario) == ""


@pytest.mark.parametrize("options", [[], ["--variant", "least-loaded"]])
def test_a_fault_of_the_scenario_ends_the_bench_with_its_code(podsim, tmp_path, options):
    """A broken file would be measured as very fast, or blamed on podsim."""
    (tmp_path / "tiny.yaml").write_text("name: tiny\n", "utf-8")
    result = podsim("bench", "tiny.yaml", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "tiny.yaml:" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_seed_that_no_run_takes_is_refused_by_the_bench_itself(podsim):
    """The usage of another verb would be shown."""
    result = podsim("bench", "tiny.yaml", "--seed", 2**63)
    assert result.exit_code == 2
    assert " bench [OPTIONS]" in result.stderr
    assert "Invalid value for '--seed'" in result.stderr


def test_an_interruption_is_told_once(tmp_path):
    """Two processes would say it, one of them of a folder that is gone."""
    began = tmp_path / "began"
    (tmp_path / "endless.py").write_text(
        "import pathlib, time\npathlib.Path('began').touch()\ntime.sleep(600)\n", encoding="utf-8"
    )
    (tmp_path / "bench.py").write_text(
        "import sys, sim.cli.verbs.bench\n"
        "sim.cli.verbs.bench.PODSIM = (sys.executable, 'endless.py')\n"
        "sim.cli.main(['bench', 'tiny.yaml', '--variant', 'x'])\n",
        encoding="utf-8",
    )
    child = subprocess.Popen(
        [sys.executable, "bench.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline_s = time.monotonic() + 300
    try:
        while not began.exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGINT)
        assert child.communicate(timeout=300) == ("", "interrupted\n")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    assert child.returncode == 130
