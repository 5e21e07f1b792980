"""podsim as a shell has it: called, or asked what it has loaded."""

import subprocess
import sys
from collections.abc import Callable

from click.testing import CliRunner, Result

from sim.cli import main

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
