"""``podsim validate``: check a scenario and say what it would run."""

import json
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from sim.cli import ExitCode

if TYPE_CHECKING:
    from sim.scenario.engine import Engine
    from sim.scenario.load import ScenarioSet
    from sim.scenario.schema import Scenario

STEP_TIME = ("stepTime", "stepTimeFrom")
WIDTH = 96
NO_BREAK = "\N{NO-BREAK SPACE}"
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
@click.option(
    "--measured",
    is_flag=True,
    help="Compare podsim with what real engines did; FILE is a part: recordings, closed-loops, "
    "batches or swaps, all of them when missing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def command(
    file: Path | None, settings: tuple[str, ...], theory: bool, measured: bool, as_json: bool
) -> None:
    """Check the scenario FILE without running it; list every fault, or what would be run.

    With --theory run the scenarios of textbook queues through the whole stack,
    and compare with recursions on the same samples, request by request, then
    with formulas, by 99 % t intervals over seeds. One row per comparison;
    exit code 4, a bug in podsim, when a row is not within its bound.

    With --measured run what was recorded and measured on real GPUs, and compare;
    again exit code 4 when a bound does not hold.
    """
    if measured:
        if theory or settings:
            raise click.UsageError("--measured is about its own data: give no --theory, no --set")
        from sim.cli import measured as comparison

        if not comparison.report(None if file is None else str(file), as_json):
            raise click.exceptions.Exit(ExitCode.INVARIANT)
        return
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
            "maximum_concurrency": _concurrency(engine),
            "engine": _engine(engine),
        }
    return {
        "variant": scenario.variant,
        "backends": backends,
        "workloads": {name: spec.kind for name, spec in scenario.workloads.items()},
    }


def _concurrency(engine: "Engine") -> dict[str, float] | None:
    room = engine.concurrency()
    if room is None:
        return None
    return asdict(room) | {"sequences": room.sequences, "ratio": room.ratio}


def _concurrency_line(room: dict[str, float]) -> str:
    sequences = f"{room['sequences']:,} sequence{'' if room['sequences'] == 1 else 's'}"
    return (
        f"    maximum concurrency {sequences} of {room['sequence_tokens']:,} tokens: each takes "
        f"{room['blocks_per_sequence']:,} of {room['kv_blocks_per_pod']:,} KV blocks, "
        f"ratio {room['ratio']:.2f}"
    )


def _engine(engine: "Engine") -> dict[str, Any]:
    """All settings in effect, those that the file leaves to podsim among them."""
    from sim.scenario.presets import sourced_step_time, weight_dtype

    step_time = sourced_step_time(engine)
    settings = engine.model_dump(by_alias=True, exclude={"step_time"}, exclude_none=True)
    if (stored := weight_dtype(engine)) is not None:
        settings["weightDtype"] = stored
    coefficients = step_time.coefficients.model_dump(exclude_defaults=True)
    return settings | {"stepTime": coefficients, "stepTimeFrom": step_time.origin}


def _engine_lines(engine: dict[str, Any]) -> list[str]:
    settings = {key: value for key, value in engine.items() if key not in STEP_TIME}
    found = (_pairs(settings), f"stepTime ({engine['stepTimeFrom']}): {_pairs(engine['stepTime'])}")
    lines = [wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False) for text in found]
    return [f"    {line.replace(NO_BREAK, ' ')}" for wrapped in lines for line in wrapped]


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}{NO_BREAK}{_shown(value)}" for key, value in values.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


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
            if backend["maximum_concurrency"] is not None:
                lines.append(_concurrency_line(backend["maximum_concurrency"]))
            lines += _engine_lines(backend["engine"])
        lines += [f"  workload {name}: {kind}" for name, kind in variant["workloads"].items()]
    lines += [f"warning: {warning}" for warning in found["warnings"]]
    return "\n".join(lines)
