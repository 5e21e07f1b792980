"""The scenario as it was run, for a reader and for running it again: one file with variants."""

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

Json: TypeAlias = Any
Path: TypeAlias = tuple[str, ...]

SHARED: Final = frozenset({"name", "description", "seeds", "variant"})
"""What no variant changes."""
WIDTH: Final = 96


def differences(variants: Mapping[str, Mapping[str, Json]]) -> dict[str, dict[str, Json]]:
    """By dotted path the value that each variant has there, for every path at which they differ.

    A block is shown whole when its ``kind`` or its keys differ, and a list
    always is. Without a second variant there are none.
    """
    first, *others = variants.values()
    paths = dict.fromkeys(path for other in others for path in _differing(first, other))
    return {
        ".".join(path): {name: _at(scenario, path) for name, scenario in variants.items()}
        for path in _outermost(paths)
    }


def _differing(one: Json, other: Json, path: Path = ()) -> Iterator[Path]:
    if _alike(one, other):
        for key in one:
            if path or key not in SHARED:
                yield from _differing(one[key], other[key], (*path, key))
    elif one != other:
        yield path


def _alike(one: Json, other: Json) -> bool:
    """Whether both are blocks that can be told apart key by key."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    keys = set(one)
    return (
        keys == set(other)
        and one.get("kind") == other.get("kind")
        and not any("." in key or not key for key in keys)
    )


def _outermost(paths: Mapping[Path, None]) -> list[Path]:
    """Those that do not lie within another one."""
    return [
        path for path in paths if not any(path[:length] in paths for length in range(len(path)))
    ]


def _at(scenario: Json, path: Path) -> Json:
    for key in path:
        scenario = scenario[key]
    return scenario


def resolved_yaml(
    variants: Mapping[str, Mapping[str, Json]], seeds: tuple[int, ...], remark: str
) -> str:
    """A scenario file that simulates the same: every setting, then what the variants change.

    Nulls stay, since a setting's default may be something else. ``remark`` is
    the comment at its head.
    """
    first = next(iter(variants.values()))
    document = {key: value for key, value in first.items() if key != "variant"}
    document["seeds"] = list(seeds)
    if any(variants):
        changes = differences(variants)
        document["variants"] = {
            name: {path: values[name] for path, values in changes.items()} for name in variants
        }
    writer = YAML()
    writer.width = WIDTH
    writer.representer.add_representer(type(None), _null)
    stream = StringIO()
    writer.dump(_styled(document), stream)
    head = "".join(f"# {line}\n" for line in remark.splitlines())
    return head + stream.getvalue()


def _null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def _styled(value: Json) -> Json:
    """Blocks and lists in one line where they are short and hold plain values only."""
    if isinstance(value, Mapping):
        block = CommentedMap((key, _styled(each)) for key, each in value.items())
        if not any(map(_branches, value.values())) and len(str(value)) < WIDTH:
            block.fa.set_flow_style()
        return block
    if isinstance(value, list):
        items = CommentedSeq(map(_styled, value))
        if not any(map(_branches, value)):
            items.fa.set_flow_style()
        return items
    return value


def _branches(value: Json) -> bool:
    return bool(value) and isinstance(value, Mapping | list)
