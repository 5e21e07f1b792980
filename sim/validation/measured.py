"""podsim beside what others have measured: ``podsim validate --measured``."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from sim.validation import batches, closed_loops, recordings
from sim.validation.figures import Table

Part: TypeAlias = Callable[[], Iterator[Table]]

PARTS: Final[dict[str, Part]] = {
    "recordings": recordings.tables,
    "closed loops": closed_loops.tables,
    "batches": batches.tables,
}
"""What is compared, in this order; each part yields its tables as they are done."""


def validate_measured() -> Iterator[Table]:
    """The tables of all parts."""
    for part in PARTS.values():
        yield from part()
