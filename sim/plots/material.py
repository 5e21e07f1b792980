"""What figures of a set of runs are made of; each table is read when a figure asks for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from sim.core.recorder import RunFacts
from sim.plots.frames import Span, within
from sim.results import arrow
from sim.results.comparison import compare_variants
from sim.results.result import RunResult
from sim.results.stored import StoredRun


@dataclass(frozen=True)
class _Summary:
    """As much of a result as a comparison over seeds looks at."""

    variant: str
    summary: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """One run: its facts, and how to get at a table or the summary of it."""

    facts: RunFacts
    table: Callable[[str], arrow.Table]
    summary: Callable[[], dict[str, Any]]

    @property
    def variant(self) -> str:
        """Name of the variant; empty for a scenario without variants."""
        return self.facts.variant


@dataclass(frozen=True)
class Material:
    """The runs of one scenario, by variant and seed."""

    sources: tuple[Source, ...]

    @staticmethod
    def of_stored(runs: Sequence[StoredRun]) -> "Material":
        """From disk, table by table; what cannot be read raises ``UserError`` when it is needed."""
        return Material(tuple(Source(run.facts, run.table, run.summary) for run in runs))

    @staticmethod
    def of_results(results: Sequence[RunResult]) -> "Material":
        """From results with their tables."""
        return Material(
            tuple(
                Source(one.facts, partial(getattr, one.tables), partial(getattr, one, "summary"))
                for one in results
            )
        )

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The variants in order."""
        return tuple(dict.fromkeys(source.variant for source in self.sources))

    @cached_property
    def pods(self) -> tuple[str, ...]:
        """The pods of all runs in order."""
        return tuple(dict.fromkeys(pod for source in self.sources for pod in source.facts.pods))

    @cached_property
    def window_s(self) -> Span | None:
        """The measured window, None when the runs do not have the same."""
        windows = {(each.facts.window_start_s, each.facts.window_end_s) for each in self.sources}
        return windows.pop() if len(windows) == 1 else None

    @property
    def firsts(self) -> tuple[Source, ...]:
        """The first run of each variant."""
        return tuple(
            next(source for source in self.sources if source.variant == variant)
            for variant in self.variants
        )

    @cached_property
    def requests(self) -> pd.DataFrame:
        """The requests of all runs; those of their windows where these differ."""
        return self._frame("requests", "arrival_s", self.sources)

    @cached_property
    def placements(self) -> pd.DataFrame:
        """The placements of all runs; those of their windows where these differ."""
        return self._frame("placements", "dispatch_s", self.sources)

    @cached_property
    def first_pods(self) -> pd.DataFrame:
        """The polls of the first run of each variant."""
        return self._frame("pods", None, self.firsts)

    @cached_property
    def comparison(self) -> dict[str, Any]:
        """Means over seeds and 95 % t intervals, by metric and variant."""
        return compare_variants([_Summary(one.variant, one.summary()) for one in self.sources])

    def _frame(self, table: str, time: str | None, sources: Sequence[Source]) -> pd.DataFrame:
        """Their tables one below the other, each row with its variant and seed."""
        frames = []
        for source in sources:
            frame = arrow.data_frame(source.table(table))
            if time is not None and self.window_s is None:
                facts = source.facts
                frame = within(frame, time, (facts.window_start_s, facts.window_end_s))
            frame["variant"] = np.full(len(frame), source.variant, dtype=object)
            frame["seed"] = source.facts.seed
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)
