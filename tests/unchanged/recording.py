"""Runs the recorded commands and notes what each answers, without what differs by machine."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.unchanged.items import ROOT, TINY, Command, bad_input, commands

LONGEST = int(os.environ.get("LONGEST", "4000"))
"""Of a longer text its head and its hash are recorded."""
LOOKS = {".svg", ".png", ".pdf", ".parquet", ".gz"}
"""Of such files only the names: their bytes may change with a library."""
VARYING = (
    (re.compile(r"^Traceback .*?^(?=\w)", re.DOTALL | re.MULTILINE), "Traceback ...\n"),
    (re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:]+(\.[0-9]+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r'"(python|podsim|platform|git|commit|host|version)": "[^"]*"'), r'"\1": "#"'),
    (re.compile(r'(?<=[ "(])(?=[0-9]*[a-f])[0-9a-f]{12}\b(-dirty|\+changes)?'), "<commit>"),
    (re.compile(r'"size_bytes": [0-9]+'), '"size_bytes": #'),
    (re.compile(r"SIZE +PODSIM"), "SIZE  PODSIM"),
    (re.compile(r"(?m)(?<=  )[0-9.]+ (kB|MB|GB)($| +(?=[0-9]))|(?<=html: )[0-9.]+ MB"), "# MB "),
)
DRAWN = re.compile(r"<(style|script|svg)\b.*?</\1>|<[^>]*>", re.DOTALL)
"""What of a page is not its text."""

Recorded = dict[str, Any]


def results(only: str, jobs: int, corpus: Path) -> Iterator[tuple[str, Recorded]]:
    items = [(name, each) for name, each in commands() if only in name]
    bad = [each for each in bad_input(corpus) if only in each[0]]
    with ProcessPoolExecutor(jobs, get_context("spawn"), _plain_environment) as pool:
        yield from pool.map(_item, items, chunksize=1)
        yield from pool.map(_bad, bad, chunksize=20)


def _plain_environment() -> None:
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


def _item(item: tuple[str, list[Command]]) -> tuple[str, Recorded]:
    name, calls = item
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for shared in ("scenarios", "tests", "CHANGELOG.md"):
            Path(shared).symlink_to(ROOT / shared)
        shutil.copytree(TINY, ".", dirs_exist_ok=True)
        if name == "baseline":
            Path("results").mkdir()
            Path("results/baselines").symlink_to(ROOT / "results/baselines")
        said = {f"{n}: {' '.join(call)}": _call(call, folder) for n, call in enumerate(calls)}
        return name, {**said, "files": _files(Path())}


def _bad(case: tuple[str, dict[str, str], Command]) -> tuple[str, Recorded]:
    name, files, command = case
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for file, text in files.items():
            Path(file).write_bytes(text.encode("utf-8", "surrogatepass"))
        return name, _call(command, folder)


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
    return [*value[: LONGEST // 10].split("\n"), *shown, f"sha256 {digest}, {len(value)} long"]


def _files(root: Path) -> Recorded:
    """What was written: the names in each folder, a hash of all their text, and a page's text."""
    found: Recorded = {}
    for place, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if not (Path(place) / each).is_symlink())
        written = [Path(place) / each for each in sorted(names) if not (TINY / each).exists()]
        written = [each for each in written if not each.is_symlink()]
        texts = [_text(each) for each in written if each.suffix not in {*LOOKS, ".html"}]
        folder = str(root.resolve())
        digest = hashlib.sha256(repr([_normal(each, folder) for each in texts]).encode())
        if written:
            listed = " ".join(each.name for each in written)
            found[str(Path(place))] = f"{listed} {digest.hexdigest()[:16] if texts else ''}"
        pages = [each for each in written if each.suffix == ".html"]
        found |= {str(each): _normal(_text(each), folder) for each in pages}
    return found


def _text(file: Path) -> str:
    text = file.read_text("utf-8") if file.name != "manifest.json" else ""
    return re.sub(r"\s*\n\s*", "\n", DRAWN.sub("\n", text)) if file.suffix == ".html" else text
