"""What a run writes down while it runs: facts, kept as they come and read once, at the end."""

from dataclasses import dataclass, field

from sim.core.ports import PodTotals, PoolEvent
from sim.core.request import Attempt, FailedAttempt, Request, Retry


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
    proxy restarted. ``gauges`` are those of the policies at the end of the window,
    by backend and name.
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
    gauges: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def has_slo(self) -> bool:
        """Whether there are objectives to attain."""
        return (self.slo_ttft_s, self.slo_tpot_s, self.slo_e2e_s) != (None, None, None)


class Recorder:
    """Append-only. Requests and attempts are kept as objects and read once, at the end."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.attempts: list[Attempt] = []
        self.failed_attempts: list[FailedAttempt] = []
        self.retries: list[Retry] = []
        self.abandoned: list[tuple[Attempt, Attempt]] = []  # as it ended, as its client left it
        self.pool_events: list[PoolEvent] = []
        self.remarks: list[str] = []  # that a reader should know beside what the tables say
        self.sample_time_s: list[float] = []
        self.sample_pod: list[int] = []
        self.sample_in_flight: list[int] = []
        self.sample_waiting: list[int] = []
        self.sample_running: list[int] = []
        self.sample_kv_usage: list[float] = []

    def arrived(self, request: Request) -> None:
        """A request has reached the router; gives it its id."""
        request.request_id = len(self.requests)
        self.requests.append(request)

    def dispatched(self, attempt: Attempt) -> None:
        """An attempt has left for its pod."""
        self.attempts.append(attempt)

    def sampled(
        self, now_s: float, pod: int, in_flight: int, waiting: int, running: int, kv_usage: float
    ) -> None:
        """A metrics poll has read a pod; ``pod`` is its index among all pods of the run."""
        self.sample_time_s.append(now_s)
        self.sample_pod.append(pod)
        self.sample_in_flight.append(in_flight)
        self.sample_waiting.append(waiting)
        self.sample_running.append(running)
        self.sample_kv_usage.append(kv_usage)
