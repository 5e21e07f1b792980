"""Traces: what a file may say, and who waits for whom when it is sent again."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.core.errors import ScenarioError
from sim.core.request import Request, Status
from sim.scenario.inputs import Inputs
from sim.workload.trace import Trace, TraceSpec, read_trace
from tests.workload.fakes import Ran, content, run

HEAD = {"podsim_trace": 1}


def written(place: Path, *lines: dict[str, Any], head: Any = HEAD) -> Path:
    """A trace of these lines; each request begins a text of its own unless it says otherwise."""
    usual = {"workload": "w", "prompt_tokens": 10, "output_tokens": 2}
    rows = [
        {**usual, "text": 100 + number, **line} if "request" in line else line
        for number, line in enumerate(lines)
    ]
    path = place / "day.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (head, *rows)))
    return path


def replay(path: Path, status: dict[int, str], service_s: float = 1.0, **keys: Any) -> Ran:
    """Send a trace to a front door that answers requests, in order of arrival, with ``status``."""
    spec = TraceSpec.model_validate({"kind": "trace", "file": path.name, **keys})

    def service(request: Request) -> tuple[float, str]:
        return service_s, status.get(request.request_id, Status.COMPLETED)

    return run({"w": (Trace, spec)}, service=service, directory=path.parent)


def sent(ran: Ran) -> list[tuple[str, int, float]]:
    return [(each.session_id, each.turn, each.arrival_s) for each in ran.requests]


def agent(*sessions: int) -> list[dict[str, Any]]:
    """One agent, with sessions of so many turns; it thinks for a quarter of a second."""
    lines: list[dict[str, Any]] = []
    for name, turns in zip("xyz", sessions):
        for turn in range(1, turns + 1):
            number = len(lines)
            wait: dict[str, Any] = {"arrival_s": 0.5}
            if number:
                wait = {"after" if turn > 1 else "behind": [number - 1], "think_s": 0.25}
            whose = {"session": f"w/a/{name}", "turn": turn, "agent": "w/a"}
            lines.append({"request": number, **whose, **wait})
    return lines


def test_a_turn_waits_for_the_one_before_it(tmp_path: Path):
    """Users would not wait for answers, or think while they read nothing."""
    ran = replay(written(tmp_path, *agent(2, 1)), {}, service_s=2.0)
    assert [at for _, _, at in sent(ran)] == [0.5, 2.75, 5.0]
    assert ran.finished_s == [7.0]
    assert ran.counts["w"] == {"rows_not_sent": 0}


@pytest.mark.parametrize("status", [Status.REJECTED, Status.FAILED, Status.CANCELLED])
def test_a_turn_that_is_not_completed_ends_its_session_and_not_its_agent(status, tmp_path: Path):
    """The rest of a broken session would be sent, or its agent would stop for ever."""
    ran = replay(written(tmp_path, *agent(3, 2)), {0: status})
    assert sent(ran) == [("w/a/x", 1, 0.5), ("w/a/y", 1, 2.5), ("w/a/y", 2, 3.75)]
    assert ran.counts["w"] == {"rows_not_sent": 2}
    assert len(ran.finished_s) == 1


def test_nothing_is_left_when_the_last_turns_are_not_sent(tmp_path: Path):
    """A run to the end would never end."""
    ran = replay(written(tmp_path, *agent(3)), {0: Status.FAILED})
    assert (len(ran.requests), ran.finished_s) == (1, [1.5])


@pytest.mark.parametrize(("goes_on", "turns"), [(True, 2), (False, 1)])
def test_who_has_left_may_come_back(goes_on, turns, tmp_path: Path):
    """A scripted row goes out after one that was cancelled, an agent's next turn does not."""
    lines = agent(2)
    lines[1]["or_cancelled"] = goes_on
    ran = replay(written(tmp_path, *lines), {0: Status.CANCELLED})
    assert len(ran.requests) == turns


def sub_agents() -> list[dict[str, Any]]:
    """A session whose first turn starts two sub-agents; another session follows."""
    return [
        {"request": 0, "session": "w/a/0", "arrival_s": 0},
        {"request": 1, "session": "w/a/0/1", "after": [0], "think_s": 1},
        {"request": 2, "session": "w/a/0/2", "after": [0], "think_s": 4},
        {"request": 3, "session": "w/a/0", "turn": 2, "after": [0], "behind": [1, 2], "think_s": 0},
        {"request": 4, "session": "w/a/1", "behind": [3], "think_s": 0},
    ]


def test_a_session_waits_for_its_sub_agents_however_they_end(tmp_path: Path):
    """It would go on without them, or pause for a failure that was not its own."""
    ran = replay(written(tmp_path, *sub_agents()), {1: Status.FAILED})
    assert [at for _, _, at in sent(ran)] == [0.0, 2.0, 5.0, 6.0, 7.0]


def test_a_broken_turn_starts_no_sub_agents(tmp_path: Path):
    """Sub-agents of a turn that never was would keep the fleet busy."""
    ran = replay(written(tmp_path, *sub_agents()), {0: Status.REJECTED})
    assert sent(ran) == [("w/a/0", 1, 0.0), ("w/a/1", 1, 2.0)]
    assert ran.counts["w"] == {"rows_not_sent": 3}


def test_requests_of_one_instant_go_in_the_order_of_the_file(tmp_path: Path):
    """Two requests that arrive together would find other pods than in their run."""
    lines = [
        {"request": 7, "arrival_s": 2.0, "session": "late"},
        {"request": 3, "arrival_s": 1.0, "session": "b"},
        {"request": 9, "arrival_s": 1.0, "session": "a"},
    ]
    ran = replay(written(tmp_path, *lines), {})
    assert [each.session_id for each in ran.requests] == ["b", "a", "late"]


def test_what_is_said_is_what_the_file_says(tmp_path: Path):
    """Cache hits would be others: keys, branches, answers, lengths."""
    lines = [
        {"text": 0},
        {"request": 0, "arrival_s": 0, "text": 1, "of": [0, 6], "key": "00000000000000ff"},
        {"text": 2, "of": [1, 10]},
        {"request": 1, "arrival_s": 1, "text": 1, "answer": 2, "prompt_tokens": 20, "turn": 2},
        {"request": 2, "arrival_s": 2, "text": 3, "of": [1, 12], "closes_session": True},
    ]
    requests = replay(written(tmp_path, *lines), {}).requests
    assert [request.session_key for request in requests] == [255, None, None]
    assert requests[0].prompt.common_prefix(requests[1].prompt) == 10
    assert requests[1].answer is not requests[1].prompt.node
    assert requests[2].prompt.node.parent is None or requests[2].prompt.tokens == 10
    assert [row[6] for row in content(requests)] == [False, False, True]


def faults(place: Path, *lines: dict[str, Any], head: Any = HEAD) -> list[str]:
    """What is wrong with a trace: line, key, message."""
    path = written(place, *lines, head=head)
    with pytest.raises(ScenarioError) as refused:
        read_trace(path)
    return [f"{each.line} {each.path}: {each.message}" for each in refused.value.faults]


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path):
    """A trace that was edited by hand would be half read, or take many tries to mend."""
    found = faults(
        tmp_path,
        {"request": 0, "arrival_s": 0.0},
        {"request": 0, "arrival_s": 1.0},
        {"request": 1},
        {"request": 2, "after": [9], "think_s": 1.0},
        {"request": 3, "arrival_s": 1.0, "think_s": 1.0},
        {"request": 4, "arrival_s": -1.0, "colour": "red"},
        {"request": 5, "arrival_s": 1.0, "prompt_tokens": 0, "key": "7"},
        {"request": 6, "arrival_s": 1.0, "text": 9, "of": [8, 1], "answer": 77},
        {"text": 100},
        {"request": 7, "arrival_s": "1s"},
    )
    assert found == [
        "3 request: 0 stands above already",
        "4 arrival_s: a request has an arrival_s, or waits for others: after, behind",
        "5 after: 9 is no request of 'w' further up",
        "6 think_s: goes with after or behind, and only with them",
        "7 arrival_s: input should be greater than or equal to 0",
        "7 colour: extra inputs are not permitted",
        "8 key: string should match pattern '^[0-9a-f]{16}$'",
        "8 prompt_tokens: input should be greater than or equal to 1",
        "9 of: text 8 does not stand further up",
        "9 answer: text 77 does not stand further up",
        "10 text: text 100 stands above already",
        "11 arrival_s: input should be a valid number",
    ]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"podsim_trace": 2}, "2 podsim_trace".replace("2", "1", 1) + ": is of a newer podsim"),
        ({"session": "x"}, "1 podsim_trace: must be the version, 1: the first line says"),
        ([], "1 : must be an object; got a list"),
        ({"podsim_trace": 1}, "0 : holds no request"),
    ],
)
def test_another_file_is_recognised(head, said, tmp_path: Path):
    """A recording, or a trace of tomorrow, would be read as if it were one of today."""
    (found,) = faults(tmp_path, head=head)
    assert found.startswith(said)


def test_what_is_not_json_is_told_with_its_line(tmp_path: Path):
    """A file cut off in the middle would be replayed up to there."""
    path = written(tmp_path, {"request": 0, "arrival_s": 0.0})
    path.write_text(path.read_text() + '\n{"request": 1, "arriv')
    with pytest.raises(ScenarioError, match=r"day\.jsonl:3:16: is not JSON: unterminated"):
        read_trace(path)


def test_a_workload_takes_its_own_requests_and_names_what_it_lacks(tmp_path: Path):
    """One client would send the requests of another."""
    lines = [
        {"request": 0, "arrival_s": 0.0, "session": "a"},
        {"request": 1, "arrival_s": 0.0, "session": "b", "workload": "v", "model": "m"},
    ]
    path = written(tmp_path, *lines, head={**HEAD, "workloads": ["w", "v", "idle"]})
    assert [each.session_id for each in replay(path, {}, workload="v").requests] == ["b"]
    idle = replay(path, {}, workload="idle")
    assert (idle.requests, idle.finished_s) == ([], [0.0])
    spec = TraceSpec.model_validate({"kind": "trace", "file": path.name, "workload": "nope"})
    with pytest.raises(ScenarioError, match="knows no workload 'nope'; there are w, v, idle"):
        spec.check(Inputs(tmp_path))
    everything = TraceSpec.model_validate({"kind": "trace", "file": path.name})
    everything.check(Inputs(tmp_path, ("m", "n")))
    with pytest.raises(ScenarioError, match=r"day\.jsonl:3:1: model: no backend serves 'm'"):
        everything.check(Inputs(tmp_path, ("n",)))
