"""What holds for all tests, and what the whole test run says at its end."""

import pytest
from hypothesis import HealthCheck, settings

# How long examples take to draw is the machine's affair; a test may still say otherwise.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

REQUIRE_BROWSER = "PODSIM_REQUIRE_BROWSER"
"""Set to 1 where a missing browser is a failure: .ci/run installs one first."""
NO_BROWSER = "no browser"
"""How the reason of a test begins that was skipped for want of one."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line when tests of pages were not run; a quiet run would only show letters."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and NO_BROWSER in report.longrepr[2]
    ]
    if skipped:
        tests = (
            "1 test of pages was" if len(skipped) == 1 else f"{len(skipped)} tests of pages were"
        )
        terminalreporter.write_line(
            f"{tests} not run: there is no chromium with chromedriver "
            f"on the path ({REQUIRE_BROWSER}=1 makes that a failure)"
        )
