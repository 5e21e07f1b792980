"""Real runs, made once and stored: a small fleet of agents under two seeds, and a pool."""

from pathlib import Path

import pytest

import sim
from sim.plots.catalogue import Material
from sim.results.stored import stored_runs

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SHORT = ("workloads.coding.agents=12", "window.warmup=1m", "window.measure=3m")


@pytest.fixture(scope="session")
def fleet_folder(tmp_path_factory):
    """Where the runs of the fleet are stored."""
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="session")
def fleet(fleet_folder):
    """Three policies, two seeds, four minutes of twelve agents."""
    file = SCENARIOS / "quickstart.yaml"
    return sim.run(file, seeds=[1, 2], settings=SHORT, store=fleet_folder)


@pytest.fixture(scope="session")
def of_fleet(fleet, fleet_folder):
    """What its figures are made of."""
    return Material(stored_runs(fleet_folder))


@pytest.fixture(scope="session")
def of_card(tmp_path_factory):
    """Two variants of models that take turns on one card, half an hour of them."""
    folder = tmp_path_factory.mktemp("card")
    sim.run(
        SCENARIOS / "pools" / "assistant-and-coder.yaml",
        seeds=[1],
        variants=["wait", "if-idle"],
        settings="window.measure=30m",
        store=folder,
    )
    return Material(stored_runs(folder))
