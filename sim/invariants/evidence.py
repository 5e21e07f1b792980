"""A result as the rules read it, and how they name what breaks them."""

from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from sim.core.kernel import BOUNDARY_TOLERANCE_S
from sim.core.request import Reason, Status
from sim.core.stats import Floats
from sim.results import arrow
from sim.results.arrow import Integers, Mask, Table, Texts
from sim.results.result import RunResult

EXAMPLES: Final = 3
"""How many offenders a violation names."""
TOLERANCE_S: Final = 2.0 * BOUNDARY_TOLERANCE_S
"""Times may differ by the distance at which an arrival counts as at a step boundary."""

Violations: TypeAlias = Iterator[str]


class Columns:
    """The columns of one table, by kind."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.rows = int(table.num_rows)

    def whole(self, name: str) -> Integers:
        """A column of integers; -1 is null."""
        return arrow.whole(self._table, name)

    def numbers(self, name: str) -> Floats:
        """A column of numbers; NaN is null."""
        return arrow.numbers(self._table, name)

    def texts(self, name: str) -> Texts:
        """A column of texts."""
        return arrow.strings(self._table, name)


class RunEvidence:
    """A result as the rules read it."""

    def __init__(self, result: RunResult) -> None:
        self.facts = result.facts
        self._summary = result.summary
        self.requests = Columns(result.tables.requests)
        self.placements = Columns(result.tables.placements)
        self.pods = Columns(result.tables.pods)
        self.retries = Columns(result.tables.retries)
        self.pools = Columns(result.tables.pools)

    @cached_property
    def status(self) -> Texts:
        """How each request ended."""
        return self.requests.texts("status")

    @cached_property
    def attempts(self) -> Integers:
        """Attempts of each request."""
        return self.requests.whole("attempts")

    @cached_property
    def drained(self) -> bool:
        """Whether every request is over."""
        return Status.IN_FLIGHT not in self.status.words

    @cached_property
    def counts_every_step(self) -> bool:
        """Whether no attempt has been given up that its pod may have been at work on."""
        errors = self.placements.texts("error").words
        left = Status.CANCELLED in self.placements.texts("status").words
        return not left and Reason.CONNECTION_LOST not in errors and Reason.TIMEOUT not in errors

    @cached_property
    def totals_cover_run(self) -> bool:
        """Whether the pods' totals of the window are those of the whole run."""
        return self.facts.window_start_s == 0.0 and self.facts.window_end_s >= self.facts.end_s

    def abandoned(self, part: str) -> int:
        """Tokens of the window's requests that were computed when their clients had left."""
        tokens: int = self._summary.get("abandoned_tokens", {}).get(part, 0)
        return tokens

    def total(self, name: str) -> float:
        """Growth of a running total over the window, all pods."""
        pods = zip(self.facts.opened, self.facts.closed)
        return float(sum(getattr(closed, name) - getattr(opened, name) for opened, closed in pods))


def says(texts: Texts, words: tuple[str, ...]) -> Mask:
    """The rows that hold any of ``words``."""
    found: Mask = np.any([texts.equal(word) for word in words], axis=0)
    return found


def where(what: str, broken: Mask) -> Violations:
    """One violation that names the first rows for which ``broken`` holds."""
    rows = np.flatnonzero(broken)
    if len(rows):
        examples = ", ".join(str(row) for row in rows[:EXAMPLES])
        yield f"{what}: {len(rows)} rows ({examples}{', ...' if len(rows) > EXAMPLES else ''})"


def in_order(columns: Columns, names: tuple[str, ...], run_end_s: float) -> Violations:
    """Each known time is not before the known ones to its left, nor after the run.

    By at most the tolerance within which an arrival counts as at a boundary.
    """
    latest = np.zeros(columns.rows)
    for name in names:
        times_s = columns.numbers(name)
        yield from where(f"{name} before what precedes it", times_s < latest - TOLERANCE_S)
        yield from where(f"{name} after the end of the run", times_s > run_end_s + TOLERANCE_S)
        latest = np.fmax(latest, times_s)


def equal(what: str, found: float, due: float, tolerance: float = 0.0) -> Violations:
    """One violation if a sum is not what the tables say."""
    if abs(found - due) > tolerance * abs(due):
        yield f"{what}: {found}, by the tables {due}"


def known_sum(values: Integers) -> int:
    """The sum of what is not null."""
    return int(values[values >= 0].sum())
