"""How every figure looks: names told apart, legends and notes that fit."""

from io import StringIO

import numpy as np
import pytest
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.colors import to_rgb

from sim.plots import style
from sim.plots.saving import as_bytes

NAMES = {
    "pods": [f"qwen-{at}" for at in range(8)],
    "variants": ["ring-0.10.7", "session-table", "plain-hash", "session-table-prompt-tail"],
    "one long": ["if-idle-warm-default-with-a-very-long-name-that-nobody-should-give", "wait"],
}


@pytest.mark.parametrize("width_in", [4.0, 6.0])
@pytest.mark.parametrize("names", ["pods", "variants"])
def test_a_legend_is_no_wider_than_its_axes(names, width_in):
    """The layout would squeeze the axes until a legend of one row fits."""
    ax = style.own_axes(width_in)
    for name, look in style.looks(NAMES[names]).items():
        ax.plot([0, 1], label=name, **look.line())
    style.dress(ax, "x, s", "y, s")
    style.legend(ax)
    figure = style.figure_of(ax)
    figure.set_dpi(72.0)
    as_bytes(figure)
    renderer = RendererSVG(figure.bbox.width, figure.bbox.height, StringIO())
    legend = ax.get_legend().get_window_extent(renderer)
    axes = ax.get_window_extent(renderer)
    assert legend.x1 <= axes.x1 + 8.0
    assert legend.y1 < axes.y0
    assert axes.width > 0.7 * figure.bbox.width


def test_one_entry_needs_no_legend_and_a_long_name_gets_a_row():
    """A scenario without variants would have a legend of one, or two names would overlap."""
    ax = style.own_axes()
    ax.plot([0, 1], label=NAMES["one long"][0])
    style.legend(ax)
    assert ax.get_legend() is None
    ax.plot([1, 0], label=NAMES["one long"][1])
    style.legend(ax)
    assert ax.get_legend()._ncols == 1


def test_thirty_names_are_told_apart():
    """The eighth variant would look like the first."""
    looks = style.looks([f"variant-{at}" for at in range(30)])
    assert len({(look.colour, look.dash) for look in looks.values()}) == 30
    assert len({(look.colour, look.marker) for look in looks.values()}) == 30


@pytest.mark.parametrize(
    ("palette", "lightest"), [(style.VARIANTS, 0.8), (style.PODS, 0.8), (style.PARTS, 0.9)]
)
def test_colours_can_be_seen_on_white(palette, lightest):
    """A pale line would be lost in print; areas may be lighter."""
    assert len(set(palette)) == len(palette)
    for colour in palette:
        red, green, blue = to_rgb(colour)
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue < lightest


def test_a_part_is_not_taken_for_a_variant():
    """Reasons of spills were drawn in the colours of the first two variants."""
    for part in style.PARTS:
        for other in style.VARIANTS:
            assert np.abs(np.subtract(to_rgb(part), to_rgb(other))).max() > 0.15


def test_notes_are_as_wide_as_the_axes_and_the_title_stands_above_them():
    """A note would run out of the figure, or lie on the title."""
    ax = style.own_axes(4.0)
    style.dress(ax, "x, s", "y, s")
    style.title(ax, "A title of several words that is too long", *["a note that says much"] * 6)
    figure = style.figure_of(ax)
    figure.set_dpi(72.0)
    as_bytes(figure)
    renderer = RendererSVG(figure.bbox.width, figure.bbox.height, StringIO())
    notes = ax.texts[0].get_window_extent(renderer)
    title = next(one for one in ax.get_children() if "A title" in getattr(one, "_text", ""))
    above = title.get_window_extent(renderer)
    assert above.y0 >= notes.y1 - 1.0
    assert max(above.x1, notes.x1) <= figure.bbox.width
    assert above.y1 <= figure.bbox.height
