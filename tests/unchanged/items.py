"""The commands that are recorded, by name: argument lists that are run in a folder of their own."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BAD_INPUT = Path(__file__).with_name("bad_input.json")
BAD_USAGE = Path(__file__).with_name("bad_usage.txt")
TINY = Path(__file__).with_name("tiny")

SHORT = {
    "b200-agents": ["--variant=ring-0.10.7", "--variant=session-table"],
    "claude-code": ["--variant=session-table", "--variant=least-loaded"],
}
"""Variants of the long scenarios; of the others all are run."""

QUICK = ["--set=window.warmup=30s", "--set=window.measure=2m"]
QUICKSTART = "scenarios/quickstart.yaml"
AGENTS = "workloads.coding.agents"
DESK = "assistant-and-coder"
VERBS = (
    *("init", "import", "validate", "list", "run", "runs", "explain", "report", "plot"),
    *("compare", "baseline", "sweep", "find", "export", "bench"),
)

Command = list[str]


def commands() -> Iterator[tuple[str, list[Command]]]:
    """Yield each item's name and the commands that it runs, one after the other."""
    yield from _scenarios()
    yield from _texts()
    yield from _stored_runs()
    yield from _searches()
    yield from _bad_usage()


def bad_input(path: Path = BAD_INPUT) -> Iterator[tuple[str, dict[str, str], Command]]:
    """Yield name, files and command of each faulty or doubtful scenario or manifest."""
    for number, case in enumerate(json.loads(path.read_text("utf-8"))):
        yield (
            f"bad-input/{number:03}",
            {"f.yaml": case["text"], **case.get("files", {})},
            _asked(case),
        )


def _asked(case: dict[str, Any]) -> Command:
    settings = [f"--set={each}" for each in case.get("settings", [])]
    variants = [f"--variant={each}" for each in case.get("variants", [])]
    verb = case.get("verb", "run" if variants else "validate")
    unstored = ["--no-store", "--jobs=1"] if verb == "run" else []
    return [verb, "f.yaml", *settings, *variants, *unstored]


def _bad_usage() -> Iterator[tuple[str, list[Command]]]:
    """Yield the sections of ``bad_usage.txt``: commands on the files of ``tiny/``, most refused."""
    for section in BAD_USAGE.read_text("utf-8").split("\n[")[1:]:
        name, _, lines = section.partition("]\n")
        yield f"bad-usage/{name}", [shlex.split(line) for line in lines.splitlines() if line]


def _scenarios() -> Iterator[tuple[str, list[Command]]]:
    for file in sorted(ROOT.glob("scenarios/**/*.yaml")):
        name = str(file.relative_to(ROOT))
        run = ["run", name, "--seed=1", "--jobs=1", *SHORT.get(file.stem, [])]
        yield f"run/{name}", [[*run, "--json"], [*run, "--no-store"]]
        yield f"validate/{name}", [["validate", name]]
    for file in sorted(ROOT.glob("tests/reported/*.yaml")):
        name = str(file.relative_to(ROOT))
        yield f"run/{name}", [["run", name, "--jobs=1", "--json", "--check"]]


def _texts() -> Iterator[tuple[str, list[Command]]]:
    yield "help", [["--help"], *([verb, "--help"] for verb in VERBS)]
    for what in ("policies", "workloads", "pool-kinds", "engine-kinds", "engines", "gpus"):
        yield f"list/{what}", [["list", what], ["list", what, "--json"]]
    yield "list/models", [["list", "models"]]
    yield "list/metrics", [["list", "metrics"], ["list", "metrics", "--json"]]
    yield "schema", [["validate", "--schema"]]
    for file in sorted(ROOT.glob("tests/manifests/data/*.yaml")):
        yield f"import/{file.name}", [["import", str(file.relative_to(ROOT))]]
    yield (
        "usage",
        [
            ["run"],
            ["run", "nowhere.yaml"],
            ["run", QUICKSTART, "--seed=-1"],
            ["run", QUICKSTART, "--variant=nobody"],
            ["compare", "nowhere", "nobody"],
            ["runs", "show", "nowhere"],
            ["explain", "nowhere"],
            ["export", "nowhere", "--csv=tables"],
            ["plot", "nowhere"],
            ["report", "nowhere", "-o", "page.html"],
            ["sweep", QUICKSTART, "--grid=engines.nobody.tensorParallel=1,2"],
            ["sweep", QUICKSTART, "--grid=backends.qwen.replicas=4..1"],
            ["find", QUICKSTART, "--vary=backends.qwen.replicas=1..4", "--target=ttft <= 2"],
            ["baseline", "check", "nobody"],
            ["import", "nowhere.yaml"],
        ],
    )


def _stored_runs() -> Iterator[tuple[str, list[Command]]]:
    run = ["run", QUICKSTART, "--seeds=2", "--jobs=1", *QUICK]
    pools = [
        "run",
        "scenarios/pools/assistant-and-coder.yaml",
        "--seed=1",
        "--set=window.measure=20m",
    ]
    yield (
        "stored/runs",
        [
            run,
            ["runs", "list"],
            ["runs", "show", "quickstart"],
            ["runs", "show", "quickstart", "--json"],
            ["runs", "rm", "quickstart", "--dry-run"],
            ["runs", "rm", "quickstart/bounded-ring", "--yes"],
            ["runs", "list", "--json"],
        ],
    )
    sides = ["quickstart/least-loaded", "quickstart/session-table"]
    outputs = ["-o", "table.md", "-o", "junit.xml"]
    yield (
        "stored/compare",
        [
            run,
            ["compare", *sides],
            ["compare", *sides, "--json"],
            ["compare", *sides, "--exact"],
            ["compare", *sides, "--strict", *outputs],
        ],
    )
    yield (
        "stored/explain",
        [
            run,
            ["explain", "quickstart"],
            ["explain", "quickstart", "--json"],
            ["explain", "quickstart/bounded-ring/seed-1", "100"],
            ["explain", "quickstart/bounded-ring/seed-1", "250", "--json"],
        ],
    )
    yield (
        "stored/pools",
        [pools, ["explain", "assistant-and-coder"], ["explain", "assistant-and-coder", "--json"]],
    )
    one = "quickstart/session-table/seed-1"
    yield (
        "stored/export",
        [
            run,
            ["export", "quickstart", "--prometheus=out.prom", "--csv=tables"],
            ["export", one, "--trace=day.jsonl"],
            ["run", "day.jsonl.yaml", "--json"],
        ],
    )
    yield "stored/export-pools", [pools, ["export", DESK, "--prometheus=out.prom"]]
    yield "stored/timeline", [[*run[:2], "--seed=1", *QUICK, "--timeline=t.json", "--no-store"]]
    yield "stored/plot", [run, ["plot", "quickstart"], ["plot", "quickstart", "--list"]]
    yield "stored/report", [run, ["report", "quickstart", "-o", "page.html"]]


def _searches() -> Iterator[tuple[str, list[Command]]]:
    sweep = ["sweep", QUICKSTART, f"--grid={AGENTS}=8,16", "--seeds=2", "--jobs=1", *QUICK]
    yield (
        "sweep",
        [
            sweep,
            sweep,
            [*sweep, "--json"],
            [
                "sweep",
                QUICKSTART,
                f"--log={AGENTS}=8..32..3",
                "--seed=1",
                "--jobs=1",
                "--variant=session-table",
                *QUICK,
            ],
        ],
    )
    vary = ["--vary=workloads.coding.agents=8..64", "--tolerance=8", "--target=ttft_s.p95 <= 0.4"]
    find = ["find", QUICKSTART, *vary, "--jobs=1", "--seeds=2", "--variant=session-table", *QUICK]
    yield "find", [find, [*find, "--json"]]
    yield (
        "baseline",
        [
            ["baseline", "check", "ring", "--jobs=1"],
            ["baseline", "check", "ring", "--json", "--jobs=1"],
        ],
    )
