import pytest

from tests.engine.harness import ENGINES, EngineUnderTest


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> EngineUnderTest:
    """Every worked case holds for each engine."""
    return ENGINES[request.param]
