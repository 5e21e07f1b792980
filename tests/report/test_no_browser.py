"""What a test run says where there is no browser."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NO_BROWSER, REQUIRE_BROWSER
from tests.report.browser import open_browser

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = f"""
import pytest

@pytest.mark.parametrize("page", range(3))
def test_page(page):
    pytest.skip("{NO_BROWSER}: a Chromium is not on the path")

def test_something_else():
    pytest.skip("for another reason")
"""


def test_one_line_says_that_tests_were_not_run(tmp_path: Path):
    """Everybody would believe that the pages had been looked at."""
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_pages.py").write_text(TESTS, "utf-8")
    quiet = ("-q", "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0
    lines = [line for line in told.stdout.splitlines() if "chromium" in line.lower()]
    assert lines == [
        "3 tests of pages were not run: there is no chromium with chromedriver on the path "
        f"({REQUIRE_BROWSER}=1 makes that a failure)"
    ]


@pytest.mark.parametrize(
    ("required", "outcome"),
    [("", pytest.skip.Exception), ("0", pytest.skip.Exception), ("1", pytest.fail.Exception)],
)
def test_only_where_a_browser_is_required_its_absence_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[Exception]
):
    """Continuous integration would be green without having looked at a page."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(REQUIRE_BROWSER, required)
    with pytest.raises(outcome, match="a Chromium is not on the path"), open_browser(tmp_path):
        pass
