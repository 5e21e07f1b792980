"""vLLM's own balancer over the ranks of a data-parallel deployment.

In vLLM the API server keeps a copy of every rank's counts. A choice adds one to
the copy; about each 100 ms a coordinator broadcasts the real counts, which
replace the copy. What it dispatched shortly before is then forgotten until the
ranks have counted it, and that is where its imbalances come from
(vllm-project/vllm#36748, #48027). Here a poll is the broadcast: give
``router.metrics.pollInterval: 100ms``.
"""

from math import inf
from typing import Any, ClassVar, Literal

from pydantic import Field

from sim.core.fields import Model
from sim.core.registry import family
from sim.core.request import Outcome, RequestView
from sim.router.placement.ties import ready_pods
from sim.router.views import Place, PodView, PolicyContext

WAITING_WEIGHT = 4


class VllmDpSpec(Model):
    """The rank with the least 4 x waiting + running, by its last broadcast and choices since."""

    kind: Literal["vllm-dp"] = "vllm-dp"
    ties: Literal["first-index", "rotate"] = Field(
        default="first-index",
        description="Which of the least is taken: the first rank, as vLLM did until July 2026, or "
        "the first in a scan that starts one rank further with each decision, as since then "
        "(vllm-project/vllm#47420).",
    )


@family(VllmDpSpec)
class VllmDp:
    """Least score, where every choice counts as one waiting until the next poll."""

    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None

    def __init__(self, spec: VllmDpSpec, context: PolicyContext) -> None:
        self._rotates = spec.ties == "rotate"
        self._decisions = 0
        self._decided_s = -inf  # when the last decision was taken
        self._chosen: dict[int, int] = {}  # how often since the pod's last poll

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on the ready pod with the least score."""
        self._forget_polled(pods, now_s)
        among = ready_pods(pods.ready)
        if self._rotates:
            start = self._decisions % len(pods.ready)
            among.sort(key=lambda pod: pod < start)
        waiting, running, chosen = pods.waiting, pods.running, self._chosen

        def score(pod: int) -> int:
            return WAITING_WEIGHT * (waiting[pod] + chosen.get(pod, 0)) + running[pod]

        pod = min(among, key=score)
        chosen[pod] = chosen.get(pod, 0) + 1
        self._decisions += 1
        self._decided_s = now_s
        return Place(pod, Outcome.PLACED)

    def observe(self, fact: Any) -> None:
        """Nothing to note: polls show in the age of the metrics."""

    def _forget_polled(self, pods: PodView, now_s: float) -> None:
        """A poll since the last decision has replaced the copy of its pod."""
        elapsed_s = now_s - self._decided_s
        for pod in [pod for pod in self._chosen if pods.metrics_age_s(pod, now_s) < elapsed_s]:
            del self._chosen[pod]
