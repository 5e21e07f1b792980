"""Bad input on the command line (C73 to C77): readable lines, code 2, nothing written.

The exact wording is tested where each fault is found; here it is that every
verb answers like this whatever is wrong.
"""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import TINY

HEADER = "arrival_s,session,promptTokens,outputTokens\n"
# Only the second variant has the traces: the first one is right and could be run.
TRACED = (
    TINY.split("variants:")[0]
    + """variants:
  drawn: {}
  traced:
    workloads:
      traffic: {kind: script, file: rows.csv}
      replay: {kind: sessions, agents: 1, file: sessions.jsonl, sessionsPerAgent: 1}
"""
)
CALL = {"type": "n", "t": 0, "model": "m", "in": 10, "out": 1, "hash_runs": []}
SESSION = {"block_size": 64, "tool_tokens": 0, "system_tokens": 0, "requests": [CALL, CALL]}
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


RECORDED = json.dumps(SESSION)
SESSIONS = {
    "C74 negative length": json.dumps(SESSION | {"tool_tokens": -1}),
    "C74 a session twice": "\n".join([json.dumps(SESSION | {"id": "a"})] * 2),
    "C74 not JSON": "{",
    "C75 no line": "",
    "C75 no session of two requests": json.dumps(SESSION | {"requests": [CALL]}),
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


@pytest.fixture
def traced(podsim, tmp_path):
    """Run or validate a scenario whose second variant has traces, right ones unless given."""

    def run(verb, rows=f"{HEADER}0,a,10,1\n", sessions=RECORDED):
        (tmp_path / "tiny.yaml").write_text(TRACED, encoding="utf-8")
        (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
        (tmp_path / "sessions.jsonl").write_text(sessions, encoding="utf-8")
        return podsim(verb, "tiny.yaml", *(["--jobs", 1] if verb == "run" else []))

    return run


FILES = {"tiny.yaml", "rows.csv", "sessions.jsonl"}


def test_right_traces_are_run(traced, tmp_path):
    """The tests below would pass for another reason than they think."""
    assert traced("validate").exit_code == 0
    result = traced("run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"results"}


@pytest.mark.parametrize("verb", ["run", "validate"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("rows", text) for text in TRACES] + [("sessions", text) for text in SESSIONS],
)
def test_a_bad_trace_is_refused_before_anything_is_run(traced, tmp_path, verb, name, text):
    """A herd at time 0, an exception deep in the run, or the results of half the variants; and
    ``validate`` would call a scenario right that cannot be run."""
    source = {"rows": "rows.csv", "sessions": "sessions.jsonl"}[name]
    check(traced(verb, **{name: (TRACES | SESSIONS)[text]}), tmp_path, FILES, source)


@pytest.mark.parametrize("verb", ["run", "validate"])
def test_faults_of_two_traces_are_told_together(traced, verb):
    """The second trace's faults would come to light in the next attempt."""
    result = traced(verb, rows=TRACES["C74 negative stamp"], sessions="{")
    first, second, count = result.stderr.splitlines()
    assert first.startswith("rows.csv:2:1: arrival_s: ") and first.endswith(" (variant traced)")
    assert second.startswith("sessions.jsonl:1:2: is not JSON: ")
    assert count == "2 faults; nothing was run"


@pytest.mark.parametrize("verb", ["run", "validate"])
def test_a_trace_that_is_not_there_is_named(traced, podsim, tmp_path, verb):
    """A slip in a file name would be taken for a bug."""
    traced("validate")
    (tmp_path / "rows.csv").unlink()
    check(podsim(verb, "tiny.yaml"), tmp_path, FILES - {"rows.csv"}, "rows.csv")


def test_a_warm_up_longer_than_the_run_is_a_valid_report_without_figures(podsim):
    """C75: 0 for every percentile, so that a gate turns green, or a division by zero."""
    result = podsim("run", "tiny.yaml", "--no-store", "--seed", 1, "--set", "window.warmup=1h")
    assert (result.exit_code, result.stderr) == (0, "")
    (ttft,) = [line for line in result.stdout.splitlines() if line.startswith("TTFT p95, s")]
    assert ttft.split()[-2:] == ["–", "–"]
    assert result.stdout.count("warning: ") == 2
