"""Reads scenarios: a file, text or a Python mapping becomes checked variants, or all its faults."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sim.core import registry as registries
from sim.core.blame import faults_named
from sim.core.document import UNREAD, Place, at, entries, parse_all, read_python
from sim.core.errors import Fault, ScenarioError
from sim.core.registry import Registry
from sim.core.suggest import suggestion
from sim.core.textfile import read_text
from sim.scenario.cross_checks import unused_names
from sim.scenario.hashing import scenario_hash
from sim.scenario.inputs import Inputs
from sim.scenario.schema import Scenario
from sim.scenario.validation import Validator
from sim.scenario.variants import parse_settings, variant_roots


class ScenarioWarning(NamedTuple):
    """A warning about the ``variants`` that have it, about the whole file where there are none.

    One about variants ``beside`` each other is shown where two of them are run.
    """

    fault: Fault
    variants: tuple[str, ...] = ()
    beside: bool = False


Placed = TypeVar("Placed", Fault, ScenarioWarning)


@dataclass(frozen=True)
class ScenarioSet:
    """A scenario file, loaded: one checked ``Scenario`` per variant, in file order.

    ``directory`` is where the file names of its workloads start.
    ``scenario_hash`` covers what would be simulated, of all variants of the
    file, and not name, description or seeds; ``file_hashes`` those of the files
    that it names. ``every_variant`` names all variants of the file, chosen or
    not; ``settings`` were put over it.
    """

    name: str
    description: str
    source: str
    directory: Path
    seeds: tuple[int, ...]
    variants: tuple[Scenario, ...]
    scenario_hash: str
    file_hashes: Mapping[str, str] = field(default_factory=dict)
    all_warnings: tuple[ScenarioWarning, ...] = ()
    every_variant: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        names = ", ".join(each.variant for each in self.variants if each.variant)
        return f"ScenarioSet({self.name}: {names or 'no variants'})"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the file and these variants; they read like faults."""
        shown = []
        for fault, having, beside in self.all_warnings:
            here = [each.variant for each in self.variants if each.variant in having]
            if not having or len(here) > beside:
                everywhere = not having or beside or len(here) == len(self.variants)
                shown.append(str(fault if everywhere else _in_variants(fault, here)))
        return tuple(shown)

    def variant_hash(self, index: int) -> str:
        """The hash of one variant alone, which other variants of the file do not change."""
        return scenario_hash(self.variants[index : index + 1], self.file_hashes)

    def variant(self, names: Iterable[str]) -> "ScenarioSet":
        """Only the variants with these ``names``, in file order.

        Raises ``UserError`` for a name that is not there.
        """
        wanted = list(names)
        known = [variant.variant for variant in self.variants]
        if unknown := _unknown_variants(wanted, known, self.source):
            raise ScenarioError(unknown)
        chosen = tuple(variant for variant in self.variants if variant.variant in wanted)
        return replace(self, variants=chosen)


def load(
    path: Path | str,
    settings: Sequence[str] = (),
    registry: Registry | None = None,
    variants: Sequence[str] = (),
) -> ScenarioSet:
    """Load a scenario file.

    ``settings`` are ``path=value`` strings that win over the file and its
    variants. With ``variants`` only those are returned, and only to them the
    settings are applied. Raises ``ScenarioError`` with every fault at once.
    """
    path = Path(path)
    return load_text(read_text(path), str(path), settings, path.parent, registry, variants)


def load_text(
    text: str,
    source: str = "<text>",
    settings: Sequence[str] = (),
    directory: Path | str = ".",
    registry: Registry | None = None,
    variants: Sequence[str] = (),
    inputs: Inputs | None = None,
) -> ScenarioSet:
    """As ``load``, for text that came from ``source``; its files lie in ``directory``.

    With the same ``inputs`` for several forms of a scenario, its files are read once.
    """
    faults: list[Fault] = []
    root = parse_all(text, source, faults)
    if root is UNREAD:
        raise ScenarioError(faults)
    return _load(root, source, Path(directory), settings, registry, variants, inputs, faults)


def load_dict(
    data: Mapping[str, Any],
    settings: Sequence[str] = (),
    directory: Path | str = ".",
    registry: Registry | None = None,
    variants: Sequence[str] = (),
    inputs: Inputs | None = None,
) -> ScenarioSet:
    """As ``load_text``, for the mapping that a scenario file would hold; the same checks."""
    source = "scenario"
    faults: list[Fault] = []
    root = read_python(data, source, faults)
    return _load(root, source, Path(directory), settings, registry, variants, inputs, faults)


def _load(
    root: Any,
    source: str,
    directory: Path,
    settings: Sequence[str],
    registry: Registry | None,
    chosen: Sequence[str],
    inputs: Inputs | None,
    faults: list[Fault],
) -> ScenarioSet:
    registry = registry or registries.load()
    with faults_named(lambda: registry.foreign, lambda: source):
        changes, more = parse_settings(settings)
        roots, bad = variant_roots(root, changes, chosen)
        faults += [*more, *bad]
        variants = at(root, "variants")
        if variants is None or entries(variants):  # else they are not known
            faults += _unknown_variants(chosen, list(roots), source)
        validator = Validator(registry, directory, inputs)
        checked = {name: validator.scenario(each, name, source) for name, each in roots.items()}
        faults += _merged({name: found.faults for name, found in checked.items()})
        scenarios = [found.value for found in checked.values() if found.value is not None]
        if faults or not scenarios:
            raise ScenarioError(_in_order(dict.fromkeys(faults), source, settings))
        having = _having({name: found.warnings for name, found in checked.items()})
        warnings = [ScenarioWarning(*each) for each in having.items()]
        warnings += [ScenarioWarning(each) for each in unused_names(roots.values())]
        warnings += _equal(scenarios, variants, source)
    loaded = ScenarioSet(
        name=scenarios[0].name,
        description=scenarios[0].description,
        source=source,
        directory=directory,
        seeds=scenarios[0].seeds,
        variants=tuple(scenarios),
        scenario_hash=scenario_hash(scenarios, validator.file_hashes),
        file_hashes=validator.file_hashes,
        all_warnings=tuple(_in_order(warnings, source, settings)),
        every_variant=tuple(roots),
        settings=tuple(settings),
    )
    return loaded.variant(chosen) if chosen else loaded


def _having(found: Mapping[str, Iterable[Fault]]) -> dict[Fault, tuple[str, ...]]:
    """Each fault once, with the variants that have it."""
    variants: dict[Fault, tuple[str, ...]] = {}
    for name, faults in found.items():
        for fault in dict.fromkeys(faults):
            variants[fault] = (*variants.get(fault, ()), name)
    return variants


def _merged(found: Mapping[str, list[Fault]]) -> list[Fault]:
    """Each fault once; one that only some of the variants have names them."""
    return [
        fault if len(names) == len(found) else _in_variants(fault, names)
        for fault, names in _having(found).items()
    ]


def _equal(scenarios: Iterable[Scenario], written: Any, source: str) -> list[ScenarioWarning]:
    """Variants that are the same but for their names: one result would have several of them."""
    first: list[tuple[str, Scenario]] = []
    found = []
    for scenario in scenarios:
        name, nameless = scenario.variant, scenario.model_copy(update={"variant": ""})
        other = next((each for each, model in first if model == nameless), None)
        if other is None:
            first.append((name, nameless))
            continue
        place = written.keys_at[name] if name in entries(written) else Place(source)
        message = f"is equal to variant {other}: their results will be the same"
        equal = Fault(place.source, place.line, place.column, f"variants.{name}", message)
        found.append(ScenarioWarning(equal, (other, name), beside=True))
    return found


def _in_variants(fault: Fault, names: Sequence[str]) -> Fault:
    which = f"variant {names[0]}" if len(names) == 1 else f"variants {', '.join(names)}"
    return fault._replace(message=f"{fault.message} ({which})")


def _in_order(found: Iterable[Placed], source: str, settings: Sequence[str]) -> list[Placed]:
    """Those of the scenario from top to bottom, of the settings as given, of each file it names."""
    given = {f"--set {setting}": index for index, setting in enumerate(settings)}

    def key(each: Placed) -> tuple[int, int, str, int, int]:
        fault = each.fault if isinstance(each, ScenarioWarning) else each
        if fault.source in given:
            return 1, given[fault.source], "", 0, 0
        if fault.source == source:
            return 0, 0, "", fault.line, fault.column
        return 2, 0, fault.source, fault.line, fault.column

    return sorted(found, key=key)


def _unknown_variants(wanted: Iterable[str], known: Sequence[str], source: str) -> list[Fault]:
    """The names in ``wanted`` that are no variants."""
    faults = []
    for name in wanted:
        if name not in known:
            message = f"unknown variant {name!r}{suggestion(name, known)}"
            if list(known) == [""]:
                message = f"no variant {name!r}: the scenario has no variants"
            faults.append(Fault(source, 0, 0, "", message))
    return faults
