"""What a run leaves behind: facts of the run, columns, a summary."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim.core.recorder import RunFacts
from sim.results import arrow
from sim.results.tables import Tables

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class RunResult:
    """One variant under one seed: its tables, a summary, warnings and a digest."""

    facts: RunFacts
    tables: Tables
    summary: dict[str, Any]
    warnings: tuple[str, ...]
    digest: str
    manifest: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        name = f"{self.facts.scenario} {self.variant}".rstrip()
        return f"RunResult({name}, seed {self.seed}: {self.tables.requests.num_rows} requests)"

    @property
    def variant(self) -> str:
        """Name of the variant; empty for a scenario without variants."""
        return self.facts.variant

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.facts.seed

    @property
    def requests(self) -> "pd.DataFrame":
        """One row per user request (columns: ``sim.results.tables``)."""
        return arrow.data_frame(self.tables.requests)

    @property
    def placements(self) -> "pd.DataFrame":
        """One row per attempt."""
        return arrow.data_frame(self.tables.placements)

    @property
    def pods(self) -> "pd.DataFrame":
        """One row per pod and poll."""
        return arrow.data_frame(self.tables.pods)

    @property
    def failed_attempts(self) -> "pd.DataFrame":
        """One row per backend that a rule tried in vain."""
        return arrow.data_frame(self.tables.failed_attempts)

    @property
    def retries(self) -> "pd.DataFrame":
        """One row per answer after which a client tried again."""
        return arrow.data_frame(self.tables.retries)

    @property
    def pools(self) -> "pd.DataFrame":
        """One row per hold, skip, swap and unload of the model pools."""
        return arrow.data_frame(self.tables.pools)
