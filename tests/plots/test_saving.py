"""Figures as files: the same bytes everywhere, and several on one page."""

import hashlib
import os
import subprocess
import sys

import pytest

from sim.plots import as_bytes, load_over_time, ttft_cdf
from tests.plots.tables import polls, requests

PROGRAM = """
import hashlib
from sim.plots import as_bytes, load_over_time
from tests.plots.tables import polls
figure = load_over_time(polls([[float(pod)] * 30 for pod in range(9)])).figure
print(*(hashlib.sha256(as_bytes(figure, form)).hexdigest() for form in ("svg", "png")))
"""


def test_two_processes_write_the_same_bytes():
    """A figure that is committed would change without a change."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    figure = load_over_time(polls([[float(pod)] * 30 for pod in range(9)])).figure
    here = [hashlib.sha256(as_bytes(figure, form)).hexdigest() for form in ("svg", "png")]
    assert child.stdout.split() == here


def test_a_figure_can_be_written_twice():
    """The second file would differ from the first, or be empty."""
    figure = ttft_cdf(requests([1.0, 2.0])).figure
    assert as_bytes(figure) == as_bytes(figure)


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
    """Nobody could search, select or read aloud what is drawn as outlines."""
    assert b">time to first token, s (log scale)</text>" in as_bytes(
        ttft_cdf(requests([1.0])).figure
    )
