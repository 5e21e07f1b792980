"""Numbers with units: how they are read, and how their limits are written."""

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sim.core.fields import (
    COUNT,
    DURATION,
    MAX_BYTES,
    MAX_BYTES_PER_S,
    MAX_DURATION_S,
    MAX_TOKENS,
    RATE,
    SIZE,
    ByteRate,
    Bytes,
    Duration,
    PositiveTokens,
    Scale,
    describe,
)


@pytest.mark.parametrize(
    ("annotation", "written", "value"),
    [
        (Duration, "250ms", 0.25),
        (Duration, "30m", 1800.0),
        (Duration, "1h30m", 5400.0),
        (Duration, 3, 3.0),
        (PositiveTokens, "75k", 75_000),
        (PositiveTokens, "3.9M", 3_900_000),
        (PositiveTokens, 1e5, 100_000),
        (Bytes, "64KiB", 65_536.0),
        (Bytes, "180GB", 180e9),
        (Bytes, 5, 5.0),
        (ByteRate, "6GB/s", 6e9),
        (ByteRate, " 1.5 MiB/s ", 1.5 * 2**20),
        (ByteRate, 2e9, 2e9),
    ],
)
def test_numbers_with_units_are_read(annotation: Any, written: object, value: float) -> None:
    """Units would be off by a power of ten or two."""
    found = TypeAdapter(annotation).validate_python(written)
    assert found == value
    assert type(found) is type(value)


def test_a_unit_does_not_change_the_last_digit() -> None:
    """9ms would be another time than 0.009, and 1.001k be refused as no whole number."""
    tokens, seconds = TypeAdapter(PositiveTokens), TypeAdapter(Duration)
    for n in range(1, 3000):
        assert tokens.validate_python(f"{n // 1000}.{n % 1000:03}k") == n
        assert seconds.validate_python(f"{n}ms") == float(f"{n}e-3")
        assert seconds.validate_python(f"{n}us") == float(f"{n}e-6")


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        *((Duration, bad) for bad in ("5", "", "s", "1h30", "3 parsecs", "-1s", math.nan, None)),
        *((PositiveTokens, bad) for bad in ("0.5k1", "1.5", "1ms", 1.5, 0, 10**400, True, [1])),
        *((ByteRate, bad) for bad in ("6GB", "6/s", "6Gb/s", "6GB/h", "5s/s", 6, "1kB/s", "2PB/s")),
        *((Bytes, bad) for bad in ("5", "5kb", "1e400GB", math.inf, {})),
        (PositiveTokens, "0.0001k"),
        (PositiveTokens, f"1e{'9' * 30}k"),
        (PositiveTokens, f"{'9' * 5000}k"),
    ],
)
def test_what_is_no_number_with_a_unit_is_refused(annotation: Any, written: object) -> None:
    """A slip would be read as some other number, or end in a traceback."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(annotation).validate_python(written)
    (error,) = caught.value.errors()
    assert error["type"] == "quantity"


@pytest.mark.parametrize(
    ("scale", "number", "written"),
    [
        (DURATION, MAX_DURATION_S, "366d"),
        (DURATION, 90.0, "90s"),
        (DURATION, 0.0, "0"),
        (SIZE, MAX_BYTES, "1024TiB"),
        (RATE, MAX_BYTES_PER_S, "1000TB/s"),
        (RATE, 1e6, "1MB/s"),
        (COUNT, MAX_TOKENS, "1000G"),
        (COUNT, 10_000, "10k"),
        (COUNT, 2**63 - 1, "9223372036854775807"),
        (COUNT, 0.5, "0.5"),
        (COUNT, 1, "1"),
    ],
)
def test_limits_are_written_as_users_write_numbers(
    scale: Scale, number: float, written: str
) -> None:
    """A message would say 3.16224e+07 where it means 366d."""
    assert scale.written(number) == written


def test_values_are_described_shortly() -> None:
    """A message would repeat a megabyte of text, or say None to people who wrote nothing."""
    assert describe(None) == "nothing"
    assert describe(False) == "false"
    assert describe(10**50) == "a whole number of more than 38 digits"
    assert describe("x" * 1000) == f"'{'x' * 59}... (1002 characters)"
