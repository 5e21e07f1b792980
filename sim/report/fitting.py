"""Names of any length on narrow drawings: in legends, beside rows."""

from collections.abc import Iterable
from math import inf
from textwrap import fill
from typing import Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sim.plots import style

ROW_IN, LINE_IN = 0.34, 0.18
"""What a row of bars takes at least, and a line of its name."""
NAME_CHARACTERS: Final = 14
"""Width of a name beside a row."""
NAME_LINES: Final = 3
LEGEND_CHARACTERS: Final = 32
"""Width of a name in a legend."""
AXES_SHARE: Final = 0.72
"""Of the width of a drawing, about what the axes have when all labels have their room."""
TICK_GAP_EM: Final = 0.7
MOST_COLUMNS: Final = 4
"""Columns of a legend."""


def place_legend(sheet: Figure, axes: Axes) -> None:
    """Move the legend below everything, in as many columns as the sheet is wide enough for."""
    there = axes.get_legend()
    if there is None:
        return
    handles = [handle for handle in there.legend_handles if handle is not None]
    labels = [fill(text.get_text(), LEGEND_CHARACTERS) for text in there.get_texts()]
    there.remove()
    renderer = FigureCanvasAgg(sheet).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(min(len(labels), MOST_COLUMNS), 0, -1):
        legend = sheet.legend(
            handles,
            labels,
            loc="outside lower left",
            ncols=columns,
            fontsize=style.TEXT_PT,
            labelcolor=style.INK,
            frameon=False,
            handlelength=2.2,
            columnspacing=1.2,
        )
        if columns == 1 or legend.get_window_extent(renderer).width <= sheet.bbox.width:
            return
        legend.remove()


def thin_ticks(sheet: Figure, axes: Axes) -> None:
    """Leave out those numbers below the axes that would touch the one before."""
    renderer = FigureCanvasAgg(sheet).get_renderer()  # type: ignore[no-untyped-call]
    low, high = axes.get_xlim()
    left, right = (axes.transData.transform((end, 0.0))[0] for end in (low, high))
    kept: list[tuple[float, str]] = []
    taken_px = -inf
    for tick, label in zip(axes.get_xticks(), axes.get_xticklabels()):
        if not low <= tick <= high or not label.get_text():
            continue
        share = (axes.transData.transform((tick, 0.0))[0] - left) / (right - left)
        middle_px = share * sheet.bbox.width * AXES_SHARE
        half_px = label.get_window_extent(renderer).width / 2.0
        if middle_px - half_px >= taken_px:
            kept.append((float(tick), label.get_text()))
            taken_px = middle_px + half_px + TICK_GAP_EM * style.TEXT_PT * sheet.dpi / 72.0
    axes.set_xticks([tick for tick, _ in kept], [text for _, text in kept])
    axes.set_xlim(low, high)


def name_rows(axes: Axes, lines: int = NAME_LINES) -> None:
    """Write long names beside rows in several lines, so that they leave room to draw.

    Of one that takes more than ``lines`` the middle is left out.
    """
    named = [_beside_row(label.get_text(), lines) for label in axes.get_yticklabels()]
    axes.set_yticks(axes.get_yticks(), named)


def _beside_row(name: str, lines: int = NAME_LINES) -> str:
    most = NAME_CHARACTERS * lines
    cut = name if len(name) <= most else f"{name[: most // 2 - 2]}…{name[1 - most // 2 :]}"
    return fill(cut, NAME_CHARACTERS)


def rows_in(names: Iterable[str]) -> float:
    """The height of rows that have these names."""
    return sum(max(ROW_IN, LINE_IN * (1 + _beside_row(name).count("\n"))) for name in names)
