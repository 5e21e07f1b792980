"""Runs without processes, for tests about something else."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sim.execution.parallel import InProcess


def here(_: Any) -> "AbstractContextManager[InProcess]":
    """Opens it, whatever it is to be opened for."""
    return nullcontext(InProcess())
