"""How every figure looks, and as which bytes: names told apart, words that fit, files alike."""

import hashlib
import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from sim.plots import as_bytes, load_over_time, style, ttft_cdf
from tests.plots.tables import check_readable, legend_of, polls, requests, words

LONG = "if-idle-warm-default-with-a-very-long-name-that-nobody-should-give"
PODS = [f"qwen-{at}" for at in range(8)]
VARIANTS = ["ring-0.10.7", "session-table", "plain-hash", "session-table-prompt-tail"]
PROGRAM = """
import hashlib
from sim.plots import as_bytes, load_over_time
from tests.plots.tables import polls
figure = load_over_time(polls([[float(pod)] * 30 for pod in range(9)])).figure
print(*(hashlib.sha256(as_bytes(figure, form)).hexdigest() for form in ("svg", "png")))
"""


@pytest.mark.parametrize("width_in", [3.6, 6.0])
@pytest.mark.parametrize("names", [PODS, VARIANTS, [LONG, "wait"]])
def test_legends_rows_and_titles_fit_and_leave_room_to_draw(names, width_in):
    """The last name was cut off, or the bars were squeezed to nothing by a name."""
    ax = style.make_room(style.Drawing(width_in).add_subplot(), 0.3)
    for row, (name, look) in enumerate(style.looks(names).items()):
        ax.barh(row, row + 1.0, label=name, color=look.colour)
    style.name_rows(ax, names)
    style.finish(
        ax, "A title of several words that is too long", *[f"note {at}" for at in range(9)]
    )
    assert [name.replace("\n", "") for name in legend_of(ax)] == names
    figure = style.figure_of(ax)
    check_readable(figure)
    assert ax.get_position().width > 0.5
    (legend,) = figure.legends
    assert legend.get_window_extent().y1 < ax.get_window_extent().y0


def test_names_are_drawn_as_they_are_written():
    """A name with two dollar signs was set as a formula, one with a bracket ended the text."""
    ax = style.make_room(None, 2.7)
    style.name_rows(ax, ["$x$ <b> & $y_1$"])
    svg = as_bytes(ax.figure).decode()
    assert "$x$ &lt;b&gt; &amp; $y_1$</text>" in svg


def test_axes_of_the_caller_get_title_notes_and_legend_themselves():
    """A panel of a larger figure would have its title over all of them."""
    left, right = Figure().subplots(1, 2)
    load_over_time(polls([[1.0] * 9, [2.0] * 9]), ax=left)
    assert left.get_title(loc="left").startswith("Requests in flight on each pod\nseed 1; means")
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["qwen-0", "qwen-1"]
    assert right.get_title(loc="left") == ""


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


def test_two_processes_and_any_settings_write_the_same_bytes():
    """A figure that is committed would change without a change."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        figure = load_over_time(polls([[float(pod)] * 30 for pod in range(9)])).figure
        drawn = [as_bytes(figure), as_bytes(figure, "png")]
        again = ttft_cdf(requests([1.0, 2.0])).figure
        assert as_bytes(again) == as_bytes(again)
    assert child.stdout.split() == [hashlib.sha256(each).hexdigest() for each in drawn]


@pytest.mark.parametrize(
    ("form", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_each_format_is_what_it_says(form, magic):
    """A viewer would refuse the file."""
    content = as_bytes(ttft_cdf(requests([1.0, 2.0])).figure, form)
    assert content.startswith(magic)
    assert not any(word in content for word in (b"dc:date", b"CreationDate", b"Matplotlib v"))


def test_a_notebook_shows_a_figure_without_pyplot():
    """A cell would end in ``<Figure size 600x400>``, or need a magic word first."""
    program = (
        "import sys\n"
        "from sim.plots import ttft_cdf\n"
        "from tests.plots.tables import requests\n"
        "from IPython.core.formatters import DisplayFormatter\n"
        "data, _ = DisplayFormatter().format(ttft_cdf(requests([1.0, 2.0])).figure)\n"
        "print('image/svg+xml' in data, 'matplotlib.pyplot' in sys.modules)\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert child.stdout == "True False\n", child.stderr


def test_words_stay_words():
    """Words that are drawn as outlines could not be searched, selected or read aloud."""
    ax = ttft_cdf(requests([1.0]))
    assert b">time to first token, s (log scale)</text>" in as_bytes(ax.figure)
    assert "Time to first token" in words(ax)
