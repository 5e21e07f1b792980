"""``podsim plot``: figures of stored runs, one file each."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sim.cli import Verb, options
from sim.cli.stored import DEFAULT_STORE, named_runs, runs_begun
from sim.core.errors import UserError
from sim.plots import FIGURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sim.plots.style import Format

    Drawn = Mapping[str, Callable[[], Figure]]

DEFAULT_FOLDER: Final = DEFAULT_STORE.with_name("plots")
NARROWEST_IN, WIDEST_IN = 4.0, 20.0


def _finite(_: click.Context, option: click.Parameter, width: float) -> float:
    """The value of --width: NaN lies in every range."""
    if not isfinite(width):
        raise click.BadParameter(f"{width} is no width", param=option)
    return width


@click.command("plot", cls=Verb)
@click.argument("runs", nargs=-1, metavar="RUN...", shell_complete=runs_begun)
@click.option(
    *("--figure", "figures"),
    type=click.Choice(tuple(FIGURES)),
    metavar="NAME",
    multiple=True,
    help="Draw this figure (repeatable); all that say something when missing.",
)
@click.option(
    *("-o", "--out"),
    type=click.Path(path_type=Path),
    help=f"Folder of the figures, or the file of a single one; "
    f"{DEFAULT_FOLDER.as_posix()}/<scenario> when missing.",
)
@click.option(
    *("--format", "form"),
    type=click.Choice(options.FIGURE_FORMATS),
    help="File format; svg when missing, or what the name of the file says.",
)
@click.option(
    "--width",
    type=click.FloatRange(NARROWEST_IN, WIDEST_IN),
    default=6.0,
    show_default=True,
    callback=_finite,
    metavar="INCHES",
    help="Width of each figure.",
)
@click.option("--list", "as_list", is_flag=True, help="Say which figures there are.")
@options.as_json()
def command(
    runs: tuple[str, ...],
    figures: tuple[str, ...],
    out: Path | None,
    form: "Format | None",
    width: float,
    as_list: bool,
    as_json: bool,
) -> None:
    """Draw figures of stored runs and print where they are.

    RUN is a folder of results, or the name of a scenario that has been run:
    quickstart, quickstart/bounded-ring, quickstart/bounded-ring/seed-1. All
    runs together are the variants and seeds of one scenario. The folder of a
    sweep is drawn as its headline figures over what it swept.
    """
    if as_list:
        _print(FIGURES, FIGURES, as_json)
        return
    if not runs:
        raise click.UsageError("which runs? podsim plot RUN, for instance podsim plot quickstart")
    folder, file, form = _place(out, form, len(figures))
    swept = _sweep_table(runs)
    if swept is None:
        name, drawn = _drawn_runs(runs, figures, width)
    elif figures or file:
        raise click.UsageError("of a sweep all figures are drawn: give neither --figure nor a file")
    else:
        name, drawn = swept.parent.name, _drawn_sweep(swept, width)
    written = _write(drawn, form, file, folder or DEFAULT_FOLDER / name)
    listed = [{"figure": name, "path": path.as_posix()} for name, path in written.items()]
    _print(listed, map(str, written.values()), as_json)


def _print(document: object, lines: "Iterable[str] | Mapping[str, str]", as_json: bool) -> None:
    """Print a JSON document, or the lines of it; terms and what they mean below each other."""
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    from sim.core.text import terms

    for line in terms(lines) if isinstance(lines, Mapping) else lines:
        click.echo(line)


def _place(
    out: Path | None, form: "Format | None", figures: int
) -> "tuple[Path | None, Path | None, Format]":
    """The folder or the file that is meant, and the format."""
    if out is None or not out.suffix or out.is_dir():
        return out, None, form or "svg"
    suffix = options.figure_format(
        out, ", or a folder, which must be there already if its name has a dot"
    )
    if figures != 1:
        raise click.UsageError(f"{out} is one file: name one --figure, or give a folder")
    if form is not None and form != suffix:
        raise click.UsageError(f"{out} says {suffix}, --format says {form}: give only one")
    return None, out, suffix


def _drawn_runs(
    names: tuple[str, ...], figures: tuple[str, ...], width_in: float
) -> "tuple[str, Drawn]":
    """The name of the scenario's folder, and the figures asked for of its runs, each run once.

    Raises ``UserError`` for runs of several scenarios, and for figures that would be empty.
    """
    from sim.plots.catalogue import CATALOGUE, Material, telling
    from sim.results.stored import scenario_name

    runs = {run.path.resolve(): run for name in names for run in named_runs(name)}.values()
    folders = list(dict.fromkeys(scenario_name(run.scenario, run.scenario_hash) for run in runs))
    if len(folders) > 1:
        raise UserError(
            f"these are runs of {len(folders)} scenarios ({', '.join(folders)}): "
            "plot the runs of one at a time"
        )
    material = Material(tuple(runs))
    kinds = [CATALOGUE[name] for name in dict.fromkeys(figures)] or telling(material)
    mute = [kind for kind in kinds if not kind.says(material)]
    if mute:
        raise UserError(
            "\n".join(f"{kind.name} says nothing of these runs: {kind.lacks}" for kind in mute)
        )
    return folders[0], {kind.name: partial(kind.draw, material, width_in) for kind in kinds}


def _sweep_table(names: tuple[str, ...]) -> Path | None:
    """The table of a sweep, if that is what is meant: its folder, or the file itself.

    Raises ``UserError`` for several sweeps, and for one whose table is not in its folder.
    """
    from sim.sweep.runs import DESIGN, TABLE

    named = [Path(name) for name in names]
    places = [place if place.name == TABLE else place / TABLE for place in named]
    swept = [place for place in places if place.is_file() or place.with_name(DESIGN).is_file()]
    if not swept:
        return None
    if len(names) > 1:
        raise UserError(f"{swept[0].parent} is a sweep: plot one at a time, and runs apart from it")
    if not swept[0].is_file():
        raise UserError(
            f"{swept[0].parent}: has no {TABLE}: the sweep has not ended, or its table went "
            "elsewhere; the same podsim sweep without -o writes it"
        )
    return swept[0]


def _drawn_sweep(place: Path, width_in: float) -> "Drawn":
    """The headline figures of a sweep over its parameter, by metric; of two the second is the line.

    Raises ``UserError`` for a table that has more to show than a figure can.
    """
    from sim.plots.comparison import HEADLINES, sweep_lines
    from sim.plots.style import Drawing, styled
    from sim.sweep.table import read

    frame = read(place.parent)
    columns = list(frame.columns)
    swept = columns[columns.index("point") + 1 : columns.index("variant")]
    lines = [name for name in ("variant", *swept[1:]) if frame[name].nunique() > 1]
    if not swept or len(lines) > 1:
        raise UserError(
            f"{place}: more was swept than a figure can show ({', '.join(swept)} and variants); "
            "choose rows in Python, for sim.plots.sweep_lines(sim.sweep.read(folder), x, metric)"
        )
    by = lines[0] if lines else None

    @styled()
    def draw(key: str) -> "Figure":
        figure = Drawing(width_in)
        sweep_lines(frame, swept[0], key, by=by, ax=figure.add_subplot())
        return figure

    known = [key for key in HEADLINES if key in frame and frame[key].notna().any()]
    return {key: partial(draw, key) for key in known}


def _write(drawn: "Drawn", form: "Format", file: Path | None, folder: Path) -> dict[str, Path]:
    """Draw and write each figure; an existing file is replaced as a whole."""
    from sim.cli.progress import watched
    from sim.plots.style import as_bytes
    from sim.results.store import made
    from sim.results.unfinished import write_whole

    content = {name: as_bytes(draw(), form) for name, draw in watched(drawn.items(), "figures")}
    written = {name: file or folder / f"{name}.{form}" for name in content}
    with made(folder if file is None else file.parent, "figures"):
        for name, path in written.items():
            write_whole(path, content[name])
    return written
