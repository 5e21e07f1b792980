"""``podsim list``: what a scenario may name."""

import inspect
import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sim.registry import Family

KINDS = ("policies", "workloads", "gpus", "models")


@click.command("list")
@click.argument("what", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def command(what: str, as_json: bool) -> None:
    """List the policies, workloads, gpus or models that a scenario may name."""
    entries = _hardware(what) if what in ("gpus", "models") else _families(what)
    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    width = max(len(name) for name in entries)
    for name, facts in entries.items():
        click.echo(f"{name.ljust(width)}  {facts['summary']}")


def _families(what: str) -> dict[str, dict[str, Any]]:
    """Kinds of policies or workloads: what each does and which keys it takes."""
    from sim.registry import load

    families: dict[str, Family] = getattr(load(), what)
    return {kind: _family(family) for kind, family in families.items()}


def _family(family: "Family") -> dict[str, Any]:
    fields: dict[str, Any] = getattr(family.spec, "model_fields", {})
    keys = [field.alias or name for name, field in fields.items() if name != "kind"]
    about = (inspect.getdoc(family.spec) or "").split("\n\n")[0]
    return {"summary": about.replace("\n", " ").replace("``", ""), "keys": keys}


def _hardware(what: str) -> dict[str, dict[str, Any]]:
    """Entries of the catalogue, with where each figure is from."""
    from sim.scenario import catalog

    if what == "gpus":
        return {
            name: {
                "summary": f"{gpu.memory / catalog.GIB:,.1f} GiB; {gpu.source}",
                "memory_bytes": gpu.memory,
                "source": gpu.source,
            }
            for name, gpu in catalog.gpus().items()
        }
    return {
        name: {
            "summary": (
                f"{model.weights / 1e9:,.1f} GB of weights, "
                f"{model.kv_per_token:,.0f} B of KV per token; {model.source}"
            ),
            "weights_bytes": model.weights,
            "kv_bytes_per_token": model.kv_per_token,
            "source": model.source,
        }
        for name, model in catalog.models().items()
    }
