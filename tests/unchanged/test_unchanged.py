"""A part of the record that takes seconds: the rest is ``make unchanged``."""

import json

import pytest

from tests.unchanged.__main__ import RECORDED
from tests.unchanged.items import BAD_INPUT
from tests.unchanged.recording import results


@pytest.mark.parametrize("part", ["bad-input/", "bad-usage/import", "bad-usage/find"])
def test_faulty_input_is_answered_as_recorded(part: str) -> None:
    """Another exit code, place or wording would reach scripts and readers without a word."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    found = dict(results(part, 1, BAD_INPUT))
    assert found == {name: each for name, each in recorded.items() if part in name}
