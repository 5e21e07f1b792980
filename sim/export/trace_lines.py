"""The lines of a trace: each request of a run with whose it is, when it is sent, what it says."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from sim.core.content import Node
from sim.core.errors import UserError
from sim.core.request import Request
from sim.export.rerun import Rerun
from sim.export.waits import Wait, sent_s, waits
from sim.scenario.reachability import models_served
from sim.workload.clients import ClientSpec
from sim.workload.trace import MAGIC, VERSION, WORKLOADS

Arrivals: TypeAlias = Literal["closed-loop", "fixed"]
"""Whether who waited for others waits for them again, or is sent when it was."""

MEANING: Final = {
    "closed-loop": "requests that waited for others wait for them again",
    "fixed": "every request is sent when it was, whatever became of those before it",
}


def trace_text(run: Rerun, about: Mapping[str, Any], arrivals: Arrivals) -> str:
    """The file; ``about`` says in its first line of which run it is.

    Raises ``UserError`` for requests that a trace cannot say.
    """
    models = models_served(run.scenario)
    waiting = {}
    if arrivals == "closed-loop":
        waiting = waits(run.scenario, run.requests, run.directory, models)
    head = {
        MAGIC: VERSION,
        "arrivals": arrivals,
        WORKLOADS: list(run.scenario.workloads),
        **about,
    }
    said = [head, *_Lines(run, waiting).all()]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in said)


class _Lines:
    """Writes requests, and numbers texts as they are first met."""

    def __init__(self, run: Rerun, waiting: Mapping[Request, Wait]) -> None:
        self._run = run
        self._waiting = waiting
        self._numbers: dict[Node, int] = {}

    def all(self) -> Iterator[dict[str, Any]]:
        """Every line behind the first."""
        for request in self._run.requests:
            prompt, answer = request.prompt.node, request.answer
            if answer is not prompt:
                yield from self._texts(answer)
            yield from self._texts(prompt, itself=False)
            line = self._line(request)
            yield {key: value for key, value in line.items() if value is not None}

    def _texts(self, node: Node, itself: bool = True) -> Iterator[dict[str, Any]]:
        """Lines for those on the path to a text that have none yet, the first one first."""
        path = []
        at = node if itself else node.parent
        while at is not None and at not in self._numbers:
            path.append(at)
            at = at.parent
        for new in reversed(path):
            yield {"text": self._number(new)} | self._branch(new)

    def _number(self, node: Node) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def _branch(self, node: Node) -> dict[str, Any]:
        return {} if node.parent is None else {"of": [self._number(node.parent), node.start]}

    def _line(self, request: Request) -> dict[str, Any]:
        spec = self._run.scenario.workloads[request.workload]
        if request.headers != tuple(spec.headers.items()):
            raise UserError(
                f"request {request.request_id} has headers of its own, which a trace cannot say"
            )
        node = request.prompt.node
        of = {} if node in self._numbers else self._branch(node)
        key = request.session_key
        return {
            "request": request.request_id,
            "workload": request.workload,
            "session": request.session_id or None,
            "turn": request.turn,
            "agent": request.agent_id or None,
            "key": None if key is None else f"{key:016x}",
            **self._sent(request),
            "prompt_tokens": request.prompt.tokens,
            "output_tokens": request.output_tokens,
            "text": self._number(node),
            **of,
            "answer": None if request.answer is node else self._number(request.answer),
            **self._asks(request, spec),
            "closes_session": request.closes_session or None,
        }

    def _sent(self, request: Request) -> dict[str, Any]:
        wait = self._waiting.get(request)
        if wait is None:
            return {"arrival_s": sent_s(request)}
        return {
            "after": [each.request_id for each in wait.after] or None,
            "behind": [each.request_id for each in wait.behind] or None,
            "or_cancelled": wait.or_cancelled or None,
            "think_s": wait.think_s,
        }

    def _asks(self, request: Request, spec: ClientSpec) -> dict[str, Any]:
        model = self._run.models.get(request.request_id, request.model)
        priority = request.priority
        patience_s = request.patience_s
        return {
            "model": model if model != (spec.model or "") else None,
            "priority": priority if priority != spec.priority else None,
            "max_output_tokens": request.max_output_tokens,
            "num_ctx": request.num_ctx if request.num_ctx != spec.num_ctx else None,
            "patience_s": patience_s if patience_s < float("inf") else None,
        }
