"""Bad input on the command line (C73 to C77): readable lines, code 2, nothing written.

The exact wording is tested where each fault is found; here it is that every
verb answers like this whatever is wrong.
"""

from pathlib import Path

import pytest

from tests.cli.conftest import TINY

HEADER = "arrival_s,session,promptTokens,outputTokens\n"
SCRIPTED = TINY.split("workloads:")[0] + "workloads: {traffic: {kind: script, file: rows.csv}}\n"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)

SCENARIOS = {
    "C73 not a number": TINY.replace("rate: 4", "rate: .nan"),
    "C73 infinite": TINY.replace("a: 10", "a: .inf"),
    "C73 negative": TINY.replace("promptTokens: 500", "promptTokens: -1"),
    "C73 no pods": TINY.replace("replicas: 2", "replicas: 0"),
    "C73 huge": TINY.replace("count: 40", "count: 1000000000000"),
    "C73 half a request": TINY.replace("count: 40", "count: 2.5"),
    "C73 quoted": TINY.replace("count: 40", 'count: "5"'),
    "C75 nothing": "",
    "C76 a NUL byte": TINY.replace("two pods", "two\0pods"),
    "C77 alias bomb": TINY + BOMB,
    "C77 self-reference": TINY + "a: &x [*x]\n",
    "an unknown key": TINY.replace("engines:", "engine:"),
    "a doubled key": TINY + "name: twice\n",
    "not a mapping": "- 1\n",
    "not YAML": "name: [tiny\n",
}
TRACES = {
    "C74 negative stamp": f"{HEADER}-1,a,10,1\n",
    "C74 missing stamp": f"{HEADER},a,10,1\n",
    "C74 a column is missing": "arrival_s,session,promptTokens\n1,a,10\n",
    "C74 not a number": f"{HEADER}nan,a,10,1\n",
    "C75 only a header": HEADER,
    "C76 semicolons": HEADER.replace(",", ";") + "1;a;10;1\n",
}


def check(result, folder: Path, files: set[str], source: str) -> None:
    """One line per fault and a count, code 2, no traceback, nothing on disk."""
    assert result.exit_code == 2
    assert result.stdout == ""
    *faults, count = result.stderr.splitlines()
    assert count == f"{len(faults)} fault{'s' if len(faults) > 1 else ''}; nothing was run"
    assert faults and all(source in fault for fault in faults)
    assert {path.name for path in folder.iterdir()} == files


@pytest.mark.parametrize("verb", ["run", "validate"])
@pytest.mark.parametrize("text", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_a_bad_scenario_is_refused_in_readable_lines(podsim, tmp_path, verb, text):
    """A traceback, a silent run without output, or a run that never ends."""
    (tmp_path / "tiny.yaml").write_text(text, encoding="utf-8")
    check(podsim(verb, "tiny.yaml"), tmp_path, {"tiny.yaml"}, "tiny.yaml")


@pytest.mark.parametrize("verb", ["run", "validate"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_scenario_in_another_encoding_is_refused(podsim, tmp_path, verb, encoding):
    """C76: bytes that are not UTF-8 would end in a traceback or be read as something else."""
    (tmp_path / "tiny.yaml").write_bytes(TINY.replace("two pods", "zwei Töpfe").encode(encoding))
    check(podsim(verb, "tiny.yaml"), tmp_path, {"tiny.yaml"}, "tiny.yaml")


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(podsim, tmp_path):
    """C76: a file saved by another editor would be refused, or give other results."""
    arguments = ("run", "tiny.yaml", "--json", "--no-store", "--jobs", 1)
    plain = podsim(*arguments)
    written = b"\xef\xbb\xbf" + TINY.replace("\n", "\r\n").encode()
    (tmp_path / "tiny.yaml").write_bytes(written)
    assert plain.exit_code == 0
    assert podsim(*arguments).stdout == plain.stdout


@pytest.mark.parametrize("text", TRACES.values(), ids=TRACES.keys())
def test_a_bad_trace_is_refused_before_anything_is_run(podsim, tmp_path, text):
    """A herd at time 0, an exception deep in the run, or a partial result."""
    (tmp_path / "tiny.yaml").write_text(SCRIPTED, encoding="utf-8")
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    result = podsim("run", "tiny.yaml", "--jobs", 1)
    check(result, tmp_path, {"tiny.yaml", "rows.csv"}, "rows.csv")


def test_a_trace_that_is_not_there_is_named(podsim, tmp_path):
    """A slip in a file name would be taken for a bug."""
    (tmp_path / "tiny.yaml").write_text(SCRIPTED, encoding="utf-8")
    check(podsim("run", "tiny.yaml"), tmp_path, {"tiny.yaml"}, "rows.csv")


def test_a_warm_up_longer_than_the_run_is_a_valid_report_without_figures(podsim):
    """C75: 0 for every percentile, so that a gate turns green, or a division by zero."""
    result = podsim("run", "tiny.yaml", "--no-store", "--seed", 1, "--set", "window.warmup=1h")
    assert (result.exit_code, result.stderr) == (0, "")
    (ttft,) = [line for line in result.stdout.splitlines() if line.startswith("TTFT p95, s")]
    assert ttft.split()[-2:] == ["–", "–"]
    assert result.stdout.count("warning: ") == 2
