"""Sample manifests and the scenarios that a person has read and found right.

``python -m tests.manifests.test_expected`` writes them anew, to be read again.
"""

import pytest

from tests.manifests.samples import EXPECTED, SAMPLES, imported


def notes(sample: str) -> str:
    return "".join(f"{note}\n" for note in imported(sample).notes)


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_scenario_is_the_expected_one(sample: str):
    """A value, its order or the reason beside it would change unseen."""
    assert imported(sample).scenario == (EXPECTED / f"{sample}.yaml").read_text("utf-8")


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_field_that_is_not_in_it_is_named(sample: str):
    """A field would be lost in silence, or one that has its effect be called ignored."""
    assert notes(sample) == (EXPECTED / f"{sample}.notes").read_text("utf-8")


if __name__ == "__main__":
    for each in SAMPLES:
        (EXPECTED / f"{each}.yaml").write_text(imported(each).scenario, "utf-8")
        (EXPECTED / f"{each}.notes").write_text(notes(each), "utf-8")
