"""podsim: a discrete-event simulator of GPU inference clusters.

Where to start reading:

- ``sim.api``       what scripts call
- ``sim.runner``    a run from scenario and seed to result, and sets of runs
- ``sim.cluster``   wires workloads, a proxy, pools and pods on one clock
- ``sim.workload``  who sends requests: agents, recorded sessions, arrivals, scripts
- ``sim.router``    the proxy: rules, fall-through, answers; what it knows of its pods; policies
- ``sim.pool``      models that take turns on a GPU: who waits, who is swapped in, who is skipped
- ``sim.pod``       the engines: schedulers, step time, batch; ``sim.extents`` vLLM's KV cache
- ``sim.content``   what prompts say: a tree of conversation nodes
- ``sim.record``    what is written down; ``sim.results`` tables, summary, store, digest
- ``sim.comparison`` two sets of runs: the same to the bit, or better, same, worse over seeds
- ``sim.baseline``  results that are kept with the code, and whether today's code still gives them
- ``sim.sweep``     many points of a scenario, and the one at which a target is met
- ``sim.report``    one page about runs; ``sim.plots`` its figures; ``sim.export`` other formats
- ``sim.explain``   where the time to a request's first token went
- ``sim.timeline``  a run to look at, for trace viewers
- ``sim.validation`` compares whole runs with what ``sim.theory`` knows
- ``sim.scenario``  files, their schema and their errors; ``sim.kernel`` the clock
- ``sim.manifests`` scenarios from the manifests of a real router

The names below are resolved on first use, so that ``import sim`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim import explain, plots, sweep
    from sim.api import compare, run
    from sim.comparison.verdict import Comparison
    from sim.results.result import RunResult
    from sim.runner import Runs
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
        "Comparison": "sim.comparison.verdict",
        "RunResult": "sim.results.result",
        "Runs": "sim.runner",
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
