"""In which forms figures and judgements are put out, as the endings of their files say."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from sim.plots.style import Format

FIGURE_FORMATS: Final = ("svg", "png", "pdf")

FORMATS: Final = {".txt": "text", ".md": "markdown", ".json": "json", ".xml": "junit"}
"""What a file with this ending is written as."""


def figure_format(place: Path, otherwise: str = "") -> "Format":
    """The format of a figure's file; raises ``UsageError`` for one of another kind.

    ``otherwise`` is what else could be given.
    """
    suffix = place.suffix.lower().removeprefix(".")
    if suffix not in FIGURE_FORMATS:
        endings = "give a file ending in .svg, .png or .pdf"
        raise click.UsageError(f"{place}: no figure is a .{suffix}: {endings}{otherwise}")
    return suffix  # type: ignore[return-value]


def named(*endings: str) -> Callable[..., Path | None]:
    """For an option or argument with a file that is written in one way, or as its name says.

    Its name ends like that, or has no ending.
    """

    def checked(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
        if path is not None and path.suffix.lower() not in ("", *endings):
            raise click.BadParameter(f"{path}: must end in {' or '.join(endings)}", param=option)
        return path

    return checked


def checked_outputs(
    _: click.Context, option: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """The values of an option -o, when their endings say what they are and their folders exist."""
    unclear = [str(path) for path in paths if path.suffix.lower() not in FORMATS]
    if unclear:
        known = ", ".join(f"{ending} ({name})" for ending, name in FORMATS.items())
        raise click.BadParameter(f"{', '.join(unclear)}: must end in {known}", param=option)
    for path in paths:
        if not path.parent.is_dir():  # said now, not when the scenarios of a check have run
            raise click.BadParameter(f"{path}: there is no folder {path.parent}", param=option)
    return paths


def judged_output(function: Callable[..., None]) -> Callable[..., None]:
    """Options for what to print, what to write beside it and when to fail."""
    for add in (
        click.option(
            *("-o", "--output", "outputs"),
            multiple=True,
            type=click.Path(dir_okay=False, path_type=Path),
            callback=checked_outputs,
            metavar="FILE",
            help="Also write FILE: .md for a pull request, .xml for JUnit, .json, .txt "
            "(repeatable).",
        ),
        click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
        click.option(
            *("--format", "form"),
            type=click.Choice(list(FORMATS.values())),
            default="text",
            help="What to print; text when missing.",
        ),
        click.option("--strict", is_flag=True, help="Exit with 1 also when inconclusive."),
    ):
        function = add(function)
    return function
