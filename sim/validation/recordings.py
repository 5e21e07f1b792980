"""Recordings of a real vLLM, request by request, through the simulated engine."""

from collections.abc import Iterator

from sim.validation.figures import Table


def tables() -> Iterator[Table]:
    """One table per recording and source of step times."""
    yield from ()
