"""How every figure looks: style sheet, colours by name, title and legend, rows, files.

Colours are told apart with any colour vision, and by dashes, markers or hatches
in grey print. Nothing here touches pyplot or its global state.
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.style import context
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sim.core.stats import Floats

styled = partial(context, Path(__file__).with_name("podsim.mplstyle"), after_reset=True)
"""The style sheet over Matplotlib's defaults, whatever the caller has set; also a decorator."""

Format = Literal["svg", "png", "pdf"]
_NO_DATE: Final[dict[Format, dict[str, str | None]]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
WIDTH_IN: Final = 6.0
TITLE_PT, TEXT_PT, NOTE_PT = 12.5, 10.5, 9.5
LINE: Final = 1.32
"""Height of a line of text, as a share of its size."""
CHARACTER: Final = 0.54
"""Mean width of a character of DejaVu Sans, as a share of its size; of a bold one a sixth more."""
INK: Final = "#222222"
FAINT: Final = "#5f5f5f"
SHADE: Final = "#f1f1f1"

# M. Okabe and K. Ito, "Color Universal Design" (2008), without the yellow, which vanishes on white.
VARIANTS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# P. Tol, "Colour Schemes" (2021), muted: a pod is never mistaken for a variant.
PODS: Final = (
    *("#332288", "#88CCEE", "#44AA99", "#DDCC77"),
    *("#CC6677", "#117733", "#AA4499", "#999933"),
)
# P. Tol, light: parts of a whole are taken neither for a variant nor for a pod.
PARTS: Final = (
    *("#99DDFF", "#EE8866", "#BBCC33", "#FFAABB"),
    *("#EEDD88", "#44BB99", "#AAAA00", "#DDDDDD"),
)
Dash: TypeAlias = str | tuple[int, tuple[float, ...]]
DASHES: Final[tuple[Dash, ...]] = (
    "solid",
    (0, (5.0, 1.6)),
    (0, (1.4, 1.4)),
    (0, (6.0, 1.5, 1.4, 1.5)),
    (0, (9.0, 2.0)),
)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
HATCHES: Final = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")


@dataclass(frozen=True)
class Look:
    """How one name is drawn, wherever it occurs."""

    colour: str
    dash: Dash
    marker: str
    hatch: str

    def line(self, width_pt: float = 2.0) -> dict[str, Any]:
        """What a line of it is drawn with."""
        return {"color": self.colour, "linestyle": self.dash, "linewidth": width_pt}

    @property
    def thin(self) -> dict[str, Any]:
        """What one of several runs behind their mean is drawn with."""
        return {"color": self.colour, "linewidth": 0.7, "alpha": 0.35}


def looks(names: Sequence[str], colours: Sequence[str] = VARIANTS) -> dict[str, Look]:
    """A look for each name by its place: colours come round with another dash, marker, hatch."""
    turns = [at + at // len(colours) for at in range(len(names))]
    return {
        name: Look(
            colours[at % len(colours)],
            DASHES[turn % len(DASHES)],
            MARKERS[turn % len(MARKERS)],
            HATCHES[turn % len(HATCHES)],
        )
        for at, (name, turn) in enumerate(zip(names, turns))
    }


class Drawing(Figure):
    """A figure under the style sheet, which a notebook shows though pyplot does not know it.

    Its height grows by what its panels, title, notes and legend need. One that is
    ``bare`` leaves title and ``notes`` to the page it stands on. Without a ``title`` it
    has that of its panels.
    """

    def __init__(self, width_in: float, title: str = "", bare: bool = False) -> None:
        super().__init__(figsize=(width_in, 0.5), layout=ConstrainedLayoutEngine())
        self.title, self.bare = title, bare
        self.notes: list[str] = []
        self.entries: dict[str, Artist] = {}
        self.finished = 0

    @styled()
    def draw(self, renderer: RendererBase) -> None:
        """Draw it; ticks are made only now."""
        super().draw(renderer)

    def _repr_svg_(self) -> str:
        return as_bytes(self).decode()

    def compose(self, least: int) -> None:
        """Add title, notes, legend and colour bar once all panels are drawn."""
        if len(self.axes) > 1:
            _share_label(self.axes)
        _colour_bar(self.axes)
        below_in = _legend(self, list(self.entries.values())) if len(self.entries) >= least else 0.0
        heads = [] if self.bare else textwrap.wrap(self.title, characters(self, TITLE_PT * 7 / 6))
        lines = [] if self.bare else textwrap.wrap("; ".join(self.notes), characters(self, NOTE_PT))
        title_in, notes_in = len(heads) * TITLE_PT * LINE / 72, len(lines) * NOTE_PT * LINE / 72
        height_in = self.get_figheight() + below_in + title_in + notes_in
        self.set_figheight(height_in)
        left, top = 0.06 / self.get_figwidth(), 1.0 - 0.06 / height_in
        self.text(left, top, "\n".join(heads), size=TITLE_PT, weight="bold", va="top")
        top -= title_in / height_in
        self.text(left, top, "\n".join(lines), size=NOTE_PT, color=FAINT, va="top")
        top -= notes_in / height_in
        self.set_layout_engine(ConstrainedLayoutEngine(rect=(0.0, 0.0, 1.0, top)))


@styled()
def as_bytes(figure: Figure | SubFigure, form: Format = "svg") -> bytes:
    """A figure as the content of a file: the same figure, the same bytes, in every process."""
    whole = figure.get_figure(root=True)
    assert whole is not None
    canvas = {"svg": FigureCanvasSVG, "png": FigureCanvasAgg, "pdf": FigureCanvasPdf}[form](whole)
    file = io.BytesIO()
    canvas.print_figure(file, format=form, metadata=_NO_DATE[form])
    return file.getvalue()


@styled()
def make_room(ax: Axes | None, alone_in: float, panel_in: float = 0.0) -> Axes:
    """The axes, else new ones in a figure of their own, which grows by the height they need.

    That is ``panel_in`` for one of several panels, when given.
    """
    ax = ax or Drawing(WIDTH_IN).add_subplot()
    figure = figure_of(ax)
    if isinstance(figure, Drawing):
        more_in = panel_in if panel_in and len(figure.axes) > 1 else alone_in
        figure.set_figheight(figure.get_figheight() + more_in)
    return ax


def figure_of(ax: Axes) -> Figure:
    """The whole figure that axes belong to."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def characters(figure: Figure, size_pt: float) -> int:
    """How many characters of a size fit in the width of a figure."""
    return int((figure.get_figwidth() * 72.0 - 8.0) / (size_pt * CHARACTER))


def finish(
    ax: Axes,
    title: str,
    *notes: str,
    run: str = "",
    own: str = "",
    entries: Sequence[Artist] | None = None,
    least: int = 2,
) -> None:
    """Give axes title, notes, and a legend of ``entries``, else of what is drawn under a label.

    Without ``least`` entries there is none. Of several panels all of that stands
    once around them, and the name of a panel goes on with its ``own`` note.
    """
    figure = figure_of(ax)
    found = ax.get_legend_handles_labels()[0] if entries is None else entries
    if not isinstance(figure, Drawing):
        words = "; ".join(filter(None, (run, own, *notes)))
        ax.set_title("\n".join([title, *textwrap.wrap(words, characters(figure, NOTE_PT))]))
        if len(found) >= least:
            ax.legend(handles=found)
        return
    if len(figure.axes) > 1:
        named = ": ".join(filter(None, (ax.get_title(loc="left"), own)))
        ax.set_title(textwrap.fill(named, int(0.9 * characters(figure, TEXT_PT))))
    else:
        notes = (run, own, *notes)
    figure.notes += [note for note in notes if note and note not in figure.notes]
    figure.title = figure.title or title
    figure.entries |= {str(handle.get_label()): handle for handle in found}
    figure.finished += 1
    if figure.finished == len(figure.axes):
        figure.compose(least)


def _legend(figure: Figure, entries: Sequence[Artist]) -> float:
    """Set a legend below everything, in as many columns as fit; returns its height in inches."""
    room = characters(figure, TEXT_PT)
    labels = [textwrap.fill(str(each.get_label()), room - 8) for each in entries]
    widths = np.array([7 + max(map(len, label.splitlines())) for label in labels])
    columns = next(
        (
            count
            for count in range(len(labels), 1, -1)
            if sum(part.max() for part in np.array_split(widths, count)) <= room
        ),
        1,
    )
    figure.legend(entries, labels, loc="outside lower left", ncols=columns)
    rows = -(-len(labels) // columns) + sum(label.count("\n") for label in labels)
    return 0.1 + rows * TEXT_PT * 1.45 / 72.0


def _share_label(axes: Sequence[Axes]) -> None:
    """One label for the y axes of panels if all have the same, x labels at the last of shared."""
    for ax in axes[:-1]:
        if ax.get_shared_x_axes().joined(ax, axes[-1]):
            ax.label_outer()
    labels = {ax.get_ylabel() for ax in axes}
    if len(labels) == 1:
        figure_of(axes[0]).supylabel(labels.pop(), size="medium", color=INK)
        for ax in axes:
            ax.set_ylabel("")


def _colour_bar(axes: Sequence[Axes]) -> None:
    """Say what the colours of images are, which have one scale."""
    images = [image for ax in axes for image in ax.images]
    if not images:
        return
    bar = figure_of(axes[0]).colorbar(
        images[0],
        ax=list(axes),
        label=str(images[0].get_label()),
        ticks=MaxNLocator(4, integer=True),
        pad=0.02,
        aspect=24,
        extend="max",
    )
    if bar.solids is not None:
        bar.solids.set_rasterized(True)  # as 256 rectangles their seams would show
    bar.outline.set_visible(False)


def name_rows(ax: Axes, names: Sequence[str], row_in: float = 0.3) -> None:
    """Name a row for each of ``names``, from the top down, in a third of the width.

    Each needs ``row_in``, and more when its name has several lines.
    """
    most = int(figure_of(ax).get_figwidth() * 72.0 * 0.37 / (TEXT_PT * CHARACTER))
    named = [textwrap.fill(name, most, max_lines=4, placeholder="…") for name in names]
    make_room(ax, sum(row_in + 0.18 * name.count("\n") for name in named) or row_in)
    ax.set_yticks(range(len(names)), named)
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0.0)
    ax.grid(visible=False, axis="y")


def stack_bars(ax: Axes, parts: Mapping[str, Floats], height: float) -> Floats:
    """Draw bars of parts one after the other, from row 0 on; returns where the bars end.

    A part that is 0 in all rows is left out, the others keep their colours.
    """
    ends = np.zeros(len(next(iter(parts.values()), ())))
    for (name, widths), look in zip(parts.items(), looks(list(parts), PARTS).values()):
        if not widths.any():
            continue
        ax.barh(
            np.arange(len(widths)),
            widths,
            left=ends,
            height=height,
            label=name,
            color=look.colour,
            hatch=look.hatch,
            edgecolor="white",
            linewidth=0.6,
        )
        ends = ends + widths
    return ends


def per_cent() -> FuncFormatter:
    """What writes shares as per cent."""
    return FuncFormatter(lambda share, _: f"{share * 100:g}")


def nothing(ax: Axes, why: str) -> None:
    """Say in the middle of empty axes why there is nothing to see."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=FAINT)


def beside(ax: Axes, row: float, words: str) -> None:
    """Write words in a row that has no bar or dot, at the left end of the axes."""
    at = ax.get_yaxis_transform()
    ax.text(0.01, row, words, transform=at, va="center", color=FAINT, size=NOTE_PT)
