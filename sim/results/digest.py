"""One hexadecimal number that stands for all values of a run's tables."""

from typing import Final

import numpy as np
import xxhash

from sim.results import arrow
from sim.results.arrow import Table
from sim.results.tables import DECLARED, Tables

DIGEST_VERSION: Final = b"podsim tables 2"


def digest(tables: Tables) -> str:
    """XXH3-128 over names, lengths, null masks and little-endian values of every column.

    It covers values, not bytes of files: it does not depend on how columns are
    cut into chunks, in which order a dictionary lists its words, or on the
    versions of the libraries. One changed bit of one float changes it.
    """
    state = xxhash.xxh3_128(DIGEST_VERSION)
    for title in DECLARED:
        table = getattr(tables, title)
        _framed(state, title.encode())
        for name in arrow.names(table):
            _framed(state, name.encode())
            _column(state, table, name)
    return state.hexdigest()


def _column(state: xxhash.xxh3_128, table: Table, name: str) -> None:
    if arrow.is_text(table, name):
        texts = arrow.strings(table, name)
        _framed(state, b"text")
        _framed(state, np.ascontiguousarray(texts.codes, dtype="<i4").tobytes())
        for word in texts.words:
            _framed(state, word.encode())
        return
    values, valid = arrow.exact(table, name)
    kind = "<f8" if values.dtype.kind == "f" else "<i8"
    _framed(state, kind.encode())
    _framed(state, np.packbits(valid, bitorder="little").tobytes())
    _framed(state, np.ascontiguousarray(values, dtype=kind).tobytes())


def _framed(state: xxhash.xxh3_128, content: bytes) -> None:
    """Hash ``content`` with its length before it, so that neighbours cannot run together."""
    state.update(len(content).to_bytes(8, "little"))
    state.update(content)
