"""The list of deliberate faults fits the code; ``python -m tests.mutations`` tries them."""

import ast

from tests.mutations.fault import ROOT
from tests.mutations.faults import FAULTS


def test_each_fault_has_a_name_of_its_own_and_can_be_put_in() -> None:
    """A fault would be listed twice, or the code has moved on and it is no fault any more."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text("utf-8")
        changed = fault.put_into(text)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


def test_the_tests_that_should_catch_a_fault_exist() -> None:
    """pytest would run nothing, and the fault would pass for something else."""
    for fault in FAULTS:
        assert fault.tests
        for selected in fault.tests:
            file, _, function = selected.partition("::")
            assert not function or f"def {function}(" in (ROOT / file).read_text("utf-8")
