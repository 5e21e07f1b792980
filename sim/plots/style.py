"""How every figure looks: colours, dashes and markers by name, titles, legends, sizes.

Colours are told apart with any colour vision, and by dashes, markers or hatches
in grey print. Nothing here touches pyplot or its global state.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

WIDTH_IN: Final = 6.0
HEIGHT_IN: Final = 4.0
TITLE_PT: Final = 12.5
TEXT_PT: Final = 10.5
"""Of 6 in scaled to a phone of 360 px this still leaves 8 px."""
INK: Final = "#222222"
FAINT: Final = "#5f5f5f"
GRID: Final = "#e4e4e4"
SHADE: Final = "#f1f1f1"

# M. Okabe and K. Ito, "Color Universal Design" (2008), without the yellow, which vanishes on white.
VARIANTS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# P. Tol, "Colour Schemes" (2021), muted: a pod is never mistaken for a variant.
PODS: Final = (
    *("#332288", "#88CCEE", "#44AA99", "#DDCC77"),
    *("#CC6677", "#117733", "#AA4499", "#999933"),
)
# P. Tol, vibrant: parts of a whole.
PARTS: Final = ("#0077BB", "#EE7733", "#33BBEE", "#CC3311", "#009988", "#EE3377", "#BBBBBB")
DASHES: Final[tuple[str | tuple[int, tuple[float, ...]], ...]] = (
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
    dash: str | tuple[int, tuple[float, ...]]
    marker: str
    hatch: str


def looks(names: Sequence[str], colours: Sequence[str] = VARIANTS) -> dict[str, Look]:
    """A look for each name by its place; no two of 35 are the same."""
    return {
        name: Look(
            colours[at % len(colours)],
            DASHES[(at + at // len(colours)) % len(DASHES)],
            MARKERS[(at + at // len(colours)) % len(MARKERS)],
            HATCHES[(at + at // len(colours)) % len(HATCHES)],
        )
        for at, name in enumerate(names)
    }


def own_axes(width_in: float = WIDTH_IN, height_in: float = HEIGHT_IN) -> Axes:
    """Axes in a figure of their own."""
    return Figure(figsize=(width_in, height_in), layout="constrained").add_subplot()


def panels(count: int, each_in: float, width_in: float = WIDTH_IN) -> list[Axes]:
    """Axes one below the other on common scales, in a figure of their own."""
    figure = Figure(figsize=(width_in, 1.3 + each_in * count), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, hspace=0.02)  # type: ignore[union-attr]
    return list(figure.subplots(count, 1, sharex=True, sharey=True, squeeze=False)[:, 0])


def dress(ax: Axes, x: str = "", y: str = "", grid: str = "both") -> None:
    """Labels with units, quiet spines, a faint grid along the axes that carry a scale."""
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


def title(ax: Axes, text: str, *notes: str, panel: str = "") -> None:
    """A title at the left, and below it in grey what must be known to read the figure.

    ``panel`` is what the first of several panels shows.
    """
    said = "; ".join(note for note in notes if note)
    lines = textwrap.wrap(said, _characters(ax), break_long_words=False)
    ax.set_title(
        text,
        loc="left",
        fontsize=TITLE_PT,
        fontweight="bold",
        color=INK,
        pad=7.0 + len(lines) * TEXT_PT * 1.28,
    )
    if lines:
        ax.annotate(
            "\n".join(lines),
            xy=(0.0, 1.0),
            xycoords="axes fraction",
            xytext=(0.0, 6.0),
            textcoords="offset points",
            fontsize=TEXT_PT - 1.0,
            color=FAINT,
            verticalalignment="bottom",
            linespacing=1.25,
        )


def panel_label(ax: Axes, text: str) -> None:
    """What one of several panels shows, above it at the left."""
    ax.set_title(text, loc="left", fontsize=TEXT_PT, color=INK, pad=4.0)


def _characters(ax: Axes) -> int:
    """How many characters of a note fit above the axes; the left margin takes about 0.8 in."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    width_in = figure.get_figwidth() * (ax.get_position().width / 0.775) - 0.8
    return max(24, int(width_in * 72.0 / ((TEXT_PT - 1.0) * 0.56)))


def legend(ax: Axes, handles: Sequence[Artist] | None = None, below_pt: float = 40.0) -> None:
    """A legend below the axes, in as many columns as fit; none for a single entry.

    It tells of what is drawn under a label, unless ``handles`` are given.
    """
    entries = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    labels = [str(entry.get_label()) for entry in entries]
    if len(labels) < 2:
        return
    widest = max(len(label) for label in labels) + 6
    columns = max(1, min(len(labels), _characters(ax) // widest))
    figure = ax.get_figure(root=True)
    assert figure is not None
    shift = ScaledTranslation(0.0, -below_pt / 72.0, figure.dpi_scale_trans)
    ax.legend(
        entries,
        labels,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=ax.transAxes + shift,
        ncols=columns,
        fontsize=TEXT_PT,
        frameon=False,
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=2.4,
        columnspacing=1.4,
        labelcolor=INK,
    )


def nothing(ax: Axes, why: str) -> None:
    """Say in the middle of empty axes why there is nothing to see."""
    ax.text(
        0.5,
        0.5,
        why,
        transform=ax.transAxes,
        ha="center",
        va="center",
        fontsize=TEXT_PT,
        color=FAINT,
        wrap=True,
    )
