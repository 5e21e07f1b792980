"""A recording of one engine: when requests arrived, how long they were, what they said.

One JSON object per line is one request:

- ``arrival_s``: when it was to arrive, in seconds; ``recorded_arrival_s``, if
  there, is when it did, and goes before it
- ``prompt_tokens``, ``output_tokens``
- ``sequence_block_runs``: the ids of the full blocks of prompt and output, as
  ``[first, count]`` of first, first + 1, ...

Two requests say the same as far as their ids are equal from the first one on.
Further keys are of no interest here. A file may list ``MAX_BLOCKS`` full blocks.
All faults of a file are reported at once.
"""

import json
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import MAX_DURATION_S, MAX_TOKENS, describe
from sim.workload.recorded import unpacked

MAX_BLOCKS: Final = 10**7
"""Full blocks that a file may list: runs are written shorter than the blocks they stand for, of
which each takes some 200 bytes."""


class RecordedRequest(NamedTuple):
    """One line. ``blocks`` are the ids of the full blocks of prompt and output."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: list[int]


def read_recording(path: Path, block_tokens: int) -> list[RecordedRequest]:
    """The requests of a JSONL file, plain or gzipped, in order of arrival.

    Raises ``ScenarioError`` with line and key of everything that is wrong.
    """
    requests = []
    faults: list[Fault] = []
    room = MAX_BLOCKS
    for number, text in enumerate(unpacked(path).split("\n"), start=1):
        if not text.strip():
            continue
        line = _Line(text, block_tokens, room)
        if line.request is not None:
            requests.append(line.request)
            room -= len(line.request.blocks)
        faults += [Fault(str(path), number, *said) for said in line.faults]
    if not requests and not faults:
        faults.append(Fault(str(path), 0, 0, "", "is empty; one request per line is needed"))
    if faults:
        raise ScenarioError(faults)
    return sorted(requests, key=lambda request: request.arrival_s)


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value) and 0.0 <= value <= MAX_DURATION_S


def _is_positive(value: Any) -> bool:
    return type(value) is int and 0 < value <= MAX_TOKENS


SECONDS: Final = f"seconds from 0 to {MAX_DURATION_S:g}"
TOKENS: Final = f"a whole number of tokens from 1 to {MAX_TOKENS:g}"


class _Line:
    """Reads one line; ``request`` is None when there are ``faults``: column, key, message.

    ``room`` is how many blocks the file may still list.
    """

    def __init__(self, text: str, block_tokens: int, room: int) -> None:
        self.faults: list[tuple[int, str, str]] = []
        self.request: RecordedRequest | None = None
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            self.faults.append((error.colno, "", f"is not JSON: {error.msg.lower()}"))
            return
        except (ValueError, RecursionError) as error:  # endless digits, endless brackets
            self.faults.append((1, "", f"is not JSON: {error}"))
            return
        if not isinstance(found, dict):
            self.faults.append((1, "", f"must be a request, an object; got {describe(found)}"))
            return
        arrival = "recorded_arrival_s" if "recorded_arrival_s" in found else "arrival_s"
        arrival_s = self._take(found, arrival, _is_seconds, SECONDS)
        prompt_tokens = self._take(found, "prompt_tokens", _is_positive, TOKENS)
        output_tokens = self._take(found, "output_tokens", _is_positive, TOKENS)
        blocks = self._blocks(found, (prompt_tokens + output_tokens) // block_tokens, room)
        if not self.faults:
            self.request = RecordedRequest(arrival_s, prompt_tokens, output_tokens, blocks)

    def _take(
        self, found: dict[str, Any], key: str, legal: Callable[[Any], bool], words: str
    ) -> Any:
        value = found.get(key)
        if legal(value):
            return value
        got = describe(value) if key in found else "nothing: the key is missing"
        self.faults.append((1, key, f"must be {words}; got {got}"))
        return 1

    def _blocks(self, found: dict[str, Any], most: int, room: int) -> list[int]:
        key = "sequence_block_runs"
        runs = found.get(key)
        if not isinstance(runs, list) or not all(map(_is_run, runs)):
            self.faults.append((1, key, "must be a list of [first id, count of ids]"))
            return []
        blocks = sum(count for _, count in runs)
        if blocks > most:
            if not self.faults:
                message = f"lists {blocks} full blocks; prompt and output have {most}"
                self.faults.append((1, key, message))
            return []
        if blocks > room:
            before = f", {MAX_BLOCKS - room} of them before this line" if room < MAX_BLOCKS else ""
            message = f"lists {blocks} full blocks; a file may list {MAX_BLOCKS}{before}"
            self.faults.append((1, key, message))
            return []
        return [first + index for first, count in runs for index in range(count)]


def _is_run(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(part) is int for part in value)
        and 1 <= value[1] <= MAX_TOKENS
    )
