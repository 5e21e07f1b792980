"""Options that several verbs have, each declared once, and the checks of their values."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

if TYPE_CHECKING:
    from sim.plots.style import Format

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(dir_okay=False, path_type=Path)
FOLDER: Final = click.Path(file_okay=False, path_type=Path)

MAX_SEEDS: Final = 10_000
EXECUTORS: Final = ("processes", "dask")
SWEEPS: Final = Path("results", "sweeps")
FIGURE_FORMATS: Final = ("svg", "png", "pdf")
FORMATS: Final = {".txt": "text", ".md": "markdown", ".json": "json", ".xml": "junit"}
"""What a file with this ending is written as."""


def several(*options: Decorator) -> Decorator:
    """Options that go together, in the order of the help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def as_json(help_text: str = "Print JSON, not text.") -> Decorator:
    """The option --json."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


# -- which runs of a scenario -----------------------------------------------------------------


def variants_of_file(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """For the completion of a shell: variants of the scenario file that has been typed."""
    from sim.core.document import at, entries, parse
    from sim.core.errors import ScenarioError
    from sim.core.textfile import read_text

    # As long as its last option lacks a value, click does not tell arguments apart.
    typed = context.params.get("file") or next(iter(context.args), None)
    try:
        root = parse(read_text(Path(typed)), "") if typed else None
    except ScenarioError:
        return []
    return [name for name in entries(at(root, "variants")) if name.startswith(begun)]


def checked_seed(_: click.Context, option: click.Parameter, seed: int | None) -> int | None:
    """The value of an option --seed, if there is one; a seed has 63 bits."""
    from sim.scenario.schema import MAX_SEED

    if seed is not None and seed > MAX_SEED:
        raise click.BadParameter(f"{seed} is not in the range up to 2^63 - 1", param=option)
    return seed


variants = click.option(
    *("--variant", "variants"),
    multiple=True,
    metavar="NAME",
    shell_complete=variants_of_file,
    help="Run this variant (repeatable).",
)
settings = click.option(
    *("--set", "settings"),
    multiple=True,
    metavar="PATH=VALUE",
    help="Set a value of the file, for instance engines.x.maxNumSeqs=256 (repeatable).",
)


def one_seed(help_text: str, default: int | None = None) -> Decorator:
    """The option --seed."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        callback=checked_seed,
        default=default,
        metavar="N",
        help=help_text,
    )


seed = one_seed("Run one seed, not the file's.")


def seeds(help_text: str, least: int = 1) -> Decorator:
    """The option --seeds."""
    kind = click.IntRange(least, MAX_SEEDS)
    return click.option("--seeds", type=kind, metavar="N", help=help_text)


def chosen_seeds(
    seed: int | None, seeds: int | None, settings: tuple[str, ...]
) -> tuple[int, ...] | None:
    """The seeds that --seed and --seeds ask for; None leaves them to the file.

    Raises ``click.UsageError`` when both are given, or one and ``--set seeds=...``.
    """
    if (seed, seeds) != (None, None) and any(each.startswith("seeds=") for each in settings):
        raise click.UsageError("--set seeds=... and --seed or --seeds: give only one")
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed runs one seed, --seeds N the seeds 1 to N: give only one")
    if seed is not None:
        return (seed,)
    return None if seeds is None else tuple(range(1, seeds + 1))


# -- where to run -----------------------------------------------------------------------------


def jobs(help_text: str) -> Decorator:
    """The option --jobs."""
    return click.option("--jobs", type=click.IntRange(min=1), metavar="N", help=help_text)


where_to_run = several(
    jobs("Processes on this machine; as many as cores when missing."),
    click.option(
        "--executor",
        type=click.Choice(EXECUTORS),
        default="processes",
        help="Who computes: processes of this machine, or dask: the cluster at --address, "
        "without one a cluster of --jobs processes here (needs pip install 'podsim[cluster]').",
    ),
    click.option(
        "--address",
        metavar="URL",
        help="Scheduler of a Dask cluster that is there already, such as tcp://head:8786.",
    ),
)


# -- what to write ----------------------------------------------------------------------------


def figure_format(place: Path, otherwise: str = "") -> "Format":
    """The format of a figure's file; raises ``UsageError`` for one of another kind.

    ``otherwise`` is what else could be given.
    """
    suffix = place.suffix.lower().removeprefix(".")
    if suffix not in FIGURE_FORMATS:
        endings = "give a file ending in .svg, .png or .pdf"
        raise click.UsageError(f"{place}: no figure is a .{suffix}: {endings}{otherwise}")
    return suffix  # type: ignore[return-value]


def ends_in(*endings: str) -> Callable[..., Path | None]:
    """The check of a file's name that must end like that, or have no ending."""

    def checked(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
        if path is not None and path.suffix.lower() not in ("", *endings):
            raise click.BadParameter(f"{path}: must end in {' or '.join(endings)}", param=option)
        return path

    return checked


def _checked_outputs(
    _: click.Context, option: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse files of unknown kinds and in missing folders before anything has run."""
    unclear = [str(path) for path in paths if path.suffix.lower() not in FORMATS]
    if unclear:
        known = ", ".join(f"{ending} ({name})" for ending, name in FORMATS.items())
        raise click.BadParameter(f"{', '.join(unclear)}: must end in {known}", param=option)
    for path in paths:
        if not path.parent.is_dir():
            raise click.BadParameter(f"{path}: there is no folder {path.parent}", param=option)
    return paths


judged_output = several(
    click.option("--strict", is_flag=True, help="Exit with 1 also when inconclusive."),
    click.option(
        *("--format", "form"),
        type=click.Choice(list(FORMATS.values())),
        default="text",
        help="What to print; text when missing.",
    ),
    as_json("The same as --format json."),
    click.option(
        *("-o", "--output", "outputs"),
        multiple=True,
        type=FILE,
        callback=_checked_outputs,
        metavar="FILE",
        help="Also write FILE: .md for a pull request, .xml for JUnit, .json, .txt (repeatable).",
    ),
)
"""What to print of a comparison, what to write beside it and when to fail."""
