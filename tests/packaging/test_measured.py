"""The figures beside real engines that the documents show are those that podsim finds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printed() -> str:
    """What the command prints, whether or not all bounds hold."""
    command = [sys.executable, "-m", "sim.cli", "validate", "--measured", "recordings"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_the_text_of_the_recordings_is_what_podsim_prints(printed):
    """podsim validate --measured recordings > docs/measured/recordings.txt was forgotten."""
    assert (ROOT / "docs/measured/recordings.txt").read_text("utf-8") == printed


def test_the_architecture_shows_its_overview(printed):
    """A reader would be told of errors that podsim does not have, or no longer."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    (shown,) = re.findall(r"<!-- recordings -->\n```text\n(.*?)```\n<!-- end -->", text, re.DOTALL)
    assert shown == printed.split("\n\n")[-1]
