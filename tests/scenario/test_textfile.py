"""C76: encodings and line ends of every text file that podsim reads."""

from pathlib import Path

import pytest

from sim.core.errors import ScenarioError
from sim.core.textfile import decode, read_text

PLAIN = "arrival,tokens\n0,10\n1,20\n"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "mark"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_marks_and_line_ends_do_not_change_the_text(
    tmp_path: Path, mark: bytes, line_end: str
) -> None:
    """C76: otherwise the first column would be called "\\ufeffarrival" and read as missing."""
    file = tmp_path / "rows.csv"
    file.write_bytes(mark + PLAIN.replace("\n", line_end).encode())
    assert read_text(file) == PLAIN


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "a,b\r\nZürich,1\n".encode("latin-1"),
            "t.csv:2:2: byte 0xfc is not UTF-8; save the file as UTF-8",
        ),
        (
            "a,b\nü,é".encode() + b"\xff",
            "t.csv:2:4: byte 0xff is not UTF-8; save the file as UTF-8",
        ),
        (
            "a,b\n1,2\n".encode("utf-16"),
            "t.csv:1:1: UTF-16 or UTF-32 text; save the file as UTF-8",
        ),
        (
            "a,b\n".encode("utf-16-le"),
            "t.csv:1:2: a NUL byte, which no text has; save the file as UTF-8",
        ),
        (
            b"a,b\n1,\x002",
            "t.csv:2:3: a NUL byte, which no text has; save the file as UTF-8",
        ),
    ],
    ids=["latin-1", "cut", "utf-16", "utf-16-no-mark", "nul"],
)
def test_what_is_not_utf8_is_refused_with_its_place(data: bytes, message: str) -> None:
    """C76: otherwise a foreign encoding gives a traceback or wrong names."""
    with pytest.raises(ScenarioError) as caught:
        decode(data, "t.csv")
    assert str(caught.value) == message


def test_a_file_that_cannot_be_read_is_a_fault_of_the_input(tmp_path: Path) -> None:
    """A missing file or a directory would otherwise end in a traceback."""
    for path, reason in [
        (tmp_path / "none.csv", "no such file or directory"),
        (tmp_path, "is a directory"),
    ]:
        with pytest.raises(ScenarioError) as caught:
            read_text(path)
        assert str(caught.value) == f"{path}: cannot be read: {reason}"
    with pytest.raises(ScenarioError):
        read_text("a\0b")
