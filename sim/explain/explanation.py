"""One run explained: it is simulated again under instrumentation, and its times are divided.

A run is a pure function of scenario and seed, so the repetition is the run, which its
digest shows. Where it cannot be had (a file of the scenario is gone, another version of
podsim made the run) only the tables are divided, and the reason is given.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from sim.cluster.cluster import Cluster
from sim.core.errors import InvariantError, ScenarioError, UserError
from sim.core.stats import Floats, Sample
from sim.execution.repetition import Recipe, recipe
from sim.execution.runner import without_collector
from sim.explain.breakdown import Breakdown, Repetition, breakdown
from sim.explain.instrumentation import Instrumentation
from sim.explain.kinds import NAMES
from sim.results import arrow
from sim.results.arrow import Mask
from sim.results.freeze import freeze
from sim.results.result import RunResult
from sim.results.stored import StoredRun, stored_runs
from sim.scenario.load import ScenarioSet

if TYPE_CHECKING:
    import pandas as pd


def explain(
    run: str | Path | StoredRun | RunResult,
    requests: Iterable[int] | None = None,
    *,
    slowest: int = 10,
    scenario: ScenarioSet | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> "Explanation":
    """Where the time to first token went, of all requests of a run.

    ``run`` is the folder of a stored run, or a result; one that was not read from disk
    needs the ``scenario`` it is of. What the router and the pods knew is kept of
    ``requests``, of the ``slowest`` when missing. The run is simulated once more;
    ``on_tick`` hears the simulated time. Raises ``UserError`` for a run or a
    request that is not there.
    """
    result = _result(run)
    wanted = slowest_of(result, slowest) if requests is None else existing(result, requests)
    try:
        made = _recipe(result, scenario)
    except ScenarioError as error:
        more = f" (and {len(error.faults) - 1} more)" if len(error.faults) > 1 else ""
        why_not = f"its scenario cannot be read any more: {error.faults[0]}{more}"
        return Explanation(result, breakdown(result, None), None, why_not)
    return explained(result, made, wanted, on_tick)


def parts(
    run: str | Path | StoredRun | RunResult,
    requests: Iterable[int] | None = None,
    *,
    scenario: ScenarioSet | None = None,
) -> "pd.DataFrame":
    """The parts of TTFT, a row per request and a column in seconds per part; see ``explain``.

    ``Explanation.frame`` says what the columns are, ``sim.explain.kinds`` what the parts.
    """
    return explain(run, (), scenario=scenario).frame(requests)


def explained(
    result: RunResult,
    made: Recipe,
    requests: Collection[int] | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> "Explanation":
    """Divide a result; views are kept of ``requests``, of all when None.

    When its repetition as it was ``made`` comes to something else, the tables alone are divided.
    """
    repetition, why_not = _repeat(made, requests, on_tick)
    if repetition is not None and repetition.result.digest != result.digest:
        made_by = result.manifest.get("podsim", "another version")
        repetition, why_not = (
            None,
            (
                f"it was made by podsim {made_by} and this one comes to another result; "
                "run the scenario again to have it explained"
            ),
        )
    return Explanation(result, breakdown(result, repetition), repetition, why_not)


def _repeat(
    made: Recipe, wanted: Collection[int] | None, on_tick: Callable[[float], None] | None
) -> tuple[Repetition | None, str]:
    """Run it again; return why that did not work, as the end of a sentence, if it did not."""
    instrumentation = Instrumentation(made.scenario, wanted)
    recorder = instrumentation.recorder
    try:
        with without_collector():
            cluster = Cluster(made.scenario, made.seed, made.directory, instrumentation, recorder)
            instrumentation.begin(cluster.upstreams)
            result = freeze(recorder, cluster.run(on_tick))
    except (ScenarioError, OSError) as error:
        return None, f"a file of its scenario cannot be read: {error}"
    except InvariantError as error:
        return None, f"it broke off: {error}"
    sent_s = [request.sent_s for request in recorder.requests]
    return Repetition(result, instrumentation, sent_s), ""


def slowest_of(result: RunResult, number: int) -> list[int]:
    """Return the requests of the window with the longest TTFT, the longest first."""
    table = result.tables.requests
    arrival_s = arrow.numbers(table, "arrival_s")
    ttft_s = arrow.numbers(table, "first_token_s") - arrival_s
    inside = (arrival_s >= result.facts.window_start_s) & (arrival_s < result.facts.window_end_s)
    rows = np.flatnonzero(inside & ~np.isnan(ttft_s))
    order = np.argsort(-ttft_s[rows], kind="stable")
    return [int(row) for row in rows[order][:number]]


def existing(result: RunResult, requests: Iterable[int]) -> list[int]:
    """Return ``requests`` if the run has them all; raises ``UserError`` otherwise."""
    rows = result.tables.requests.num_rows
    wanted = [int(request) for request in requests]
    strangers = [request for request in wanted if not 0 <= request < rows]
    if strangers:
        which = f"request {strangers[0]}" if len(strangers) == 1 else f"requests {strangers}"
        has = f"its requests are 0 to {rows - 1}" if rows else "it has none"
        raise UserError(f"{which}: not in this run, {has}")
    return wanted


TAIL_PERCENT: Final = 95.0
"""From this percentile of TTFT on a request is one of the slowest."""

COLUMNS: Final = (
    *("request_id", "session_id", "workload", "turn", "pod", "outcome", "reason", "status"),
    *("arrival_s", "prompt_tokens", "cached_tokens", "computed_tokens"),
)


@dataclass(frozen=True)
class Cache:
    """Where the prompts of all requests were when they were sent; NaN where that is not known.

    Tokens in the cache of the pod that got the request, and in that of the other pod of
    its backend that had most (``best_pod``). ``missed`` are the tokens that were
    computed although ``best_pod`` had them, ``missed_s`` the part of ``prefill_s``
    that fell to them, shared out by tokens.
    """

    here: Floats
    elsewhere: Floats
    best_pod: tuple[str | None, ...]
    missed: Floats
    missed_s: Floats


@dataclass(frozen=True)
class Explanation:
    """A run, divided. ``why_not`` says why it was not repeated, and is empty when it was."""

    result: RunResult
    breakdown: Breakdown
    repetition: Repetition | None
    why_not: str = ""

    @cached_property
    def cache(self) -> Cache:
        """Where the prompts were."""
        traces = {} if self.repetition is None else self.repetition.instrumentation.traces
        here, elsewhere = np.full((2, self.result.tables.requests.num_rows), np.nan)
        best_pod: list[str | None] = [None] * len(here)
        for row, trace in traces.items():
            here[row] = _number(trace.held_here)
            elsewhere[row] = _number(trace.held_elsewhere)
            best_pod[row] = trace.best_pod
        cached = arrow.numbers(self.result.tables.requests, "cached_tokens")
        computed = arrow.numbers(self.result.tables.requests, "computed_tokens")
        missed = np.clip(elsewhere - cached, 0.0, np.maximum(computed, 0.0))
        share = np.divide(missed, computed, out=np.zeros_like(missed), where=computed > 0.0)
        return Cache(
            here,
            elsewhere,
            tuple(best_pod),
            missed,
            np.nan_to_num(share) * self.breakdown.parts_s["prefill_s"],
        )

    @cached_property
    def arrived(self) -> Mask:
        """The requests of the window."""
        arrival_s, facts = self.breakdown.arrival_s, self.result.facts
        return (arrival_s >= facts.window_start_s) & (arrival_s < facts.window_end_s)

    @cached_property
    def measured(self) -> Mask:
        """The requests of the window that have a first token."""
        return self.arrived & ~np.isnan(self.breakdown.ttft_s)

    @cached_property
    def tail(self) -> Mask:
        """The slowest of them: those from the 95th percentile of TTFT on."""
        ttft_s = self.breakdown.ttft_s
        least_s = Sample(ttft_s[self.measured]).percentile(TAIL_PERCENT)
        if least_s is None:
            return self.measured
        return self.measured & (np.nan_to_num(ttft_s) >= least_s)

    def frame(self, requests: Iterable[int] | None = None) -> "pd.DataFrame":
        """One row per request, of all or of some in this order: what it was, where the time went.

        Indexed by ``request_id``. The columns of ``sim.explain.kinds`` end in
        ``_s`` and add up to ``total_s``, which is ``ttft_s`` where that is known. Raises
        ``UserError`` for a request that the run does not have.
        """
        frame = arrow.data_frame(self.result.tables.requests)[list(COLUMNS)]
        frame["ttft_s"] = self.breakdown.ttft_s
        frame["total_s"] = self.breakdown.total_s
        frame["state"] = list(self.breakdown.states)
        for name in NAMES:
            frame[name] = self.breakdown.parts_s[name]
        frame["held_here_tokens"] = self.cache.here
        frame["held_elsewhere_tokens"] = self.cache.elsewhere
        frame["best_pod"] = list(self.cache.best_pod)
        frame["missed_tokens"] = self.cache.missed
        frame["missed_s"] = self.cache.missed_s
        frame = frame.set_index("request_id")
        return frame if requests is None else frame.loc[existing(self.result, requests)]


def _number(tokens: int | None) -> float:
    return float("nan") if tokens is None else float(tokens)


def _result(run: str | Path | StoredRun | RunResult) -> RunResult:
    if isinstance(run, RunResult):
        return run
    if isinstance(run, StoredRun):
        return run.read()
    found = stored_runs(Path(run))
    if len(found) != 1:
        below = f"; give one of them, such as {found[0].path}" if found else ""
        raise UserError(
            f"{run}: must be the folder of one stored run; it holds {len(found)}{below}"
        )
    return found[0].read()


def _recipe(result: RunResult, scenario: ScenarioSet | None) -> Recipe:
    if scenario is not None:
        (variant,) = scenario.variant([result.variant] if result.variant else [""]).variants
        return Recipe(variant, result.seed, scenario.directory)
    if not result.manifest:
        raise UserError(
            "this result was not read from disk: give scenario=, what sim.load returned for it "
            "(runs.scenario of what sim.run returned)"
        )
    return recipe(result.manifest)
