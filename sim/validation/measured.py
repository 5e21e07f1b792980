"""podsim beside what others have measured: ``podsim validate --measured``."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from sim.core.errors import UserError
from sim.core.suggest import suggestion
from sim.validation import batches, closed_loops, recordings, swaps
from sim.validation.figures import FigureTable

Part: TypeAlias = Callable[[], Iterator[FigureTable]]

PARTS: Final[dict[str, Part]] = {
    "recordings": recordings.tables,
    "closed-loops": closed_loops.tables,
    "batches": batches.tables,
    "swaps": swaps.tables,
}
"""What is compared, in this order; each part yields its tables as they are done."""


def validate_measured(part: str | None = None) -> Iterator[FigureTable]:
    """The tables of one part, or of all.

    Raises ``UserError`` for a part that is not there.
    """
    if part is not None and part not in PARTS:
        raise UserError(f"{part}: no such part{suggestion(part, PARTS, every=True)}")
    for name in PARTS if part is None else (part,):
        yield from PARTS[name]()
