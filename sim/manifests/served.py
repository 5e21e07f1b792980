"""Which model of the catalogue a service runs, and in which format its weights are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sim.hardware import catalog
from sim.hardware.dtypes import weight_format
from sim.manifests import names
from sim.manifests.engine import Engine, Given, Setting
from sim.manifests.objects import MODEL, Object

LEAST_HYBRID_BUDGET: Final = 2048
"""Tokens of a step: vLLM's least default, above every block of a hybrid model."""

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


def add_model(
    engine: Engine,
    model: Object | None,
    line: Served,
    options: Mapping[str, Setting | None],
    given: Given,
) -> None:
    """Add ``model``, and ``weightDtype`` where no option gives it."""
    said = _said(engine, model, line)
    known = next((each for each in said if names.model_named(each.text)), None)
    source = (None if model is None else model.spec.text("source")) or said[0].text
    if engine.service.name in given.models:
        engine.settings["model"] = Setting(given.models[engine.service.name], "--model")
    elif known is not None:
        name = names.model_named(known.text)
        engine.settings["model"] = Setting(name, f"{known.origin}: {known.text}")
    elif given.assume:
        name = names.nearest_model([each.text for each in said], _able(options))
        engine.assume(
            "model", name, f"the catalogue does not know the model {source}; {name} is assumed"
        )
    else:
        engine.lacks(
            f"the catalogue does not know the model {source}: give model (`podsim list models`) or "
            f"use --model {engine.service.name}=NAME or --assume; or give stepTime and "
            f"{_CAPACITY[engine.kind]}"
        )
    written = _format(model, said)
    setting = options.get("weightDtype") or written
    if setting is not None:
        engine.settings["weightDtype"] = setting


def _able(options: Mapping[str, Setting | None]) -> list[str]:
    """The models that can be served as ``options`` say; all of them where none can."""
    experts, split = options.get("enableExpertParallel"), options.get("tensorParallel")
    known = catalog.models()
    able = [
        name
        for name, each in known.items()
        if (experts is None or not experts.value or each.experts is not None)
        and (split is None or each.splits_over(int(split.value)))
    ]
    return able or list(known)


def add_retention(engine: Engine) -> None:
    """The cache that vLLM gives a model with recurrent layers, unless it is switched off.

    It sizes blocks after the recurrent state by itself, whatever is asked for.
    """
    settings = engine.settings
    known = catalog.models().get(settings["model"].value) if "model" in settings else None
    if engine.kind != "vllm" or known is None or known.recurrent is None:
        return
    caching, budget = settings.get("enablePrefixCaching"), settings.get("maxNumBatchedTokens")
    if (caching is not None and not caching.value) or "kvBlocks" in settings:
        return
    if budget is not None and int(budget.value) < LEAST_HYBRID_BUDGET:
        return
    settings.pop("blockSize", None)
    why = f"what vLLM keeps of a model with recurrent layers, as {settings['model'].value} is"
    settings["prefixRetention"] = Setting("prompt-tail", why)


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
