"""The hash of a scenario: equal exactly when the same things would be simulated."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from sim.core.textfile import read_bytes
from sim.scenario.schema import Scenario

# Which runs are made of a scenario, and what it is called, does not change any of them.
_LEFT_OUT: Final = frozenset({"name", "description", "seeds"})


def scenario_hash(variants: Iterable[Scenario], file_hashes: Mapping[str, str]) -> str:
    """Hexadecimal SHA-256 of the validated ``variants`` and of the files that they name.

    ``file_hashes`` holds the ``content_hash`` of each file by its name in the
    scenario. Two ways to write one scenario, units or manifest form, give one
    hash, and a setting at its default gives the same as a missing one, so that
    a new setting of podsim leaves the hashes of all scenarios without it alone.
    """
    document = {
        "variants": [
            {key: said for key, said in without_defaults(variant).items() if key not in _LEFT_OUT}
            for variant in variants
        ],
        "files": file_hashes,
    }
    canonical = json.dumps(
        to_jsonable_python(document), sort_keys=True, separators=(",", ":"), ensure_ascii=True
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def content_hash(path: Path) -> str:
    """Hexadecimal SHA-256 of a file; raises ``ScenarioError`` when it cannot be read."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def without_defaults(value: Any) -> Any:
    """A model as a scenario file would say it: keys as in files, without what is the default.

    A ``kind`` is always said: it is a default of each model that has one.
    """
    if isinstance(value, BaseModel):
        return {
            field.alias or name: without_defaults(getattr(value, name))
            for name, field in type(value).model_fields.items()
            if name == "kind" or getattr(value, name) != _default(field, value)
        }
    if isinstance(value, Mapping):
        return {key: without_defaults(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_defaults(item) for item in value]
    return value


def _default(field: FieldInfo, model: BaseModel) -> Any:
    """What a missing ``field`` of ``model`` would be, also where other values decide it."""
    if field.default_factory is None:
        return field.default
    return field.get_default(call_default_factory=True, validated_data=dict(model))
