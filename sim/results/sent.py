"""What was sent in a run, beside what its tables say of it: enough to send it once more.

It is stored with a run, in files of its own that the digest leaves out, for
``podsim export --trace``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np

from sim.core.content import Node
from sim.core.errors import UserError
from sim.core.request import Request
from sim.results import arrow
from sim.results.arrow import FLOAT, Array, Table
from sim.results.tables import Column, filled, number, schema, text, time


def _key(request: Request) -> str | None:
    return None if request.session_key is None else f"{request.session_key:016x}"


def _ids(requests: Sequence[Request]) -> str:
    return " ".join([str(request.request_id) for request in requests])


REQUESTS: Final = (
    time("due_s", "its client sent it, where it then waited for the end of a step", nullable=True),
    text("session_key", "64 bits in hexadecimal", nullable=True, get=_key),
    text("headers", "headers of the request", get=lambda request: str(request.headers)),
    number("output_tokens", "tokens", "length of the answer"),
    number("max_output_tokens", "tokens", "limit of the answer", nullable=True),
    number("num_ctx", "tokens", "context that the model is to be loaded with", nullable=True),
    Column("priority", FLOAT, "", "the lower the more urgent", True, attrgetter("priority")),
    time(
        *("patience_s", "its user leaves so long after its arrival", True),
        lambda request: request.patience_s if request.patience_s < inf else None,
    ),
    number("closes_session", "", "1 for the last of its session"),
    number("prompt_text", "", "row of the texts of which the prompt is the beginning"),
    number("answer_text", "", "row of the texts on which the answer lies"),
    text("after", "requests that had to be completed", True, lambda sent: _ids(sent.wait.after)),
    text("behind", "requests that had to be over", True, lambda sent: _ids(sent.wait.behind)),
    number("or_cancelled", "", "1 if cancelled does as well", get=attrgetter("wait.or_cancelled")),
    time("think_s", "from the last end of these", nullable=True, get=attrgetter("wait.think_s")),
)

TEXTS: Final = (
    number("of", "", "row of the text that it branches off; null for a new one", nullable=True),
    number("start", "tokens", "how much of that text goes before it"),
)

FILES: Final = {"sent": REQUESTS, "texts": TEXTS}


@dataclass(frozen=True)
class Sent:
    """``sent`` has a row for each row of the requests table; ``texts`` are a tree."""

    sent: Table
    texts: Table

    @staticmethod
    def of(requests: Sequence[Request]) -> "Sent":
        """Return what is to be stored of the requests of a run, in order of arrival."""
        numbers = _numbered(requests)
        prompts = _integers([numbers[request.prompt.node] for request in requests])
        answers = _integers([numbers[request.answer] for request in requests])
        parents = _integers(
            [-1 if each.parent is None else numbers[each.parent] for each in numbers]
        )
        starts = _integers([node.start for node in numbers])
        return Sent(
            filled(REQUESTS, requests, prompt_text=prompts, answer_text=answers),
            filled(TEXTS, (), of=parents, start=starts),
        )

    def write(self, folder: Path) -> None:
        """Write the files; raises ``OSError``."""
        for name in FILES:
            arrow.write(getattr(self, name), folder / f"{name}.parquet")


def read_sent(folder: Path) -> Sent:
    """Return what ``Sent.write`` has written; raises ``UserError`` for a run without it."""
    try:
        read = Sent(*(arrow.read(folder / f"{name}.parquet") for name in FILES))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder}: it does not say what its requests have waited for, as runs of older "
            "versions of podsim do not; run the scenario again"
        ) from error
    if not all(arrow.matches(getattr(read, name), schema(FILES[name])) for name in FILES):
        raise UserError(f"{folder}: another version of podsim wrote it; run the scenario again")
    return read


def _numbered(requests: Sequence[Request]) -> dict[Node, int]:
    """Number the texts of prompts and answers, each behind the one that it branches off."""
    numbers: dict[Node, int] = {}
    for request in requests:
        for end in (request.prompt.node, request.answer):
            path = []
            at: Node | None = end
            while at is not None and at not in numbers:
                path.append(at)
                at = at.parent
            for node in reversed(path):
                numbers[node] = len(numbers)
    return numbers


def _integers(values: list[int]) -> Array:
    return arrow.integers(np.array(values, dtype=np.int64))
