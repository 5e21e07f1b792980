"""podsim: a discrete-event simulator of GPU inference clusters.

Where to start reading:

- ``sim.api``        what scripts call
- ``sim.core``       clock, content of prompts, KV cache, requests, ports between the packages
- ``sim.hardware``   GPUs, models, step times, memory, load times
- ``sim.scenario``   scenario files: reader, schema, checks, faults
- ``sim.engine``     vLLM and llama.cpp: schedulers, step time, batch
- ``sim.router``     the proxy: rules, fall-through, answers; placement policies
- ``sim.pool``       models that take turns on a GPU
- ``sim.workload``   agents, recorded conversations, arrivals, scripts, clients
- ``sim.cluster``    wires workloads, a proxy, pools and pods on one clock
- ``sim.results``    recorder, tables, metrics, summary, store, digest
- ``sim.execution``  one run from scenario and seed to result, and many in worker processes
- ``sim.sweep``      many points of a scenario, and the one at which a target is met
- ``sim.comparison`` two sets of runs: the same to the bit, or better, same, worse over seeds
- ``sim.baseline``   results stored with the code, and whether today's code still gives them
- ``sim.invariants`` laws that every run must keep
- ``sim.explain``    where the time to a request's first token went
- ``sim.plots``, ``sim.report``, ``sim.timeline``, ``sim.export``  figures, a page, traces, formats
- ``sim.manifests``  scenarios from the manifests of a real router
- ``sim.validation`` whole runs compared with theory and measurements

The names below are resolved on first use, so that ``import sim`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim import explain, plots, sweep
    from sim.api import compare, run
    from sim.comparison.sides import Comparison
    from sim.execution.runner import Runs
    from sim.results.result import RunResult
    from sim.scenario.load import ScenarioSet, load
    from sim.scenario.schema import Scenario

__all__ = [
    "Comparison",
    "RunResult",
    "Runs",
    "Scenario",
    "ScenarioSet",
    "compare",
    "explain",
    "load",
    "plots",
    "run",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in ("explain", "plots", "sweep"):
        return import_module(f"sim.{name}")
    homes = {
        "Comparison": "sim.comparison.sides",
        "RunResult": "sim.results.result",
        "Runs": "sim.execution.runner",
        "Scenario": "sim.scenario.schema",
        "ScenarioSet": "sim.scenario.load",
        "compare": "sim.api",
        "load": "sim.scenario.load",
        "run": "sim.api",
    }
    if name not in homes:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def __dir__() -> list[str]:
    return __all__
