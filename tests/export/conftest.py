"""What all exports share: a run is simulated several times over in each test."""

from collections.abc import Iterator
from functools import cache

import pytest

from sim.core import registry


@pytest.fixture(autouse=True, scope="package")
def _families_are_found_once() -> Iterator[None]:
    """Looking through all installed packages takes longer than a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load", cache(registry.load))
        yield
