"""The kinds of failure podsim knows; the command line turns each into one exit code.

Every exception can be rebuilt from its ``args``: simulation processes and
worker processes both re-create exceptions that way.
"""

from typing import Final, NamedTuple

MAX_SHOWN: Final = 100
"""Faults that are printed; a file in another format may have one in every line."""


SUSPECT: Final = "perhaps the fault of "
"""Stands before a family of another package in what may be podsim's fault as well."""


class Fault(NamedTuple):
    """One thing that is wrong with an input, and where.

    ``line`` and ``column`` count from 1; 0 means that the place is unknown
    (a value given in Python or on the command line).
    """

    source: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class UserError(Exception):
    """The user's input cannot be used; ``args[0]`` says what would be right. Exit code 2."""


class ScenarioError(UserError):
    """A scenario, or a file it names, has faults; all of them at once. Exit code 2."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(faults)

    @property
    def faults(self) -> list[Fault]:
        """Every fault found, in file order."""
        return list(self.args[0])

    def __str__(self) -> str:
        faults = self.faults
        lines = [str(fault) for fault in faults[:MAX_SHOWN]]
        if (more := len(faults) - len(lines)) > 0:
            lines.append(f"... and {more} more fault{'s' if more > 1 else ''}")
        return "\n".join(lines)


class PackageError(UserError):
    """A package that publishes a family does not keep its side of a protocol. Exit code 2."""


class Misuse(Exception):  # noqa: N818 - whose fault it is, is still to be found
    """podsim was called, or answered, otherwise than its protocols allow; ``args[0]`` says how.

    ``culprit`` is the object or the callback that did it, None for who has just called.
    ``sim.core.blame`` makes a ``PackageError`` of it, or an ``InvariantError`` where it was podsim.
    """

    def __init__(self, said: str, culprit: object = None) -> None:
        super().__init__(said)
        self.culprit = culprit


class InvariantError(Exception):
    """A run broke one of its own rules: a bug in podsim. Exit code 4."""


class WorkerError(Exception):
    """A worker process cannot start, or ended without an answer, as if killed. Exit code 70."""
