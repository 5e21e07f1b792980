"""What pods say of a prompt that they hold: what a request would find, and nothing is touched."""

from typing import Any

import pytest

from sim.core.content import Node, Prompt
from sim.core.kernel import Kernel, Order
from sim.core.ports import peek
from sim.engine.spec import Vllm
from sim.engine.vllm import VllmPod
from sim.explain.request_report import request_report
from tests.cluster.scenarios import fleet
from tests.engine.harness import Call, Client, Text, Traffic
from tests.explain.runs import BINARY, explain

SERVER = {"kind": "llamacpp", "ctxSize": 4096, "kvPerToken": 100, "stepTime": BINARY}
VLLM = {"kvBlocks": 1000, "stepTime": BINARY}

ENGINES: dict[str, dict[str, Any]] = {
    "every block": VLLM,
    "states": {**VLLM, "prefixRetention": "prompt-tail", "blockSize": 32, "stateBlocks": 2},
    "async": {**VLLM, "asyncScheduling": True},
    "no cache": {**VLLM, "enablePrefixCaching": False},
    "front end": {**VLLM, "frontEnd": {"perRequest": 0.25, "perPromptToken": 0}},
    "slots": {**SERVER, "parallel": 2},
    "host memory": {**SERVER, "parallel": 1, "cacheIdleSlots": True},
    "unified": SERVER,
    "no reuse": {**SERVER, "cachePrompt": False},
}


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize("name", ENGINES)
def test_what_a_pod_holds_is_what_a_lone_request_finds(name: str, loses: bool) -> None:
    """A reader would be sent to a pod that had nothing, or not to the one that had it. With
    ``loses`` the pod dies in between and has forgotten everything."""
    shared = {"sharedPrefix": "all", "sharedTokens": 500, "outputTokens": 4}
    rows = [{"arrival": 20.0 * at, "promptTokens": 500 + at, **shared} for at in range(3)]
    rows[1] = {"arrival": 20.0, "promptTokens": 700, "outputTokens": 4}  # another text
    scenario = fleet({"kind": "script", "rows": rows}, {"kind": "round-robin"}, replicas=1)
    scenario["engines"]["e"] = ENGINES[name]
    if loses:
        scenario["events"] = [{"kind": "pod-lost", "at": "30s", "backend": "b", "for": "1s"}]
    told = request_report(explain(scenario), 2)
    assert told["cache"]["held_here_tokens"] == told["cached_tokens"]
    keeps = name not in ("no cache", "no reuse") and not loses
    assert (told["cached_tokens"] >= 448) == keeps


@pytest.mark.parametrize(("name", "found"), [("every block", 192), ("states", 0), ("slots", 200)])
def test_a_prompt_that_branches_off_finds_what_can_be_gone_on_from(name: str, found: int) -> None:
    """200 tokens are equal. Blocks of recurrent layers are of no use without a state behind them:
    a pod would be said to hold what nobody can start from."""
    rows = [
        {"arrival": 0.0, "promptTokens": 500, "sharedTokens": 500},
        {"arrival": 20.0, "promptTokens": 400, "sharedTokens": 200},
    ]
    rows = [{**row, "sharedPrefix": "all", "outputTokens": 4} for row in rows]
    scenario = fleet({"kind": "script", "rows": rows}, {"kind": "round-robin"}, replicas=1)
    scenario["engines"]["e"] = ENGINES[name]
    told = request_report(explain(scenario), 1)
    assert told["cache"]["held_here_tokens"] == told["cached_tokens"] == found


@pytest.mark.parametrize(("ahead", "known"), [(False, 64 + 6), (True, 64 + 7)])
def test_what_is_being_generated_is_held_before_it_is_written(ahead: bool, known: int) -> None:
    """Answers are put into the store when somebody looks, which a look from outside must not do:
    it counts them. A first request of 64 tokens decodes from 0.1875 s on, an eighth of a second
    a token; another one comes at 0.9 s. At 1.0625 s its step is still under way, and six decodes
    have ended before it; with async scheduling it has not begun, and seven have."""
    kernel = Kernel()
    engine = Vllm.model_validate({**VLLM, "blockSize": 1, "asyncScheduling": ahead})
    pod = VllmPod("p", engine, kernel)
    texts = (Text(), Text())
    calls = (Call(0.0, 0, 64, 400), Call(0.9, 1, 4, 300))
    traffic = Traffic(texts, calls)
    client = Client(kernel, [pod], traffic)
    nodes = client._nodes
    client.begin()
    seen: list[int | None] = []

    def look() -> None:
        seen.append(peek(pod, Prompt(nodes[0], 500)))
        seen.append(peek(pod, Prompt(nodes[0], 500)))

    kernel.at(1.0625, Order.OBSERVATION, look)
    kernel.run_until(2.0)
    assert seen == [known, known]


def test_whoever_does_not_say_is_not_known() -> None:
    """A pod of another package that cannot look into its cache would seem to hold nothing."""
    assert peek(object(), Prompt(Node(), 4)) is None
