"""``podsim report``: one HTML file about stored runs."""

from pathlib import Path

import click

from sim.cli import Verb, options
from sim.cli.stored import named_runs, runs_begun
from sim.core.errors import UserError


@click.command("report", cls=Verb)
@click.argument("names", metavar="RUN...", nargs=-1, required=True, shell_complete=runs_begun)
@click.option(
    *("-o", "--output"),
    type=click.Path(path_type=Path, dir_okay=False),
    callback=options.ends_in(".html", ".htm"),
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="Where to write the page; a file that is there is replaced.",
)
@click.option("--title", metavar="TEXT", help="Heading; the scenario's name when missing.")
def command(names: tuple[str, ...], output: Path, title: str | None) -> None:
    """Write a page about stored runs: question, answer, figures, where they come from.

    RUN is a folder or the name of a scenario below results/runs, which may go
    on with a variant and a seed. Runs of several scenarios get a section each.
    The page is one file that loads nothing, for any browser, phone or printer.
    """
    if not output.parent.is_dir():
        raise UserError(f"{output}: there is no folder {output.parent}")
    from sim.cli.progress import busy
    from sim.report.page import report
    from sim.results.unfinished import write_whole

    runs = [run for name in names for run in named_runs(name)]
    with busy(f"drawing {len(runs)} runs"):
        page = report(runs, title).encode()
    try:
        write_whole(output, page)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"{output}: {len(page) / 1e6:.2f} MB", err=True)
