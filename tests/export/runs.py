"""Stored runs of small scenarios."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.execution.runner import run_set
from sim.export.prometheus import Scraped, scraped
from sim.results.result import RunResult
from sim.results.stored import StoredRun, stored_runs
from sim.scenario.load import ScenarioSet, load, load_dict

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"

SCENARIO: dict[str, Any] = {
    "engines": {
        "small": {"kind": "vllm", "model": "m"},
        "desk": {"kind": "llamacpp", "model": "d"},
    },
    "backends": {
        "qwen": {"engine": "small", "policy": {"kind": "least-loaded"}},
        "a": {"engine": "small", "policy": {"kind": "least-loaded"}},
        "b": {"engine": "small", "policy": {"kind": "least-loaded"}},
        "x": {"engine": "small", "policy": {"kind": "least-loaded"}},
    },
    "router": {"rules": []},
    "workloads": {},
}
"""What an export asks of the scenario of runs that were written down by hand."""


def stored(
    scenario: Mapping[str, Any] | str,
    place: Path,
    settings: Sequence[str] = (),
    seeds: tuple[int, ...] = (1,),
    variants: Sequence[str] = (),
) -> tuple[StoredRun, ...]:
    """Run a scenario, or a file below ``scenarios/``, and store its runs in ``place``."""
    path = SCENARIOS / scenario if isinstance(scenario, str) else Path("s.yaml")
    loaded: ScenarioSet
    if isinstance(scenario, str):
        loaded = load(path, settings, variants=variants)
    else:
        loaded = load_dict(scenario, settings, directory=place, variants=variants)
    return kept(loaded, place, seeds, path)


def kept(
    scenarios: ScenarioSet, place: Path, seeds: tuple[int, ...] = (1,), path: Path = Path("s.yaml")
) -> tuple[StoredRun, ...]:
    """Run scenarios whose file is ``path``, from ``place`` if that is relative; store the runs."""
    started = {"file": str(path), "directory": str(place)}
    run_set(scenarios, seeds=seeds, store=place / "runs", provenance=started)
    return stored_runs(place / "runs")


def scrape(result: RunResult, **scenario: Any) -> Scraped:
    """What a scrape of a run by hand finds."""
    return scraped(result, {**SCENARIO, **scenario})


def small(**blocks: Any) -> dict[str, Any]:
    """Two pods of an engine with a step of 10 ms and 20 ms for 1,000 prompt tokens."""
    return {
        "name": "small",
        "engines": {"e": {"kvBlocks": 2000, "stepTime": {"a": 10, "b": 20}}},
        "backends": {"pods": {"engine": "e", "replicas": 2, "policy": {"kind": "least-loaded"}}},
        "router": {"rules": [{"name": "all", "backends": ["pods"]}]},
        **blocks,
    }
