"""The options of verbs whose runs may go to a cluster, and where they are kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

EXECUTORS = ("processes", "dask")
SWEEPS: Final = Path("results", "sweeps")


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
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Processes on this machine; as many as cores when missing.",
        ),
    ):
        command = option(command)
    return command
