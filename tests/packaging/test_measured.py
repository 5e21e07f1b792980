"""The texts beside real engines, which the manual shows, are what podsim finds."""

import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from sim.validation.closed_loops import compare, groups, loops
from sim.validation.report import figure_line

ROOT = Path(__file__).parents[2]

ERROR = re.compile(r" clients .* ([+-][\d.]+)%$", re.MULTILINE)
"""The error of a row of a closed loop."""


def printed_of(part: str) -> str:
    """What the command prints, whether or not all bounds hold."""
    command = [sys.executable, "-m", "sim.cli", "validate", "--measured", part]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def stored(part: str) -> str:
    return (ROOT / f"results/measured/{part}.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def printed() -> str:
    return printed_of("recordings")


def test_the_text_of_the_recordings_is_what_podsim_prints(printed):
    """podsim validate --measured recordings > results/measured/recordings.txt was forgotten."""
    assert stored("recordings") == printed


@pytest.mark.parametrize("part", ["batches", "swaps"])
def test_the_text_of_a_part_is_what_podsim_prints(part):
    """podsim validate --measured batches > results/measured/batches.txt was forgotten."""
    assert stored(part) == printed_of(part)


def test_the_text_of_the_closed_loops_is_what_podsim_finds():
    """podsim validate --measured closed-loops > results/measured/closed-loops.txt was forgotten.

    The whole takes a minute, so every 40th row of each group is looked at.
    """
    kept = iter(stored("closed-loops").split("closed loops, ")[1:])
    for group in groups(loops()):
        some = group._replace(loops=group.loops[::40], apart=())
        for table, section in zip(compare(some), kept):
            lines = section.splitlines()
            assert f"closed loops, {lines[0]}" == table.name
            assert all(figure_line(figure) in lines for figure in table.figures)


def test_the_text_of_the_closed_loops_sums_up_its_own_rows():
    """Medians and counts would be those of other rows than the text has."""
    body, overview = stored("closed-loops").split("\n\n")
    sections = body.split("closed loops, ")[1:]
    errors = {
        section.splitlines()[0]: [float(error) for error in ERROR.findall(section)]
        for section in sections
    }
    for what in ("TTFT, ms", "TPOT, ms"):
        judged = f"dense, fp8 weights, bf16 KV cache: {what}"
        together = [*errors[judged], *errors[f"dense, fp8 weights, another benchmark: {what}"]]
        (section,) = (section for section in sections if section.startswith(judged))
        assert section.endswith(f"not judged: median error {median(map(abs, together))}%\n")
    figures = sum(map(len, errors.values()))
    bounded = len(re.findall(r"^  median error .* ok$", body, re.MULTILINE))
    assert overview.endswith(
        f"\n{figures} figures, {bounded} of {len(sections)} medians bounded: all hold\n"
    )
