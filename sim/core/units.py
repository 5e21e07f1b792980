"""Numbers with units as people write them: ``250ms``, ``64KiB``, ``6GB/s``, ``3.9M``."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

DURATION_UNITS_S: Final = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
SIZE_UNITS_BYTES: Final = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
RATE_UNITS_BYTES_PER_S: Final = {f"{unit}/s": size for unit, size in SIZE_UNITS_BYTES.items()}
COUNT_UNITS: Final = {"k": 10**3, "M": 10**6, "G": 10**9}

_NUMBER = re.compile(
    r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]+(?:/s)?)\s*", re.ASCII
)
_DURATION_PARTS = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


def parse_with_unit(text: str, units: Mapping[str, float]) -> float:
    """Read ``text`` as a number that is followed by one of ``units``.

    Raises ``ValueError`` when it is anything else, a number without a unit included.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(text)
    # In decimal, since 9 x 0.001 is not 0.009 in binary and 1.001k would be no whole number.
    try:
        return float(Decimal(match[1]) * Decimal(str(units[match[2]])))
    except ArithmeticError:
        raise ValueError(text) from None


def parse_duration_s(text: str) -> float:
    """Seconds of ``250ms``, ``30m`` or, as manifests write them, ``1h30m``."""
    match = _DURATION_PARTS.fullmatch(text)
    if match is not None and text:
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return hours * 3600.0 + minutes * 60.0 + seconds
    return parse_with_unit(text, DURATION_UNITS_S)
