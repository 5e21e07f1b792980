"""The hash of a scenario: equal exactly when the same things would be simulated."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from sim.scenario.schema import Scenario
from sim.scenario.textfile import read_bytes

# Which runs are made of a scenario, and what it is called, does not change any of them.
_LEFT_OUT: Final = frozenset({"name", "description", "seeds"})


def scenario_hash(variants: Iterable[Scenario], file_hashes: Mapping[str, str]) -> str:
    """Hexadecimal SHA-256 of the validated ``variants`` and of the files that they name.

    ``file_hashes`` holds the ``content_hash`` of each file by its name in the
    scenario. Two ways to write one scenario, units or manifest form, give one hash.
    """
    document = {
        "variants": [
            variant.model_dump(mode="json", by_alias=True, exclude=set(_LEFT_OUT))
            for variant in variants
        ],
        "files": file_hashes,
    }
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def content_hash(path: Path) -> str:
    """Hexadecimal SHA-256 of a file; raises ``ScenarioError`` when it cannot be read."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
