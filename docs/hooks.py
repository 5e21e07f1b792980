"""The reference of the manual, generated when it is built.

``<!-- generate: NAME ARGUMENTS -->`` in a page is replaced by what the function below says that
is registered under NAME. What podsim is made of is looked up
by ``_sim``, and nowhere else.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
GENERATED = re.compile(r"<!-- generate: ([\w-]+) ?(.*?) -->")
GENERATORS: dict[str, Callable[..., Iterable[str]]] = {}

Json = dict[str, Any]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in what is generated (called by mkdocs)."""
    del page
    return GENERATED.sub(lambda found: "\n".join(GENERATORS[found[1]](*found[2].split())), markdown)


def generator(make: Callable[..., Iterable[str]]) -> Callable[..., Iterable[str]]:
    """Register ``make`` under its name, with hyphens."""
    GENERATORS[make.__name__.replace("_", "-")] = make
    return make


def _sim(path: str) -> Any:
    """The object at ``path``, such as ``results.metrics:METRICS``."""
    module, _, name = path.partition(":")
    found = import_module(f"sim.{module}")
    return getattr(found, name) if name else found


# -- scenario keys, from scenarios/schema.json ------------------------------------------------

SCHEMA: Json = json.loads((ROOT / "scenarios/schema.json").read_text("utf-8"))
BLOCKS: Mapping[str, Json] = SCHEMA["$defs"]
SUFFIXES = {
    "(d|h|m|ms|s|us)": "duration",
    "(B|GB|GiB|KB|KiB|MB|MiB|TB|TiB|kB)": "bytes",
    "(G|M|k)": "number",
}


@generator
def keys(root: str) -> Iterator[str]:
    """The keys of one block of a scenario, and of all blocks below it."""
    part = SCHEMA["properties"][root]
    yield f"`{root}`: {_cell(part.get('description', ''))}"
    yield ""
    for name in _reached(part):
        yield from _block(name)


@generator
def scenario_keys(*pages: str) -> Iterator[str]:
    """The keys of a scenario; those with a page of their own link to it."""
    yield from _table(SCHEMA, dict(page.split("=") for page in pages))
    own = {page.split("=")[0] for page in pages}
    for root, part in SCHEMA["properties"].items():
        for name in () if root in own else _reached(part):
            yield from _block(name)


def _reached(part: Any) -> list[str]:
    """The blocks that ``part`` refers to, directly or not, in order."""
    found: dict[str, None] = {}

    def look(at: Any) -> None:
        if isinstance(at, dict):
            name = at.get("$ref", "").removeprefix("#/$defs/")
            if name and name not in found:
                found[name] = None
                look(BLOCKS[name])
            for value in at.values():
                look(value)
        elif isinstance(at, list):
            for value in at:
                look(value)

    look(part)
    return list(found)


def _title(name: str) -> str:
    block = BLOCKS[name]
    kind = block.get("properties", {}).get("kind", {}).get("const")
    plain = name.rsplit("__", 1)[-1].removesuffix("Spec")
    return f"`kind: {kind}`" if kind else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)


def _block(name: str) -> Iterator[str]:
    block = BLOCKS[name]
    yield f"## {_title(name)} {{#{name}}}"
    yield ""
    yield re.sub(r"\n(?!\n)", "\n", block.get("description", "")).replace("``", "`")
    yield ""
    yield from _table(block, {})


def _table(block: Json, pages: Mapping[str, str]) -> Iterator[str]:
    required = block.get("required", ())
    rows = block.get("properties")
    if not rows:
        return
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    for key, value in rows.items():
        if key == "kind":
            continue
        named = f"[`{key}`]({pages[key]})" if key in pages else f"`{key}`"
        default = "**required**" if key in required else _default(value, block)
        kind = "block" if key in pages else _type(value)
        yield f"| {named} | {kind} | {default} | {_cell(value.get('description', ''))} |"
    yield ""


def _default(value: Json, block: Json) -> str:
    default = value.get("default")
    if default is None or default in ({}, [], ""):
        return ""
    if isinstance(default, dict):
        return "see there"
    if "duration" in _type(value):
        return f"{default:g} s"
    if "bytes" in _type(value) and default >= 2**20 and default % 2**20 == 0:
        return f"{default / 2**30:g} GiB"
    text = f"{default:,}" if isinstance(default, int | float) and default is not True else default
    return f"`{json.dumps(default) if isinstance(default, bool | list) else text}`"


def _type(value: Json) -> str:
    """What may be written, in a few words."""
    return " or ".join(dict.fromkeys(_types(value)))


def _types(value: Json) -> Iterator[str]:
    if "$ref" in value:
        name = value["$ref"].removeprefix("#/$defs/")
        yield f"[{_title(name)}](#{name})"
    elif "enum" in value:
        yield ", ".join(f"`{word}`" for word in value["enum"])
    elif "const" in value:
        if value["const"] != 0:
            yield f"`{value['const']}`"
    elif choices := value.get("anyOf") or value.get("oneOf"):
        texts = [each for choice in choices for each in _types(choice)]
        measured = {"duration", "bytes", "bytes per second"} & set(texts)
        yield from (each for each in texts if each != "number" or not measured)
    elif value.get("type") == "string":
        pattern = value.get("pattern", "")
        yield next((word for suffix, word in SUFFIXES.items() if suffix in pattern), _text(pattern))
    elif value.get("type") == "array":
        items = value.get("items") or {}
        yield f"list of {_type(items)}" if items else "list"
    elif value.get("type") == "object":
        yield _mapping(value)
    elif isinstance(value.get("type"), list):
        yield "mapping"
    elif value.get("type") in ("integer", "number"):
        yield "number"
    elif value.get("type") != "null":
        yield str(value.get("type", "any"))


def _text(pattern: str) -> str:
    if "/s" in pattern:
        return "bytes per second"
    return "name" if pattern.startswith("^[A-Za-z0-9]") else "text"


def _mapping(value: Json) -> str:
    inner = [value["additionalProperties"]] if "additionalProperties" in value else []
    inner += value.get("patternProperties", {}).values()
    named = [_type(each) for each in inner if isinstance(each, dict)]
    return f"by name: {named[0]}" if named and named[0] else "mapping"


def _cell(text: str) -> str:
    """``text`` within a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("``", "`").replace("<", "&lt;")


# -- the command line, from click -------------------------------------------------------------


@generator
def command_line() -> Iterator[str]:
    """Every verb with its arguments and options."""
    root = click.Context(_sim("cli:main"), info_name="podsim")
    yield from _commands_below(root, 2)


def _commands_below(context: click.Context, level: int) -> Iterator[str]:
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        usage = " ".join([inner.command_path, *command.collect_usage_pieces(inner)])
        text = inspect.cleandoc(command.help or "").replace("\b", "")
        yield f"{'#' * level} {inner.command_path}\n\n```text\n{usage}\n```\n\n{text}\n"
        options = [each for each in command.params if isinstance(each, click.Option)]
        if options:
            yield "| option | meaning |"
            yield "|---|---|"
        for option in options:
            names, meaning = option.get_help_record(inner) or ("", "")
            yield f"| `{names}` | {_cell(meaning)} |"
        yield ""
        yield from _commands_below(inner, level + 1)


@generator
def listed(what: str) -> Iterator[str]:
    """The entries of ``podsim list WHAT``: their names and what each is."""
    ran = CliRunner().invoke(_sim("cli:main"), ["list", what, "--json"])
    yield "| name | what it is |"
    yield "|---|---|"
    for name, facts in json.loads(ran.stdout).items():
        yield f"| `{name}` | {_cell(facts['summary'])} |"


@generator
def exit_codes() -> Iterator[str]:
    """The exit codes, as the help of the command says them."""
    text = " ".join((_sim("cli:main").help or "").split()).split("Exit codes: ")[1]
    yield "| code | meaning |"
    yield "|---|---|"
    for entry in re.split(r", (?=\d)", text.rstrip(".")):
        code, meaning = entry.split(" ", 1)
        yield f"| {code} | {meaning} |"


@generator
def errors() -> Iterator[str]:
    """The exceptions, with the first sentence of each."""
    module = _sim("core.errors")
    yield "| exception | meaning |"
    yield "|---|---|"
    for name, found in vars(module).items():
        if inspect.isclass(found) and found.__module__ == module.__name__:
            yield f"| `{name}` | {_cell((found.__doc__ or '').split(chr(10) * 2)[0])} |"


# -- results ----------------------------------------------------------------------------------

DIRECTIONS = {"up": "more", "down": "less", "none": "neutral"}


@generator
def metrics() -> Iterator[str]:
    """Every metric as it is declared; the figures of one quantity share a row."""
    yield "| metric | unit | better | margin | definition |"
    yield "|---|---|---|---|---|"
    for quantity, figures in groupby(_sim("results.metrics:METRICS"), _quantity):
        rows = list(figures)
        metric = rows[-1]
        names = [_name(row.key.removeprefix(f"{quantity}."), row.primary) for row in rows]
        key = f"`{quantity}`: {', '.join(names)}" if quantity != metric.key else names[0]
        definition = metric.definition
        if quantity != metric.key:
            definition = definition.split(" of ", 1)[1]
        margin = f"{metric.margin:.0%}" + (f" or {metric.floor:g}" if metric.floor else "")
        better = DIRECTIONS[metric.better]
        yield f"| {key} | {metric.unit} | {better} | {margin} | {_cell(definition)} |"


def _quantity(metric: Any) -> str:
    """What a mean or a percentile is of; the metric itself for other figures."""
    quantity, _, figure = metric.key.rpartition(".")
    return str(quantity if re.fullmatch(r"mean|p\d+", figure) else metric.key)


def _name(key: str, primary: bool) -> str:
    return f"**`{key}`**" if primary else f"`{key}`"


@generator
def tables() -> Iterator[str]:
    """Every column of every table."""
    for table, columns in _sim("results.tables:DECLARED").items():
        yield f"## {table}\n"
        yield "| column | unit | null | meaning |"
        yield "|---|---|---|---|"
        for column in columns:
            null = "may be" if column.nullable else ""
            yield f"| `{column.name}` | {column.unit} | {null} | {_cell(column.meaning)} |"
        yield ""


@generator
def explain_parts() -> Iterator[str]:
    """The parts of a time to first token, in the order in which a request passes through them."""
    yield "| part | the time |"
    yield "|---|---|"
    for part in _sim("explain.kinds:PARTS"):
        yield f"| {part.label} | {_cell(part.meaning)} |"


@generator
def measured(part: str) -> Iterator[str]:
    """The overview at the end of ``results/measured/PART.txt``."""
    text = (ROOT / f"results/measured/{part}.txt").read_text("utf-8")
    yield "```text\n" + text.split("\n\n")[-1].rstrip() + "\n```"


# -- Python -----------------------------------------------------------------------------------


def _where(thing: Any, fallback: str) -> str:
    """The path of an object at its home, whatever module that is in today."""
    if inspect.ismodule(thing):
        return thing.__name__
    module = getattr(thing, "__module__", "")
    return f"{module}.{thing.__qualname__}" if module.startswith("sim") else fallback


@generator
def public(of: str) -> Iterator[str]:
    """The public names of a package: those in its ``__all__``, modules left out."""
    package = import_module(of)
    for name in package.__all__:
        thing = getattr(package, name)
        if not inspect.ismodule(thing):
            yield f"::: {_where(thing, f'{of}.{name}')}\n"


@generator
def protocols() -> Iterator[str]:
    """What each kind of family is to be: the protocols that ``registry`` names."""
    for group, terms in _sim("core.registry:GROUPS").items():
        yield f"## {group}\n"
        paths = dict.fromkeys([terms.protocol, terms.spec])
        yield from (f"::: {path}\n" for path in paths)


@generator
def module(path: str) -> Iterator[str]:
    """Everything public in one module."""
    yield f"::: sim.{path}"
