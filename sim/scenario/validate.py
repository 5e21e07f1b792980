"""One variant from nodes to models, with everything that is wrong with it.

The blocks are checked one by one, so that a fault in one hides none in
another, and each block once: variants share the nodes that they leave alone.
"""

from collections.abc import Callable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from sim.core.errors import Fault, ScenarioError
from sim.core.registry import Family, Registry
from sim.core.rules import faults_of
from sim.core.suggest import SLIP, meant, nearest, suggestion
from sim.hardware.engine import Engine
from sim.hardware.model_config import (
    INSTEAD,
    NotExpressed,
    architecture,
    is_config,
    read_config,
)
from sim.hardware.step_times import step_time
from sim.scenario import checks
from sim.scenario.balancing import policy_node
from sim.scenario.doubtful import doubts
from sim.scenario.events import Event
from sim.scenario.hashing import content_hash
from sim.scenario.improbable import prompts, units
from sim.scenario.inputs import Inputs
from sim.scenario.nodes import (
    Mapping,
    Node,
    Path,
    Place,
    Scalar,
    at,
    beside,
    child,
    entries,
    fault,
    find_text,
    from_python,
    plain,
    text_of,
    with_value,
)
from sim.scenario.nodes import nearest as nearest_node
from sim.scenario.reach import models_served
from sim.scenario.routing import Router
from sim.scenario.schema import Backend, Scenario
from sim.scenario.together import disagreements, endless
from sim.scenario.translate import key_names, translate

Value = TypeVar("Value")
Block = TypeVar("Block", bound=BaseModel)
Check = Callable[[Node, Path], "Checked[Any]"]

# The loader sets the one and takes the other apart.
FILE_KEYS: Final = (*(key for key in key_names(Scenario, ()) if key != "variant"), "variants")

_DECIDE_WHO_SERVES: Final = {"engines", "backends", "router", "pools", "workloads"}
"""Blocks that must be valid before a model can be said to be served by nobody."""

DEFAULT_ENGINE: Final = "vllm"
DEFAULT_POOL: Final = "model-pool"


@dataclass
class Checked(Generic[Value]):
    """A block after its check: its model, or None and what is wrong."""

    value: Value | None = None
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def adopt(self, inner: "Checked[Any]") -> None:
        """Take over what was found inside this block."""
        self.faults.extend(inner.faults)
        self.warnings.extend(inner.warnings)


def respelled(root: Node) -> tuple[Node, list[Fault]]:
    """``root`` with its blocks under their right names where those are slips, and these faults."""
    if not isinstance(root, Mapping):
        return root, []
    names, faults = {}, []
    for key, node in root.values.items():
        slip = None if key in FILE_KEYS else nearest(key, FILE_KEYS, SLIP)
        if slip is None or slip in root.values or isinstance(node, Scalar):
            continue
        names[key] = slip
        faults.append(_unknown_key(root, key))
    values = {names.get(key, key): node for key, node in root.values.items()}
    keys = {names.get(key, key): place for key, place in root.keys.items()}
    return Mapping(values, keys, root.place) if names else root, faults


def _unknown_key(root: Mapping, key: str) -> Fault:
    message = f"unknown key {key!r}{suggestion(key, FILE_KEYS, present=beside(root, key))}"
    return fault(root.keys[key], (key,), message)


class Validator:
    """Checks the variants of one scenario; ``directory`` is where its file names start.

    ``inputs`` are files that were read already, for another form of the scenario.
    """

    def __init__(
        self, registry: Registry, directory: FilePath, inputs: Inputs | None = None
    ) -> None:
        self.file_hashes: dict[str, str] = {}
        self._registry = registry
        self._directory = directory
        self._inputs = inputs or Inputs(directory)
        # Nodes are kept with what was found, for an id is unique only while its node lives.
        self._known: dict[tuple[int, Path], tuple[Node, Checked[Any]]] = {}
        self._read: dict[tuple[int, Path, tuple[str, ...]], list[Fault]] = {}

    def scenario(self, root: Node, variant: str) -> Checked[Scenario]:
        """The scenario that ``root`` describes, a file to which ``variant`` was applied."""
        found: Checked[Scenario] = Checked()
        if not isinstance(root, Mapping):
            message = "must be a mapping with keys such as name, engines, backends and workloads"
            found.faults.append(fault(root.place, (), message))
            return found
        blocks: dict[str, Any] = {"variant": variant}
        misspelt = meant(root.values, FILE_KEYS)
        for key, node in root.values.items():
            if key not in FILE_KEYS:
                found.faults.append(_unknown_key(root, key))
            elif key != "variants":
                blocks[key] = self._section(key, node, found)
        misnamed = checks.unknown_names(root)
        found.faults.extend((*misnamed, *checks.twice_in_pools(root)))
        if "window" not in misspelt:
            found.faults.extend(endless(root, blocks.get("workloads")))
        checked = _validated(Scenario, blocks, root, ())
        found.adopt(checked)
        models: tuple[str, ...] = ()
        parts = checked.value or _valid_parts(blocks)
        if not {each.path.split(".")[0] for each in found.faults} & _DECIDE_WHO_SERVES:
            models = models_served(parts)
        found.faults.extend(disagreements(parts, root, models))
        found.faults.extend(self._contents(root, models))
        found.value = None if found.faults else checked.value
        if found.value is not None:
            found.warnings.extend(doubts(found.value, root, self._inputs))
            inputs = self._inputs.serving(models)
            for here, message in (*units(found.value, root), *prompts(found.value, inputs)):
                found.warnings.append(fault(nearest_node(root, here).place, here, message))
        return found

    def _section(self, key: str, node: Node, found: Checked[Scenario]) -> Any:
        """What pydantic is given for one block: models where there are some, else plain values."""
        sections: dict[str, Check] = {
            "engines": self._engine,
            "backends": self._backend,
            "pools": self._pool,
            "workloads": self._workload,
        }
        if key not in sections or not isinstance(node, Mapping):
            return plain(node)
        check = sections[key]
        block = {}
        for name, entry in node.values.items():
            checked = self._once(check, entry, (key, name))
            found.adopt(checked)
            if checked.value is not None:
                block[name] = checked.value
        return block

    def _once(self, check: Check, node: Node, path: Path) -> Checked[Any]:
        key = (id(node), path)
        if key not in self._known:
            self._known[key] = (node, check(node, path))
        return self._known[key][1]

    def _engine(self, node: Node, path: Path) -> Checked[Engine]:
        try:
            node = self._with_dimensions(node, path)
        except ScenarioError as error:
            return Checked(None, list(error.faults))
        checked = self._spec(node, path, self._registry.engines, default=DEFAULT_ENGINE)
        if checked.value is not None:
            engine = checked.value
            for each in faults_of(engine.kv_tokens, lambda: step_time(engine)):
                at_fault = child(node, each.path) or node
                steps = (each.path,) if each.path else ()
                checked.faults.append(fault(at_fault.place, (*path, *steps), each.message))
        if checked.value is not None and not checked.faults:
            found = checked.value.doubts()
            checked.warnings += [_placed(each, node, path) for each in found]
        return checked

    def _with_dimensions(self, node: Node, path: Path) -> Node:
        """``node``, an engine, with the dimensions of a model for which a config.json stands.

        Raises ``ScenarioError``; what else is wrong with the engine is told once
        these faults are mended.
        """
        model = child(node, "model")
        name = text_of(model)
        if not isinstance(node, Mapping) or model is None:
            return node
        if name is not None and name.endswith(".json"):
            source = str(self._directory / name)
            try:
                self.file_hashes[name] = content_hash(self._directory / name)
            except ScenarioError as error:
                message = f"{name!r} {error.faults[0].message}; looked in {self._directory}"
                raise ScenarioError([fault(model.place, (*path, "model"), message)]) from None
            found = self._inputs.once(read_config, name)
        elif is_config(written := plain(model)):
            source = model.place.source
            try:
                found = architecture(written)
            except NotExpressed as error:
                message = f"{error}; {INSTEAD}"
                raise ScenarioError([fault(model.place, (*path, "model"), message)]) from None
        else:
            return node
        return with_value(node, ("model",), from_python(found, source), model.place)

    def _backend(self, node: Node, path: Path) -> Checked[Backend]:
        if not isinstance(node, Mapping):
            return _validated(Backend, plain(node), node, path)
        policy = policy_node(node, path)
        found: Checked[Backend] = Checked(None, policy.faults, policy.warnings)
        values = {key: plain(value) for key, value in node.values.items()}
        values |= {"policy": None, "balancing": None}
        if policy.node is not None:
            spec = self._spec(policy.node, policy.path, self._registry.policies)
            found.adopt(spec)
            values["policy"] = spec.value
        checked = _validated(Backend, values, node, path)
        found.adopt(checked)
        found.value = checked.value
        return found

    def _pool(self, node: Node, path: Path) -> Checked[Any]:
        return self._spec(node, path, self._registry.pools, default=DEFAULT_POOL)

    def _workload(self, node: Node, path: Path) -> Checked[Any]:
        checked = self._spec(node, path, self._registry.workloads)
        if checked.value is not None and not checked.faults:
            doubted: tuple[Fault, ...] = getattr(checked.value, "doubts", tuple)()
            checked.warnings += [_placed(each, node, path) for each in doubted]
        for name in getattr(checked.value, "files", tuple)():
            try:
                self.file_hashes[name] = content_hash(self._directory / name)
            except ScenarioError as error:
                where, below = find_text(node, name)
                message = f"{name!r} {error.faults[0].message}; looked in {self._directory}"
                checked.faults.append(fault(where, (*path, *below), message))
        return checked

    def _contents(self, root: Mapping, models: tuple[str, ...]) -> list[Fault]:
        """What the workloads find wrong in their rows and files, given what is served."""
        inputs = self._inputs.serving(models)
        faults = []
        for name, node in entries(root.values.get("workloads")).items():
            path: Path = ("workloads", name)
            checked = self._once(self._workload, node, path)
            if checked.value is None or checked.faults:
                continue
            key = (id(node), path, inputs.models)
            if key not in self._read:
                self._read[key] = _check_contents(checked.value, inputs, node, path)
            faults.extend(self._read[key])
        return faults

    def _spec(
        self, node: Node, path: Path, families: AnyMapping[str, Family], default: str | None = None
    ) -> Checked[Any]:
        """The spec model of a ``{kind: ...}`` block; ``default`` is the kind when none is said.

        A slip in ``kind``, key or value, is a fault, and the rest is checked as what is meant.
        """
        if not isinstance(node, Mapping):
            if default is not None:
                return _validated(families[default].spec, plain(node), node, path)
            example = next(iter(families), "...")
            return _wrong(node.place, path, f"must be a mapping such as {{kind: {example}}}")
        kind = node.values.get("kind")
        if kind is None and default is not None:
            return _validated(families[default].spec, plain(node), node, path)
        if kind is None:
            known = ", ".join(families)
            return _wrong(node.place, path, f"missing key 'kind', one of: {known}")
        name = str(kind.value) if isinstance(kind, Scalar) else "a list or a mapping"
        if name in families:
            return _validated(families[name].spec, plain(node), node, path)
        message = f"unknown kind {name!r}{suggestion(name, families, every=True)}"
        return _wrong(kind.place, (*path, "kind"), message)


def _validated(model: type[Block], values: Any, node: Node, path: Path) -> Checked[Block]:
    try:
        return Checked(model.model_validate(values, by_alias=True, by_name=False))
    except ValidationError as error:
        return Checked(None, translate(error, model, node, path))


def _valid_parts(blocks: dict[str, Any]) -> Scenario:
    """Return the scenario without what has faults, for checks of how the rest fits together."""
    router, events = blocks.get("router"), blocks.get("events", ())
    parts: dict[str, Any] = {
        "router": _valid(TypeAdapter(Router), router) or Router.model_construct(),
        "events": _valid(TypeAdapter(tuple[Event, ...]), events) or (),
    }
    for section in ("engines", "backends", "pools", "workloads"):
        entries = blocks.get(section)
        parts[section] = entries if isinstance(entries, dict) else {}
    return Scenario.model_construct(**parts)


def _valid(adapter: TypeAdapter[Value], written: Any) -> Value | None:
    try:
        return adapter.validate_python(written, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _wrong(place: Place, path: Path, message: str) -> Checked[Any]:
    return Checked(None, [fault(place, path, message)])


def _check_contents(spec: Any, inputs: Inputs, node: Node, path: Path) -> list[Fault]:
    found = faults_of(lambda: getattr(spec, "check", _nothing_to_check)(inputs))
    return [each if each.source else _placed(each, node, path) for each in found]


def _nothing_to_check(inputs: Inputs) -> None:
    """In place of the check of a spec that has none."""


def _placed(found: Fault, node: Node, path: Path) -> Fault:
    """A fault of the spec that stands at ``node``, with its place."""
    steps = tuple(found.path.split("."))
    at_fault = at(node, *steps) or node
    return fault(at_fault.place, (*path, *steps), found.message)
