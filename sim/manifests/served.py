"""Which model of the catalogue a service runs, and in which format its weights are."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sim.manifests import names
from sim.manifests.engine import Engine, Setting
from sim.manifests.objects import MODEL, Object
from sim.scenario.dtypes import weight_format

_CAPACITY: Final = {"vllm": "kvBlocks", "llamacpp": "ctxSize"}


@dataclass
class Served:
    """What a command line says about its model, in its order.

    A flag such as ``--model`` is surer than a word that belongs to no flag,
    which may be a program or a subcommand.
    """

    named: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


class _Said(NamedTuple):
    origin: str
    text: str


def add_model(engine: Engine, model: Object | None, line: Served, weights: Setting | None) -> None:
    """Add ``model`` and ``weightDtype``; ``weights`` is the format that options give, if any."""
    said = _said(engine, model, line)
    known = next((each for each in said if names.model_named(each.text)), None)
    if known is not None:
        name = names.model_named(known.text)
        engine.settings["model"] = Setting(name, f"{known.origin}: {known.text}")
    else:
        source = None if model is None else model.spec.text("source")
        engine.lacks(
            f"the catalogue does not know the model {source or said[0].text}: give model (`podsim "
            f"list models`), or stepTime and {_CAPACITY[engine.kind]}"
        )
    setting = weights or _format(model, said)
    if setting is not None:
        engine.settings["weightDtype"] = setting


def _said(engine: Engine, model: Object | None, line: Served) -> list[_Said]:
    """What may say which model it is, best first."""
    said = [_Said("the command line", text) for text in (*line.named[::-1], *line.words[::-1])]
    if model is not None:
        source = model.spec.text("source")
        if source:
            said.append(_Said(f"{MODEL} {model.name} spec.source", source))
        said.append(_Said("spec.modelRef", model.name))
    return [*said, _Said("its name", engine.service.name)]


def _format(model: Object | None, said: list[_Said]) -> Setting | None:
    quantization = None if model is None else model.spec.text("quantization")
    if model is not None and quantization:
        said = [_Said(f"{MODEL} {model.name} spec.quantization", quantization), *said]
    for origin, text in said:
        found = weight_format(text)
        if found is not None:
            nearest = "" if found.exact else f", the nearest that podsim knows to {text}"
            return Setting(found.dtype, f"{origin}{nearest}")
    return None
