"""Pods that die and come back, and a proxy that restarts: what is lost and what is not."""

from collections import Counter
from typing import Any

import sim
from tests.router.scenarios import column, ends, failures, pods, run, site

TABLE = {"kind": "session-table"}


# -- pods ---------------------------------------------------------------------------------


def sessions(number: int, turns: int, think_s: float) -> list[dict[str, Any]]:
    """Sessions that begin 10 ms apart, with prompts that repeat all that was said."""
    return [
        {
            "session": f"s{session}",
            "promptTokens": 1600 * (turn + 1),
            "outputTokens": 1,
            **({"think": think_s} if turn else {"arrival": 0.01 * session}),
        }
        for session in range(number)
        for turn in range(turns)
    ]


def homes(result: Any) -> dict[str, list[tuple[float, str, str]]]:
    """Where each session was, turn by turn: when, outcome and pod."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    rows = column(result.tables.requests, "session_id", "arrival_s", "outcome", "pod")
    for session, *turn in rows:
        found.setdefault(session, []).append(tuple(turn))
    return found


def test_c09_only_the_sessions_of_a_lost_pod_move() -> None:
    """C09: sessions of other pods would move, those of the lost one stay with a dead pod, or move
    for another reason; the pod would come back with its cache, or with its sessions."""
    events = [{"kind": "pod-lost", "at": 15, "backend": "a", "replica": 1, "for": "20s"}]
    scenario = site("a", rows=sessions(12, 5, 10.0), settings={"a": {"replicas": 3}}, events=events)
    for policy in ({"kind": "session-table"}, {"kind": "bounded-ring", "maxLoadPercent": 100_000}):
        scenario["backends"]["a"]["policy"] = policy
        table = policy["kind"] == "session-table"
        turns = homes(run(scenario))
        before = {session: each[1][2] for session, each in turns.items()}
        assert len(set(before.values())) == 3
        for session, each in turns.items():
            assert all(at_s > 15 for at_s, *_ in each[2:])
            later = [pod for _, _, pod in each[2:4]]
            if before[session] != "a-1":
                assert later == [before[session]] * 2
                assert each[4][2] == before[session]
            else:
                assert "a-1" not in later
                assert each[2][1] == "migrated"
                assert each[3][1] == ("sticky" if table else "migrated")
                # A table leaves it where it is now; the ring takes it home to an empty cache.
                assert each[4][2] == (later[-1] if table else "a-1")


def test_a_pod_that_comes_back_has_forgotten_everything() -> None:
    """C09: it would find what it had computed in its life before, or never serve again."""
    again = {"session": "s", "promptTokens": 1600, "outputTokens": 1}
    rows = [
        {**again, "arrival": at_s, "sharedPrefix": "p", "sharedTokens": 1600} for at_s in (1, 2, 9)
    ]
    events = [{"kind": "pod-lost", "at": 5, "backend": "a", "for": "1s"}]
    for row, name in zip(rows, "xyz"):
        row["session"] = name
    requests = run(site("a", rows=rows, events=events)).tables.requests
    assert column(requests, "status", "cached_tokens") == [
        ("completed", 0),
        ("completed", 1584),
        ("completed", 0),
    ]


def test_a_pod_that_is_lost_twice_is_down_until_both_are_over() -> None:
    """It would come back before a loss is over, at the end of one that began before it or after."""
    lost = {"kind": "pod-lost", "backend": "a"}
    events = [
        {**lost, "at": 1, "for": "4s"},
        {**lost, "at": 2, "for": "1s"},
        {**lost, "at": 10, "for": "2s"},
        {**lost, "at": 11, "for": "4s"},
        {**lost, "at": 20, "for": "2s"},
        {**lost, "at": 21},
    ]
    times_s = (0, 3.5, 5, 12.5, 15, 22.5)
    result = run(site("a", rows=[{"arrival": at_s} for at_s in times_s], events=events))
    statuses = column(result.tables.requests, "http_status")
    assert statuses == [200, 502, 200, 502, 200, 502]


def test_c09_what_is_in_flight_on_a_lost_pod_is_counted_once() -> None:
    """C09: it would end twice, or be served on and on by a pod that is gone; or those that have no
    token yet fail although another pod could serve them."""
    events = [{"kind": "pod-lost", "at": 0.3, "backend": "a", "replica": 0, "for": "5s"}]
    rows = [{"arrival": at_s} for at_s in (0.0, 0.0, 0.26, 0.27)]
    result = run(site("a", "b", rows=rows, settings={"a": {"replicas": 2}}, events=events))
    assert [end[:3] for end in ends(result)] == [
        ("failed", None, "connection_lost"),
        ("completed", 200, None),
        ("completed", 200, None),
        ("completed", 200, None),
    ]
    assert failures(result) == [(2, "a", "connection_lost", None, 0.26, 0.3)]
    assert pods(result) == [(0, "a-0"), (1, "a-1"), (2, "a-0"), (3, "a-1"), (2, "b-0")]


# -- the proxy ----------------------------------------------------------------------------


def test_c12_a_restart_places_each_live_session_anew_once() -> None:
    """C12: the table would survive, or sessions be new again and again; caches of pods, which know
    nothing of the proxy, would be lost with it."""
    rows = sessions(48, 6, 20.0)
    scenario = site("a", rows=rows, settings={"a": {"replicas": 8, "policy": TABLE}})
    scenario["engines"]["e"]["stepTime"] = {"a": 20.0}
    calm = Counter(column(run(scenario).tables.requests, "outcome"))
    assert calm == {"new": 48, "sticky": 5 * 48}
    scenario["events"] = [{"kind": "proxy-restart", "at": 50}]
    result = run(scenario)
    turns = homes(result)
    assert len(turns) == 48
    lucky = 0
    for each in turns.values():
        outcomes = [outcome for _, outcome, _ in each]
        assert [at_s < 50 for at_s, *_ in each] == [True] * 3 + [False] * 3
        assert outcomes == ["new", "sticky", "sticky", "new", "sticky", "sticky"]
        lucky += each[2][2] == each[3][2]
    assert 0 < lucky < 24
    first = column(result.tables.requests, "turn", "session_id", "cached_tokens")
    warm = sum(cached > 0 for turn, _, cached in first if turn == 4)
    assert warm == lucky


def test_pods_that_come_and_go_may_restart_the_proxy() -> None:
    """LLMKube rolls its proxy anew when pods behind `resolution: endpoint` change (LLMKube#1820):
    every session is placed anew, not only those of the pod that was lost."""
    lost = {"kind": "pod-lost", "at": 15, "backend": "a", "replica": 1, "for": "20s"}
    anew = {}
    for restarts in (False, True):
        events = [{**lost, "restartsProxy": restarts}]
        rows = sessions(12, 5, 10.0)
        scenario = site("a", rows=rows, settings={"a": {"replicas": 3}}, events=events)
        scenario["backends"]["a"]["policy"] = TABLE
        result = run(scenario)
        assert result.facts.restarts_s == ((15.0, 35.0) if restarts else ())
        turns = homes(result).values()
        anew[restarts] = Counter(outcome for each in turns for _, outcome, _ in each)["new"]
    assert anew == {False: 12, True: 3 * 12}


def test_c12_counts_of_a_restarted_proxy_never_go_below_zero() -> None:
    """C12: requests in flight at the restart end later; they would be subtracted from counts that
    know nothing of them, and the pod be preferred ever after."""
    rows = [{"arrival": 0.0}, {"arrival": 0.0}, {"arrival": 0.6}]
    events = [{"kind": "proxy-restart", "at": 0.5}]
    poll = {"metrics": {"pollInterval": "250ms"}}
    (result,) = sim.run(site("a", rows=rows, events=events, router=poll)).runs
    assert ends(result) == [
        ("completed", 200, None, 1.0),
        ("completed", 200, None, 1.0),
        ("completed", 200, None, 1.625),
    ]
    polled = dict(column(result.tables.pods, "time_s", "in_flight"))
    # At 1 s step ends come before polls.
    assert polled == {0.0: 0, 0.25: 2, 0.5: 0, 0.75: 1, 1.0: 1, 1.25: 1, 1.5: 1}


def test_a_new_proxy_knows_of_no_quarantine() -> None:
    """It would avoid a pod for what that has done to the proxy before."""
    rows = [{"arrival": at_s, "outputTokens": 1} for at_s in (0.0, 4.0, 5.0)]
    events = [
        {"kind": "backend-errors", "at": 0, "for": "1s", "backend": "a"},
        {"kind": "proxy-restart", "at": 2},
    ]
    result = run(site("a", rows=rows, settings={"a": {"replicas": 2}}, events=events))
    assert pods(result) == [(0, "a-0"), (1, "a-0"), (2, "a-1")]


def test_a_request_of_the_proxy_before_does_not_go_on_to_other_backends() -> None:
    """Nobody is left to send it there; and the new proxy knows of no quarantine."""
    rows = [{"arrival": 0.0}, {"arrival": 4.0}]
    events = [
        {"kind": "proxy-restart", "at": 0.05},
        {"kind": "pod-lost", "at": 0.1, "backend": "a", "for": "1s"},
    ]
    result = run(site("a", "b", rows=rows, events=events))
    assert ends(result) == [
        ("failed", None, "proxy_restart", 0.1),
        ("completed", 200, None, 5.0),
    ]
    assert pods(result) == [(0, "a-0"), (1, "a-0")]


def test_clients_of_what_a_restart_breaks_may_come_back() -> None:
    """A broken connection has no status: nobody could say that it is to be retried."""
    retry = {"on": [], "onConnectionError": True}
    events = [
        {"kind": "proxy-restart", "at": 0.05},
        {"kind": "pod-lost", "at": 0.1, "backend": "a", "for": "0.5s"},
    ]
    result = run(site("a", rows=[{"arrival": 0.0}], events=events, clients={"retry": retry}))
    assert ends(result) == [("completed", 200, None, 2.1)]
    assert column(result.tables.retries, "end_s", "http_status", "reason") == [
        (0.1, None, "proxy_restart")
    ]
