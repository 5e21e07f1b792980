"""What a search is for: a figure of a summary and the bound it has to keep."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import Final, Literal, TypeAlias

from sim.core.errors import UserError
from sim.core.stats import Interval, t_interval
from sim.core.suggest import suggestion
from sim.results.metrics import METRICS, Metric, metric
from sim.results.survivors import behind
from sim.scenario.schema import Scenario
from sim.sweep import quantities
from sim.sweep.quantities import NUMBER
from sim.workload.requests import RequestsSpec

Verdict: TypeAlias = Literal["misses", "undecided", "meets"]

_TARGET: Final = re.compile(rf"\s*([\w.-]+?)\s*(<=|>=|<|>)\s*({NUMBER})\s*", re.ASCII)
_TIMES: Final = ("s", "tokens/s")
_BETWEEN_TOKENS: Final = ("tpot_s", "stream_tokens_per_s")
_NAMED: Final = {"by_workload": "workload", "rules": "rule", "pool": "pool"}


@dataclass(frozen=True)
class Gone:
    """A figure that a run does not have, so that it neither keeps a bound nor misses it.

    ``what`` is gone, ``why`` goes on from there.
    """

    what: str
    why: str

    def under(self, seeds: str) -> str:
        """In words, for runs of these seeds."""
        return f"{self.what} under {seeds}{self.why}"


@dataclass(frozen=True)
class Target:
    """``key`` is to stand in ``relation`` (``<=`` and so on) to ``bound``, in the figure's unit."""

    key: str
    relation: str
    bound: float

    def __str__(self) -> str:
        return f"{self.key} {self.relation} {self.bound:g}"

    @property
    def _missed(self) -> float:
        """What a value counts as that is known only to be too late to be seen."""
        return inf if self.relation.startswith("<") else -inf

    def value(self, figures: Mapping[str, float | None]) -> float | Gone:
        """The figure of a run; a time that is null, censored or never reached, misses any bound,
        and so does one of those served where more were not than it leaves room for.

        ``Gone`` where the run has no such figure, or nothing that it could be of.
        """
        declared = metric(self.key)
        if self.key not in figures and not declared.is_family:
            return Gone(f"there is no {self.key!r}", suggestion(self.key, figures))
        value = figures.get(self.key, 0.0)
        if value is not None:
            found = behind(self.key, figures)
            hidden = found is not None and found.hides(self.key.rpartition(".")[2])
            return self._missed if hidden else float(value)
        if nothing := _nothing(self.key, figures):
            return Gone(f"{self.key} is null", f": {nothing} in the window")
        if declared.unit in _TIMES:
            return self._missed
        return Gone(f"{self.key} is null", f": {declared.definition}")

    def interval(self, values: Sequence[float]) -> Interval:
        """The 95 % t interval of the mean over runs; equal values are their own interval."""
        if any(map(isinf, values)):
            return Interval(self._missed, self._missed, self._missed, len(values))
        if len(values) > 1 and min(values) == max(values):
            return Interval(values[0], values[0], values[0], len(values))
        return t_interval(values)

    def verdict(self, interval: Interval) -> Verdict:
        """Whether the whole interval keeps the bound, none of it, or some."""
        if interval.low is None or interval.high is None:
            return "undecided"
        kept = {self.keeps(interval.low), self.keeps(interval.high)}
        if len(kept) == 2:
            return "undecided"
        return "meets" if kept == {True} else "misses"

    def kept_by_mean(self, interval: Interval) -> bool:
        """Whether the mean keeps the bound, however sure it is."""
        return interval.mean is not None and self.keeps(interval.mean)

    def keeps(self, value: float) -> bool:
        """Whether a value stands in the relation to the bound."""
        match self.relation:
            case "<=":
                return value <= self.bound
            case ">=":
                return value >= self.bound
            case "<":
                return value < self.bound
            case _:
                return value > self.bound


def _nothing(key: str, figures: Mapping[str, float | None]) -> str | None:
    """What a run has none of, so that there was nothing to be timed; None if there was."""
    scope, _, quantity = key.rpartition(".")[0].rpartition(".")
    inside = f"{scope}." if scope else ""
    if figures.get("requests") == 0 or figures.get(f"{inside}requests") == 0:
        return "no request arrived" if not scope else f"no request of {scope} arrived"
    if quantity == "hold_s" and figures.get(f"{inside}holds.waited") == 0:
        return "no attempt had to wait"
    if quantity == "swap_s":
        tried = re.compile(rf"{re.escape(inside)}(members\..+\.)?(loads|swap_failures\..+)")
        if not any(value for name, value in figures.items() if tried.fullmatch(name)):
            return "no load began"
    if quantity in _BETWEEN_TOKENS and figures.get("requests_completed"):
        return "no answer had a second token"
    return None


def parse(text: str) -> Target:
    """Read ``ttft_s.p95 <= 2.5``; raises ``UserError``."""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise UserError(
            f"target {text!r}: must be a figure, <=, <, >= or >, and a number, such as "
            "'ttft_s.p95 <= 2.5' or 'slo_attainment >= 0.95' (for 95 %)"
        )
    key, relation, written = match.groups()
    try:
        declared = metric(key)
    except KeyError:
        known = [each.key for each in METRICS]
        otherwise = "all figures: podsim run FILE --json"
        if "goodput" in key:
            otherwise = "goodput is goodput_requests_per_s, and as a share slo_attainment"
        hint = suggestion(key, known, otherwise, every=True)
        raise UserError(f"target {text!r}: unknown figure {key!r}{hint}") from None
    target = Target(key, relation, _bound(text, declared, written))
    _check_possible(target, declared)
    return target


def _check_possible(target: Target, declared: Metric) -> None:
    """Raises ``UserError`` for a bound that every value keeps, or none can."""
    least, most = 0.0, 1.0 if declared.unit == "ratio" else inf
    kept = {target.keeps(least), target.keeps(most)}
    if len(kept) == 2:
        return
    what = "every value of it meets it" if kept == {True} else "no value of it can meet it"
    of = f"is a ratio, from {least:g} to {most:g}" if most < inf else f"is never below {least:g}"
    meant = ""
    if most <= target.bound <= 100.0:
        meant = f"; did you mean '{target.key} {target.relation} {target.bound / 100.0:g}'?"
    raise UserError(f"target '{target}': {target.key} {of}, so that {what}{meant}")


def check(target: Target, scenario: Scenario) -> None:
    """Raises ``UserError`` when no run of ``scenario`` could have the figure, or see the bound."""
    first, _, rest = target.key.partition(".")
    if first in ("slo_attainment", "goodput_requests_per_s") and scenario.slo is None:
        raise UserError(
            f"target: {first} needs objectives: give the scenario slo: {{ttft: 2.5s, tpot: 40ms}} "
            "(or e2e: 30s), or --set slo.ttft=2.5s"
        )
    if first == "session_s" and all(
        isinstance(spec, RequestsSpec) for spec in scenario.workloads.values()
    ):
        raise UserError("target: session_s needs sessions; workloads of kind requests have none")
    known = {
        "by_workload": list(scenario.workloads),
        "rules": [rule.name for rule in scenario.router.rules],
        "pool": list(scenario.pools),
    }.get(first)
    if known is not None and not _begins(rest, known):
        name = rest.partition(".")[0]
        raise UserError(f"target: no {_NAMED[first]} {name!r} here{suggestion(name, known)}")
    if first == "by_workload" and len(scenario.workloads) == 1:
        raise UserError(
            f"target: no {target.key!r} here: {rest.partition('.')[0]} is the only workload, and "
            "the figures of all requests are its own"
        )
    if first == "pool":
        _check_member(rest, scenario)
    window = scenario.window
    if metric(target.key).unit == "s" and window.measure is not None:
        _check_seen(target, window.warmup + window.measure)


def _check_seen(target: Target, lasts_s: float) -> None:
    """Raises ``UserError`` for a bound that no time within a run can be above."""
    if target.bound > lasts_s:
        meant = f"; did you mean {target.bound:g}ms?" if target.bound >= 100.0 else ""
        raise UserError(
            f"target '{target}': a run lasts {lasts_s:,g} s, in which no longer time can be seen"
            f"{meant}"
        )


def _check_member(rest: str, scenario: Scenario) -> None:
    """Raises ``UserError`` for a member that a pool does not have."""
    for pool, spec in scenario.pools.items():
        at = f"{pool}.members."
        if rest.startswith(at) and not _begins(rest.removeprefix(at), spec.members):
            name = rest.removeprefix(at).partition(".")[0]
            raise UserError(
                f"target: no member {name!r} of pool {pool} here{suggestion(name, spec.members)}"
            )


def _begins(key: str, names: Iterable[str]) -> bool:
    """Whether a key begins with one of the names, which may have dots themselves."""
    return any(f"{key}.".startswith(f"{name}.") for name in names)


def _bound(text: str, declared: Metric, written: str) -> float:
    try:
        found = quantities.in_base(quantities.parse(written))
    except ValueError as error:
        raise UserError(f"target {text!r}: {error}") from None
    if found.unit not in ("", declared.unit):
        raise UserError(f"target {text!r}: {declared.key} is in {declared.unit}; got {written}")
    return float(found.number)
