"""``podsim explain``: where the time to the first token of stored requests went."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from sim.cli import Verb, options
from sim.cli.stored import named_runs, runs_begun
from sim.core.errors import UserError

if TYPE_CHECKING:
    from sim.plots.style import Format
    from sim.results.stored import StoredRun

DEFAULT_SLOWEST = 10


@click.command("explain", cls=Verb)
@click.argument("run", shell_complete=runs_begun)
@click.argument("requests", metavar="[REQUEST]...", nargs=-1, type=click.IntRange(min=0))
@click.option(
    "--slowest",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help=f"How many of the slowest requests to list; {DEFAULT_SLOWEST} when missing.",
)
@options.jobs("Worker processes for several runs; as many as cores when missing.")
@options.as_json("Print one JSON document, not the table.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw the mean parts of each variant, or those of each REQUEST, too: .svg, .png or .pdf.",
)
def command(
    run: str,
    requests: tuple[int, ...],
    slowest: int | None,
    jobs: int | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Say where the time to the first token went, where caches were and who decided.

    RUN is a stored run: a folder, or a name below results/runs such as
    quickstart or quickstart/bounded-ring/seed-1. Of several variants each is
    explained under its first seed: mean parts of TTFT over all requests and
    over the slowest 5 %, then the slowest. A REQUEST is a request_id of one
    run; everything about it is told. Runs are simulated once more for it and
    must come to the same digest.
    """
    if requests and slowest is not None:
        raise click.UsageError("--slowest lists the slowest, REQUEST says which: give only one")
    form = plot and options.figure_format(plot)
    runs = _chosen(run, requests)
    number = slowest or DEFAULT_SLOWEST
    documents = _explained(runs, requests, number, jobs)
    if not requests:
        _keep_slowest(documents, number)
    if plot and form:
        _draw(documents, bool(requests), plot, form)
    if as_json:
        click.echo(json.dumps({"runs": documents}, indent=2, allow_nan=False))
        return
    from sim.cli.explained import one_by_one, overview

    folders = {each.variant: quote(str(each.path)) for each in runs}
    click.echo(one_by_one(documents) if requests else overview(documents, folders))


def _draw(documents: list[dict[str, Any]], by_request: bool, place: Path, form: "Format") -> None:
    """Stacked bars of the parts of TTFT, of requests or of the means over all and the slowest."""
    import pandas as pd

    from sim.explain.kinds import PARTS
    from sim.plots.latency import ttft_parts
    from sim.plots.style import as_bytes, figure_of
    from sim.results.unfinished import write_whole

    bars: dict[str, dict[str, float]] = {}
    for each in documents:
        name = each["variant"] or each["scenario"]
        if by_request:
            bars |= {f"request {one['request_id']}": one["parts_s"] for one in each["requests"]}
        elif each["all"]["parts_s"]:
            bars[f"{name}, all"] = each["all"]["parts_s"]
            bars[f"{name}, slowest 5 %"] = each["slowest_5_percent"]["parts_s"]
    names = [part.name for part in PARTS]
    frame = pd.DataFrame.from_dict(bars, orient="index", columns=names)
    axes = ttft_parts(frame, names=[part.label for part in PARTS])
    write_whole(place, as_bytes(figure_of(axes), form))
    click.echo(f"drawn: {place}", err=True)


def _keep_slowest(documents: list[dict[str, Any]], number: int) -> None:
    """Of the slowest requests of each run only those that are among the slowest of all."""
    stories = [story for document in documents for story in document["requests"]]
    slowest = sorted(stories, key=lambda story: -story["ttft_s"])[:number]
    kept = {(story["variant"], story["request_id"]) for story in slowest}
    for document in documents:
        variant = document["variant"]
        document["requests"] = [
            story for story in document["requests"] if (variant, story["request_id"]) in kept
        ]


def _chosen(name: str, requests: tuple[int, ...]) -> "list[StoredRun]":
    """The runs that are meant: one, or the first seed of each variant of one scenario."""
    found = named_runs(name)
    scenarios = {run.scenario_hash: run for run in found}
    if len(scenarios) > 1:
        such = ", ".join(str(run.path.parent.parent) for run in list(scenarios.values())[:3])
        raise UserError(f"{name}: runs of {len(scenarios)} scenarios; name one of them, as {such}")
    first: dict[str, StoredRun] = {}
    for run in found:
        first.setdefault(run.variant, run)
    chosen = list(first.values())
    if requests and len(found) > 1:
        numbers = " ".join(str(request) for request in requests)
        raise UserError(
            f"{name}: {len(found)} runs, each with requests of its own; name one of them, as "
            f"podsim explain {chosen[0].path} {numbers}"
        )
    if len(found) > len(chosen):
        click.echo(
            f"{len(found)} runs; explained is the first seed of each variant, name another run "
            f"as {found[-1].path}",
            err=True,
        )
    return chosen


@dataclass(frozen=True)
class _Task:
    """One run to be explained, small enough to be sent to a worker process."""

    run: "StoredRun"
    requests: tuple[int, ...]
    slowest: int

    def __call__(self, on_tick: Callable[[float], None]) -> dict[str, Any]:
        from sim.explain.explanation import explain, slowest_of
        from sim.explain.request_report import document

        result = self.run.read()
        wanted = list(self.requests) or slowest_of(result, self.slowest)
        return document(explain(result, wanted, on_tick=on_tick), wanted)


def _explained(
    runs: "list[StoredRun]", requests: tuple[int, ...], slowest: int, jobs: int | None
) -> list[dict[str, Any]]:
    """The documents of the runs, under a progress bar."""
    from sim.cli.progress import progress_bar
    from sim.execution.parallel import run_all
    from sim.execution.runner import Progress, available_jobs

    tasks = [_Task(run, requests, slowest) for run in runs]
    ends_s = [float(run.manifest["facts"]["end_s"]) for run in runs]
    now_s = [0.0] * len(runs)
    done: set[int] = set()
    with progress_bar() as draw:

        def tick(index: int, time_s: float) -> None:
            now_s[index] = time_s
            if draw is not None:
                draw(Progress(len(done), len(runs), sum(now_s), sum(ends_s)))

        def ended(index: int, _: Any) -> None:
            done.add(index)
            tick(index, ends_s[index])

        return run_all(tasks, jobs or available_jobs(), ended, tick)
