"""Runs the recorded commands and notes what each answers, without what differs by machine."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.unchanged.items import ROOT, Command, bad_input, commands

LONGEST = 4000
"""Of a longer text its head and its hash are recorded."""
LOOKS = {".html", ".svg", ".png", ".pdf", ".parquet"}
"""Of such files only the names: their bytes may change with a library."""
VARYING = (
    (re.compile(r"in [0-9.,]+ (s|ms|min)\b"), "in # s"),
    (re.compile(r"\b[0-9]+(\.[0-9]+)? (runs|requests|events)/s"), "# /s"),
    (re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:]+(\.[0-9]+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r'"(python|podsim|platform|git|commit|host|version)": "[^"]*"'), r'"\1": "#"'),
    (re.compile(r"\b[0-9.]+ (kB|MB|GB)\b"), "# MB"),
    (re.compile(r"\b[0-9a-f]{12}\b(-dirty|\+changes)?"), "<commit>"),
    (re.compile(r'"size_bytes": [0-9]+'), '"size_bytes": #'),
)

Recorded = dict[str, Any]


def results(only: str, jobs: int, corpus: Path) -> Iterator[tuple[str, Recorded]]:
    items = [(name, each) for name, each in commands() if only in name]
    bad = [each for each in bad_input(corpus) if only in each[0]]
    with ProcessPoolExecutor(jobs, get_context("spawn"), _plain_environment) as pool:
        yield from pool.map(_item, items, chunksize=1)
        yield from pool.map(_bad, bad, chunksize=20)


def _plain_environment() -> None:
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONHASHSEED": "0"}


def _item(item: tuple[str, list[Command]]) -> tuple[str, Recorded]:
    name, calls = item
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for shared in ("scenarios", "tests", "CHANGELOG.md"):
            Path(shared).symlink_to(ROOT / shared)
        Path("results").mkdir()
        Path("results/baselines").symlink_to(ROOT / "results/baselines")
        said = {f"{n}: {' '.join(call)}": _call(call, folder) for n, call in enumerate(calls)}
        return name, {**said, "files": _files(Path())}


def _bad(case: tuple[str, str, list[str]]) -> tuple[str, Recorded]:
    name, text, options = case
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("f.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
        return name, _call(["validate", "f.yaml", *options], folder)


def _call(arguments: Command, folder: str) -> Recorded:
    from sim.cli import main as podsim

    result = CliRunner().invoke(podsim, arguments)
    crash = isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit)
    found = {"exit": result.exit_code, "out": result.stdout, "err": result.stderr}
    if crash:
        found["crash"] = repr(result.exception)
    return {key: _normal(value, folder) for key, value in found.items() if value != ""}


def _normal(value: Any, folder: str) -> Any:
    if not isinstance(value, str):
        return value
    for place in (str(Path(folder).resolve()), folder):
        value = value.replace(place, "<folder>")
    value = value.replace(str(ROOT), "<root>")
    for pattern, instead in VARYING:
        value = pattern.sub(instead, value)
    if len(value) <= LONGEST:
        return value.split("\n") if "\n" in value else value
    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
    shown = [line for line in value.split("\n") if '"digest"' in line]
    return [*value[: LONGEST // 4].split("\n"), *shown, f"sha256 {digest}, {len(value)} long"]


def _files(root: Path) -> dict[str, str]:
    """The files that were written, with hashes of those that are text."""
    found = {}
    for folder, names, files in os.walk(root):
        names[:] = sorted(each for each in names if not (Path(folder) / each).is_symlink())
        for file in sorted(files):
            path = Path(folder) / file
            if path.is_symlink():
                continue
            text = path.suffix not in LOOKS and file != "manifest.json"
            content = _normal(path.read_text("utf-8"), str(root.resolve())) if text else ""
            digest = hashlib.sha256(repr(content).encode()).hexdigest()[:16] if text else ""
            found[str(path)] = digest
    return found
