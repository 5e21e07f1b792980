"""A report as JSON: everything that was judged, for programs."""

import json
import math
from dataclasses import asdict
from typing import Any

from sim.comparison.report import Report


def as_document(report: Report) -> dict[str, Any]:
    """The report as plain data; unknown values are null, verdicts are the words of the program.

    A value that is no number, which only a damaged result holds, is the text ``nan`` or ``inf``.
    """
    return {
        "base": report.base,
        "new": report.new,
        "verdict": report.verdict,
        "comparisons": [
            {**_finite(asdict(each)), "verdict": each.verdict} for each in report.comparisons
        ],
        "notes": list(report.notes),
    }


def render(report: Report) -> str:
    """The document as text, keys sorted."""
    return json.dumps(as_document(report), indent=2, sort_keys=True, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same data with a text for every number that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
