"""Text files as people save them: UTF-8, with or without a byte order mark, any line end."""

import codecs
from pathlib import Path
from typing import Final

from sim.core.errors import Fault, ScenarioError

_WIDE_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def read_text(path: Path | str) -> str:
    """The text of a scenario or trace file, line ends as ``\\n``, no byte order mark.

    Raises ``ScenarioError`` with the file, line and column of what is not
    UTF-8 text, or with the reason why the file cannot be read.
    """
    return decode(read_bytes(path), str(path))


def read_bytes(path: Path | str) -> bytes:
    """The bytes of a file; raises ``ScenarioError`` when it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"cannot be read: {reason}"
    except ValueError:  # a NUL character in the name
        message = "cannot be read: not a file name"
    raise ScenarioError([Fault(str(path), 0, 0, "", message)])


def decode(data: bytes, source: str) -> str:
    """``data`` as text; ``source`` names its origin in the error. As ``read_text``."""
    if data.startswith(_WIDE_MARKS):
        raise _not_text(source, b"", "UTF-16 or UTF-32 text; save the file as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    nul = data.find(b"\0")
    if nul >= 0:
        raise _not_text(source, data[:nul], "a NUL byte, which no text has; save the file as UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise _not_text(source, data[: error.start], found) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _not_text(source: str, before: bytes, message: str) -> ScenarioError:
    # A NUL may come before a byte that is no UTF-8, or after it.
    text = before.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    line = text.count("\n") + 1
    column = len(text) - (text.rfind("\n") + 1) + 1
    return ScenarioError([Fault(source, line, column, "", message)])
