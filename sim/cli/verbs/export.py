"""``podsim export``: stored runs in the formats of other programs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sim.cli import Verb, options
from sim.cli.stored import named_runs, runs_begun
from sim.core.errors import UserError
from sim.core.text import counted

if TYPE_CHECKING:
    from sim.export.prometheus import Scraped
    from sim.results.stored import StoredRun


def _folder(_: click.Context, option: click.Parameter, folder: Path | None) -> Path | None:
    """The value of --csv: a folder, since a run has several tables."""
    if folder is not None and folder.suffix.lower() == ".csv":
        message = f"{folder}: must be a folder, which gets a file for each table"
        raise click.BadParameter(message, param=option)
    return folder


@click.command("export", cls=Verb)
@click.argument("run", metavar="RUN", shell_complete=runs_begun)
@click.option(
    "--prometheus",
    type=click.Path(path_type=Path),
    callback=options.ends_in(".prom", ".txt"),
    metavar="FILE",
    help="Write exposition text, as a scrape at the end of the window finds it: "
    "llmkube_router_*, llmkube_modelpool_*, vllm:* (llamacpp:* of llama-server).",
)
@click.option(
    *("--csv", "folder"),
    type=click.Path(path_type=Path),
    callback=_folder,
    metavar="FOLDER",
    help="Write every table as CSV into a new folder, or one of a former export.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    callback=options.ends_in(".jsonl", ".ndjson", ".gz"),
    metavar="FILE",
    help="Write the requests of one run (gzipped if FILE ends in .gz) and FILE.yaml, "
    "a scenario that replays them to the same tables.",
)
@click.option(
    "--trace-arrivals",
    type=click.Choice(["closed-loop", "fixed"]),
    help="Whether replayed agents wait for their answers again (closed-loop, when missing), "
    "or send when they did.",
)
@options.as_json("Print one JSON document, not the table.")
def command(
    run: str,
    prometheus: Path | None,
    folder: Path | None,
    trace: Path | None,
    trace_arrivals: Any,
    as_json: bool,
) -> None:
    """Write stored runs in formats of other programs.

    RUN is a folder of results, or a name below results/runs: a scenario (its
    newest results), or quickstart/bounded-ring/seed-1. --prometheus and --csv
    take all its runs, told apart by labels or folders; --trace takes one.

    With --prometheus a table shows what a dashboard would make of each
    histogram beside the exact percentiles: all it knows is how many values
    lie between two buckets. Counters and histograms cover the whole run,
    warm-up included; podsim's summaries cover the window.

    A trace is replayed before it is written. What it cannot say is refused.
    """
    if prometheus is folder is trace is None:
        raise click.UsageError(
            "nothing to write: give --prometheus FILE, --csv FOLDER, --trace FILE, or several"
        )
    if trace_arrivals is not None and trace is None:
        raise click.UsageError("--trace-arrivals says how --trace FILE is replayed: give both")
    runs = named_runs(run)
    if trace is not None and len(runs) > 1:
        raise click.UsageError(_which(runs))
    _check_told_apart(runs, prometheus is not None)
    _check_places(prometheus, folder)
    document: dict[str, Any] = {"runs": [_named(each) for each in runs]}
    if prometheus is not None:
        document["percentiles"] = _prometheus(runs, prometheus, as_json)
    if folder is not None:
        document["csv"] = _csv(runs, folder)
    if trace is not None:
        document["trace"] = _trace(runs[0], trace, trace_arrivals or "closed-loop")
    if as_json:
        click.echo(json.dumps(document, indent=2, allow_nan=False))


def _which(runs: Sequence["StoredRun"]) -> str:
    named = [str(run.path) for run in runs]
    shown = "\n  ".join(named[:10])
    more = f"\n  and {len(named) - 10} more" if len(named) > 10 else ""
    return f"--trace takes one run, and these are {len(named)}; name one of them:\n  {shown}{more}"


def _named(run: "StoredRun") -> dict[str, Any]:
    return {
        "scenario": run.scenario,
        "variant": run.variant,
        "seed": run.seed,
        "digest": run.digest,
    }


def _check_told_apart(runs: Sequence["StoredRun"], by_labels: bool) -> None:
    """Refuse runs of which one would stand in the place of another; labels know no hashes."""
    first: dict[tuple[str, str, str, int], StoredRun] = {}
    for run in runs:
        place = "" if by_labels else run.scenario_hash
        other = first.setdefault((run.scenario, place, run.variant, run.seed), run)
        if other is not run:
            raise UserError(
                f"{other.path} and {run.path} would be one in what is written: they have the same "
                f"scenario{'' if by_labels else ', hash'}, variant and seed; name one of them"
            )


def _check_places(prometheus: Path | None, folder: Path | None) -> None:
    """Refuse before anything is written; a trace is refused where it is made."""
    from sim.export.files import ENDING, check_replaceable
    from sim.results.unfinished import check_writable

    if prometheus is not None:
        check_writable("the metrics", prometheus)
    if folder is not None:
        check_replaceable("the tables", folder, ENDING)


def _prometheus(runs: Sequence["StoredRun"], path: Path, as_json: bool) -> list[dict[str, Any]]:
    """Write the text, print what dashboards would show; returns that as JSON has it."""
    from sim.cli.dashboard import render
    from sim.cli.progress import watched
    from sim.export.prometheus import (
        exposition,
        percentiles,
        percentiles_by_series,
        scraped,
        together,
    )
    from sim.results.unfinished import write_file

    found = [scraped(run.read(), run.manifest["scenario"]) for run in watched(runs, "runs")]
    write_file("the metrics", path, exposition(together(found)))
    click.echo(f"metrics of {counted(len(runs), 'run')}: {path}", err=True)
    rows = [percentiles(each.families) for each in found]
    if not as_json:
        click.echo(render(list(zip(map(_title, found), rows, strict=True))))
    return [
        {"variant": each.facts.variant, "seed": each.facts.seed, **row.plain}
        for each, added in zip(found, rows, strict=True)
        for row in (*added, *percentiles_by_series(each.families))
    ]


def _title(run: "Scraped") -> str:
    scenario, variant, seed = run.labels
    return " ".join(filter(None, (scenario, variant, f"seed {seed}")))


def _csv(runs: Sequence["StoredRun"], folder: Path) -> str:
    """Write the tables, of several runs each in folders as results are stored in."""
    from sim.cli.progress import note, watched
    from sim.export.files import csv_files, formulas, write_folder
    from sim.results.store import folder as folder_of

    files: dict[str, bytes] = {}
    for run in watched(runs, "runs"):
        result = run.read()
        place = Path()
        if len(runs) > 1:
            place = folder_of(Path(), result.facts, run.scenario_hash)
        for name, content in csv_files(result.tables).items():
            files[str(place / name)] = content
        for where in formulas(result.tables):
            note(f"note: spreadsheets may take texts for formulas: {where}")
    write_folder("the tables", folder, files)
    click.echo(f"tables of {counted(len(runs), 'run')}: {folder}", err=True)
    return str(folder)


def _trace(run: "StoredRun", path: Path, arrivals: Any) -> dict[str, Any]:
    """Write the trace and its scenario."""
    from sim.export.trace import export_trace

    click.echo("replaying the trace ...", err=True)
    written = export_trace(run, path, arrivals)
    click.echo(
        f"trace of {written.requests:,} requests: {written.path}\n"
        f"replayed to the same tables by: podsim run {written.scenario}",
        err=True,
    )
    return {
        "file": str(written.path),
        "scenario": str(written.scenario),
        "arrivals": arrivals,
        "requests": written.requests,
    }
