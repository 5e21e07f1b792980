"""``podsim validate``: check a scenario and say what it would run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sim.scenario.load import ScenarioSet
    from sim.scenario.schema import Scenario


@click.command("validate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    *("--set", "settings"),
    multiple=True,
    metavar="PATH=VALUE",
    help="Set a value of the file, as podsim run does (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def command(file: Path, settings: tuple[str, ...], as_json: bool) -> None:
    """Check the scenario FILE without running it; list every fault, or what would be run."""
    from sim.scenario.load import load

    found = _describe(load(file, settings))
    click.echo(json.dumps(found, indent=2) if as_json else _as_text(found))


def _describe(scenarios: "ScenarioSet") -> dict[str, Any]:
    return {
        "scenario": scenarios.name,
        "scenario_hash": scenarios.scenario_hash,
        "seeds": list(scenarios.seeds),
        "variants": [_variant(variant) for variant in scenarios.variants],
        "warnings": list(scenarios.warnings),
    }


def _variant(scenario: "Scenario") -> dict[str, Any]:
    from sim.scenario.catalog import kv_blocks

    backends = {}
    for name, backend in scenario.backends.items():
        engine = scenario.engines[backend.engine]
        backends[name] = {
            "policy": backend.policy.kind,
            "replicas": backend.replicas,
            "kv_tokens_per_pod": kv_blocks(engine) * engine.block_size,
            "kv_derived": engine.kv_blocks is None,
        }
    return {
        "variant": scenario.variant,
        "backends": backends,
        "workloads": {name: spec.kind for name, spec in scenario.workloads.items()},
    }


def _as_text(found: dict[str, Any]) -> str:
    seeds = ", ".join(map(str, found["seeds"]))
    runs = len(found["variants"]) * len(found["seeds"])
    lines = [
        f"{found['scenario']}: no faults",
        f"seeds {seeds}; {runs} run{'s' if runs > 1 else ''} in all",
    ]
    for variant in found["variants"]:
        lines.append(f"variant {variant['variant']}" if variant["variant"] else "no variants")
        for name, backend in variant["backends"].items():
            origin = "derived" if backend["kv_derived"] else "given"
            lines.append(
                f"  backend {name}: {backend['replicas']} x {backend['policy']}, "
                f"{backend['kv_tokens_per_pod']:,} KV tokens per pod ({origin})"
            )
        lines += [f"  workload {name}: {kind}" for name, kind in variant["workloads"].items()]
    lines += [f"warning: {warning}" for warning in found["warnings"]]
    return "\n".join(lines)
