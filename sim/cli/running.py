"""Options of the verbs that simulate, and the progress of their runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sim.cli.chosen import MAX_SEEDS

if TYPE_CHECKING:
    from sim.execution.runner import OnProgress, Progress

EXECUTORS = ("processes", "dask")
SWEEPS: Final = Path("results", "sweeps")


def with_jobs(help_text: str) -> Callable[..., Any]:
    """The option --jobs."""
    return click.option("--jobs", type=click.IntRange(min=1), metavar="N", help=help_text)


def with_seeds(help_text: str, least: int = 1) -> Callable[..., Any]:
    """The option --seeds."""
    kind = click.IntRange(least, MAX_SEEDS)
    return click.option("--seeds", type=kind, metavar="N", help=help_text)


def where_to_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --jobs, --executor and --address to a verb."""
    for option in (
        click.option(
            "--address",
            metavar="URL",
            help="Scheduler of a Dask cluster that is there already, such as tcp://head:8786.",
        ),
        click.option(
            "--executor",
            type=click.Choice(EXECUTORS),
            default="processes",
            help="Who computes: processes of this machine, or dask: the cluster at --address, "
            "without one a cluster of --jobs processes here (needs pip install 'podsim[cluster]').",
        ),
        with_jobs("Processes on this machine; as many as cores when missing."),
    ):
        command = option(command)
    return command


@contextmanager
def reported_progress(kept: str | None, lines: bool = False) -> "Iterator[OnProgress]":
    """A callback that draws progress while stderr is a terminal, else writes ``lines``.

    When the work fails and some of its runs are done, the message ``kept`` is written.
    """
    from sim.cli.progress import note, progress_bar, progress_lines

    runs_done = 0
    try:
        with progress_bar() as bar:
            draw = bar or (progress_lines() if lines else lambda _: None)

            def report(progress: "Progress") -> None:
                nonlocal runs_done
                runs_done = progress.runs_done
                draw(progress)

            yield report
    except (Exception, KeyboardInterrupt):
        if kept and runs_done:
            note(kept)
        raise
