"""``podsim sweep``: simulate many points of a scenario, into one table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim.cli import ExitCode, Verb, options
from sim.cli.progress import reported_progress

if TYPE_CHECKING:
    from sim.sweep.sweep import Sweep

MAX_POINTS = 100_000
MAX_RETRIES = 10
KEPT = "finished runs are kept; the same command makes the missing ones"


@click.command("sweep", cls=Verb)
@click.argument("file", metavar="SCENARIO", type=click.Path(path_type=Path))
@click.option(
    "--grid",
    multiple=True,
    metavar="PATH=VALUES",
    help="A range with its step, backends.qwen.replicas=4..16..2 or window.warmup=1m..10m..3m "
    "(1..32 goes by one), or a list, workloads.coding.agents=64,96,128 (repeatable: every value "
    "with every other). What variants say is swept in one of them: --variant bounded-ring --grid "
    "variants.bounded-ring.backends.qwen.policy.maxLoadPercent=110..150..10.",
)
@click.option(
    "--log",
    multiple=True,
    metavar="PATH=FROM..TO..POINTS",
    help="Points at equal ratios: workloads.coding.agents=16..1024..7; whole numbers stay whole "
    "(repeatable).",
)
@click.option(
    "--random",
    multiple=True,
    metavar="PATH=VALUES",
    help="Draw from an interval, backends.qwen.replicas=1..32 or slo.ttft=1s..5s, or from a list, "
    "a,b,c (repeatable: drawn together, --points times; every draw with the whole grid).",
)
@click.option(
    "--points",
    type=click.IntRange(1, MAX_POINTS),
    metavar="N",
    help="How many random points; of a short range some are drawn twice.",
)
@click.option(
    "--sweep-seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="S",
    help="Of the random points; the same seed, the same points.",
)
@options.seed
@options.seeds("Run the seeds 1 to N at each point, not the file's.")
@options.variants
@options.settings
@options.where_to_run
@click.option(
    "--retries",
    type=click.IntRange(0, MAX_RETRIES),
    default=1,
    show_default=True,
    metavar="N",
    help="How often a run that failed is tried again.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder of all sweeps; {options.SWEEPS.as_posix()} when missing.",
)
@click.option(
    *("-o", "--table"),
    type=click.Path(dir_okay=False, path_type=Path),
    callback=options.ends_in(".parquet", ".csv"),
    metavar="FILE",
    help="Where the table goes, .parquet or .csv; table.parquet in the folder of the sweep when "
    "missing.",
)
@options.as_json("Print one JSON document, not the summary.")
def command(
    file: Path,
    grid: tuple[str, ...],
    log: tuple[str, ...],
    random: tuple[str, ...],
    points: int | None,
    sweep_seed: int,
    seed: int | None,
    seeds: int | None,
    variants: tuple[str, ...],
    settings: tuple[str, ...],
    jobs: int | None,
    executor: str,
    address: str | None,
    retries: int,
    out: Path | None,
    table: Path | None,
    as_json: bool,
) -> None:
    """Simulate SCENARIO at many points: every variant, under every seed, at each of them.

    All points are checked before the first one runs. Each finished run is kept
    at once in results/sweeps/<scenario>-<hash of the design>/; the same command
    makes only what is missing there, so Ctrl-C, a full disk or a lost machine
    costs the runs in flight, and more --seeds or variants cost only themselves.

    The table has one row per run in the order of the design, whoever computed
    it and however often it was interrupted, with a column for each swept value
    and each figure; in Python, sim.sweep.read(FOLDER).

    \b
    Exit codes beside those of podsim: 70 when runs have failed (4 when one
    broke an invariant). Their rows say so; the same command tries them again.
    """
    if bool(random) != (points is not None):
        raise click.UsageError("--random says what is drawn, --points N how often: give both")
    from sim.cli.progress import note
    from sim.sweep.executors import executor_factory
    from sim.sweep.runs import TABLE
    from sim.sweep.sweep import run

    with reported_progress(KEPT, lines=True) as report:
        found = run(
            file,
            grid=grid,
            log=log,
            random=random,
            points=points or 0,
            sweep_seed=sweep_seed,
            variants=variants,
            seeds=options.chosen_seeds(seed, seeds, settings),
            settings=settings,
            retries=retries,
            store=out or options.SWEEPS,
            table_file=table,
            opened=executor_factory(executor, jobs, address),
            on_message=note,
            progress=report,
        )
    _print(found, table or found.folder / TABLE, as_json)


def _print(found: "Sweep", place: Path, as_json: bool) -> None:
    """Print the sweep and its failures; exit with their code."""
    from sim.cli.sweeps import as_document, failures, render

    click.echo(json.dumps(as_document(found, place), indent=2) if as_json else render(found, place))
    for line in failures(found):
        click.echo(line, err=True)
    if found.failed:
        is_bug = any(failed.is_bug for _, _, failed in found.failed)
        raise click.exceptions.Exit(ExitCode.INVARIANT if is_bug else ExitCode.INTERNAL)
