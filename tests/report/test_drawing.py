"""Drawings inside a page: small, alone with their ids, without styles of their own."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.drawing import svg
from sim.report.fitting import name_rows, place_legend, rows_in, thin_ticks

LONG = "a-name-of-a-variant-as-somebody-in-a-hurry-would-never-write-it"


def axes() -> Axes:
    """Empty axes in a small figure."""
    return Figure(figsize=(3.6, 2.9), layout="constrained").add_subplot()


def drawn(ax: Axes, name: str = "f1") -> str:
    """The drawing as it stands in a page."""
    return svg(ax.figure, name, "what is seen")  # type: ignore[arg-type]


def test_names_are_drawn_as_they_are_written():
    """A name with two dollar signs would be set as a formula, one with a bracket end the text."""
    ax = axes()
    ax.plot([1, 2], label="$x$ <b> & $y_1$")
    ax.legend()
    ax.set_yticks([1, 2], ["$a$", "b"])
    words = [text.text for text in ElementTree.fromstring(drawn(ax)).iter("text")]
    assert "$x$ <b> & $y_1$" in words
    assert "$a$" in words


def test_ids_are_its_own_and_references_find_them():
    """Two figures of a page would share clip paths and hatches, and one of them lose its own."""
    ax = axes()
    ax.axvspan(0.0, 1.0, hatch="//")
    ax.plot([0, 1], marker="o")
    text = drawn(ax, "s2-load-1")
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text))
    assert all(each.startswith("s2-load-1-") for each in ids)
    assert {one or other for one, other in used} <= ids
    assert used


def test_nothing_in_it_breaks_the_rules_of_the_page():
    """The browser would refuse its styles, or apply one to the whole page."""
    ax = axes()
    ax.plot([0, 1])
    ax.set_title("bold", fontweight="bold")
    text = drawn(ax)
    assert "style" not in text
    assert "<metadata" not in text
    assert 'font-weight="700"' in text or 'font-weight="bold"' in text
    assert 'role="img" aria-label="what is seen"' in text


def test_the_same_drawing_gives_the_same_text():
    """A report would differ from one minute to the next."""
    texts = set()
    for _ in range(2):
        ax = axes()
        ax.plot([0, 1], marker="o")
        texts.add(drawn(ax))
    assert len(texts) == 1


@pytest.mark.parametrize("kind", ["line", "points", "bars"])
def test_what_is_dense_becomes_a_picture(kind: str):
    """Thousands of requests would make a page of many megabytes."""
    ax, at = axes(), np.arange(6_000)
    noise = np.sin(at * 1e4)
    if kind == "line":
        ax.plot(at, noise)
    elif kind == "points":
        ax.scatter(at, noise)
    else:
        ax.broken_barh([(float(x), 0.5) for x in at], (0.0, 1.0))
    text = drawn(ax)
    assert text.count("<image") == 1
    assert len(text) < 300_000
    assert len(list(ElementTree.fromstring(text).iter("text"))) > 5  # the scales stay sharp


def test_a_long_name_leaves_room_to_draw():
    """The bars would be squeezed to nothing by a name, or the name run off the drawing."""
    ax = axes()
    ax.barh([0, 1], [1, 2])
    ax.set_yticks([0, 1], [LONG, "short"])
    name_rows(ax)
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    assert ax.get_position().width > 0.5
    named = [label.get_text() for label in ax.get_yticklabels()]
    assert named[1] == "short"
    assert max(map(len, named[0].split("\n"))) <= 14
    assert rows_in([LONG, "short"]) > 2 * rows_in(["short"])


def test_a_legend_is_never_wider_than_the_drawing():
    """The last entry would be cut off at the edge."""
    ax = axes()
    for name in ("spill: bound", "spill: waiting", LONG):
        ax.plot([0, 1], label=name)
    ax.legend()
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    place_legend(figure, ax)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert ax.get_legend() is None


def test_numbers_below_the_axes_do_not_touch():
    """A narrow range on a logarithmic scale would be labelled with a smear."""
    ax = axes()
    ax.set_xscale("log")
    ax.set_xlim(0.018, 0.046)
    numbers = [0.02, 0.025, 0.03, 0.035, 0.04, 0.045]
    ax.set_xticks(numbers, [f"{each:g}" for each in numbers])
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    thin_ticks(figure, ax)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    assert 3 <= len(boxes) < 6
    assert ax.get_xlim() == (0.018, 0.046)
