"""A mutation pass: each fault of ``tests.mutations.faults`` alone must make the suite fail.

    python -m tests.mutations [NAME ...]

Works on copies of the checkout in a temporary directory, two at a time. Prints
a line per fault and exits with 1 when one has survived. What caught the faults
is run once more without any, so that nothing counts as caught for being broken.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutations.fault import ROOT, Fault
from tests.mutations.faults import FAULTS

WORKERS = 2
TIMEOUT_S = 900
FAILED = 1  # pytest's exit code for a failed test; others are errors of use or collection


class Checkout:
    """A copy of what the suite needs, in which one fault at a time is tried.

    Whatever keeps pytest from running or from ending is an error, not a catch.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        for name in ("sim", "tests"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        # Byte code of the file before its fault may look as new as the file.
        fresh = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
        self._environment = {**os.environ, **fresh, "PODSIM_NO_SHRINK": "1"}
        self._environment.pop("PODSIM_HAMMER", None)
        imported = self._run("-c", "import sim, tests; print(sim.__file__, tests.__file__)").stdout
        assert imported.split() == [
            str(place / name / "__init__.py") for name in ("sim", "tests")
        ], f"the copy is not what is imported: {imported}"

    def verdict(self, fault: Fault) -> str:
        """The test that has caught ``fault``, or an empty string."""
        with self._with(fault):
            done = self.test(fault.tests)
        if done.returncode not in (0, FAILED):
            raise RuntimeError(f"{fault.name}: pytest could not run\n{done.stdout}{done.stderr}")
        found = re.search(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return found[1] if found else ""

    def test(self, selection: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run tests up to the first that fails."""
        options = ("-x", "-q", "--tb=no", "-p", "no:cacheprovider")
        return self._run("-m", "pytest", *options, *selection)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._place,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    @contextmanager
    def _with(self, fault: Fault) -> Iterator[None]:
        path = self._place / fault.file
        text = path.read_text("utf-8")
        path.write_text(fault.put_into(text), "utf-8")
        try:
            yield
        finally:
            path.write_text(text, "utf-8")


class Pass:
    """Tries faults, ``WORKERS`` at a time, and prints what has become of each."""

    def __init__(self, folder: Path) -> None:
        self._checkouts: SimpleQueue[Checkout] = SimpleQueue()
        for number in range(WORKERS):
            self._checkouts.put(Checkout(folder / str(number)))

    def run(self, faults: Sequence[Fault]) -> bool:
        """Whether each fault is caught, by tests that pass without it."""
        catchers: set[str] = set()
        survivors = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            for fault, test in zip(faults, pool.map(self._try, faults), strict=True):
                verdict = f"caught by {test}" if test else "SURVIVED"
                print(f"{fault.name} ({fault.function}): {fault.meaning}: {verdict}", flush=True)
                survivors += not test
                catchers.add(test.split("[")[0])
        print(f"{len(faults)} faults, {survivors} survived")
        return self._are_sound(sorted(catchers - {""})) and not survivors

    def _try(self, fault: Fault) -> str:
        checkout = self._checkouts.get()
        try:
            return checkout.verdict(fault)
        finally:
            self._checkouts.put(checkout)

    def _are_sound(self, tests: Sequence[str]) -> bool:
        if not tests:
            return True
        done = self._checkouts.get().test(tests)
        if done.returncode:
            print(f"without any fault this fails as well:\n{done.stdout}{done.stderr}")
        return done.returncode == 0


def main(names: Sequence[str]) -> int:
    """Try the faults with these names, all when there are none; returns the exit code."""
    unknown = sorted(set(names) - {fault.name for fault in FAULTS})
    if unknown:
        print(f"no such fault: {', '.join(unknown)}", file=sys.stderr)
        return 2
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    with TemporaryDirectory() as folder:
        return 0 if Pass(Path(folder).resolve()).run(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
