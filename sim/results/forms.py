"""The forms in which podsim has stored runs, and the step from each to the next.

A form is what a manifest holds, together with the tables and their columns. Whoever changes any
of it raises ``SCHEMA_VERSION`` and adds to ``STEPS`` how a manifest of the form before becomes
one of the new form; all readers then know the newest form only.

All forms that are read have the same tables. For the first form with others: ``store.read``
checks the digest over the tables as they lie on disk, whatever their columns, and only then that
they are the declared ones, so a step for tables belongs between these two. A new column needs
nothing else. With a table more, or another ``DIGEST_VERSION``, ``digest`` must be told the titles
and the version of the form it is to check.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sim.results.places import MANIFEST

SCHEMA_VERSION: Final = 3

_NEEDED: Final[Mapping[str, type]] = {
    "scenario_hash": str,
    "variant_hash": str,
    "variants": list,
    "variant": str,
    "seed": int,
    "digest": str,
    "warnings": list,
    "facts": dict,
    "scenario": dict,
}
_OPTIONAL: Final[Mapping[str, type]] = {
    "settings": list,
    "scenario_warnings": list,
    "provenance": dict,
}
_WORDS: Final = {str: "text", list: "a list", int: "a whole number", dict: "a mapping"}


def read_manifest(path: Path) -> dict[str, Any]:
    """What a run's folder says of the run, in the newest form.

    Raises ``OSError``, or ``ValueError`` for what podsim has not written or no longer reads.
    """
    return current(read_json(path / MANIFEST))


def read_json(file: Path) -> dict[str, Any]:
    """What a JSON file holds; raises ``OSError``, or ``ValueError`` when it is no mapping."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} is torn: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file.name} is none of podsim's: it holds no mapping")
    return found


def current(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest of any form that this podsim reads, in the newest one.

    Raises ``ValueError`` for one of another form, or that is not what podsim writes.
    """
    if not isinstance(manifest.get("schema_version"), int):
        raise ValueError(f"{MANIFEST} is none of podsim's: it says no schema_version")
    _readable(manifest["schema_version"])
    while (form := manifest["schema_version"]) < SCHEMA_VERSION:
        manifest = {**STEPS[form](manifest), "schema_version": form + 1}
    for name, kind in _NEEDED.items():
        if name not in manifest:
            raise ValueError(f"the manifest lacks {name!r}")
        _of_kind(name, manifest[name], kind)
    for name, kind in _OPTIONAL.items():
        _of_kind(name, manifest.get(name, kind()), kind)
    _of_kind("facts.scenario", manifest["facts"].get("scenario"), str)
    return manifest


def _readable(form: int) -> None:
    if form > SCHEMA_VERSION:
        raise ValueError(
            f"stored in form {form} by a newer podsim, this one reads forms up to "
            f"{SCHEMA_VERSION}; update podsim or run the scenario again"
        )
    if form < min(STEPS):
        raise ValueError(
            f"stored in form {form}, which this podsim no longer reads; run the scenario again"
        )


def _of_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name!r} of the manifest must be {_WORDS[kind]}; got {value!r:.40}")


def _from_2(manifest: dict[str, Any]) -> dict[str, Any]:
    """Form 2 knew neither the hash of a variant alone nor the variants beside it."""
    return {**manifest, "variant_hash": "", "variants": []}


STEPS: Final[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {2: _from_2}
"""From the form of that number to the next."""
