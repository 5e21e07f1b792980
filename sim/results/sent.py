"""What was sent in a run, beside what its tables say of it: enough to send it once more.

It is stored with a run, in files of its own that the digest leaves out, for
``podsim export --trace``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.core.content import Node
from sim.core.errors import UserError
from sim.core.request import Request
from sim.results import arrow
from sim.results.arrow import Array, Table
from sim.results.tables import filled, number, schema, text, time

REQUESTS: Final = (
    time("due_s", "its client sent it, where it then waited for the end of a step", nullable=True),
    text("session_key", "64 bits in hexadecimal", nullable=True),
    text("headers", "headers of the request"),
    number("output_tokens", "tokens", "length of the answer"),
    number("max_output_tokens", "tokens", "limit of the answer", nullable=True),
    number("num_ctx", "tokens", "context that the model is to be loaded with", nullable=True),
    time("priority", "the lower the more urgent"),
    time("patience_s", "its user leaves so long after its arrival; infinite if never"),
    number("closes_session", "", "1 for the last of its session"),
    number("prompt_text", "", "row of the texts of which the prompt is the beginning"),
    number("answer_text", "", "row of the texts on which the answer lies"),
    number("after", "", "how many of its waits had to be completed"),
    number("behind", "", "how many of its waits, behind those, had to be over"),
    number("or_cancelled", "", "1 if it was enough that clients had left"),
    time("think_s", "from the last end of these to when its client sent it", nullable=True),
)

TEXTS: Final = (
    number("of", "", "row of the text that it branches off; null for a new one", nullable=True),
    number("start", "tokens", "how much of that text goes before it"),
)

WAITS: Final = (number("request_id", "", "request whose end another one waited for"),)

FILES: Final = {"sent": REQUESTS, "texts": TEXTS, "waits": WAITS}


@dataclass(frozen=True)
class Sent:
    """``sent`` has a row for each row of the requests table; ``texts`` are a tree.

    ``waits`` are those of the first request, then those of the second, and so on.
    """

    sent: Table
    texts: Table
    waits: Table

    @staticmethod
    def of(requests: Sequence[Request]) -> "Sent":
        """Return what is to be stored of the requests of a run, in order of arrival."""
        numbers = _numbered(requests)
        waits = [request.wait for request in requests]
        keys = arrow.encode([request.session_key for request in requests])
        headers = arrow.encode([request.headers for request in requests])
        awaited = [each.request_id for wait in waits for each in (*wait.after, *wait.behind)]
        return Sent(
            filled(
                REQUESTS,
                (),
                due_s=_floats([request.due_s for request in requests]),
                session_key=_spelled(keys, "{:016x}".format),
                headers=_spelled(headers, str),
                output_tokens=_integers([request.output_tokens for request in requests]),
                max_output_tokens=_counts([request.max_output_tokens for request in requests]),
                num_ctx=_counts([request.num_ctx for request in requests]),
                priority=_floats([request.priority for request in requests]),
                patience_s=_floats([request.patience_s for request in requests]),
                closes_session=_integers([request.closes_session for request in requests]),
                prompt_text=_integers([numbers[request.prompt.node] for request in requests]),
                answer_text=_integers([numbers[request.answer] for request in requests]),
                after=_integers([len(wait.after) for wait in waits]),
                behind=_integers([len(wait.behind) for wait in waits]),
                or_cancelled=_integers([wait.or_cancelled for wait in waits]),
                think_s=_floats([wait.think_s for wait in waits]),
            ),
            filled(
                TEXTS,
                (),
                of=_counts([numbers[node.parent] if node.parent else None for node in numbers]),
                start=_integers([node.start for node in numbers]),
            ),
            filled(WAITS, (), request_id=_integers(awaited)),
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
            if end not in numbers:
                path = [end]
                while (parent := path[-1].parent) is not None and parent not in numbers:
                    path.append(parent)
                for node in reversed(path):
                    numbers[node] = len(numbers)
    return numbers


def _integers(values: Sequence[int]) -> Array:
    return arrow.integers(np.fromiter(values, dtype=np.int64))


def _counts(values: Sequence[int | None]) -> Array:
    return _integers([-1 if value is None else value for value in values])


def _floats(values: Sequence[float | None]) -> Array:
    return arrow.floats(np.array(values, dtype=np.float64))  # None becomes NaN


def _spelled(found: arrow.Texts, spell: Callable[[Any], str]) -> Array:
    """Return a column of texts whose words are spelled only once each."""
    return arrow.texts(replace(found, words=tuple(map(spell, found.words))))
