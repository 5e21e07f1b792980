"""ARCHITECTURE.md and the page on invariants say what is there."""

import re
from pathlib import Path

from sim import invariants

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LAWS = (ROOT / "docs/concepts/invariants.md").read_text(encoding="utf-8")


def test_every_invariant_is_listed() -> None:
    """A rule that is checked but not told, or told but gone."""
    told = set(re.findall(r"^\| (INV-\d+) \|", LAWS, re.MULTILINE))
    in_code = {rule.id for rule in invariants.INVARIANTS}
    elsewhere = set(re.findall(r"^(INV-\d+) ", invariants.__doc__ or "", re.MULTILINE))
    assert told == in_code | elsewhere


def test_every_room_is_listed_and_exists() -> None:
    """A module without a place on the map, or a place without a module."""
    rooms = {
        path.name + ("/" if path.is_dir() else "")
        for path in (ROOT / "sim").iterdir()
        if path.name not in {"__init__.py", "__pycache__", "py.typed"}
    }
    told = set(re.findall(r"`sim/([a-z_]+(?:\.py|/))`", TEXT))
    assert told == rooms
