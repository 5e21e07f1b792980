"""What the disk may refuse, in the words of the user."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sim.errors import UserError


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """Turn what the disk refuses into a ``UserError`` that names ``what`` and ``path``."""
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write {what} to {path}: it is not a file")
        yield
    except OSError as error:
        raise UserError(f"cannot write {what} to {path}: {error.strerror or error}") from error
