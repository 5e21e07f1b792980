"""Slips of the pen, put into right scenarios: where each is, and what it changes."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from sim.scenario.nodes import plain
from sim.scenario.yamltext import parse

Path: TypeAlias = tuple[str | int, ...]
Edit: TypeAlias = Callable[[Any], None]
Data: TypeAlias = dict[str, Any]


class Slip(NamedTuple):
    """One thing that a user gets wrong; ``paths`` are what it touches."""

    what: str
    paths: tuple[Path, ...]
    edit: Edit

    def __str__(self) -> str:
        return f"{self.what} {' and '.join('.'.join(map(str, path)) for path in self.paths)}"


def data_of(text: str) -> Data:
    """The mapping in a scenario file, to be changed at will."""
    found = _lists(plain(parse(text, "f.yaml")))
    assert isinstance(found, dict)
    return found


def with_slips(data: Data, *slips: Slip) -> Data:
    changed = copy.deepcopy(data)
    for slip in slips:
        slip.edit(changed)
    return changed


def systematic(data: Data) -> Iterator[Slip]:
    """At every key: misspelt, missing, of the wrong type, out of range, naming nothing."""
    for path, value in _values(data, ()):
        if isinstance(path[-1], str):
            yield Slip("misspelt", (path,), _renamed(path))
            yield Slip("missing", (path,), _removed(path))
        yield Slip("wrong type", (path,), _set(path, 5 if isinstance(value, dict) else {"zz": 5}))
        if isinstance(value, int | float) or str(value)[0].isdecimal():
            yield Slip("out of range", (path,), _set(path, -7))
        elif isinstance(value, str):
            yield Slip("other text", (path,), _set(path, f"no-{'-'.join(map(str, path))}"))
        if path[-1] == "kind":
            yield Slip(
                "misspelt text", (path,), _set(path, value[:-1] if len(value) > 3 else f"{value}x")
            )


def changed(**values: Any) -> Slip:
    """Values at paths, written with ``__`` for the dot."""
    paths = tuple(
        tuple(int(step) if step.isdecimal() else step for step in name.split("__"))
        for name in values
    )
    edits = [_set(path, value) for path, value in zip(paths, values.values())]

    def edit(data: Any) -> None:
        for each in edits:
            each(data)

    return Slip("rule", paths, edit)


def apart(one: Slip, other: Slip) -> bool:
    """Whether neither touches what the other does."""
    return not any(
        mine[: len(its)] == its or its[: len(mine)] == mine
        for mine in one.paths
        for its in other.paths
    )


def _values(data: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    below = data.items() if isinstance(data, dict) else enumerate(data)
    for step, value in below:
        yield (*path, step), value
        if isinstance(value, dict | list):
            yield from _values(value, (*path, step))


def _home(data: Any, path: Path) -> Any:
    for step in path[:-1]:
        if isinstance(data, dict):
            data.setdefault(step, {})
        data = data[step]
    return data


def _renamed(path: Path) -> Edit:
    def edit(data: Any) -> None:
        home = _home(data, path)
        kept = dict(home)
        home.clear()
        home.update({misspelt(key) if key == path[-1] else key: kept[key] for key in kept})

    return edit


def misspelt(key: str) -> str:
    return key[:-1] if len(key) > 3 else key + key[-1]


def _removed(path: Path) -> Edit:
    def edit(data: Any) -> None:
        del _home(data, path)[path[-1]]

    return edit


def _set(path: Path, value: Any) -> Edit:
    def edit(data: Any) -> None:
        _home(data, path)[path[-1]] = copy.deepcopy(value)

    return edit


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, tuple) else value
