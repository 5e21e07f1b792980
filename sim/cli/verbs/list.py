"""``podsim list``: what a scenario may name."""

import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sim.cli import Verb

if TYPE_CHECKING:
    from sim.core.registry import Family

KINDS = (
    *("policies", "workloads", "pool-kinds", "engine-kinds", "engines", "gpus", "models"),
    "metrics",
)


@click.command("list", cls=Verb)
@click.argument("what", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def command(what: str, as_json: bool) -> None:
    """List what a scenario may name, and the metrics of its results.

    engine-kinds are the schedulers that podsim knows, pool-kinds those of models
    that take turns; engines are presets of step times, which stepTime may name.
    The primary metrics decide podsim compare, each within its margin.
    """
    catalogues = {"engines": _engines, "gpus": _gpus, "models": _models, "metrics": _metrics}
    entries = catalogues[what]() if what in catalogues else _families(what)
    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    from sim.core.text import terms

    for line in terms({name: facts["summary"] for name, facts in entries.items()}):
        click.echo(line)


def _families(what: str) -> dict[str, dict[str, Any]]:
    """Kinds of policies, workloads, pools or engines: what each does and which keys it takes."""
    from sim.core.registry import load

    group = {"engine-kinds": "engines", "pool-kinds": "pools"}.get(what, what)
    families: dict[str, Family] = getattr(load(), group)
    return {kind: _family(family) for kind, family in families.items()}


def _family(family: "Family") -> dict[str, Any]:
    fields: dict[str, Any] = getattr(family.spec, "model_fields", {})
    keys = [field.alias or name for name, field in fields.items() if name != "kind"]
    about = (inspect.getdoc(family.spec) or "").split("\n\n")[0]
    return {"summary": about.replace("\n", " ").replace("``", ""), "keys": keys}


def _gpus() -> dict[str, dict[str, Any]]:
    from sim.hardware.catalog import gpus
    from sim.hardware.gpu import GIB

    return {
        name: {
            "summary": f"{gpu.memory / GIB:,.1f} GiB at {gpu.bandwidth / 1e12:g} TB/s, TFLOP/s "
            f"{_pairs(gpu.teraflops)}; {gpu.source}",
            "memory_bytes": gpu.memory,
            "bandwidth_bytes_per_s": gpu.bandwidth,
            "host_link_bytes_per_s": gpu.host_link,
            "teraflops": gpu.teraflops,
            "all_reduce_s": gpu.all_reduce,
            "max_num_batched_tokens": gpu.max_num_batched_tokens,
            "max_num_seqs": gpu.max_num_seqs,
            "source": gpu.source,
        }
        for name, gpu in gpus().items()
    }


def _models() -> dict[str, dict[str, Any]]:
    from sim.hardware.catalog import models

    return {
        name: {
            "summary": f"{model.total_parameters / 1e9:,.1f} B parameters, "
            f"{model.weights_bytes() / 1e9:,.1f} GB of {model.weight_dtype} weights, "
            f"{model.kv_bytes_per_token():,.0f} B of KV per token; {model.source}",
            "parameters": model.total_parameters,
            "active_parameters": model.active_parameters,
            "weights_bytes": model.weights_bytes(),
            "kv_bytes_per_token": model.kv_bytes_per_token(),
            "state_bytes_per_sequence": model.state_bytes,
            **model.model_dump(exclude={"parameters", "name"}),
        }
        for name, model in models().items()
    }


def _engines() -> dict[str, dict[str, Any]]:
    from sim.hardware.step_times import presets

    return {
        name: {
            "summary": f"{_pairs(preset.step_time.model_dump(exclude_defaults=True))}; "
            f"{preset.source}",
            **preset.model_dump(exclude={"step_time"}),
            "step_time": preset.step_time.model_dump(exclude_defaults=True),
        }
        for name, preset in presets().items()
    }


def _metrics() -> dict[str, dict[str, Any]]:
    from sim.results.metrics import METRICS

    directions = {"up": "more is better", "down": "less is better", "none": "neutral"}
    facts = ("key", "unit", "better", "margin", "definition", "primary", "floor")
    return {
        each.key: {
            "summary": f"{each.unit}, {directions[each.better]}, margin {100.0 * each.margin:g} %"
            + (f" or {each.floor:g}" if each.floor else "")
            + (", primary" if each.primary else "")
            + f"; {each.definition}",
            **{fact: getattr(each, fact) for fact in facts},
        }
        for each in METRICS
    }


def _pairs(numbers: Mapping[Any, float]) -> str:
    return ", ".join(f"{name} {number:g}" for name, number in numbers.items() if number)
