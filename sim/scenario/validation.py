"""One variant from plain values to models, with everything that is wrong with it.

The blocks are checked one by one, so that a fault in one hides none in
another, and each block once: variants share the values that they leave alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from sim.core.document import (
    UNREAD,
    Finding,
    Path,
    Place,
    at,
    entries,
    fault,
    path_to,
    place_of,
    placed,
    read_python,
    with_value,
)
from sim.core.errors import Fault, ScenarioError
from sim.core.messages import findings, key_names, unknown_key
from sim.core.registry import Family, Registry
from sim.core.rules import faults_of
from sim.core.suggest import meant, suggestion
from sim.hardware.model_config import INSTEAD, NotExpressed, architecture, is_config, read_config
from sim.hardware.step_times import step_time
from sim.scenario.balancing import written_policy
from sim.scenario.cross_checks import disagreements, endless, twice_in_pools, unknown_names
from sim.scenario.events import Event
from sim.scenario.hashing import content_hash
from sim.scenario.inputs import Inputs
from sim.scenario.lints import lints
from sim.scenario.reachability import models_served
from sim.scenario.routing import Router
from sim.scenario.schema import Backend, Scenario

Value = TypeVar("Value")

# The loader sets the one and takes the other apart.
FILE_KEYS: Final = (*(key for key in key_names(Scenario) if key != "variant"), "variants")

SECTIONS: Final = ("engines", "backends", "pools", "workloads")
_WHO_SERVES: Final = ("router", "engines", "backends", "pools")
"""Blocks that must be valid before a model can be said to be served by nobody."""

DEFAULT_ENGINE: Final = "vllm"
DEFAULT_POOL: Final = "model-pool"


@dataclass
class Checked:
    """A block after its check: its model, or None; and findings, with paths in the block."""

    value: Any = None
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)


@dataclass
class CheckedScenario:
    """A variant after its check: its model if it has no faults."""

    value: Scenario | None = None
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)


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
        # Values are kept with what was found, for an id is unique only while its value lives.
        self._checked: dict[tuple[str, int], tuple[Any, Checked]] = {}
        self._expanded: dict[int, tuple[Any, Any]] = {}
        self._contents: dict[tuple[int, tuple[str, ...]], list[Fault]] = {}

    def scenario(self, root: Any, variant: str, source: str) -> CheckedScenario:
        """Check the scenario that ``root`` says, a file to which ``variant`` was applied."""
        if not isinstance(root, dict):
            message = "must be a mapping with keys such as name, engines, backends and workloads"
            place = getattr(root, "place", Place(source, 1, 1))
            return CheckedScenario(faults=[] if root is UNREAD else [fault(place, (), message)])
        root, unreadable = self._with_dimensions(root)
        found = CheckedScenario(faults=unreadable)
        blocks: dict[str, Any] = {"variant": variant}
        for key, value in root.items():
            if key not in FILE_KEYS and value is not UNREAD:
                found.faults.append(placed(unknown_key(key, FILE_KEYS, root), root))
            elif key in SECTIONS and isinstance(value, dict):
                blocks[key] = self._section(key, root, found)
            elif key != "variants" and key in FILE_KEYS:
                blocks[key] = value
        scenario = _validated(Scenario, blocks, root)
        misnamed = (*unknown_names(root), *twice_in_pools(root))
        found.faults += [placed(each, root) for each in (*misnamed, *scenario.faults)]
        parts = scenario.value or _valid_parts(blocks)
        if "window" not in meant(root, FILE_KEYS):
            found.faults += endless(root, parts.workloads)
        models = _served(parts, root, found.faults)
        found.faults += [placed(each, root) for each in disagreements(parts, root, models)]
        found.faults += self._in_contents(root, models)
        if not found.faults:
            found.value = scenario.value
        if found.value is not None:
            lint = lints(found.value, root, self._inputs, models)
            found.warnings += [placed(each, root) for each in lint]
        return found

    def _section(self, section: str, root: Any, found: CheckedScenario) -> dict[str, Any]:
        """The valid models of a block with named entries."""
        models = {}
        for name, entry in root[section].items():
            checked = self._once(section, entry)
            found.faults += [placed(each.below((section, name)), root) for each in checked.faults]
            warnings = [placed(each.below((section, name)), root) for each in checked.warnings]
            found.warnings += warnings
            if checked.value is not None:
                models[name] = checked.value
        return models

    def _once(self, section: str, written: Any) -> Checked:
        key = (section, id(written))
        if key not in self._checked:
            checks: dict[str, Callable[[Any], Checked]] = {
                "engines": self._engine,
                "backends": self._backend,
                "pools": lambda each: self._spec(each, self._registry.pools, DEFAULT_POOL),
                "workloads": self._workload,
            }
            checked = Checked() if written is UNREAD else checks[section](written)
            self._checked[key] = (written, checked)
        return self._checked[key][1]

    def _engine(self, written: Any) -> Checked:
        checked = self._spec(written, self._registry.engines, DEFAULT_ENGINE)
        engine = checked.value
        if engine is not None:
            faults = faults_of(engine.kv_tokens, lambda: step_time(engine))
            checked.faults += map(_finding, faults)
            if not faults:
                checked.warnings += map(_finding, engine.warnings())
        return checked

    def _with_dimensions(self, root: Any) -> tuple[Any, list[Fault]]:
        """``root`` with the dimensions of each model for which a config.json stands.

        What else is wrong with an engine is reported once its file can be read.
        """
        faults = []
        for name, engine in entries(at(root, "engines")).items():
            path: Path = ("engines", name)
            model_at = place_of(root, (*path, "model"))
            try:
                if id(engine) not in self._expanded:
                    self._expanded[id(engine)] = engine, self._expand(engine, path, model_at)
                expanded = self._expanded[id(engine)][1]
            except ScenarioError as error:
                faults += error.faults
                expanded = UNREAD
            if expanded is not engine:
                places = place_of(root, path, at_key=True), place_of(root, path)
                root = with_value(root, path, expanded, *places)
        return root, faults

    def _expand(self, engine: Any, path: Path, model_at: Place) -> Any:
        model = entries(engine).get("model")
        if isinstance(model, str) and model.endswith(".json"):
            source = str(self._directory / model)
            try:
                self.file_hashes[model] = content_hash(self._directory / model)
            except ScenarioError as error:
                message = self._not_found(model, error)
                raise ScenarioError([fault(model_at, (*path, "model"), message)]) from None
            found = self._inputs.once(read_config, model)
        elif model is not None and is_config(model):
            source = model_at.source
            try:
                found = architecture(model)
            except NotExpressed as error:
                message = f"{error}; {INSTEAD}"
                raise ScenarioError([fault(model_at, (*path, "model"), message)]) from None
        else:
            return engine
        return with_value(engine, ("model",), read_python(found, source, []), model_at, model_at)

    def _not_found(self, name: str, error: ScenarioError) -> str:
        return f"{name!r} {error.faults[0].message}; looked in {self._directory}"

    def _backend(self, written: Any) -> Checked:
        if not isinstance(written, dict):
            return _validated(Backend, written)
        policy = written_policy(written)
        found = Checked(None, policy.faults, policy.warnings)
        values = {**written, "policy": None, "balancing": None}
        if policy.value is not None and policy.value is not UNREAD:
            spec = self._spec(policy.value, self._registry.policies)
            found.faults += [each.below(policy.path) for each in spec.faults]
            values["policy"] = spec.value
        checked = _validated(Backend, values, written)
        found.faults += checked.faults
        found.value = checked.value
        return found

    def _workload(self, written: Any) -> Checked:
        checked = self._spec(written, self._registry.workloads)
        if checked.value is None:
            return checked
        checked.warnings += map(_finding, getattr(checked.value, "warnings", tuple)())
        for name in getattr(checked.value, "files", tuple)():
            try:
                self.file_hashes[name] = content_hash(self._directory / name)
            except ScenarioError as error:
                message = self._not_found(name, error)
                checked.faults.append(Finding(path_to(written, name), message))
        return checked

    def _in_contents(self, root: Any, models: tuple[str, ...]) -> Iterator[Fault]:
        """What the workloads find wrong in their rows and files, given what is served."""
        inputs = self._inputs.serving(models)
        for name, written in entries(root.get("workloads")).items():
            checked = self._once("workloads", written)
            check = getattr(checked.value, "check", None)
            if check is None or checked.faults:
                continue
            key = (id(written), models)
            if key not in self._contents:
                self._contents[key] = faults_of(partial(check, inputs))
            for each in self._contents[key]:
                here = _finding(each).below(("workloads", name))
                yield each if each.source else placed(here, root)

    def _spec(
        self, written: Any, families: Mapping[str, Family], default: str | None = None
    ) -> Checked:
        """The spec model of a ``{kind: ...}`` block; ``default`` is the kind when none is said."""
        kind = entries(written).get("kind", default)
        if kind is None and not isinstance(written, dict):
            example = next(iter(families), "...")
            return _wrong((), f"must be a mapping such as {{kind: {example}}}")
        if kind is None and "kind" not in written:
            return _wrong((), f"missing key 'kind', one of: {', '.join(families)}")
        if kind is UNREAD:
            return Checked()
        name = "a list or a mapping" if isinstance(kind, dict | tuple) else str(kind)
        if name in families:
            return _validated(families[name].spec, written)
        message = f"unknown kind {name!r}{suggestion(name, families, every=True)}"
        return _wrong(("kind",), message)


def _validated(model: type[BaseModel], values: Any, written: Any = None) -> Checked:
    """The model of ``values``; findings are about what is ``written``, if that is otherwise."""
    try:
        return Checked(model.model_validate(values, by_alias=True, by_name=False))
    except ValidationError as error:
        return Checked(None, findings(error, model, values if written is None else written))


def _served(parts: Scenario, root: Any, faults: list[Fault]) -> tuple[str, ...]:
    """The models that requests may ask for; any, which is none, as long as faults hide them."""
    for each in faults:
        section, *name = each.path.split(".")[:2]
        if section in _WHO_SERVES or at(root, section, *name, "direct") is not None:
            return ()
    return models_served(parts)


def _valid_parts(blocks: dict[str, Any]) -> Scenario:
    """The scenario without what has faults, for checks of how the rest fits together."""
    parts: dict[str, Any] = {section: entries(blocks.get(section)) for section in SECTIONS}
    router = _valid(TypeAdapter(Router), blocks.get("router"))
    parts["router"] = router or Router.model_construct()
    parts["events"] = _valid(TypeAdapter(tuple[Event, ...]), blocks.get("events")) or ()
    return Scenario.model_construct(**parts)


def _valid(adapter: TypeAdapter[Value], written: Any) -> Value | None:
    try:
        return adapter.validate_python(written, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _finding(found: Fault) -> Finding:
    """A fault of a spec, whose path is a key of it."""
    return Finding(tuple(found.path.split(".")) if found.path else (), found.message)


def _wrong(path: Path, message: str) -> Checked:
    return Checked(None, [Finding(path, message)])
