"""One run explained: it is simulated again under instrumentation, and its times are divided.

A run is a pure function of scenario and seed, so the repetition is the run, which its
digest shows. Where it cannot be had (a file of the scenario is gone, another version of
podsim made the run) only the tables are divided, and the reason is given.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sim.cluster.cluster import Cluster
from sim.core.errors import InvariantError, ScenarioError, UserError
from sim.core.stats import Floats, Sample
from sim.execution.repetition import Recipe, recipe
from sim.execution.runner import without_collector
from sim.explain.breakdown import Breakdown, Repetition, breakdown
from sim.explain.instrumentation import Watch
from sim.explain.kinds import NAMES
from sim.results import arrow
from sim.results.arrow import Integers, Mask
from sim.results.freeze import freeze
from sim.results.result import RunResult

if TYPE_CHECKING:
    import pandas as pd


class RepeatError(Exception):
    """``args[0]`` says why, as the end of a sentence: only what its tables tell, since ..."""


def made_like(manifest: Mapping[str, Any]) -> Recipe:
    """How a stored run was made; raises ``RepeatError``."""
    try:
        return recipe(manifest)
    except ScenarioError as error:
        first, more = error.faults[0], len(error.faults) - 1
        others = f" (and {more} more)" if more else ""
        raise RepeatError(f"its scenario cannot be read any more: {first}{others}") from error


def repeat(
    made: Recipe,
    wanted: Collection[int] | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> Repetition:
    """Run it again; keep the views of the ``wanted`` requests, of all when None.

    Raises ``RepeatError``.
    """
    watch = Watch(made.scenario, wanted)
    try:
        with without_collector():
            cluster = Cluster(made.scenario, made.seed, made.directory, watch, watch.recorder)
            watch.begin(cluster.upstreams)
            facts = cluster.run(on_tick)
            result = freeze(watch.recorder, facts)
    except (ScenarioError, OSError) as error:
        raise RepeatError(f"a file of its scenario cannot be read: {error}") from error
    except InvariantError as error:
        raise RepeatError(f"it broke off: {error}") from error
    return Repetition(result, watch, [request.sent_s for request in watch.recorder.requests])


def same(repetition: Repetition, stored: RunResult) -> Repetition:
    """``repetition`` if it came to the ``stored`` result; raises ``RepeatError`` otherwise."""
    if repetition.result.digest != stored.digest:
        made_by = stored.manifest.get("podsim", "another version")
        raise RepeatError(
            f"it was made by podsim {made_by} and this one comes to another result; "
            "run the scenario again to have it explained"
        )
    return repetition


TAIL_PERCENT: Final = 95.0
"""From this percentile of TTFT on a request is one of the slowest."""

_TOLD: Final = (
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
        courses = {} if self.repetition is None else self.repetition.watch.courses
        rows = range(self.result.tables.requests.num_rows)
        found = [courses.get(row) for row in rows]
        here = _numbers([None if course is None else course.held_here for course in found])
        elsewhere = _numbers([None if each is None else each.held_elsewhere for each in found])
        cached = arrow.numbers(self.result.tables.requests, "cached_tokens")
        computed = arrow.numbers(self.result.tables.requests, "computed_tokens")
        missed = np.clip(elsewhere - cached, 0.0, np.maximum(computed, 0.0))
        share = np.divide(missed, computed, out=np.zeros_like(missed), where=computed > 0.0)
        return Cache(
            here,
            elsewhere,
            tuple(None if course is None else course.best_pod for course in found),
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

    def means_s(self, where: Mask) -> dict[str, float] | None:
        """Mean of each part over some requests; None over none."""
        if not where.any():
            return None
        return {name: float(part[where].mean()) for name, part in self.breakdown.parts_s.items()}

    def slowest(self, number: int) -> Integers:
        """Request ids by TTFT, the longest first; of equal ones the first that came."""
        return slowest(self.breakdown.ttft_s, self.measured, number)

    def frame(self, requests: Iterable[int] | None = None) -> "pd.DataFrame":
        """One row per request, of all or of some in this order: what it was, where the time went.

        Indexed by ``request_id``. The columns of ``sim.explain.kinds`` end in
        ``_s`` and add up to ``total_s``, which is ``ttft_s`` where that is known. Raises
        ``UserError`` for a request that the run does not have.
        """
        frame = arrow.data_frame(self.result.tables.requests)[list(_TOLD)]
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
        return frame if requests is None else frame.loc[known(self.result, requests)]


def explained(
    result: RunResult,
    made: Recipe | None,
    requests: Iterable[int] | None = None,
    on_tick: Callable[[float], None] | None = None,
    why_not: str = "",
) -> Explanation:
    """Divide a result; views are kept of ``requests``, of all when None.

    Without ``made``, for the reason ``why_not``, and when the repetition comes to
    something else, the tables alone are divided. Raises ``UserError`` for a request
    that the run does not have.
    """
    wanted = None if requests is None else known(result, requests)
    repetition = None
    if made is not None:
        try:
            repetition = same(repeat(made, wanted, on_tick), result)
        except RepeatError as reason:
            why_not = reason.args[0]
    return Explanation(result, breakdown(result, repetition), repetition, why_not)


def known(result: RunResult, requests: Iterable[int]) -> list[int]:
    """``requests`` if the run has them all; raises ``UserError`` otherwise."""
    rows = result.tables.requests.num_rows
    wanted = [int(request) for request in requests]
    strangers = [request for request in wanted if not 0 <= request < rows]
    if strangers:
        which = f"request {strangers[0]}" if len(strangers) == 1 else f"requests {strangers}"
        has = f"its requests are 0 to {rows - 1}" if rows else "it has none"
        raise UserError(f"{which}: not in this run, {has}")
    return wanted


def slowest(ttft_s: Floats, where: Mask, number: int) -> Integers:
    """Rows by TTFT, the longest first, of those of ``where``."""
    rows = np.flatnonzero(where)
    order = np.argsort(-ttft_s[rows], kind="stable")
    return rows[order][:number]


def _numbers(values: list[Any]) -> Floats:
    return np.array(values, dtype=np.float64)
