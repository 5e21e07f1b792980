"""Did you mean: the nearest name to a mistyped one."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

MAX_LISTED: Final = 20
LIKENESS: Final = 0.6
SLIP: Final = 0.8
"""A name so like another is taken for it, and what it names is checked as well."""


def nearest(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """The known name most like ``name``, letter case and ``_`` for ``-`` aside; None if none is.

    ``likeness`` is from 0 to 1, which is the same name.
    """
    spelled = {_folded(candidate): candidate for candidate in known}
    close = get_close_matches(_folded(name), list(spelled), n=1, cutoff=likeness)
    return spelled[close[0]] if close else None


def meant(written: Iterable[str], known: Iterable[str]) -> set[str]:
    """The known names that the unknown ones of ``written`` were probably to be.

    Of a mistyped key it is enough to say so: that the right one is missing is the same slip.
    """
    names = list(known)
    near = {nearest(name, names) for name in written if name not in names}
    return {name for name in near if name is not None}


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """What to add to "unknown ...": the nearest name, else all of them.

    ``otherwise`` is said instead of all of them, where they would fill lines.
    """
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    if otherwise is not None:
        return f"; {otherwise}"
    if not names:
        return ""
    more = ", ..." if len(names) > MAX_LISTED else ""
    return f"; known: {', '.join(names[:MAX_LISTED])}{more}"


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
