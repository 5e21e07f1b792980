"""``podsim run``: simulate a scenario and print its variants side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sim.runner import Runs

DEFAULT_STORE = Path("results", "runs")
MAX_SEED = 2**63 - 1
MAX_SEEDS = 10_000


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    *("--variant", "variants"), multiple=True, metavar="NAME", help="Run this variant (repeatable)."
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Run one seed, not the file's."
)
@click.option(
    "--seeds",
    type=click.IntRange(1, MAX_SEEDS),
    metavar="N",
    help="Run the seeds 1 to N, not the file's.",
)
@click.option(
    *("--set", "settings"),
    multiple=True,
    metavar="PATH=VALUE",
    help="Set a value of the file, for instance engines.x.maxNumSeqs=256 (repeatable).",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Worker processes; as many as cores when missing.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder of the results; {DEFAULT_STORE.as_posix()} when missing.",
)
@click.option("--no-store", is_flag=True, help="Write no results.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, not the table.")
@click.option("--check", is_flag=True, help="Verify every invariant, not only the cheap ones.")
def command(
    file: Path,
    variants: tuple[str, ...],
    seed: int | None,
    seeds: int | None,
    settings: tuple[str, ...],
    jobs: int | None,
    out: Path | None,
    no_store: bool,
    as_json: bool,
    check: bool,
) -> None:
    """Simulate every variant of the scenario FILE on the same workload; print them side by side.

    The seeds are those of FILE unless --seed or --seeds is given. Results and
    their order do not depend on --jobs.
    """
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed runs one seed, --seeds N the seeds 1 to N: give only one")
    if seed is not None and seed > MAX_SEED:
        raise click.BadParameter(f"{seed} is not in the range up to 2^63 - 1", param_hint="--seed")
    if no_store and out is not None:
        raise click.UsageError("--no-store writes no results, --out says where: give only one")
    from sim.cli.progress import progress_bar
    from sim.cli.table import render
    from sim.runner import available_jobs, run_set
    from sim.scenario.load import load

    scenarios = load(file, settings, variants=variants)
    store = None if no_store else out or DEFAULT_STORE
    try:
        with progress_bar() as progress:
            runs = run_set(
                scenarios,
                seeds=chosen_seeds(seed, seeds),
                jobs=jobs or available_jobs(),
                check=check,
                store=store,
                progress=progress,
                keep_tables=False,
            )
    except KeyboardInterrupt:
        if store is not None:
            click.echo(f"finished runs are kept in {store}", err=True)
        raise
    if as_json:
        for warning in scenarios.warnings:
            click.echo(f"warning: {warning}", err=True)
        click.echo(as_document(runs))
    else:
        click.echo(render(runs, _results_folder(runs, store)))


def chosen_seeds(seed: int | None, seeds: int | None) -> tuple[int, ...] | None:
    """The seeds that the command line asks for; None leaves them to the file."""
    if seed is not None:
        return (seed,)
    return None if seeds is None else tuple(range(1, seeds + 1))


def _results_folder(runs: "Runs", store: Path | None) -> Path | None:
    """The folder that holds the folders of all variants."""
    if store is None:
        return None
    from sim.results.store import folder

    return folder(store, runs.runs[0].facts, runs.scenario.scenario_hash).parents[1]


def as_document(runs: "Runs") -> str:
    """The JSON document for machines; unknown figures are null, keys are sorted."""
    document: dict[str, Any] = {
        "scenario": runs.scenario.name,
        "runs": [
            {
                "variant": run.variant,
                "seed": run.seed,
                "digest": run.digest,
                "summary": run.summary,
                "warnings": list(run.warnings),
            }
            for run in runs.runs
        ],
        "comparison": runs.comparison,
    }
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False)
