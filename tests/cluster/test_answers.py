"""What clients get to see of one run, from the pods and the proxy to the tables."""

import sim
from tests.cluster.scenarios import fleet


def test_pods_and_proxy_say_themselves_what_the_client_got() -> None:
    """A refusal by a pod, or a client that left, would be told from the status alone, so that
    the check of one against the other (INV-22) compared a value with itself."""
    rows = [
        {"arrival": 0.0, "promptTokens": 1000, "outputTokens": 11},
        {"arrival": 0.0, "promptTokens": 1000, "outputTokens": 11, "cancel": 0.05},
        {"arrival": 0.0, "promptTokens": 9999, "outputTokens": 11},
    ]
    workload = {"kind": "script", "rows": rows}
    run = sim.run(
        fleet(workload, {"kind": "round-robin"}, maxModelLen=2000), seeds=(1,), check=True
    ).runs[0]
    answers = [("completed", 200), ("cancelled", 499), ("rejected", 400)]
    assert list(zip(run.requests["status"], run.requests["http_status"])) == answers


def test_refusals_and_cuts_are_told_with_their_reasons() -> None:
    """An error ratio alone sends the author of a bug report to the tables to find out why."""
    rows = [
        {"arrival": 0.0, "promptTokens": 9999, "outputTokens": 11},
        {"arrival": 0.0, "promptTokens": 1900, "outputTokens": 400},
        {"arrival": 0.0, "promptTokens": 100, "outputTokens": 11},
    ]
    workload = {"kind": "script", "rows": rows}
    run = sim.run(fleet(workload, {"kind": "round-robin"}, maxModelLen=2000), check=True).runs[0]
    assert run.warnings == (
        "1 of the 3 requests of the window refused or broken off: prompt_too_long 1; times and "
        "speeds say nothing of these 33.3 %",
        "1 answers were cut off (length): the model limit, the context of a slot, or all KV "
        "blocks of a pod left no room for more tokens",
    )
