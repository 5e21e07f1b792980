"""C02 with real pods: what a spill, and the way back from it, cost in prefilled tokens."""

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import pytest

from sim.core.content import Node, Prompt
from sim.core.kernel import Kernel, Order
from sim.core.recorder import Recorder
from sim.core.request import Outcome, Request, RequestView
from sim.engine.spec import Vllm
from sim.engine.vllm import VllmPod
from sim.hardware.engine import StepTime
from sim.router.ingress import Ingress
from sim.router.proxy import Proxy
from sim.router.routes import Routes
from sim.router.upstream import Upstream
from sim.router.views import Place, PodView
from sim.scenario.routing import Router, Rule
from sim.scenario.schema import Backend

TURN_TOKENS = 1600


class Follow:
    """Places the turns of one session on pods given in advance."""

    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s = None

    def __init__(self, pods: str) -> None:
        self._pods: Iterator[int] = iter(["AB".index(pod) for pod in pods])

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        return Place(next(self._pods), Outcome.PLACED)

    def observe(self, fact: Any) -> None:
        raise AssertionError("asked for no facts")


def computed_by_turn(pods: str) -> list[int]:
    """Prompt tokens that each turn of a session computes when its turns run on ``pods``."""
    kernel, recorder = Kernel(), Recorder()
    engine = Vllm(step_time=StepTime(a=10.0, b=50.0, f=10.0), kv_blocks=100_000)
    fleet = [VllmPod(name, engine, kernel) for name in "AB"]
    way = Upstream("b", list(fleet), partial(Follow, pods), kernel)
    rules = Router(rules=(Rule(name="all", backends=("b",)),))
    routes = Routes(rules, {"b": Backend(engine="e")}, {"b": way})
    proxy = Proxy("proxy-0", routes, [way], Ingress(kernel, recorder), kernel, recorder)
    session = Node()
    for turn in range(1, len(pods) + 1):
        prompt = Prompt(session, TURN_TOKENS * turn)
        request = Request("s", "a", turn, 1, prompt, session, output_tokens=1)
        kernel.at(10.0 * turn, Order.ARRIVAL, lambda request=request: proxy.submit(request))
    kernel.run_until(100.0)
    assert [attempt.pod for attempt in recorder.attempts] == list(pods)
    assert way.columns.in_flight == [0, 0]
    return [attempt.computed_tokens for attempt in recorder.attempts]


@pytest.mark.parametrize(
    ("pods", "computed", "hit_ratio"),
    [
        ("AAAAAA", [1600, 1600, 1600, 1600, 1600, 1600], 0.7143),
        ("AABBBB", [1600, 1600, 4800, 1600, 1600, 1600], 0.6190),
        ("AABAAA", [1600, 1600, 4800, 3200, 1600, 1600], 0.5714),
    ],
)
def test_c02_going_home_pays_twice(pods: str, computed: list[int], hit_ratio: float) -> None:
    """C02: a cache kept per session instead of per pod would credit the ring at turn 4."""
    found = computed_by_turn(pods)
    assert found == computed
    prompts = sum(TURN_TOKENS * turn for turn in range(1, 7))
    assert 1 - sum(found) / prompts == pytest.approx(hit_ratio, abs=1e-4)
