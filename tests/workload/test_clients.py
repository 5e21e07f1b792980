"""Clients that leave, try again or ask for another model, to the second."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.core.kernel import Kernel, Order
from sim.core.ports import WorkloadContext
from sim.core.recorder import Recorder
from sim.core.request import Request, RequestView, Status
from sim.core.rng import Streams
from sim.router.ingress import Ingress
from sim.workload.script import Script, ScriptSpec


class Says(NamedTuple):
    """An answer to one try, so many seconds after it."""

    after_s: float
    http_status: int | None = 200
    retry_after_s: float | None = None
    status: str | None = None

    @property
    def what(self) -> str:
        if self.status is not None:
            return self.status
        if self.http_status is None:
            return Status.FAILED
        return Status.COMPLETED if self.http_status == 200 else Status.REJECTED


NEVER = Says(inf)


@dataclass
class Server:
    """Answers tries as it is told, through the front door of every run."""

    kernel: Kernel
    recorder: Recorder
    answer: Callable[[Request], Says]
    ended: list[Request] = field(default_factory=list)
    views: list[RequestView] = field(default_factory=list)
    at_work: dict[Request, int] = field(default_factory=dict)
    sent: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.door = Ingress(self.kernel, self.recorder)
        self.door.on_end = self.ended.append

    def submit(self, request: Request) -> None:
        self.door.arrives(request)
        self.views.append(request.view())
        self.sent.append((self.kernel.now_s, request.model))
        self.at_work[request] = request.tries
        says = self.answer(request)
        done = partial(self._done, request, request.tries, says)
        if says.after_s == 0.0:
            done()
        elif says.after_s < inf:
            self.kernel.at(self.kernel.now_s + says.after_s, Order.STEP_END, done)

    def cancel(self, request: Request) -> None:
        if self.at_work.pop(request, None) is None:
            self.door.leaves(request)
        else:
            self.door.answers(request, Status.CANCELLED, 499, "client_closed")

    def _done(self, request: Request, number: int, says: Says) -> None:
        if self.at_work.get(request) == number:
            del self.at_work[request]
            self.door.answers(request, says.what, says.http_status, None, says.retry_after_s)


def in_turn(*answers: Says) -> Callable[[Request], Says]:
    """The tries of each request are answered so, the last one ever after."""
    return lambda request: answers[min(request.tries, len(answers)) - 1]


class Ran(NamedTuple):
    recorder: Recorder
    server: Server
    finished_s: list[float]

    @property
    def request(self) -> Request:
        (request,) = self.recorder.requests
        return request

    def tries(self) -> list[tuple[float, float, int | None]]:
        """When each try that was not the last was sent and answered, and its HTTP status."""
        return [(each.sent_s, each.end_s, each.http_status) for each in self.recorder.retries]


def run(
    answer: Callable[[Request], Says],
    rows: Sequence[dict[str, Any]] = ({"arrival": 0},),
    seed: int = 1,
    **keys: Any,
) -> Ran:
    """A script of ``rows`` with these keys of its clients."""
    kernel, recorder = Kernel(), Recorder()
    server = Server(kernel, recorder, answer)
    written = [{"promptTokens": 100, "outputTokens": 10, **row} for row in rows]
    spec = ScriptSpec.model_validate_json(json.dumps({"kind": "script", "rows": written, **keys}))
    finished_s: list[float] = []
    context = WorkloadContext(
        "w",
        kernel,
        Streams(seed),
        server,
        Path(),
        lambda: finished_s.append(kernel.now_s),
        recorder.retries.append,
    )
    Script(spec, context).start()
    kernel.run_until(1e6)
    ends_s = [request.end_s for request in server.ended]
    assert ends_s == sorted(ends_s)
    assert len(set(server.ended)) == len(server.ended)
    return Ran(recorder, server, finished_s)


def ending(request: Request) -> tuple[str, int | None, float | None, int]:
    return request.status, request.http_status, request.end_s, request.tries


# -- retries ------------------------------------------------------------------------------


def test_a_client_comes_back_when_it_was_asked_to() -> None:
    """Retry-After would be read as the whole wait, or be ignored, or backoff not grow: the third
    wait is the backoff's, the first two are what the server said."""
    busy = Says(1.0, 503, 3.0)
    ran = run(in_turn(busy, busy, busy, Says(2.0)), retry={})
    assert ran.tries() == [(0, 1, 503), (4, 5, 503), (8, 9, 503)]
    assert [each.retry_after_s for each in ran.recorder.retries] == [3, 3, 3]
    assert [each.number for each in ran.recorder.retries] == [1, 2, 3]
    assert ran.request.sent_s == 9 + 4  # the backoff of the third retry, 1 s x 2 x 2
    assert ending(ran.request) == ("completed", 200, 15, 4)
    assert (ran.request.arrival_s, ran.request.retry_after_s) == (0, None)
    assert ran.finished_s == [15]


BUSY = Says(1.0, 503)
ONE_S = {"initial": "1s", "factor": 1}
WORKED = {
    "Retry-After would be followed in any case, and the longest wait not bound the backoff": (
        (Says(1.0, 503, 30.0),),
        {
            "retry": {
                "max": 4,
                "honourRetryAfter": False,
                "backoff": {"initial": "2s", "factor": 3, "max": "10s"},
            }
        },
        [0, 3, 10, 21, 32],
        ("rejected", 503, 33, 5),
    ),
    "after a restart of the proxy, which has no HTTP status, no client could come back": (
        (Says(1.0, None), Says(1.0)),
        {"retry": {"on": [], "onConnectionError": True}},
        [0, 2],
        ("completed", 200, 3, 2),
    ),
    "a refusal that comes before the submission returns would be lost, or end it twice": (
        (Says(0.0, 503), Says(0.0, 503), Says(0.0)),
        {"retry": {}},
        [0, 1, 3],
        ("completed", 200, 3, 3),
    ),
    "a client would go round its list of models for ever, or end without an answer": (
        (NEVER,),
        {"model": "a", "clientTimeout": "10s", "fallbackModels": ["b"]},
        [0, 10],
        ("cancelled", 499, 20, 2),
    ),
    "hindsight issue 1567: clients send the same request again after a timeout": (
        (NEVER,),
        {
            "model": "a",
            "clientTimeout": "10s",
            "retry": {"onTimeout": True, "max": 2, "backoff": {"initial": "1s", "factor": 3}},
            "fallbackModels": ["b"],
        },
        [0, 11, 24, 34],
        ("cancelled", 499, 44, 4),
    ),
    "the retries of timeouts would come on top of those of errors, and max bound neither": (
        (BUSY, NEVER, BUSY),
        {"clientTimeout": "10s", "retry": {"onTimeout": True, "max": 2, "backoff": ONE_S}},
        [0, 2, 13],
        ("rejected", 503, 14, 3),
    ),
    "the end of patience would be taken for one more timeout": (
        (NEVER,),
        {
            "clientTimeout": "10s",
            "patience": "15s",
            "retry": {"onTimeout": True, "max": 9, "backoff": ONE_S},
        },
        [0, 11],
        ("cancelled", 499, 15, 2),
    ),
    "the retries of one model would come back with the next, so that max bounds nothing": (
        (BUSY, BUSY, BUSY, Says(1.0, 500), BUSY),
        {"model": "a", "retry": {"max": 2, "backoff": ONE_S}, "fallbackModels": ["b", "c"]},
        [0, 2, 4, 5, 6],
        ("rejected", 503, 7, 5),
    ),
    "a client that is answered at 9 s and back at 10 s would be hung up on by its first timer": (
        (Says(9.0, 503), Says(9.0, 503), Says(4.0)),
        {
            "clientTimeout": "10s",
            "retry": {"backoff": {"initial": "1s", "factor": 3}},
            "fallbackModels": ["other"],
        },
        [0, 10, 22],
        ("completed", 200, 26, 3),
    ),
    "client timeouts come last in their instant: a client cannot leave before it reads": (
        (Says(10.0),),
        {"clientTimeout": "10s", "patience": "10s", "fallbackModels": ["b"]},
        [0],
        ("completed", 200, 10, 1),
    ),
    "each try would begin patience anew, and a user wait for hours": (
        (NEVER,),
        {"clientTimeout": "10s", "patience": "25s", "fallbackModels": ["b", "c", "d"]},
        [0, 10, 20],
        ("cancelled", 499, 25, 3),
    ),
    "a request whose user leaves between two tries would be over with the next try, or never": (
        (Says(1.0, 503, 60.0),),
        {"retry": {}, "patience": "30s"},
        [0],
        ("cancelled", 499, 30, 1),
    ),
    "arrivals come before client timeouts: the one order of the instants of a run": (
        (Says(1.0, 503, 29.0), NEVER),
        {"retry": {}, "patience": "30s"},
        [0, 30],
        ("cancelled", 499, 30, 2),
    ),
    "the timeout would be ignored by clients that neither retry nor have other models": (
        (NEVER,),
        {"clientTimeout": "9s", "patience": "30s"},
        [0],
        ("cancelled", 499, 9, 1),
    ),
    "and so would patience": (
        (NEVER,),
        {"clientTimeout": "30s", "patience": "9s"},
        [0],
        ("cancelled", 499, 9, 1),
    ),
}


@pytest.mark.parametrize("story", WORKED)
def test_tries_go_out_and_end_to_the_second(story: str) -> None:
    """Each story says what would happen otherwise."""
    answers, keys, sent_s, ended = WORKED[story]
    ran = run(in_turn(*answers), **keys)
    assert [at_s for at_s, _ in ran.server.sent] == sent_s
    assert ending(ran.request) == ended
    assert ran.server.ended == [ran.request]
    assert ran.finished_s == [ran.request.end_s]


def test_bad_gateways_and_broken_connections_are_no_reason_by_default() -> None:
    """A 502 tells an outage from a pool that is swapping: were it retried as well, nobody could
    see what the status of an abandoned swap means to clients."""
    for says in (Says(1.0, 502), Says(1.0, 400), Says(1.0, None), Says(1.0, 500, None, "failed")):
        ran = run(in_turn(says), retry={})
        assert ending(ran.request) == (says.what, says.http_status, 1, 1)
        assert not ran.recorder.retries


def test_jitter_is_a_matter_of_the_request_and_its_try() -> None:
    """If another client's retry moved the draws, policies could not be compared: who is refused
    differs between them."""
    retry = {"max": 3, "backoff": {"initial": "10s", "factor": 1, "jitter": 0.5}}
    rows = [{"arrival": 0}, {"arrival": 1}]

    def waits(ran: Ran) -> dict[tuple[str, int], float]:
        sent_s: dict[str, list[float]] = {}
        for each in ran.recorder.retries:
            sent_s.setdefault(each.request.session_id, []).append(each.end_s)
        found = {}
        for request in ran.recorder.requests:
            ends_s = sent_s.get(request.session_id, [])
            nexts_s = [each.sent_s for each in ran.recorder.retries if each.request is request]
            for number, (end_s, next_s) in enumerate(zip(ends_s, [*nexts_s[1:], request.sent_s])):
                found[request.session_id, number] = next_s - end_s
        return found

    both = waits(run(in_turn(Says(1.0, 503)), rows, retry=retry))
    one = waits(
        run(
            lambda request: Says(1.0, 200 if request.session_id == "w/row-1" else 503),
            rows,
            retry=retry,
        )
    )
    assert len(both) == 6
    assert len(one) == 3
    assert len(set(both.values())) == 6
    assert all(5.0 < wait_s <= 10.0 for wait_s in both.values())
    assert one == {key: both[key] for key in one}
    assert waits(run(in_turn(Says(1.0, 503)), rows, seed=2, retry=retry)) != both


# -- timeouts and other models ------------------------------------------------------------


def test_after_a_timeout_the_next_model_is_asked() -> None:
    """The client would wait for the first answer after all, or that answer, which comes while it
    waits for the second, would be taken for the second."""

    def answer(request: Request) -> Says:
        return {"large": Says(12.0), "medium": NEVER, "small": Says(3.0)}[request.model]

    ran = run(answer, model="large", clientTimeout="10s", fallbackModels=["medium", "small"])
    assert ran.server.sent == [(0, "large"), (10, "medium"), (20, "small")]
    assert ran.tries() == [(0, 10, 499), (10, 20, 499)]
    assert [each.model for each in ran.recorder.retries] == ["large", "medium"]
    assert {each.reason for each in ran.recorder.retries} == {"client_closed"}
    assert ending(ran.request) == ("completed", 200, 23, 3)
    assert [view.model for view in ran.server.views] == ["large", "medium", "small"]


def test_the_cancel_of_a_row_is_the_patience_of_its_user() -> None:
    """A scripted user who leaves would come back with the next model of the workload."""
    rows = [{"arrival": 0, "cancel": "15s"}, {"arrival": 100, "cancel": "99s"}]
    ran = run(in_turn(NEVER), rows, clientTimeout="10s", patience="18s", fallbackModels=["b", "c"])
    assert [ending(each) for each in ran.recorder.requests] == [
        ("cancelled", 499, 15, 2),
        ("cancelled", 499, 118, 2),
    ]


# -- those who wait for the answer --------------------------------------------------------


def test_a_think_time_begins_when_the_last_try_has_ended() -> None:
    """A session would go on although its turn is being retried, and have two turns in flight."""
    rows = [{"arrival": 0, "session": "s"}, {"think": "5s", "session": "s", "promptTokens": 200}]
    ran = run(in_turn(Says(1.0, 503, 10.0), Says(2.0)), rows, retry={})
    assert [each.arrival_s for each in ran.recorder.requests] == [0, 18]
    assert [each.end_s for each in ran.recorder.requests] == [13, 18 + 13]
    assert ran.finished_s == [31]


def test_what_waits_for_a_request_given_up_is_told_the_last_answer() -> None:
    """Rows behind a request that is refused for good are not sent; a refusal that is retried must
    not count as one."""
    rows = [{"arrival": 0, "session": "s"}, {"think": "5s", "session": "s", "promptTokens": 200}]
    ran = run(in_turn(Says(1.0, 503)), rows, retry={"max": 1})
    assert [ending(each) for each in ran.recorder.requests] == [("rejected", 503, 3, 2)]
    assert ran.finished_s == [3]


# -- whatever may come --------------------------------------------------------------------

seconds = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 0.1 + 0.2, 7.25])
answers = st.builds(
    Says,
    seconds | st.just(inf),
    st.sampled_from([200, 200, 400, 429, 500, 502, 503, 503, None]),
    st.none() | seconds,
)
durations = st.none() | st.sampled_from([0.5, 1.0, 3.0, 5.0, 20.0])


@given(
    st.lists(st.lists(answers, min_size=1, max_size=8), min_size=1, max_size=4),
    durations,
    durations.filter(bool),
    st.none() | st.integers(1, 4),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_whatever_a_server_says_each_request_ends_once(
    said: list[list[Says]],
    timeout_s: float | None,
    patience_s: float,
    most: int | None,
    fallbacks: int,
    honoured: bool,
    jitter: float,
) -> None:
    """A request would end twice, or never, or be tried more often than its client said; a try
    would be missing in the retries, or two overlap."""
    retry = most and {
        "on": [429, 503],
        "onConnectionError": honoured,
        "onTimeout": honoured and timeout_s is not None,
        "max": most,
        "honourRetryAfter": honoured,
        "backoff": {"initial": 0.5, "max": 3, "jitter": jitter},
    }
    ran = run(
        lambda request: in_turn(*said[int(request.session_id.rsplit("-")[-1]) - 1])(request),
        [{"arrival": index} for index in range(len(said))],
        clientTimeout=timeout_s,
        patience=patience_s,
        retry=retry,
        fallbackModels=[f"other-{number}" for number in range(fallbacks)],
    )
    assert [each.arrival_s for each in ran.recorder.requests] == list(range(len(said)))
    assert len(ran.server.ended) == len(said)
    assert len(ran.finished_s) == 1
    assert len(ran.server.sent) == sum(request.tries for request in ran.recorder.requests)
    for request in ran.recorder.requests:
        assert request.status != Status.IN_FLIGHT
        assert request.tries <= 1 + (most or 0) + fallbacks
        assert request.end_s is not None
        assert request.end_s <= request.arrival_s + patience_s
        earlier = [each for each in ran.recorder.retries if each.request is request]
        numbers = [each.number for each in earlier]
        assert numbers == list(range(1, len(earlier) + 1))
        # One that left while it waited for its next try has a row for its last one, too.
        left_waiting = request.status == Status.CANCELLED and len(earlier) == request.tries
        assert len(earlier) == request.tries - 1 or left_waiting
        for one, other in pairwise(earlier):
            assert one.sent_s <= one.end_s <= other.sent_s


# -- what may be written ------------------------------------------------------------------


def refused(**keys: Any) -> str:
    row = {"arrival": 0, "promptTokens": 1, "outputTokens": 1}
    with pytest.raises(ValidationError) as caught:
        ScriptSpec.model_validate_json(json.dumps({"kind": "script", "rows": [row], **keys}))
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"direct": "b", "fallbackModels": ("x",)}, "beside the router there is one backend"),
        ({"retry": {"on": ()}}, "on: empty: give statuses, onConnectionError: true or onTimeout"),
        ({"retry": {"onTimeout": True}}, "retry.onTimeout: needs clientTimeout"),
        ({"retry": {"backoff": {"initial": 9, "max": 3}}}, "must not be below initial, 9 s; got 3"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any], said: str) -> None:
    """A client that asks again at once and for ever, or whose settings cannot do anything."""
    assert said in refused(**keys)
