"""``podsim validate``: check a scenario and say what it would run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sim.cli import ExitCode

if TYPE_CHECKING:
    from sim.scenario.load import ScenarioSet
    from sim.scenario.schema import Scenario

DEFAULT_THEORY = Path("scenarios", "theory")


@click.command("validate")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    *("--set", "settings"),
    multiple=True,
    metavar="PATH=VALUE",
    help="Set a value of the file, as podsim run does (repeatable).",
)
@click.option(
    "--theory",
    is_flag=True,
    help=f"Compare podsim with queueing theory; FILE is a folder, {DEFAULT_THEORY.as_posix()} "
    "when missing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def command(file: Path | None, settings: tuple[str, ...], theory: bool, as_json: bool) -> None:
    """Check the scenario FILE without running it; list every fault, or what would be run.

    With --theory run the scenarios of textbook queues through the whole stack,
    and compare with recursions on the same samples, request by request, then
    with formulas, by 99 % t intervals over seeds. One row per comparison;
    exit code 4, a bug in podsim, when a row is not within its bound.
    """
    if theory:
        if settings:
            raise click.UsageError("--theory is about its scenarios as they are: give no --set")
        from sim.cli.theory import report

        if not report(DEFAULT_THEORY if file is None else file, as_json):
            raise click.exceptions.Exit(ExitCode.INVARIANT)
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
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
    backends = {}
    for name, backend in scenario.backends.items():
        engine = scenario.engines[backend.engine]
        backends[name] = {
            "policy": backend.policy.kind,
            "replicas": backend.replicas,
            "kv_tokens_per_pod": engine.kv_tokens(),
            "kv_derived": engine.kv_derived,
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
