"""A real headless Chromium, and what can be asked about a page in it.

Without a browser the tests that need one are skipped, and one line at the end
of the test run says so (``tests/conftest.py``); with PODSIM_REQUIRE_BROWSER=1
they fail.
"""

import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NO_BROWSER, REQUIRE_BROWSER

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVERS = ("chromedriver", "chromium.chromedriver")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever a page asks for, nobody is asked
)
PATIENCE_S = 600
"""How long a probe may take; the slowest needs a second or two."""
PROBES = Path(__file__).with_name("probes.js").read_text("utf-8")


@dataclass
class Browser:
    """A page at a time, on a screen of any width, in light, dark or print."""

    driver: Any
    folder: Path
    _pages: dict[str, Path] = field(default_factory=dict)

    def show(self, page: str, width: int, scheme: str = "light", media: str = "screen") -> None:
        """Load the page anew."""
        if page not in self._pages:
            self._pages[page] = self.folder / f"page-{len(self._pages)}.html"
            self._pages[page].write_text(page, encoding="utf-8")
        self.driver.get_log("browser")  # what an earlier page has left
        self.driver.get_log("performance")
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", media=media, features=features)
        self.driver.get(self._pages[page].as_uri())

    def ask(self, probe: str, *arguments: Any) -> Any:
        """What a function of ``probes.js`` returns."""
        return self.driver.execute_script(f"{PROBES}; return {probe}(...arguments)", *arguments)

    def open_details(self) -> None:
        """Unfold everything, as a reader may."""
        self.driver.execute_script(
            "document.querySelectorAll('details').forEach(each => each.open = true)"
        )

    def complaints(self) -> list[str]:
        """What the browser wrote to its console: errors, violations of the page's own rules."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What was asked for beside the page itself and what it carries in it."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        urls = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", self.folder.as_uri()))]

    def pdf(self) -> bytes:
        """The page as a printer gets it."""
        printed = self._command("Page.printToPDF", preferCSSPageSize=True)
        return base64.b64decode(printed["data"])

    def _command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)


def pdf_pages(pdf: bytes) -> int:
    """How many pages a PDF of Chromium has."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile below ``folder``, and end it."""
    binary, driver = _first(BROWSERS), _first(DRIVERS)
    if binary is None or driver is None:
        missing = "a Chromium" if binary is None else "its chromedriver"
        if os.environ.get(REQUIRE_BROWSER, "0") not in ("", "0"):
            pytest.fail(f"{missing} is not on the path, and {REQUIRE_BROWSER} is set")
        pytest.skip(f"{NO_BROWSER}: {missing} is not on the path")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = binary
    for option in (*OPTIONS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chromium = webdriver.Chrome(options=options, service=Service(driver))
    chromium.set_script_timeout(PATIENCE_S)
    chromium.get("about:blank")  # or the page of a new tab would go on asking for its own files
    try:
        yield Browser(chromium, folder)
    finally:
        chromium.quit()


def _first(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)
