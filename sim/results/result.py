"""What a run leaves behind: facts of the run, columns, a summary."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim.ports import PodTotals
from sim.results import arrow
from sim.results.tables import Tables

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunFacts:
    """What the columns do not say about a run.

    Times are seconds. ``window_end_s`` is infinite for a run to the end of a
    finite workload; ``end_s`` is when the clock stopped. ``opened`` and
    ``closed`` are the totals of every pod at the two ends of the window, in
    pod order. ``agents`` counts the agents of all closed-loop workloads, 0
    when there are none. ``has_home`` says whether the policy's spills mean
    something. ``workload_counts`` are facts about the input, by workload.
    ``rules`` are the backends of each rule in order, ``pools`` the pods of the
    members of each pool and ``lives_s`` when each of these was ready, from and
    to; never two of a pool in ``exclusive_pools``. ``restarts_s`` is when the
    proxy restarted.
    """

    scenario: str
    variant: str
    seed: int
    window_start_s: float
    window_end_s: float
    end_s: float
    pods: tuple[str, ...]
    gpus: int
    agents: int
    has_home: bool
    opened: tuple[PodTotals, ...]
    closed: tuple[PodTotals, ...]
    events: int
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    slo_e2e_s: float | None = None
    workload_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pools: dict[str, dict[str, str]] = field(default_factory=dict)
    exclusive_pools: tuple[str, ...] = ()
    lives_s: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    restarts_s: tuple[float, ...] = ()

    @property
    def has_slo(self) -> bool:
        """Whether there are objectives to attain."""
        return (self.slo_ttft_s, self.slo_tpot_s, self.slo_e2e_s) != (None, None, None)


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
