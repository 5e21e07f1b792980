"""Real runs, made once: a small fleet of agents under two seeds, and a pool."""

from pathlib import Path

import pytest

import sim
from sim.plots.material import Material

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SHORT = ("workloads.coding.agents=12", "window.warmup=1m", "window.measure=3m")


@pytest.fixture(scope="session")
def fleet():
    """Three policies, two seeds, four minutes of twelve agents."""
    return sim.run(SCENARIOS / "quickstart.yaml", seeds=[1, 2], settings=SHORT)


@pytest.fixture(scope="session")
def card():
    """Two variants of models that take turns on one card, half an hour of them."""
    return sim.run(
        SCENARIOS / "pools" / "assistant-and-coder.yaml",
        seeds=[1],
        variants=["wait", "if-idle"],
        settings="window.measure=30m",
    )


@pytest.fixture(scope="session")
def of_fleet(fleet):
    """What its figures are made of."""
    return Material.of_results(fleet.runs)


@pytest.fixture(scope="session")
def of_card(card):
    """What its figures are made of."""
    return Material.of_results(card.runs)
