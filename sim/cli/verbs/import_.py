"""``podsim import``: manifests of LLMKube become a scenario."""

from pathlib import Path

import click

from sim.cli import Verb, options
from sim.core.errors import Fault, ScenarioError, UserError

UNWRITTEN = "scenario"


@click.command("import", cls=Verb)
@click.argument("files", type=options.PATH, nargs=-1, required=True)
@click.option(
    *("-o", "--output"),
    type=options.PATH,
    callback=options.ends_in(".yaml", ".yml"),
    help="Write the scenario to this file; stdout when missing.",
)
@click.option("--gpu", metavar="NAME", help="The GPU of all pods, whatever node labels say.")
@click.option(
    *("--model", "models"),
    multiple=True,
    metavar="SERVICE=NAME",
    help="The model of a service, whatever its manifest says; may be given for several.",
)
@click.option(
    "--assume",
    is_flag=True,
    help="Make up what manifests do not say (services, models, GPUs), and say so.",
)
@click.option(
    "--workload",
    type=options.PATH,
    metavar="FILE",
    help="A scenario file whose workloads (window, seeds, slo, events) are taken.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def command(
    files: tuple[Path, ...],
    output: Path | None,
    gpu: str | None,
    models: tuple[str, ...],
    assume: bool,
    workload: Path | None,
    force: bool,
) -> None:
    """Turn ModelRouter, ModelPool, InferenceService and Model objects into a scenario.

    FILES are YAML manifests, each with one object or several. What would change
    a run and is not modelled is listed, field by field; what would not, in one
    line. Without --workload each rule gets a small workload that stands in for
    the real one.
    """
    if output is not None and output.exists() and not force:
        raise UserError(f"{output} exists; --force overwrites it")
    from sim.core.registry import plugin

    texts = _read(files)
    traffic = None if workload is None else _read((workload,))[0]
    importer = plugin("podsim.importers", "llmkube")
    imported = importer(texts, gpu, _by_service(models), assume, traffic)
    for note in imported.notes:
        click.echo(str(note), err=True)
    if output is None:
        click.echo(imported.scenario, nl=False)
    else:
        from sim.results.unfinished import write_whole

        write_whole(output, imported.scenario.encode())
    is_complete = _is_complete(imported.scenario, output)
    if output is not None:
        then = "Run it with: podsim run" if is_complete else "Complete it with: podsim validate"
        click.echo(f"Wrote {output}. {then} {output}")


def _by_service(models: tuple[str, ...]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for text in models:
        service, given, name = text.partition("=")
        if not (service and given and name):
            raise UserError(f"--model: must be SERVICE=NAME; got {text!r}")
        if chosen.setdefault(service, name) != name:
            raise UserError(f"--model: {service} has two models, {chosen[service]} and {name}")
    return chosen


def _read(files: tuple[Path, ...]) -> list[tuple[str, str]]:
    """Return name and text of each file; raises ``ScenarioError`` that names all it cannot read."""
    from sim.core.textfile import read_text

    found: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for file in files:
        try:
            found.append((str(file), read_text(file)))
        except ScenarioError as error:
            faults += error.faults
    if faults:
        raise ScenarioError(faults)
    return found


def _is_complete(scenario: str, output: Path | None) -> bool:
    """Whether the scenario can be run as it is; if not, print its faults."""
    from sim.scenario.load import load_text

    source = UNWRITTEN if output is None else str(output)
    directory = Path() if output is None else output.parent
    try:
        loaded = load_text(scenario, source, directory=directory)
    except ScenarioError as error:
        click.echo(f"{error}\nthe scenario cannot be run before this is mended", err=True)
        return False
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return True
