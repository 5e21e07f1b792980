"""What a stored run is told of its making: the time of day, the command, the commit."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path


def provenance(file: Path) -> Mapping[str, str]:
    """Who runs ``file`` when, where and how; kept beside the result, never part of its digest."""
    told = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["podsim", *sys.argv[1:]]),
        "file": str(file),
        "directory": str(Path.cwd()),
        "system": f"{platform.system()} {platform.machine()}",
    }
    commit = _commit(file.parent)
    return {**told, "commit": commit} if commit else told


def _commit(directory: Path) -> str:
    """The git commit of the folder, marked when it has changed since; empty when there is none."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()
