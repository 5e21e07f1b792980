"""Rules that every finished run obeys, numbered; each returns what breaks it.

A run that breaks one is a bug in podsim, never in a scenario. These are read
off the result. The others need the live state or more than one run:

======  ====================================================================  =================
id      rule                                                                  checked in
======  ====================================================================  =================
INV-3   free + held + cached blocks = capacity; held blocks stay              core.kvcache, tests
INV-5   the clock never goes back                                             core.kernel, tests
INV-6   same scenario, seed and version, same digest in every process         tests
INV-7   a further pod or workload changes no other workload's draws           tests
INV-8   a pod with work that can be admitted is never idle                    tests (step engine)
INV-9   decisions do not depend on true output lengths                        tests, RequestView
INV-10  metrics are as old as the view says                                   tests
INV-13  batch and token budgets are respected                                 tests (step engine)
INV-14  a span is its steps                                                   tests (step engine)
INV-15  an exported trace replays to the tables of its run                    every export, tests
======  ====================================================================  =================
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sim.invariants.checks import (
    answers_fit,
    counters_stay_in_range,
    holds_end_once,
    life_runs_forward,
    littles_law,
    placements_belong_to_requests,
    pods_and_requests_count_the_same_tokens,
    pods_are_busy_within_the_window,
    pools_have_one_member_at_a_time,
    proxies_count_what_is_in_flight,
    requests_are_conserved,
    tokens_are_conserved,
    tries_follow_each_other,
)
from sim.invariants.evidence import RunEvidence, Violations
from sim.results.result import RunResult


@dataclass(frozen=True)
class Invariant:
    """A rule: its number, what finds its violations, whether every run can afford it."""

    id: str
    violations: Callable[[RunEvidence], Violations]
    cheap: bool

    @property
    def statement(self) -> str:
        """The rule in one sentence."""
        return (self.violations.__doc__ or "").partition("\n")[0]


INVARIANTS: Final = (
    Invariant("INV-1", requests_are_conserved, cheap=True),
    Invariant("INV-2", tokens_are_conserved, cheap=True),
    Invariant("INV-4", life_runs_forward, cheap=True),
    Invariant("INV-11", littles_law, cheap=False),
    Invariant("INV-12", pods_are_busy_within_the_window, cheap=True),
    Invariant("INV-18", counters_stay_in_range, cheap=True),
    Invariant("INV-19", placements_belong_to_requests, cheap=False),
    Invariant("INV-20", pods_and_requests_count_the_same_tokens, cheap=True),
    Invariant("INV-21", proxies_count_what_is_in_flight, cheap=False),
    Invariant("INV-22", answers_fit, cheap=True),
    Invariant("INV-23", tries_follow_each_other, cheap=False),
    Invariant("INV-24", pools_have_one_member_at_a_time, cheap=True),
    Invariant("INV-25", holds_end_once, cheap=False),
)


def check_all(result: RunResult) -> list[str]:
    """What breaks any of the rules above; empty for a sound run."""
    return _check(result, INVARIANTS)


def check_cheap(result: RunResult) -> list[str]:
    """The same for the rules that cost next to nothing: a look at each column, no sorting."""
    return _check(result, tuple(rule for rule in INVARIANTS if rule.cheap))


def _check(result: RunResult, rules: tuple[Invariant, ...]) -> list[str]:
    run = RunEvidence(result)
    return [f"{rule.id}: {violation}" for rule in rules for violation in rule.violations(run)]
