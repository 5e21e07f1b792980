"""Runs without processes, for tests about something else."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sim.sweep.executor import ThisProcess


def here(_: Any) -> "AbstractContextManager[ThisProcess]":
    """Opens it, whatever it is to be opened for."""
    return nullcontext(ThisProcess())
