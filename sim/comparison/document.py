"""A report as JSON: everything that was judged, for programs."""

import json
from dataclasses import asdict
from typing import Any

from sim.comparison.report import Report


def as_document(report: Report) -> dict[str, Any]:
    """The report as plain data; unknown values are null, verdicts are the words of the program."""
    return {
        "base": report.base,
        "new": report.new,
        "verdict": report.verdict,
        "comparisons": [{**asdict(each), "verdict": each.verdict} for each in report.comparisons],
        "notes": list(report.notes),
    }


def render(report: Report) -> str:
    """The document as text, keys sorted."""
    return json.dumps(as_document(report), indent=2, sort_keys=True, allow_nan=False)
