"""Variants and settings: a value put in the place of what stands at a dotted path.

Settings (``--set path=value``) are applied after the variant, and never replace
what it says: it would run under a name that is no longer true.
``variants.NAME.path=value`` changes what a variant says,
``variants.NAME={path: value}`` adds one. A path may lead into an optional block
that the file leaves out, but not to an engine, backend or workload that it does
not define, nor into such a pool, which would be a slip of the pen.
"""

import re
from collections.abc import Iterable
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass
from typing import Final

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import DOTTED_PATTERN, PATTERNS_IN_WORDS, describe
from sim.core.suggest import suggestion
from sim.scenario.nodes import (
    UNREAD,
    Mapping,
    Node,
    Path,
    Place,
    Scalar,
    Sequence,
    at,
    dotted,
    entries,
    fault,
    from_python,
    is_null,
    nearest,
    plain,
    with_value,
)
from sim.scenario.yamltext import parse

SHARED_KEYS: Final = frozenset({"name", "description", "seeds", "variant", "variants"})
"""What no variant changes: variants run on the same seeds, to be compared in pairs."""

_NAMED_BLOCKS: Final = frozenset({"engines", "backends", "pools", "workloads"})


@dataclass(frozen=True)
class Change:
    """``value`` is to stand at ``path``; ``place`` is where that is said."""

    path: Path
    value: Node
    place: Place


def variant_roots(
    root: Node, settings: Iterable[Change], chosen: AnySequence[str]
) -> tuple[dict[str, Node], list[Fault]]:
    """The whole scenario once per variant, by name in file order, and the faults on the way.

    The name is "" when there are no variants. ``settings`` are applied to the
    ``chosen`` variants, to all when none is chosen.
    """
    settings = list(settings)
    special = [setting for setting in settings if setting.path[0] not in SHARED_KEYS]
    root, faults = _with_shared(root, settings, chosen)
    block = at(root, "variants")
    unreadable = isinstance(block, Scalar) and block.value is UNREAD
    if is_null(block) or unreadable or (isinstance(block, Mapping) and not block.values):
        root, more = _changed(root, special)
        return {"": root}, [*faults, *more]
    if not isinstance(block, Mapping):
        place = root.place if block is None else block.place
        message = "must be a mapping from names to {path: value}"
        root, more = _changed(root, special)
        return {"": root}, [*faults, fault(place, ("variants",), message), *more]
    said: dict[str, list[Change]] = {}
    for name, node in block.values.items():
        said[name], bad = _changes(name, block.keys[name], node)
        faults.extend(bad)
    ran = {name: changes for name, changes in said.items() if not chosen or name in chosen}
    refused = _contradictions(special, ran)
    fitting = [setting for setting in special if setting not in refused]
    roots: dict[str, Node] = {}
    for name, changes in said.items():
        roots[name], bad = _changed(root, [*changes, *(fitting if name in ran else ())])
        faults.extend(bad)
    return roots, [*faults, *(fault(each.place, each.path, refused[each]) for each in refused)]


def _with_shared(
    root: Node, settings: Iterable[Change], chosen: AnySequence[str]
) -> tuple[Node, list[Fault]]:
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
        root, more = _changed(root, [Change(path, setting.value, setting.place)])
        faults.extend(more)
    return root, faults


def _of_variant(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """``NAME.path`` in its two parts where there is such a variant; else a new one's name."""
    name = max((each for each in known if text.startswith(f"{each}.")), key=len, default=None)
    return (text,) if name is None else (name, text.removeprefix(f"{name}."))


def _contradictions(
    settings: Iterable[Change], said: AnyMapping[str, AnySequence[Change]]
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
    return at(change.value, *below) is not None or isinstance(nearest(change.value, below), Scalar)


def parse_settings(settings: Iterable[str]) -> tuple[list[Change], list[Fault]]:
    """Read ``path=value`` strings, a value being YAML; the faults are of those that cannot be."""
    changes: list[Change] = []
    faults = []
    for setting in settings:
        place = Place(f"--set {setting}")
        written, equals, value = setting.partition("=")
        path = tuple(written.split("."))
        if not equals or not all(path):
            faults.append(fault(place, (), "must be path=value, such as backends.a.replicas=4"))
        elif path in (("variant",), ("variants",)):
            message = "cannot be set; --variant chooses among variants, variants.NAME={} adds one"
            faults.append(fault(place, path, message))
        elif (
            lost := next((each for each in changes if each.path[: len(path)] == path), None)
        ) is not None:
            faults.append(fault(place, path, f"sets what {lost.place.source} sets; give only one"))
        else:
            try:
                changes.append(Change(path, _value(value, place), place))
            except ScenarioError as error:
                faults.extend(fault(place, path, each.message) for each in error.faults)
                changes.append(Change(path, Scalar(UNREAD, place), place))
    return changes, faults


def _value(text: str, place: Place) -> Node:
    if not text.strip():
        return Scalar(None, place)
    # Lines and columns inside a setting say nothing; its source shows all of it.
    return from_python(plain(parse(text, place.source)), place.source)


def _changes(name: str, place: Place, node: Node) -> tuple[list[Change], list[Fault]]:
    """What variant ``name`` changes."""
    here: Path = ("variants", name)
    changes: list[Change] = []
    faults = []
    if not re.fullmatch(DOTTED_PATTERN, name) or len(name) > 63:
        words = PATTERNS_IN_WORDS[DOTTED_PATTERN]
        faults.append(fault(place, here, f"a name must be {words}, at most 63 in all"))
    if not is_null(node) and not isinstance(node, Mapping):
        message = f"must be a mapping from paths to values; got {describe(plain(node))}"
        faults.append(fault(node.place, here, message))
    for written, value in entries(node).items():
        path = tuple(written.split("."))
        key_place = node.keys[written] if isinstance(node, Mapping) else place
        if not all(path):
            message = "must be a path such as backends.a.policy"
            faults.append(fault(key_place, (*here, written), message))
        elif path[0] in SHARED_KEYS:
            message = f"a variant cannot change {path[0]!r}, which belongs to the whole file"
            faults.append(fault(key_place, (*here, written), message))
        else:
            changes.append(Change(path, value, key_place))
    return changes, faults


def _changed(root: Node, changes: Iterable[Change]) -> tuple[Node, list[Fault]]:
    faults = []
    for change in changes:
        message = _unknown_name(root, change.path)
        if not message:
            try:
                root = with_value(root, change.path, change.value, change.place)
            except LookupError as error:
                message = _no_way_in(root, error.args[0])
        if message:
            faults.append(fault(change.place, change.path, message))
    return root, faults


def _unknown_name(root: Node, path: Path) -> str:
    """What is wrong with a path to an engine, backend, pool or workload that is not there."""
    if len(path) < 2 or path[0] not in _NAMED_BLOCKS or not isinstance(at(root, path[0]), Mapping):
        return ""
    if path[0] == "pools" and len(path) == 2:
        return ""  # a variant may have a pool of its own
    known = entries(at(root, path[0]))
    if path[1] in known:
        return ""
    name = str(path[1])
    return f"no {str(path[0]).removesuffix('s')} {name!r} here{suggestion(name, known)}"


def _no_way_in(root: Node, path: Path) -> str:
    """Why the path ends at ``path``, with something left to go."""
    above = at(root, *path[:-1])
    if isinstance(above, Sequence) and at(above, path[-1]) is None:
        return f"no entry {path[-1]!r}: {dotted(path[:-1])} has {len(above.items)}, counted from 0"
    found = at(root, *path)
    return f"{dotted(path)} is {describe(plain(found)) if found else 'nothing'}, not a mapping"
