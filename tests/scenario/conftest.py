"""A small scenario that is right, and a way to say what is wrong with another."""

from collections.abc import Callable, Sequence

import pytest

from sim.core import registry as registries
from sim.core.errors import ScenarioError
from sim.core.registry import Registry
from sim.scenario.load import ScenarioSet, load_text

GOOD = """\
name: good
window: {warmup: 10s, measure: 1m}
engines:
  small: {kvBlocks: 100, stepTime: {a: 10}}
backends:
  pods:
    engine: small
    replicas: 2
    policy: {kind: least-loaded}
router:
  rules:
    - {name: all, backends: [pods]}
workloads:
  load: {kind: requests, arrivals: {kind: poisson, rate: 5}, promptTokens: 1k, outputTokens: 10}
"""


@pytest.fixture(scope="session")
def registry() -> Registry:
    return registries.load()


@pytest.fixture
def loaded(registry: Registry) -> Callable[..., ScenarioSet]:
    def load(text: str, settings: Sequence[str] = (), variants: Sequence[str] = ()) -> ScenarioSet:
        return load_text(text, "f.yaml", settings, registry=registry, variants=variants)

    return load


@pytest.fixture
def faults(loaded: Callable[..., ScenarioSet]) -> Callable[..., list[str]]:
    """The lines that a user reads."""

    def lines(text: str, settings: Sequence[str] = (), variants: Sequence[str] = ()) -> list[str]:
        with pytest.raises(ScenarioError) as caught:
            loaded(text, settings, variants)
        return str(caught.value).split("\n")

    return lines
