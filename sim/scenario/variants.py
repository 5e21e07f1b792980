"""Variants and settings: a value put in the place of what stands at a dotted path.

Settings (``--set path=value``) are applied after the variant, and never replace
what it says: it would run under a name that is no longer true.
``variants.NAME.path=value`` changes what a variant says,
``variants.NAME={path: value}`` adds one. A path may lead into an optional block
that the file leaves out, but not to an engine, backend or workload that it does
not define, nor into such a pool, which would be a slip of the pen.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sim.core.document import (
    UNREAD,
    Path,
    Place,
    at,
    dotted,
    entries,
    fault,
    parse,
    place_of,
    read_python,
    trace,
    with_value,
)
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import DOTTED_PATTERN, PATTERNS_IN_WORDS, describe
from sim.core.suggest import suggestion

SHARED_KEYS: Final = frozenset({"name", "description", "seeds", "variant", "variants"})
"""What no variant changes: variants run on the same seeds, to be compared in pairs."""

_NAMED_BLOCKS: Final = frozenset({"engines", "backends", "pools", "workloads"})


@dataclass(frozen=True, eq=False)
class Change:
    """``value`` is to stand at ``path``; ``place`` is where that is said."""

    path: Path
    value: Any
    place: Place
    value_at: Place


def variant_roots(
    root: Any, settings: Iterable[Change], chosen: Sequence[str]
) -> tuple[dict[str, Any], list[Fault]]:
    """Return the whole scenario once per variant, by name in file order, and what is wrong.

    The name is "" when there are no variants. ``settings`` are applied to the
    ``chosen`` variants, to all when none is chosen.
    """
    settings = list(settings)
    special = [setting for setting in settings if setting.path[0] not in SHARED_KEYS]
    root, faults = _with_shared(root, settings, chosen)
    block = at(root, "variants")
    if not entries(block):
        if block is not None and block is not UNREAD and block != {}:
            message = "must be a mapping from names to {path: value}"
            faults.append(fault(place_of(root, ("variants",)), ("variants",), message))
        root, more = _changed(root, special)
        return {"": root}, [*faults, *more]
    said: dict[str, list[Change]] = {}
    for name in block:
        said[name], bad = _changes(root, name)
        faults += bad
    ran = {name: changes for name, changes in said.items() if not chosen or name in chosen}
    refused = _contradictions(special, ran)
    fitting = [setting for setting in special if setting not in refused]
    roots: dict[str, Any] = {}
    for name, changes in said.items():
        roots[name], bad = _changed(root, [*changes, *(fitting if name in ran else ())])
        faults += bad
    return roots, [*faults, *(fault(each.place, each.path, refused[each]) for each in refused)]


def _with_shared(
    root: Any, settings: Iterable[Change], chosen: Sequence[str]
) -> tuple[Any, list[Fault]]:
    """The file with the settings of what its variants share, and of the variants themselves."""
    faults = []
    for setting in settings:
        path = setting.path
        if path[0] == "variants":
            path = ("variants", *_of_variant(dotted(path[1:]), entries(at(root, "variants"))))
            if chosen and path[1] not in chosen:
                message = f"has no effect: variant {path[1]!r} is not among those that are run"
                faults.append(fault(setting.place, setting.path, message))
        elif path[0] not in SHARED_KEYS:
            continue
        root, more = _changed(root, [Change(path, setting.value, setting.place, setting.value_at)])
        faults += more
    return root, faults


def _of_variant(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """``NAME.path`` in its two parts where there is such a variant; else a new one's name."""
    name = max((each for each in known if text.startswith(f"{each}.")), key=len, default=None)
    return (text,) if name is None else (name, text.removeprefix(f"{name}."))


def _contradictions(
    settings: Iterable[Change], said: Mapping[str, Sequence[Change]]
) -> dict[Change, str]:
    """Settings that would replace what variants say, and why that is wrong.

    ``said`` holds the changes of each variant by its name.
    """
    found = {}
    for setting in settings:
        by = {
            name: dotted(change.path)
            for name, changes in said.items()
            for change in reversed(changes)
            if _replaces(setting.path, change)
        }
        if by:
            first, path = next(iter(by)), dotted(setting.path)
            names = f"variant {first} sets" if len(by) == 1 else f"variants {', '.join(by)} set"
            found[setting] = (
                f"{names} {by[first]}, and would run under a name that is not true; "
                f"variants.{first}.{path}=... changes that variant, "
                f"variants.NAME={{{path}: ...}} adds one"
            )
    return found


def _replaces(path: Path, change: Change) -> bool:
    """Whether a value at ``path`` would stand in the place of one that ``change`` puts there."""
    common = min(len(path), len(change.path))
    if path[:common] != change.path[:common]:
        return False
    below = path[common:]
    steps, found = trace(change.value, below)
    return steps == below or not isinstance(found, dict | tuple)


def parse_settings(settings: Iterable[str]) -> tuple[list[Change], list[Fault]]:
    """Read ``path=value`` strings, a value being YAML; the faults are of those that cannot be."""
    changes: list[Change] = []
    faults = []
    for setting in settings:
        place = Place(f"--set {setting}")
        written, equals, value = setting.partition("=")
        path = tuple(written.split("."))
        lost = next((each for each in changes if each.path[: len(path)] == path), None)
        if not equals or not all(path):
            faults.append(fault(place, (), "must be path=value, such as backends.a.replicas=4"))
        elif path in (("variant",), ("variants",)):
            message = "cannot be set; --variant chooses among variants, variants.NAME={} adds one"
            faults.append(fault(place, path, message))
        elif lost is not None:
            faults.append(fault(place, path, f"sets what {lost.place.source} sets; give only one"))
        else:
            try:
                found = _value(value, place)
            except ScenarioError as error:
                faults += [fault(place, path, each.message) for each in error.faults]
                found = UNREAD
            changes.append(Change(path, found, place, place))
    return changes, faults


def _value(text: str, place: Place) -> Any:
    if not text.strip():
        return None
    # Lines and columns inside a setting say nothing; its source shows all of it.
    return read_python(parse(text, place.source), place.source, [])


def _changes(root: Any, name: str) -> tuple[list[Change], list[Fault]]:
    """What variant ``name`` changes."""
    here: Path = ("variants", name)
    written = root["variants"][name]
    changes: list[Change] = []
    faults = []
    if not re.fullmatch(DOTTED_PATTERN, name) or len(name) > 63:
        words = PATTERNS_IN_WORDS[DOTTED_PATTERN]
        message = f"a name must be {words}, at most 63 in all"
        faults.append(fault(place_of(root, here, at_key=True), here, message))
    if written is not None and not isinstance(written, dict):
        message = f"must be a mapping from paths to values; got {describe(written)}"
        faults.append(fault(place_of(root, here), here, message))
    for key, value in entries(written).items():
        path, key_at = tuple(key.split(".")), written.keys_at[key]
        if not all(path):
            message = "must be a path such as backends.a.policy"
            faults.append(fault(key_at, (*here, key), message))
        elif path[0] in SHARED_KEYS:
            message = f"a variant cannot change {path[0]!r}, which belongs to the whole file"
            faults.append(fault(key_at, (*here, key), message))
        else:
            changes.append(Change(path, value, key_at, written.values_at[key]))
    return changes, faults


def _changed(root: Any, changes: Iterable[Change]) -> tuple[Any, list[Fault]]:
    faults = []
    for change in changes:
        message = _unknown_name(root, change.path)
        if not message:
            try:
                root = with_value(root, change.path, change.value, change.place, change.value_at)
            except LookupError as error:
                message = _no_way_in(root, error.args[0])
        if message:
            faults.append(fault(change.place, change.path, message))
    return root, faults


def _unknown_name(root: Any, path: Path) -> str:
    """What is wrong with a path to an engine, backend, pool or workload that is not there."""
    known = at(root, path[0])
    if len(path) < 2 or path[0] not in _NAMED_BLOCKS or not isinstance(known, dict):
        return ""
    if path[1] in known or (path[0] == "pools" and len(path) == 2):
        return ""  # a variant may have a pool of its own
    name = str(path[1])
    return f"no {str(path[0]).removesuffix('s')} {name!r} here{suggestion(name, known)}"


def _no_way_in(root: Any, path: Path) -> str:
    """Why the path ends at ``path``, with something left to go."""
    steps, found = trace(root, path)
    if isinstance(found, tuple) and len(steps) < len(path):
        return f"no entry {path[-1]!r}: {dotted(path[:-1])} has {len(found)}, counted from 0"
    return f"{dotted(path)} is {describe(found)}, not a mapping"
