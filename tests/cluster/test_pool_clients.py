"""Clients of pools in whole runs: who comes back is served, who does not wait pays for it."""

from typing import Any

import pytest

from tests.cluster.scenarios import Ran, ask, pooled, rounded, script

EVERY_5_S = {"max": 30, "backoff": {"initial": 5, "factor": 1, "max": 5}}


def retrying(scenario: dict[str, Any], **retry: Any) -> dict[str, Any]:
    """The same with clients that try again."""
    scenario["workloads"]["w"]["retry"] = {**EVERY_5_S, **retry}
    return scenario


def test_c45_a_retry_is_served_when_the_incumbent_has_drained() -> None:
    """C45: who was told to come back would be skipped for ever, or be counted as lost."""
    scenario = pooled(
        {"a": 30, "b": 30, "c": 30},
        ask("c", 0, 100),
        ask("chat", 0),
        rules={"chat": {"backends": ["a", "b"], "poolActivation": "IfIdle"}, "c": ["c"]},
        initial="c",
    )
    ran = Ran(retrying(scenario))
    chat = ran.requests[1]
    # The retry of 100 s arrives when c has just ended.
    assert (chat["http_status"], chat["tries"], chat["end_s"]) == (200, 21, 132)
    retries = ran.result.tables.retries.to_pylist()
    assert [row["end_s"] for row in retries] == [5.0 * number for number in range(20)]
    assert {(row["http_status"], row["reason"], row["retry_after_s"]) for row in retries} == {
        (503, "pool_incumbent_busy", 5)
    }
    assert len(ran.rows("skip")) == 40


@pytest.mark.parametrize("begin_s", [0.0, 0.1, 0.2, 0.3, 0.7, 1.1, 2.2])
@pytest.mark.parametrize(("tokens", "tries"), [(50, 2), (51, 3)])
def test_a_retry_arrives_when_the_incumbent_is_idle(
    begin_s: float, tokens: int, tries: int
) -> None:
    """Rounding would decide whether a retry at the instant of the last token finds it busy."""
    scenario = pooled(
        {"a": 1, "b": 1},
        ask("b", begin_s, tokens),
        ask("chat", begin_s),
        rules={"chat": {"backends": ["a"], "poolActivation": "IfIdle"}, "b": ["b"]},
        engine={"stepTime": {"a": 100}},
        initial="b",
    )
    assert Ran(retrying(scenario)).requests[1]["tries"] == tries


@pytest.mark.parametrize(
    ("compat", "answer"),
    [
        ({}, (200, 2, 37)),
        ({"swapDeadlineStatus": 502}, (502, 1, 20)),
        ({"swapDeadlineStatus": 502, "tieOrder": "hold-first"}, (200, 2, 37)),
    ],
)
def test_clients_that_retry_end_served_since_the_fix(
    compat: dict[str, Any], answer: tuple[int, int, float]
) -> None:
    """A swap that takes longer than its budget would look like an outage, or stay one for ever."""
    asked = script(ask("b", 0))
    scenario = pooled(
        {"a": {"load": 10, "unload": 12}, "b": 10},
        workloads={"direct": script(ask("a", 0, 12), direct="a"), "w": asked},
        initial="a",
        swapBudget=20,
        compat=compat,
    )
    routed = Ran(retrying(scenario)).requests[1]
    # The swap that is abandoned at 20 s has a unloaded until 24 s; the retry of 25 s loads b.
    assert (routed["http_status"], routed["tries"], rounded(routed["end_s"])) == answer


def impatient(rule: Any, **client: Any) -> Ran:
    """Someone asks for small while large is there, or busy, and has large to fall back on."""
    scenario = pooled(
        {"small": 30, "large": 30},
        ask("small", 0),
        rules={"small": rule, "large": ["large"]},
        initial="large",
    )
    scenario["workloads"]["w"].update(client)
    return Ran(scenario)


def test_a_timeout_of_the_client_abandons_a_swap_that_was_under_way() -> None:
    """A client that cannot tell busy from loading would look as good as IfIdle."""
    hasty = impatient(["small"], clientTimeout=10, fallbackModels=["large"])
    (row,) = hasty.requests
    # At 10 s the large one is unloaded already and has to come back.
    assert (row["backend"], row["http_status"], row["end_s"]) == ("large", 499, 20)
    assert hasty.swaps[0] == ("large", "small", 0, 10, "cancelled")
    waiting = impatient({"backends": ["small", "large"], "poolActivation": "IfIdle"})
    (row,) = waiting.requests
    assert (row["backend"], row["http_status"], row["end_s"]) == ("small", 200, 32)
