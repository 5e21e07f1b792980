"""Whose fault a failure is: that of a package is told as its own, at once.

A run calls policies, workloads, pools and engines of other packages. Nothing is
paid for them as long as nothing fails; then the frames of the traceback tell in
whose code it did.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from traceback import walk_tb
from types import FrameType
from typing import Any, NamedTuple

from sim.core.errors import SUSPECT, InvariantError, Misuse, PackageError, UserError, WorkerError
from sim.core.registry import OWN, Family, module_root


class _Place(NamedTuple):
    """A line that was at work when something failed; ``family`` is None for podsim's own."""

    family: Family | None
    frame: FrameType
    line: int

    @property
    def calls_nobody(self) -> bool:
        """Whether all that it calls of podsim is helpers: a policy decides and takes note."""
        return self.family is not None and self.family.group == "podsim.policies"

    def __str__(self) -> str:
        code = self.frame.f_code
        return f"{code.co_filename}:{self.line}, in {code.co_name}"


@contextmanager
def faults_named(
    families: Callable[[], Sequence[Family]], when: Callable[[], str]
) -> Iterator[None]:
    """Turn what a package of somebody else's does wrong into a ``PackageError``.

    ``families`` are those that may have done it, ``when`` says at which point. A
    ``Misuse`` that is nobody else's is podsim's own: an ``InvariantError``. What
    fails in podsim's code below a call of theirs may be the fault of either: it
    goes on, with a note that says whose.
    """
    try:
        yield
    except (UserError, WorkerError, InvariantError):
        raise
    except Exception as failure:
        told = _told(failure, families(), when())
        if told is None:
            raise
        raise told from failure


def _told(failure: Exception, families: Sequence[Family], when: str) -> Exception | None:
    """What is raised instead of ``failure``; None when it stays what it is."""
    misused = isinstance(failure, Misuse)
    said = failure.args[0] if misused else f"{type(failure).__name__}: {failure}"
    places = list(_places(failure, families))
    when += _request(places)
    if isinstance(failure, Misuse) and failure.culprit is not None:
        culprit = _family_of(failure.culprit, families)
        if culprit is None:
            return InvariantError(f"{when}: {said}")
        return PackageError(f"{culprit}: {when}: {said}")
    theirs = [place for place in places if place.family is not None]
    if not theirs:
        if misused:
            return InvariantError(f"{when}: {said}{suspects(families)}")
        for each in families:
            failure.add_note(f"{SUSPECT}{each}")
        return None
    caller, last = theirs[-1], places[-1]
    if caller is last:
        return PackageError(f"{caller.family}: {when}: {said} ({caller})")
    if misused or caller.calls_nobody:
        return PackageError(f"{caller.family}: {when}: {said} ({last}, called from {caller})")
    failure.add_note(f"{SUSPECT}{caller.family}, called from {caller}")
    return None


def _request(places: Sequence[_Place]) -> str:
    """Which request podsim was about when it called them, if any."""
    for place in reversed(places):
        number = getattr(place.frame.f_locals.get("request"), "request_id", None)
        if place.family is None and number is not None:
            return f", request {number}"
    return ""


def suspects(families: Sequence[Family]) -> str:
    """The end of a sentence about what may be podsim's fault or that of ``families``."""
    return "; " + SUSPECT + " or of ".join(map(str, families)) if families else ""


def _places(failure: Exception, families: Sequence[Family]) -> Iterator[_Place]:
    """The lines of podsim and of ``families`` that were at work, the outermost first.

    A function without a ``self`` belongs to the family of its package that was at work last.
    """
    recent: dict[str, Family] = {
        module_root(each.implementation.__module__): each for each in families
    }
    for frame, line in walk_tb(failure.__traceback__):
        root = module_root(frame.f_globals.get("__name__", ""))
        family = _family_of(frame.f_locals.get("self"), families)
        if family is not None:
            recent[module_root(family.implementation.__module__)] = family
        family = family or recent.get(root)
        if family is not None or root == OWN:
            yield _Place(family, frame, line)


def _family_of(culprit: Any, families: Sequence[Family]) -> Family | None:
    """Whose object or callback it is; None for podsim's own, and where it cannot be told."""
    while isinstance(culprit, partial):
        culprit = culprit.func
    owner = getattr(culprit, "__self__", culprit)
    for each in families:
        if owner is each.implementation or isinstance(owner, (each.implementation, each.spec)):
            return each
    module = getattr(culprit, "__module__", None) or ""
    for each in families:
        if module_root(module) == module_root(each.implementation.__module__):
            return each
    return None
