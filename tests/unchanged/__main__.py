"""``python -m tests.unchanged record|check``: see the package."""

import argparse
import difflib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.unchanged.items import BAD_INPUT
from tests.unchanged.recording import results

RECORDED = Path(__file__).with_name("recorded.json")


def main() -> int:
    """Record, or check and print what differs; the exit code says whether anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.unchanged", description=__doc__)
    parser.add_argument("action", choices=["record", "check"])
    parser.add_argument("file", nargs="?", type=Path, default=RECORDED)
    parser.add_argument("--only", default="", help="items whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--bad-input", type=Path, default=BAD_INPUT, help="the corpus")
    options = parser.parse_args()
    found = dict(results(options.only, options.jobs, options.bad_input))
    written = options.file.exists() and (options.action == "check" or options.only)
    recorded = json.loads(options.file.read_text("utf-8")) if written else {}
    wanted = {name: each for name, each in recorded.items() if options.only in name}
    if options.action == "record":
        others = {name: each for name, each in recorded.items() if name not in wanted}
        text = json.dumps(others | found, indent=1, sort_keys=True) + "\n"
        options.file.write_text(text, "utf-8")
        return 0
    differing = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    for name in differing:
        print("\n".join(_difference(name, wanted.get(name), found.get(name))))
    print(f"{len(found)} items, {len(differing)} differ")
    return int(bool(differing))


def _difference(name: str, before: Any, now: Any) -> list[str]:
    lines = partial(json.dumps, indent=1, sort_keys=True, ensure_ascii=False)
    both = lines(before).split("\n"), lines(now).split("\n")
    return [f"== {name}", *list(difflib.unified_diff(*both, lineterm="", n=1))[2:40]]


if __name__ == "__main__":
    sys.exit(main())
