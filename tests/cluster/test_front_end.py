"""What an API server takes before the engine knows of a request."""

import pytest

import sim
from sim.core.kernel import Kernel, Order
from sim.core.ports import PodTotals, Published
from sim.core.request import Attempt
from sim.engine.pod import FrontedPod
from sim.hardware.engine import FrontEnd
from tests.cluster.scenarios import fleet
from tests.engine.harness import Call, Text, Traffic

FRONT_END = {"perRequest": "15ms", "perPromptToken": "2us"}


def test_the_front_end_is_part_of_the_time_to_first_token_and_not_of_a_step() -> None:
    """1,000 tokens: 15 + 2 ms before the step of 60 ms. Two at once do not wait for each other,
    and in steps the time would hold up everybody else's tokens."""
    rows = [{"arrival": 0.0, "promptTokens": 1000, "outputTokens": 1}] * 2
    scenario = fleet({"kind": "script", "rows": rows}, {"kind": "round-robin"}, frontEnd=FRONT_END)
    run = sim.run(scenario, check=True).runs[0]
    assert list(run.requests.first_token_s) == pytest.approx([0.077, 0.077])
    assert run.facts.closed[0].busy_s == pytest.approx(0.060)


class _Pod:
    """A pod that only notes who comes and who leaves."""

    name = "pod"

    def __init__(self) -> None:
        self.submitted: list[Attempt] = []
        self.cancelled: list[Attempt] = []

    def submit(self, attempt: Attempt) -> None:
        self.submitted.append(attempt)

    def cancel(self, attempt: Attempt) -> None:
        self.cancelled.append(attempt)

    def published(self, now_s: float) -> Published:
        return Published(0, 0, 0.0)

    def totals(self, now_s: float) -> PodTotals:
        return PodTotals()


@pytest.mark.parametrize(("leaves_s", "submitted"), [(0.016, 0), (0.018, 1)])
def test_a_client_may_leave_before_the_engine_knows_of_it(leaves_s: float, submitted: int) -> None:
    """The engine would be asked to cancel what it has never seen, or compute for nobody."""
    kernel, pod = Kernel(), _Pod()
    front = FrontedPod(pod, FrontEnd(per_request=0.015, per_prompt_token=2e-6), kernel)
    traffic = Traffic((Text(),), (Call(0.0, 0, 1000, 1),))
    request = traffic.request(traffic.calls[0], traffic.nodes())
    attempt = Attempt(request, 1, "", "", 0, "", "", None, 0.0, 0.0, listener=None)  # type: ignore[arg-type]
    kernel.at(0.0, Order.ARRIVAL, lambda: front.submit(attempt))
    kernel.at(leaves_s, Order.CLIENT_TIMEOUT, lambda: front.cancel(attempt))
    kernel.run_until(1.0)
    assert len(pod.submitted) == len(pod.cancelled) == submitted
