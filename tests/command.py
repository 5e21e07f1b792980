"""podsim as a shell has it: called, or asked what it has loaded."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from click.testing import CliRunner, Result

from sim.cli import main

ROOT = Path(__file__).parents[1]

Podsim = Callable[..., Result]

HEAVY = {"numpy", "pydantic", "simpy", "pyarrow", "pandas", "matplotlib", "scipy", "rich", "ruamel"}
NOT_FOR_A_RUN = {"pandas", "matplotlib", "scipy.stats", "sim.validation.theory", "sim.validation"}


def podsim(*arguments: object) -> Result:
    """Call it in the current folder."""
    return CliRunner().invoke(main, [str(one) for one in arguments])


def modules_after(*arguments: object) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``podsim <arguments>``."""
    program = (
        "import sys\n"
        "from sim.cli import main\n"
        f"code = main({[str(one) for one in arguments]!r}, standalone_mode=False)\n"
        "print('LOADED', *sys.modules)\n"
        "sys.exit(code)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(child.stdout.rsplit("LOADED ", 1)[1].split())


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A call in a process group of its own, of which nothing is left afterwards."""
    child = subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
