"""Provenance of a stored run: the time of day, the command, the commits."""

import os
import platform
import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

import sim
from sim.cli import ARGUMENTS

PATIENCE_S: Final = 2
"""How long git may take; a network disk is no reason to wait for a note."""


def provenance(file: Path) -> Mapping[str, str]:
    """Who runs ``file`` when, where and how; kept beside the result, never part of its digest.

    ``commit`` is that of the file, ``podsim_commit`` that of podsim where it
    runs from a checkout; both are marked when there are changes.
    """
    facts = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(),
        "file": str(file),
        "directory": str(Path.cwd()),
        "system": f"{platform.system()} {platform.machine()}",
        "commit": _commit(file.parent),
        "podsim_commit": _podsim_commit(),
    }
    return {name: text for name, text in facts.items() if text}


def _command() -> str:
    """What would have to be typed again; empty where podsim was not called from a command line."""
    context = click.get_current_context(silent=True)
    arguments = None if context is None else context.find_root().meta.get(ARGUMENTS)
    return "" if arguments is None else shlex.join(["podsim", *arguments])


def _podsim_commit() -> str:
    checkout = Path(sim.__file__).parents[1]
    return _commit(checkout) if (checkout / ".git").exists() else ""


def _commit(directory: Path) -> str:
    """The git commit of the folder, marked when it has changed since; empty when there is none."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=12"]
    # A hook's variables name another repository; locks would disturb who works in this one.
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        described = subprocess.run(
            command,
            env={**others, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.decode("utf-8", "replace").strip()
