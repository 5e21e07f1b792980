"""The list of deliberate faults fits the code; ``python -m tests.mutations`` tries them."""

from pathlib import Path

import pytest

from tests.mutations import FAULTS, Fault

ROOT = Path(__file__).parents[2]


def test_there_are_twenty_and_each_has_a_name_of_its_own() -> None:
    """One fault would be listed twice, or a name would stand for two."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_in_one_line_that_exists_once(fault: Fault) -> None:
    """It could not be put in, or would be two faults, since the code has moved on."""
    text = (ROOT / fault.file).read_text("utf-8")
    assert text.count(fault.old) == 1
    before, after = fault.old.split("\n"), fault.new.split("\n")
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_that_should_catch_a_fault_exist(fault: Fault) -> None:
    """pytest would run nothing, and the fault would pass for something else."""
    assert fault.tests
    for selected in fault.tests:
        file, _, function = selected.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text("utf-8") or not function
