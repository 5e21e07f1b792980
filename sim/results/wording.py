"""What was measured and what to beware of, in words that every kind of answer uses."""

import re
from collections.abc import Iterable, Sequence
from math import isinf

from sim.core.recorder import RunFacts
from sim.results.result import RunResult


def window_in_words(facts: RunFacts) -> str:
    """The window of arrivals, to follow "requests that arrived"."""
    if isinf(facts.window_end_s):
        return f"from {facts.window_start_s:,g} s to the end of the workload"
    return f"from {facts.window_start_s:,g} s to {facts.window_end_s:,g} s of simulated time"


def seeds_in_words(seeds: Sequence[int]) -> str:
    """What a figure over these seeds is."""
    if len(seeds) == 1:
        return f"One run per variant, {listed(seeds)}"
    return f"Mean over {listed(seeds)} ± half-width of the 95 % t interval"


def listed(seeds: Sequence[int]) -> str:
    """The seeds in words, three or more in a row by their two ends."""
    rows: list[list[int]] = []
    for seed in seeds:
        if rows and seed == rows[-1][-1] + 1:
            rows[-1].append(seed)
        else:
            rows.append([seed])
    parts = [f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows]
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(parts)}"


def alike_warnings(runs: Iterable[RunResult]) -> list[tuple[str, str]]:
    """Warnings of runs, each with the run that has it; those of one variant that differ in numbers
    only are one, which names its other seeds.
    """
    said: dict[tuple[str, str], tuple[str, str, list[int]]] = {}
    variants: dict[str, list[RunResult]] = {}
    for run in runs:
        variants.setdefault(run.variant, []).append(run)
    in_order = [run for each in variants.values() for run in sorted(each, key=lambda run: run.seed)]
    for run in in_order:
        for warning in run.warnings:
            alike = re.sub(r"[\d.,]+", "#", warning)
            who = f"{run.variant or run.facts.scenario}, seed {run.seed}"
            said.setdefault((run.variant, alike), (who, warning, []))[2].append(run.seed)
    return [
        (who, f"{warning} (also under {listed(seeds[1:])})" if seeds[1:] else warning)
        for who, warning, seeds in said.values()
    ]


def input_facts(runs: Iterable[RunResult]) -> list[tuple[str, str]]:
    """What each workload counts about its input, where it is not zero."""
    counts: dict[str, dict[str, list[int]]] = {}
    for run in runs:
        for workload, facts in run.facts.workload_counts.items():
            for name, count in facts.items():
                counts.setdefault(workload, {}).setdefault(name, []).append(count)
    found = []
    for workload, named in counts.items():
        said = [
            f"{name.replace('_', ' ')} {_range(values)}"
            for name, values in named.items()
            if any(values)
        ]
        if said:
            found.append((workload, ", ".join(said)))
    return found


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,} per run"
