"""``podsim find``: bisect one parameter of a scenario for a target."""

import json
from pathlib import Path

import click

from sim.cli import ExitCode, Verb, options


def _only(_: click.Context, __: click.Parameter, varied: tuple[str, ...]) -> str:
    """The value of --vary; with several ``Verb`` could not say what to do instead."""
    if len(varied) > 1:
        raise click.UsageError(
            f"--vary: find varies one parameter, here {' and '.join(varied)} are given; fix the "
            "others with --set PATH=VALUE, or see all combinations with podsim sweep --grid"
        )
    return varied[0]


@click.command("find", cls=Verb)
@click.argument("file", metavar="SCENARIO", type=click.Path(path_type=Path))
@click.option(
    "--vary",
    required=True,
    multiple=True,
    callback=_only,
    metavar="PATH=FROM..TO",
    help="The parameter and its range: backends.qwen.replicas=1..32, workloads.coding.agents="
    "16..1024, pools.gpu.members.large.load=10s..10m; or its values: engines.x.tensorParallel="
    "2,4,8.",
)
@click.option(
    "--target",
    "targets",
    required=True,
    multiple=True,
    metavar="FIGURE",
    help="A figure of the summary with <=, <, >= or >: 'ttft_s.p95 <= 2.5', "
    "'slo_attainment >= 0.95', 'error_ratio < 0.01' (repeatable: all are to hold).",
)
@click.option(
    "--tolerance",
    metavar="STEP",
    help="How near the answer is to be: 1 for whole numbers, about a hundredth of the range for "
    "others when missing.",
)
@options.seeds("Begin with the seeds 1 to N, not the file's; an interval takes two.", least=2)
@click.option(
    "--max-seeds",
    type=click.IntRange(2, options.MAX_SEEDS),
    default=20,
    show_default=True,
    metavar="N",
    help="How many seeds at most, where an interval straddles the target.",
)
@options.variants
@options.settings
@options.where_to_run
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=options.SWEEPS,
    metavar="DIR",
    help=f"Where finished runs are kept; {options.SWEEPS.as_posix()} when missing.",
)
@options.as_json("Print one JSON document, not text.")
def command(
    file: Path,
    vary: str,
    targets: tuple[str, ...],
    tolerance: str | None,
    seeds: int | None,
    max_seeds: int,
    variants: tuple[str, ...],
    settings: tuple[str, ...],
    jobs: int | None,
    executor: str,
    address: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Find the smallest, or largest, value of a parameter of SCENARIO that meets all targets.

    The ends of the range tell which way helps; then the range is bisected, for
    each variant on its own. At each value the mean over the seeds and its 95 %
    t interval are set against the target: it is met when all of the interval
    meets it, missed when none does. In between more seeds are tried, up to
    --max-seeds; what is still undecided then is said. A time that is null, since
    too many requests had not got that far at the end, or none ever did, misses
    any target; so does a percentile of those served where more were refused, broke
    off or gave up than it leaves room for, 5 % for p95 and for a mean. A figure of
    nothing, as of holds where a pool held nobody, can be set against none: the
    search for that variant ends there and says so. Values between the ends that
    cannot be run are skipped. Finished runs are kept, so that another target, or
    more seeds, cost only what is missing.

    \b
    Exit codes beside those of podsim: 0 when every variant has its answer, 1
    when one has none: both ends meet the target, or miss it, or it is undecided;
    3 when one has none only since a value could not be measured.
    """
    from sim.cli.findings import as_document, render
    from sim.sweep.executors import executor_factory
    from sim.sweep.search import find

    answers = find(
        file,
        vary,
        list(dict.fromkeys(targets)),
        tolerance=tolerance,
        variants=variants,
        seeds=options.chosen_seeds(None, seeds, settings),
        max_seeds=max_seeds,
        settings=settings,
        store=out,
        opened=executor_factory(executor, jobs, address),
        on_message=lambda text: click.echo(text, err=True),
    )
    click.echo(json.dumps(as_document(answers), indent=2) if as_json else render(answers))
    missing = {answer.status for answer in answers} - {"found"}
    if missing:
        measured = missing != {"unmeasured"}
        raise click.exceptions.Exit(ExitCode.REGRESSION if measured else ExitCode.NOT_COMPARABLE)
