"""Whether runs are the same to the bit, and where they first are not."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.comparison.pairing import paired
from sim.comparison.sides import SEVERITY, Figures, Side, Unpaired, Verdict
from sim.results import arrow
from sim.results.arrow import Integers, Table
from sim.results.tables import DECLARED, Tables


@dataclass(frozen=True)
class Cell:
    """The first value that differs: in which table, in which row (from 0) and column.

    A row that only one side has has no column; ``base_rows`` and ``new_rows``
    are the lengths of the table. ``reordered`` says that both have the same rows
    in another order. A null is ``None``.
    """

    table: str
    row: int
    column: str
    base: Any
    new: Any
    base_rows: int
    new_rows: int
    reordered: bool = False


@dataclass(frozen=True)
class FigureDifference:
    """A figure of the summary that differs; ``None`` is null or not there."""

    key: str
    base: float | None
    new: float | None


@dataclass(frozen=True)
class ExactRun:
    """Two runs of one variant and seed: the first differing cell, and every differing figure.

    ``reason`` says why there is no ``cell`` although the digests differ, or why
    nothing can be compared.
    """

    variant: str
    seed: int
    verdict: Verdict
    cell: Cell | None = None
    figures: tuple[FigureDifference, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class ExactComparison:
    """All runs of the base, each with what it faces, by variant and seed.

    ``reason`` says why nothing could be compared, when that is so.
    """

    base: str
    new: str
    scenario: str
    runs: tuple[ExactRun, ...]
    reason: str = ""
    unpaired: tuple[Unpaired, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Different when any run is, else incomparable when any is or nothing was compared."""
        found: list[Verdict] = [run.verdict for run in self.runs]
        if self.reason or self.unpaired or not found:
            found.append("incomparable")
        return max(found, key=SEVERITY.index)


def compare_exactly(base: Side, new: Side, *, across: bool = False) -> ExactComparison:
    """Compare digests and figures of each run of the base with those of the same run of ``new``.

    Between variants of other names the column that holds the name is not compared.
    Tables are read only where digests differ. Raises ``UserError`` for those that
    cannot be read.
    """
    match = paired(base, new, across)
    runs: list[ExactRun] = []
    for pair in match.pairs:
        found = [
            *(_run(pair.variant, old, young, base.label, new.label) for old, young in pair.runs),
            *(
                ExactRun(pair.variant, seed, "incomparable", reason=f"{new.label} has no such run")
                for seed in pair.alone
            ),
        ]
        runs += sorted(found, key=lambda run: run.seed)
    return ExactComparison(
        base.label,
        new.label,
        base.scenario,
        tuple(runs),
        unpaired=match.unpaired,
        notes=match.notes,
    )


def first_difference(base: Tables, new: Tables, ignored: Collection[str] = ()) -> Cell | None:
    """The first cell that differs: tables and columns as declared, of a table the first row.

    Floats differ when their bits do; columns ``ignored`` never do. ``None`` when the tables are
    the same.
    """
    for title in DECLARED:
        cell = _first_cell(title, getattr(base, title), getattr(new, title), ignored)
        if cell is not None:
            return cell
    return None


def _run(variant: str, old: Figures, young: Figures, base: str, new: str) -> ExactRun:
    keys = dict.fromkeys((*old.summary, *young.summary))
    figures = tuple(
        FigureDifference(key, old.summary.get(key), young.summary.get(key))
        for key in keys
        if key not in old.summary
        or key not in young.summary
        or old.summary[key] != young.summary[key]
    )
    cell, reason = None, ""
    renamed = old.variant != young.variant  # a digest holds the name
    differs = old.digest != young.digest
    if differs:
        if old.tables is None or young.tables is None:
            lacking = base if old.tables is None else new
            reason = f"the digests differ; {lacking} keeps no tables to say where"
        else:
            ignored = ("variant",) if renamed else ()
            cell = first_difference(old.tables(), young.tables(), ignored)
            if cell is None and renamed:
                differs = False
            elif cell is None:
                reason = "the digests differ, the tables do not: made in another way"
    if figures and not differs and not renamed:
        reason = "the tables are the same, the figures are not: defined in another way"
    verdict: Verdict = "different" if figures or differs else "identical"
    return ExactRun(variant, old.seed, verdict, cell, figures, reason)


def _first_cell(title: str, base: Table, new: Table, ignored: Collection[str]) -> Cell | None:
    ours, theirs = base.num_rows, new.num_rows
    common = min(ours, theirs)
    first, column = common, ""
    columns = [declared.name for declared in DECLARED[title] if declared.name not in ignored]
    codes = {name: _codes(base, new, name) for name in columns}
    for name, (left, right) in codes.items():
        differing = np.flatnonzero(left[:common] != right[:common])
        if len(differing) and differing[0] < first:
            first, column = int(differing[0]), name
    if not column and ours == theirs:
        return None
    return Cell(
        title,
        first,
        column,
        _value(base, column, first),
        _value(new, column, first),
        ours,
        theirs,
        reordered=ours == theirs and _same_rows(list(codes.values())),
    )


def _codes(base: Table, new: Table, name: str) -> tuple[Integers, Integers]:
    """The values of a column as numbers that are equal exactly when the values are."""
    if arrow.is_text(base, name):
        index: dict[str, int] = {}
        sides = []
        for table in (base, new):
            column = arrow.strings(table, name)
            meanings = [index.setdefault(word, len(index)) for word in column.words]
            sides.append(np.array([*meanings, -1], dtype=np.int64)[column.codes])
        return sides[0], sides[1]
    bits, valid = zip(*(_bits(table, name) for table in (base, new)))
    _, inverse = np.unique(np.concatenate(bits), return_inverse=True)
    codes = np.where(np.concatenate(valid), inverse.reshape(-1), -1).astype(np.int64)
    return codes[: base.num_rows], codes[base.num_rows :]


def _bits(table: Table, name: str) -> tuple[Integers, arrow.Mask]:
    values, valid = arrow.exact(table, name)
    return np.ascontiguousarray(values).view(np.int64), valid


def _same_rows(codes: list[tuple[Integers, Integers]]) -> bool:
    """Whether two tables of one length have the same rows, as often, in whatever order."""
    left, right = (np.stack(side) for side in zip(*codes))
    return bool(np.array_equal(left[:, np.lexsort(left)], right[:, np.lexsort(right)]))


def _value(table: Table, column: str, row: int) -> Any:
    return table.column(column)[row].as_py() if column else None
