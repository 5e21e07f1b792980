"""Why a baseline is what it is: one line of the changelog for each that was changed.

The line names the fingerprint of the baseline, so a change without a reason is
found by reading two files, without any history.
"""

import re
from pathlib import Path
from typing import Final

from sim.baseline.kept import Baseline
from sim.errors import UserError

_LINE: Final = re.compile(r"^\s*(?:[-*]\s+)?`?baseline: (\S+) ([0-9a-f]{8})`?:?[ \t]+(\S.*)$", re.M)
REASON: Final = "<why it changed>"


def line(baseline: Baseline) -> str:
    """The line that a changelog must hold, its reason left to be filled in."""
    return f"- baseline: {baseline.scenario} {baseline.fingerprint} {REASON}"


def reasons(file: Path) -> dict[tuple[str, str], str]:
    """What a changelog says, by scenario and fingerprint.

    A line whose reason is still to be filled in says nothing. Raises
    ``UserError`` when the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"{file}: cannot read the changelog, which says why baselines changed: {why}; "
            "--changelog FILE names another, --no-changelog asks for none"
        ) from error
    found = {(name, print_): why for name, print_, why in _LINE.findall(text)}
    return {key: why for key, why in found.items() if why.strip() != REASON}
