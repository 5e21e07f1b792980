"""Why a baseline is what it is: one line of the changelog for each that was changed.

The line names the fingerprint of the baseline, so a change without a reason is
found by reading two files, without any history.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sim.baseline.kept import Baseline
from sim.core.errors import UserError

_LINE: Final = re.compile(r"^\s*(?:[-*]\s+)?`?baseline: (\S+) ([0-9a-f]{8})`?:?[ \t]+(\S.*)$", re.M)
REASON: Final = "<why it changed>"


def demand(baselines: Iterable[Baseline], changelog: Path) -> None:
    """Raises ``UserError`` with every line that the changelog lacks, or when it cannot be read."""
    baselines = list(baselines)
    if not changelog.exists() and baselines:
        raise UserError(
            f"{changelog}: no such file; it says why baselines changed. --changelog FILE names "
            "another, --no-changelog asks for none"
        )
    lines = missing(baselines, changelog)
    if lines:
        raise UserError(
            "\n".join(
                [
                    f"{changelog} does not say why these baselines are what they are; add, with "
                    "your reason:",
                    *lines,
                ]
            )
        )


def missing(baselines: Iterable[Baseline], changelog: Path) -> list[str]:
    """The lines that a changelog lacks, their reasons left to be filled in.

    A file that does not exist lacks all of them. Raises ``UserError`` when it
    cannot be read.
    """
    told = _reasons(changelog)
    return [
        f"- baseline: {each.scenario} {each.fingerprint} {REASON}"
        for each in baselines
        if told.get((each.scenario, each.fingerprint), REASON) == REASON
    ]


def _reasons(changelog: Path) -> dict[tuple[str, str], str]:
    """What the changelog says, by scenario and fingerprint."""
    try:
        text = changelog.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{changelog}: cannot read the changelog: {reason}") from error
    return {(scenario, digits): why.strip() for scenario, digits, why in _LINE.findall(text)}
