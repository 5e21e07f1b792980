"""``podsim compare``: whether one set of stored runs is better or worse than another."""

from pathlib import Path

import click

from sim.cli import Verb, options
from sim.cli.stored import runs_begun


@click.command("compare", cls=Verb)
@click.argument("base", shell_complete=runs_begun)
@click.argument("new", required=False, shell_complete=runs_begun)
@click.option("--exact", is_flag=True, help="Ask for the same tables to the bit.")
@click.option(
    "--across",
    is_flag=True,
    help="Compare scenarios that differ; that both have the same workload is your word.",
)
@click.option("--all", "everything", is_flag=True, help="Show every metric.")
@options.judged_output
def command(
    base: str,
    new: str | None,
    exact: bool,
    across: bool,
    strict: bool,
    everything: bool,
    form: str,
    as_json: bool,
    outputs: tuple[Path, ...],
) -> None:
    """Compare the stored runs BASE and NEW: better, same, worse, inconclusive or not comparable.

    Each is a folder, or the name of a scenario below results/runs, which may go
    on with a variant and a seed: quickstart/bounded-ring. Variants are paired by
    name and runs by seed; a folder with several scenarios is compared scenario
    by scenario. Two names with one variant each compare these variants. Without
    NEW the variants of BASE are compared with the first of them.

    Primary metrics decide; how each is judged and within which margin says
    podsim list metrics.

    \b
    Exit codes: 0 nothing worse (inconclusive too, unless --strict), 1 worse, or
    different with --exact, 2 bad input, 3 not comparable and nothing worse.
    """
    from sim.cli.compared import exit_code, named_sides, rendered
    from sim.comparison.report import report, variants_report
    from sim.results.unfinished import write_whole

    if as_json and form not in ("text", "json"):
        raise click.UsageError(f"--json prints JSON, --format {form} does not: give only one")
    bases = named_sides(base)
    if new is None:
        found = variants_report(base, bases, exact=exact, across=across)
    else:
        found = report(base, new, bases, named_sides(new), exact=exact, across=across)
    for path in outputs:
        text = rendered(found, options.FORMATS[path.suffix.lower()], everything)
        write_whole(path, f"{text}\n".encode())
    click.echo(rendered(found, "json" if as_json else form, everything))
    raise click.exceptions.Exit(exit_code(found.verdict, strict))
