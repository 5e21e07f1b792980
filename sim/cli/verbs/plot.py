"""``podsim plot``: figures of stored runs, one file each."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sim.cli import Verb
from sim.cli.outputs import FIGURE_FORMATS, figure_format
from sim.cli.stored import DEFAULT_STORE, named_runs, runs_begun
from sim.core.errors import UserError
from sim.plots.names import FIGURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sim.plots.catalogue import Kind
    from sim.plots.material import Material
    from sim.plots.saving import Format
    from sim.results.stored import StoredRun

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
    type=click.Choice(FIGURE_FORMATS),
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
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
        _print_list(as_json)
        return
    if not runs:
        raise click.UsageError("which runs? podsim plot RUN, for instance podsim plot quickstart")
    folder, file, form = _place(out, form, len(figures))
    swept = _sweep_table(runs)
    if swept is not None:
        if figures or file:
            raise click.UsageError(
                "of a sweep all figures are drawn: give neither --figure nor a file"
            )
        folder = folder or DEFAULT_FOLDER / swept.parent.name
        _print_written(_write(_drawn_sweep(swept, width), form, None, folder), as_json)
        return
    found = _of_one_scenario(runs)
    from sim.plots.catalogue import CATALOGUE, telling
    from sim.plots.material import Material

    material = Material.of_stored(found)
    kinds = [CATALOGUE[name] for name in dict.fromkeys(figures)] or telling(material)
    _refuse_the_mute(kinds, material)
    folder = folder or DEFAULT_FOLDER / _folder_name(found[0])
    drawn = {kind.name: partial(kind.draw, material, width) for kind in kinds}
    _print_written(_write(drawn, form, file, folder), as_json)


def _print_written(written: dict[str, Path], as_json: bool) -> None:
    if as_json:
        listed = [{"figure": name, "path": path.as_posix()} for name, path in written.items()]
        click.echo(json.dumps(listed, indent=2))
        return
    for path in written.values():
        click.echo(path)


def _print_list(as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(FIGURES, indent=2))
        return
    from sim.cli.layout import terms

    for line in terms(FIGURES):
        click.echo(line)


def _place(
    out: Path | None, form: "Format | None", figures: int
) -> "tuple[Path | None, Path | None, Format]":
    """The folder or the file that is meant, and the format."""
    if out is None or not out.suffix or out.is_dir():
        return out, None, form or "svg"
    suffix = figure_format(out, ", or a folder, which must be there already if its name has a dot")
    if figures != 1:
        raise click.UsageError(f"{out} is one file: name one --figure, or give a folder")
    if form is not None and form != suffix:
        raise click.UsageError(f"{out} says {suffix}, --format says {form}: give only one")
    return None, out, suffix


def _of_one_scenario(names: tuple[str, ...]) -> "tuple[StoredRun, ...]":
    """The runs that are meant, each once; raises ``UserError`` if they are of several scenarios."""
    runs = {run.path.resolve(): run for name in names for run in named_runs(name)}
    folders = {_folder_name(run): None for run in runs.values()}
    if len(folders) > 1:
        raise UserError(
            f"these are runs of {len(folders)} scenarios ({', '.join(folders)}): "
            "plot the runs of one at a time"
        )
    return tuple(runs.values())


def _folder_name(run: "StoredRun") -> str:
    """What the folder of all runs of its scenario is called in a store."""
    from sim.results.stored import scenario_name

    return scenario_name(run.scenario, run.scenario_hash)


def _refuse_the_mute(kinds: "list[Kind]", material: "Material") -> None:
    """Raises ``UserError`` for figures that would be empty."""
    mute = [kind for kind in kinds if not kind.says(material)]
    if mute:
        raise UserError(
            "\n".join(f"{kind.name} says nothing of these runs: {kind.lacks}" for kind in mute)
        )


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


def _drawn_sweep(place: Path, width_in: float) -> "dict[str, Callable[[], Figure]]":
    """The headline figures of a sweep over its parameter, by metric; of two the second is the line.

    Raises ``UserError`` for a table that has more to show than a figure can.
    """
    from sim.plots.comparison import HEADLINES, sweep_lines
    from sim.plots.style import figure_of, own_axes
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
    told = [key for key in HEADLINES if key in frame and frame[key].notna().any()]
    by = lines[0] if lines else None

    def draw(key: str) -> "Figure":
        return figure_of(sweep_lines(frame, swept[0], key, by=by, ax=own_axes(width_in)))

    return {key: partial(draw, key) for key in told}


def _write(
    drawn: "Mapping[str, Callable[[], Figure]]", form: "Format", file: Path | None, folder: Path
) -> dict[str, Path]:
    """Draw and write each figure; an existing file is replaced as a whole."""
    from sim.cli.progress import watched
    from sim.plots.saving import as_bytes
    from sim.results.store import made
    from sim.results.unfinished import write_whole

    content = {name: as_bytes(draw(), form) for name, draw in watched(drawn.items(), "figures")}
    written = {name: file or folder / f"{name}.{form}" for name in content}
    with made(folder if file is None else file.parent, "figures"):
        for name, path in written.items():
            write_whole(path, content[name])
    return written
