"""``podsim run``: simulate a scenario and print its variants side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim.cli import Verb, options
from sim.cli.progress import reported_progress
from sim.cli.stored import DEFAULT_STORE

if TYPE_CHECKING:
    from sim.execution.runner import Runs
    from sim.timeline.excerpt import Excerpt
    from sim.timeline.timeline import Written

BEFORE_SWAP_S, AFTER_SWAP_S = 15, 45
"""What is worth seeing around a swap: a minute, mostly of what follows it."""


def _excerpt(_: click.Context, option: click.Parameter, text: str | None) -> "Excerpt | None":
    """The value of --timeline-window, if there is one."""
    if text is None:
        return None
    from sim.timeline.excerpt import Excerpt

    try:
        return Excerpt.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from None


@click.command("run", cls=Verb)
@click.argument("file", type=click.Path(path_type=Path))
@options.variants
@options.seed
@options.seeds("Run the seeds 1 to N, not the file's.")
@options.settings
@options.jobs("Worker processes; as many as cores when missing.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder of the results; {DEFAULT_STORE.as_posix()} when missing.",
)
@click.option("--no-store", is_flag=True, help="Write no results.")
@click.option(
    "--timeline",
    type=click.Path(path_type=Path),
    callback=options.ends_in(".json", ".gz"),
    metavar="FILE",
    help="Write a trace for ui.perfetto.dev; compressed if FILE ends in .gz. "
    "Several runs write FILE-<variant>-seed-<n> each.",
)
@click.option(
    *("--timeline-window", "excerpt"),
    callback=_excerpt,
    metavar="START..END",
    help="What the timeline shows, for instance 610s..11m; "
    "the first 60 s of the measured window when missing.",
)
@click.option(
    "--prometheus",
    type=click.Path(path_type=Path),
    callback=options.ends_in(".prom", ".txt"),
    metavar="FILE",
    help="Write the metrics of all runs as exposition text; see podsim export.",
)
@options.as_json("Print one JSON document, not the table.")
@click.option(
    "--check",
    is_flag=True,
    help="Verify every invariant, not only the cheap ones; with families of other packages also "
    "that a second run comes to the same.",
)
def command(
    file: Path,
    variants: tuple[str, ...],
    seed: int | None,
    seeds: int | None,
    settings: tuple[str, ...],
    jobs: int | None,
    out: Path | None,
    no_store: bool,
    timeline: Path | None,
    excerpt: "Excerpt | None",
    prometheus: Path | None,
    as_json: bool,
    check: bool,
) -> None:
    """Simulate every variant of the scenario FILE on the same workload; print them side by side.

    The seeds are those of FILE unless --seed or --seeds is given. Results and
    their order do not depend on --jobs. Each run is stored when it ends, so
    Ctrl-C, SIGTERM or a killed worker process costs only the runs in flight.

    A timeline shows steps and load of each pod, each request's way through
    queue, prefill and decode, placements, and sessions. It has at
    most 100,000 events, about 20 MB, and ends early where there would be
    more; what it covers is said on stderr.
    """
    chosen = options.chosen_seeds(seed, seeds, settings)
    if no_store and out is not None:
        raise click.UsageError("--no-store writes no results, --out says where: give only one")
    if excerpt is not None and timeline is None:
        raise click.UsageError("--timeline-window says what --timeline FILE shows: give both")
    from sim.cli.provenance import provenance
    from sim.execution.runner import available_jobs, run_set
    from sim.scenario.load import load

    scenarios = load(file, settings, variants=variants)
    if prometheus is not None:
        from sim.results.unfinished import check_writable

        check_writable("the metrics", prometheus)
    store = None if no_store else out or DEFAULT_STORE
    kept = None if store is None else f"finished runs are kept in {store}"
    with reported_progress(kept) as report:
        runs = run_set(
            scenarios,
            seeds=chosen,
            jobs=jobs or available_jobs(),
            check=check,
            store=store,
            progress=report,
            keep_tables=prometheus is not None,
            timeline=timeline,
            excerpt=excerpt,
            provenance=None if store is None else provenance(file),
        )
    if prometheus is not None:
        _write_metrics(runs, prometheus)
    _print(runs, store, as_json)


def _print(runs: "Runs", store: Path | None, as_json: bool) -> None:
    from sim.cli.table import as_document, render
    from sim.results.store import scenario_folder

    for written in runs.timelines:
        click.echo(_timeline_in_words(written), err=True)
    scenarios = runs.scenario
    if as_json:
        for warning in scenarios.warnings:
            click.echo(f"warning: {warning}", err=True)
        click.echo(as_document(runs))
    else:
        place = store and scenario_folder(store, scenarios.name, scenarios.scenario_hash)
        click.echo(render(runs, place))


def _write_metrics(runs: "Runs", path: Path) -> None:
    """Write what a scrape of each run would find."""
    from sim.export.prometheus import exposition, scraped, together
    from sim.results.unfinished import write_file

    scenarios = {
        scenario.variant: scenario.model_dump(mode="json", by_alias=True)
        for scenario in runs.scenario.variants
    }
    found = [scraped(run, scenarios[run.variant]) for run in runs.runs]
    write_file("the metrics", path, exposition(together(found)))


def _timeline_in_words(written: "Written") -> str:
    """What a timeline covers, whether that is less than asked for, and where there is a swap."""
    shown, swap_s = written.excerpt, written.swap_elsewhere_s
    text = (
        f"timeline {written.path}: {shown.start_s:,g} s to {shown.end_s:,g} s, "
        f"{written.events:,} events, {written.size_bytes / 1e6:.1f} MB"
    )
    if written.cut:
        text += "; cut there, more would be too large for viewers"
    if swap_s is not None:
        window = f"{max(0, int(swap_s) - BEFORE_SWAP_S)}s..{int(swap_s) + AFTER_SWAP_S}s"
        text += f"\n  no swap in it, one begins at {swap_s:,.1f} s: --timeline-window {window}"
    return text
