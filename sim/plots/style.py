"""How every figure looks: colours, dashes and markers by name, titles, legends, sizes.

Colours are told apart with any colour vision, and by dashes, markers or hatches
in grey print. Nothing here touches pyplot or its global state.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import ScaledTranslation

from sim.plots.saving import Drawing

WIDTH_IN: Final = 6.0
HEIGHT_IN: Final = 4.0
TITLE_PT: Final = 12.5
TEXT_PT: Final = 10.5
NOTE_PT: Final = 9.5
"""Of 6 in scaled to a phone of 360 px this still leaves 8 px."""
INK: Final = "#222222"
FAINT: Final = "#5f5f5f"
GRID: Final = "#e4e4e4"
SHADE: Final = "#f1f1f1"
_NOTES: Final = "notes"
BOLD: Final = 1.17
"""How much wider bold letters are."""
_CHARACTER_EM: Final = 0.52
"""Mean width of a character of running text in DejaVu Sans, as a share of its size."""

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


@dataclass(frozen=True)
class Notes:
    """What must be known to read a figure: of one run alone, and in any panel."""

    own: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def looks(names: Sequence[str], colours: Sequence[str] = VARIANTS) -> dict[str, Look]:
    """A look for each name by its place: colours come round with another dash, marker, hatch."""
    found = {}
    for at, name in enumerate(names):
        turn = at + at // len(colours)
        found[name] = Look(
            colours[at % len(colours)],
            DASHES[turn % len(DASHES)],
            MARKERS[turn % len(MARKERS)],
            HATCHES[turn % len(HATCHES)],
        )
    return found


def own_axes(width_in: float = WIDTH_IN, height_in: float = HEIGHT_IN) -> Axes:
    """Axes in a figure of their own."""
    return Drawing(figsize=(width_in, height_in), layout="constrained").add_subplot()


def panels(count: int, each_in: float, width_in: float = WIDTH_IN) -> list[Axes]:
    """Axes one below the other with one x axis, in a figure of their own."""
    engine = ConstrainedLayoutEngine(h_pad=0.06, hspace=0.0)
    figure = Drawing(figsize=(width_in, 1.4 + each_in * count), layout=engine)
    return list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def share_labels(axes: Sequence[Axes]) -> None:
    """One label for the y axes of panels, and x labels only at the last."""
    text = axes[0].get_ylabel()
    for ax in axes:
        ax.label_outer()
        if len(axes) > 1:
            ax.set_ylabel("")
    if len(axes) > 1 and text:
        figure_of(axes[0]).supylabel(text, fontsize=TEXT_PT, color=INK)


def figure_of(ax: Axes) -> Figure:
    """The whole figure that axes belong to."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def dress(ax: Axes, x: str = "", y: str = "", grid: str = "both") -> None:
    """Labels with units, quiet spines, a faint grid: on ``both`` axes, on ``x`` or ``none``."""
    ax.set_xlabel(x, fontsize=TEXT_PT, color=INK)
    ax.set_ylabel(y, fontsize=TEXT_PT, color=INK)
    ax.tick_params(labelsize=TEXT_PT, colors=INK, length=3.0, width=0.8)
    ax.tick_params(which="minor", length=0.0)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(FAINT)
        ax.spines[side].set_linewidth(0.8)
    ax.set_axisbelow(True)
    ax.grid(False)
    if grid != "none":
        ax.grid(True, axis="both" if grid == "both" else "x", color=GRID, linewidth=0.8)


def name_rows(ax: Axes, names: Sequence[str], least: int = 1) -> None:
    """A named row for each of ``names`` from the top down, with room for ``least``."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(max(len(names), least) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0.0)


def title(ax: Axes, text: str, *notes: str, panel: str = "") -> None:
    """A title at the left, and below it in grey what must be known to read the figure.

    ``panel`` is what the first of several panels shows.
    """
    said = "; ".join(note for note in notes if note)
    lines = _wrapped(ax, said, NOTE_PT)
    above_pt = 6.0 + (TEXT_PT * 1.5 if panel else 0.0)
    if panel:
        _above(ax, panel, 4.0, TEXT_PT, INK)
    if lines:
        _above(ax, "\n".join(lines), above_pt, NOTE_PT, FAINT, _NOTES)
    pad_pt = above_pt + 1.0 + len(lines) * NOTE_PT * 1.36
    ax.set_title(
        "\n".join(_wrapped(ax, text, TITLE_PT * BOLD)),
        loc="left",
        fontsize=TITLE_PT,
        fontweight="bold",
        color=INK,
        pad=pad_pt,
        verticalalignment="bottom",
    )


def _wrapped(ax: Axes, text: str, size_pt: float) -> list[str]:
    """Lines that are no wider than the axes will be."""
    return textwrap.wrap(text, int(_room_pt(ax) / (size_pt * _CHARACTER_EM)))


def take_title(ax: Axes) -> tuple[str, str]:
    """Take title and notes off the axes, for who sets them as text elsewhere; returns both."""
    text = " ".join(ax.get_title(loc="left").split())
    ax.set_title("", loc="left")
    notes = [note for note in ax.texts if note.get_gid() == _NOTES]
    said = " ".join(" ".join(note.get_text() for note in notes).split())
    for note in notes:
        note.remove()
    return text, said


def panel_label(ax: Axes, text: str) -> None:
    """What one of several panels shows, above it at the left."""
    _above(ax, text, 4.0, TEXT_PT, INK)


def _above(
    ax: Axes, text: str, above_pt: float, size_pt: float, colour: str, gid: str | None = None
) -> None:
    ax.annotate(
        text,
        xy=(0.0, 1.0),
        xycoords="axes fraction",
        xytext=(0.0, above_pt),
        textcoords="offset points",
        fontsize=size_pt,
        color=colour,
        verticalalignment="bottom",
        linespacing=1.25,
        gid=gid,
    )


def _room_pt(ax: Axes) -> float:
    """About how wide the axes will be, once their ticks and labels have the room they need."""
    share = ax.get_position().width / 0.775  # of a figure with one pair of axes, and no layout yet
    named = [len(label.get_text()) for label in ax.get_yticklabels()]
    beside_pt = 36.0 + TEXT_PT * 0.6 * max(named, default=0)
    return max(100.0, figure_of(ax).get_figwidth() * 72.0 * share - beside_pt)


def legend(
    ax: Axes, handles: Sequence[Artist] | None = None, least: int = 2, below_pt: float = 40.0
) -> None:
    """A legend below the axes, in as many columns as fit; none of fewer than ``least`` entries.

    It tells of what is drawn under a label, unless ``handles`` are given.
    """
    entries = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    labels = [str(entry.get_label()) for entry in entries]
    if len(labels) < least:
        return
    shift = ScaledTranslation(0.0, -below_pt / 72.0, figure_of(ax).dpi_scale_trans)
    ax.legend(
        entries,
        labels,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=ax.transAxes + shift,
        ncols=_columns(labels, _room_pt(ax)),
        fontsize=TEXT_PT,
        frameon=False,
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=2.4,
        columnspacing=1.4,
        labelcolor=INK,
    )


def _columns(labels: Sequence[str], room_pt: float) -> int:
    """The largest number of columns, filled from the top down, that fit side by side."""
    widths_pt = np.array([TEXT_PT * (4.7 + 0.56 * len(label)) for label in labels])
    for columns in range(len(labels), 1, -1):
        if sum(part.max() for part in np.array_split(widths_pt, columns)) <= room_pt:
            return columns
    return 1


def nothing(ax: Axes, why: str) -> None:
    """Say in the middle of empty axes why there is nothing to see."""
    ax.text(
        *(0.5, 0.5, why),
        transform=ax.transAxes,
        ha="center",
        va="center",
        fontsize=TEXT_PT,
        color=FAINT,
    )


def value_label(ax: Axes, x: float, row: float, text: str) -> None:
    """A value above its point in a row."""
    ax.annotate(
        text,
        (x, row),
        xytext=(0.0, 5.5),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=NOTE_PT - 1.0,
        color=FAINT,
    )


def beside(ax: Axes, row: float, words: str) -> None:
    """Words in a row that has no bar or dot, at the left end of the axes."""
    ax.annotate(
        words,
        (0.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(5.0, 0.0),
        textcoords="offset points",
        va="center",
        fontsize=NOTE_PT,
        color=FAINT,
    )
