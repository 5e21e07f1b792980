"""``podsim validate``: check a scenario and say what it would run."""

import json
from pathlib import Path

import click

from sim.cli import ExitCode, Verb, options


@click.command("validate", cls=Verb)
@click.argument("file", type=options.PATH, required=False)
@options.settings
@click.option(
    "--theory",
    is_flag=True,
    help="Compare podsim with queueing theory; FILE is a folder, scenarios/theory when missing.",
)
@click.option(
    "--measured",
    is_flag=True,
    help="Compare podsim with what real engines did; FILE is a part: recordings, closed-loops, "
    "batches or swaps, all of them when missing.",
)
@click.option(
    "--schema",
    is_flag=True,
    help="Print the JSON schema of scenario files, with every kind that is installed; editors "
    "complete and check by it.",
)
@options.as_json()
def command(
    file: Path | None,
    settings: tuple[str, ...],
    theory: bool,
    measured: bool,
    schema: bool,
    as_json: bool,
) -> None:
    """Check the scenario FILE without running it; list every fault, or what would be run.

    With --theory run the scenarios of textbook queues through the whole stack,
    and compare with recursions on the same samples, request by request, then
    with formulas, by 99 % t intervals over seeds. One row per comparison;
    exit code 4, a bug in podsim, when a row is not within its bound.

    With --measured run what was recorded and measured on real GPUs, and compare;
    again exit code 4 when a bound does not hold.

    With --schema print what an editor needs, and nothing else:
    podsim validate --schema > schema.json.
    """
    if schema:
        if file is not None or theory or measured or settings:
            raise click.UsageError("--schema is about all scenarios: give nothing else")
        from sim.scenario.json_schema import json_schema, text

        click.echo(text(json_schema()), nl=False)
        return
    if measured and (theory or settings):
        raise click.UsageError("--measured is about its own data: give no --theory, no --set")
    if theory and settings:
        raise click.UsageError("--theory is about its scenarios as they are: give no --set")
    if measured or theory:
        from sim.cli.progress import waited
        from sim.core.registry import plugin

        report = plugin("podsim.validations", "measured" if measured else "theory")
        if not report(None if file is None else str(file), as_json, waited):
            raise click.exceptions.Exit(ExitCode.INVARIANT)
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    from sim.cli.description import as_text, describe
    from sim.scenario.load import load

    found = load(file, settings)
    click.echo(json.dumps(describe(found), indent=2) if as_json else as_text(found))
