"""Numbers that may be simulated and are hardly meant: a time in ms, prompts that nobody serves."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from sim.core.fields import DURATION, SIZE
from sim.scenario.inputs import Inputs
from sim.scenario.matching import first_backend, headers_of
from sim.scenario.nodes import Node, Path, Scalar, at
from sim.scenario.reach import direct_backend
from sim.scenario.schema import Scenario
from sim.scenario.walk import duration_in_words, values

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
SMALL_BYTES: Final = 1e6
USUAL_S: Final[Mapping[str, float]] = {
    "arrival": 366 * DAY_S,
    "rows": 366 * DAY_S,
    "events": 7 * DAY_S,
    "measure": 7 * DAY_S,
    "warmup": 2 * DAY_S,
    "idleTimeout": 7 * DAY_S,
    "tpot": 1.0,
    "ttft": 100.0,
    "e2e": HOUR_S,
    "perRequest": 10.0,
    "perPromptToken": 0.01,
    "pollInterval": 60.0,
    "think": HOUR_S,
    "cap": HOUR_S,
    "thinkCap": HOUR_S,
    "ramp": HOUR_S,
    "load": HOUR_S,
    "unload": 600.0,
    "init": HOUR_S,
    "compile": HOUR_S,
    "graphs": HOUR_S,
    "warmUp": HOUR_S,
    "quarantineDuration": HOUR_S,
    "backoff": HOUR_S,
    "allReduce": 1.0,
}
"""By key the longest time that people mean by a bare number; of what is not named here 4 hours.

Judgements, not measurements: what they decide is a warning, and a unit silences it."""

OTHERWISE_S: Final = 4 * HOUR_S


def units(scenario: Scenario, root: Node) -> Iterator[tuple[Path, str]]:
    """Bare numbers that would be usual in another unit; whoever writes a unit means it."""
    for path, value, scale, _ in values(scenario):
        if not value or (scale not in (DURATION, SIZE) and path[-1] != "rate"):
            continue
        while at(root, *path) is None and path:  # a distribution that is written as a number
            path = path[:-1]
        written = at(root, *path)
        bare = isinstance(written, Scalar) and isinstance(written.value, int | float)
        if not bare or isinstance(value, bool | str):
            continue
        number = written.value if isinstance(written, Scalar) else value
        if scale is DURATION and value > _usual_s(path):
            said = duration_in_words(value)
            yield path, f"is {said}, for a bare number is seconds; did you mean {number}ms?"
        if scale is SIZE and value < SMALL_BYTES and path[-1] != "kvPerToken":
            unit = "MiB" if value >= 256 else "GiB"
            said = f"is {value:,.0f} bytes, for a bare number is bytes"
            yield path, f"{said}; did you mean {number}{unit}?"
        if path[-1] == "rate" and value > 1000.0:
            yield path, f"is {value:,g} requests per second; rates are not per minute"


def _usual_s(path: Path) -> float:
    named = (USUAL_S[key] for key in reversed(path) if isinstance(key, str) and key in USUAL_S)
    return next(named, OTHERWISE_S)


class _Limit(NamedTuple):
    backend: str
    tokens: int
    what: str


def prompts(scenario: Scenario, inputs: Inputs) -> Iterator[tuple[Path, str]]:
    """Prompts that the backends they go to refuse, however idle these are."""
    for name, workload in scenario.workloads.items():
        if not hasattr(workload, "beyond"):  # of another package
            continue
        for model, limit in _limits(scenario, workload):
            for key, what in workload.beyond(limit.tokens, model, inputs):
                message = (
                    f"{what}: {limit.backend} serves prompts of at most {limit.tokens:,} tokens "
                    f"({limit.what}), and refuses longer ones with 400"
                )
                yield ("workloads", name, *key.split(".")), message


def _limits(scenario: Scenario, workload: Any) -> Iterator[tuple[str, _Limit]]:
    """For each model that is asked for the longest prompt of the backend that is its first choice.

    What rows of a file ask for by themselves is not known here.
    """
    asked: tuple[str, ...] = getattr(workload, "asks_for", tuple)() or (
        getattr(workload, "model", None) or "",
    )
    for model in dict.fromkeys(asked):
        way = direct_backend(workload)
        name = way or first_backend(scenario, model, headers_of(workload))
        engine = None if name is None else scenario.engines[scenario.backends[name].engine]
        most = getattr(engine, "most_tokens", None)
        if name is not None and most is not None:
            yield model, _Limit(name, *most())
