"""``podsim baseline``: results that are kept with the code, and whether it still gives them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from sim.baseline.folders import BASELINES, SCENARIOS, Folders
from sim.cli import Verb, options

if TYPE_CHECKING:
    from sim.baseline.baseline import Baseline
    from sim.comparison.report import Report

CHANGELOG: Final = Path("CHANGELOG.md")

Command = Callable[..., None]
Found = TypeVar("Found")


def _shared(function: Command) -> Command:
    """The argument and the options that both verbs have."""
    folder = click.Path(file_okay=False, path_type=Path)
    for add in (
        click.option(
            *("--changelog",),
            type=click.Path(dir_okay=False, path_type=Path),
            default=CHANGELOG,
            metavar="FILE",
            help=f"Where the reasons are; {CHANGELOG} when missing.",
        ),
        click.option("--no-changelog", is_flag=True, help="Ask for no reasons."),
        options.jobs("Worker processes; as many as cores when missing."),
        click.option(
            "--baselines",
            type=folder,
            default=BASELINES,
            metavar="DIR",
            help=f"Folder of the baselines; {BASELINES.as_posix()} when missing.",
        ),
        click.option(
            "--scenarios",
            type=folder,
            default=SCENARIOS,
            metavar="DIR",
            help=f"Folder of the scenarios; {SCENARIOS.as_posix()} when missing.",
        ),
        click.argument("names", nargs=-1, metavar="[SCENARIO]..."),
    ):
        function = add(function)
    return function


@click.group("baseline")
def command() -> None:
    """Keep results with the code, and see whether the code still gives them.

    For every scenario of a folder there is a small file with the figures of
    each variant under each seed. update writes it, check runs the scenario and
    compares.
    """


@command.command("update", cls=Verb)
@_shared
def update(
    names: tuple[str, ...],
    scenarios: Path,
    baselines: Path,
    jobs: int | None,
    changelog: Path,
    no_changelog: bool,
) -> None:
    """Run scenarios and keep what comes out.

    All of the folder when none is named. A baseline is replaced when all runs of
    its scenario are done, and only when anything but the versions has changed.
    The changelog must say why, in one line for each; the lines are printed.
    """
    from sim.baseline.files import measured, missing, places, store, stored_if_readable

    found = places(scenarios, baselines)
    written: list[Baseline] = []
    for place in found.chosen(names):
        fresh = _watched(partial(measured, place.scenarios), jobs)
        before = stored_if_readable(place.baseline)
        if before is not None and before.fingerprint == fresh.fingerprint:
            click.echo(f"{place.name}: unchanged")
        else:
            store(fresh, place.baseline)
            click.echo(f"{place.name}: {place.baseline} {_what(before, fresh)}")
        written.append(fresh)
    for file in found.stale:
        click.echo(f"note: {file} has no scenario in {scenarios}; delete it", err=True)
    lines = [] if no_changelog else missing(written, changelog)
    if lines:
        click.echo("\n".join(["", f"{changelog} must say why, in lines like these:", *lines]))


@command.command("check", cls=Verb)
@_shared
@options.judged_output
def check(
    names: tuple[str, ...],
    scenarios: Path,
    baselines: Path,
    jobs: int | None,
    changelog: Path,
    no_changelog: bool,
    strict: bool,
    form: str,
    as_json: bool,
    outputs: tuple[Path, ...],
) -> None:
    """Run scenarios and compare with their baselines.

    All of the folder when none is named. Runs that are the same to the bit are
    identical; where they are not, figures are compared over the seeds as podsim
    compare does. What is not shown to be worse passes, and it is said that the
    baseline is out of date.

    \b
    Exit codes: 0 nothing worse (inconclusive too, unless --strict), 1 worse,
    2 bad input, or a baseline that the changelog does not explain, 3 not
    comparable and nothing worse: a scenario without a baseline, a baseline
    without a scenario, or one of an edited scenario.
    """
    from sim.baseline.checking import check as compared
    from sim.baseline.checking import checked
    from sim.baseline.files import demand, places, stored
    from sim.cli.compared import exit_code
    from sim.results.unfinished import write_whole

    if as_json and form not in ("text", "json"):
        raise click.UsageError(f"--json prints JSON, --format {form} does not: give only one")
    found = places(scenarios, baselines)
    folders = Folders(scenarios, baselines)
    kept = [(place.scenarios, stored(place.baseline, folders)) for place in found.chosen(names)]
    if not no_changelog:
        demand([baseline for _, baseline in kept if baseline is not None], changelog)
    comparisons = [
        _watched(partial(compared, baseline, scenario, folders=folders), jobs)
        for scenario, baseline in kept
    ]
    report = checked(comparisons, () if names else found.stale, scenarios)
    for path in outputs:
        write_whole(
            path, f"{_rendered(report, options.FORMATS[path.suffix.lower()], folders)}\n".encode()
        )
    click.echo(_rendered(report, "json" if as_json else form, folders))
    raise click.exceptions.Exit(exit_code(report.verdict, strict))


def _watched(simulate: "Callable[..., Found]", jobs: int | None) -> Found:
    """What a set of runs comes to, in so many processes, under a progress bar."""
    from sim.cli.progress import progress_bar
    from sim.execution.runner import available_jobs

    with progress_bar() as draw:
        return simulate(jobs=jobs or available_jobs(), progress=draw)


def _what(before: "Baseline | None", fresh: "Baseline") -> str:
    """What of a baseline is new."""
    from sim.comparison.pairing import called

    if before is None:
        return "is new"
    held = {variant.name: variant for variant in before.variants}
    now = {variant.name: variant for variant in fresh.variants}
    changed = [name for name in now if name in held and held[name] != now[name]]
    parts = [
        f"{verb} {', '.join(called(name, fresh.scenario) for name in names)}"
        for verb, names in (
            ("changes", changed),
            ("gains", [name for name in now if name not in held]),
            ("loses", [name for name in held if name not in now]),
        )
        if names
    ]
    return "; ".join(parts) or "changes its seeds"


def _rendered(report: "Report", form: str, folders: Folders) -> str:
    """The report in one of the forms of podsim compare; text is the verb's own."""
    if form == "text":
        from sim.baseline.checking import render

        return render(report, folders)
    from sim.cli.compared import rendered

    return rendered(report, form)
