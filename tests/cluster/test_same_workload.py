"""C66 in whole runs: one seed is one workload, whatever serves it."""

from typing import Any

import pytest

import sim
from tests.cluster.scenarios import agents, fleet

POLICIES = ("round-robin", "random", "power-of-two", "session-table", "bounded-ring")
WINDOW = {"measure": "300s"}


def sessions(scenario: dict[str, Any], seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """Per session the prompt and output lengths, in turn order, and the think times before.

    Before the first turn of an agent's first session stands its arrival: nothing can shift it.
    """
    table = sim.run(scenario, seeds=(seed,)).runs[0].requests
    found = {}
    for session, rows in table.sort_values(["session_id", "turn"]).groupby("session_id"):
        gaps_s = (rows.arrival_s - rows.end_s.shift()).round(6).tolist()
        begins_s = float(rows.arrival_s.iloc[0]) if str(session).endswith("/0") else None
        outputs = rows.output_tokens.fillna(-1).tolist()  # unknown of the last turn, at most
        found[str(session)] = list(
            zip(rows.prompt_tokens.tolist(), outputs, [begins_s, *gaps_s[1:]], strict=True)
        )
    return found


def common(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> int:
    """Checks that both tell the same of every turn that both reached; how many that were."""
    turns = 0
    for session in one.keys() & other.keys():
        shared = min(len(one[session]), len(other[session])) - 1
        turns += shared
        assert one[session][:shared] == other[session][:shared]
    return turns


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_policies_serve_the_same_sessions(policy: str) -> None:
    """Otherwise a difference between policies could be luck with the workload."""
    base = sessions(fleet(agents(), {"kind": POLICIES[0]}, window=WINDOW), seed=1)
    other = sessions(fleet(agents(), {"kind": policy}, window=WINDOW), seed=1)
    assert common(base, other) > 100


def test_pods_and_warmup_change_no_draw() -> None:
    """A global generator would shift the sessions when anything else is added."""
    policy = {"kind": "session-table"}
    base = sessions(fleet(agents(), policy, window=WINDOW), seed=1)
    more_pods = sessions(fleet(agents(), policy, replicas=5, window=WINDOW), seed=1)
    warm = {"warmup": "60s", "measure": "240s"}
    later = sessions(fleet(agents(), policy, window=warm), seed=1)
    assert common(base, more_pods) > 100
    assert base == later


def test_a_second_workload_shifts_nobody() -> None:
    """C66: adding a second traffic class must leave the first one's draws alone."""
    policy = {"kind": "session-table"}
    alone = fleet(agents(), policy, replicas=4, window=WINDOW)
    both = fleet(agents(), policy, replicas=4, window=WINDOW)
    both["workloads"] = {
        "a": {
            "kind": "requests",
            "arrivals": {"kind": "poisson", "rate": 1},
            "promptTokens": 500,
            "outputTokens": 20,
        },
        **both["workloads"],
    }
    assert common(sessions(alone, seed=1), sessions(both, seed=1)) > 100


def test_seeds_differ() -> None:
    """C66: three seeds on the command line must not be one workload."""
    scenario = fleet(agents(), {"kind": "session-table"}, window=WINDOW)
    first, second = (sessions(scenario, seed) for seed in (1, 2))
    firsts = [rows[0][0] for _, rows in sorted(first.items())]
    seconds = [rows[0][0] for _, rows in sorted(second.items())]
    assert firsts != seconds
