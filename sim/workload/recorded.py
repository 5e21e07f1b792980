"""Recorded agent sessions: the kv-cache-tester format with run-length encoded block ids.

One JSON object per line is one session; a line is checked as a whole before
any of it is used, and all faults of a file are reported at once. The format
and what is wrong with the recording are described beside the trace
(``scenarios/traces/README.md``).
"""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import MAX_DURATION_S, MAX_TOKENS, describe
from sim.core.textfile import decode, read_bytes
from sim.workload.foreign import binary, not_json

GZIP_MAGIC: Final = b"\x1f\x8b"

Runs: TypeAlias = list[list[int]]
"""Block ids as [first, count]: first, first + 1, ...; a run ends only where the ids jump."""


class Call(NamedTuple):
    """One request of a session; ``think_s`` is the delay before it as recorded."""

    prompt_tokens: int
    output_tokens: int
    streamed: bool
    model: str
    think_s: float | None
    api_s: float
    runs: Runs


class SubAgent(NamedTuple):
    """A conversation that the session starts and waits for.

    ``start_s`` and ``end_s`` count from the end of the call before it.
    """

    kind: str
    shared_tokens: int
    start_s: float
    end_s: float
    calls: list[Call]


class Recording(NamedTuple):
    """One session. ``sub_agents[i]`` run before call i, or after the last one."""

    shared_tokens: int
    block_tokens: int
    calls: list[Call]
    sub_agents: dict[int, list[SubAgent]]


def read_recordings(path: Path) -> list[Recording]:
    """The sessions of a JSONL file, plain or gzipped.

    Raises ``ScenarioError`` with line, path and value of everything that is wrong.
    """
    recordings = []
    faults: list[Fault] = []
    reader = _LineReader()
    for number, line in enumerate(unpacked(path).split("\n"), start=1):
        if not line.strip():
            continue
        recording = reader.read(number, line)
        if recording is not None:
            recordings.append(recording)
        faults += [Fault(str(path), number, *said) for said in reader.faults]
    if not recordings and not faults:
        faults.append(Fault(str(path), 0, 0, "", "is empty; one session per line is needed"))
    if faults:
        raise ScenarioError(faults)
    return recordings


def unpacked(path: Path, foreign: Callable[[str], str | None] = not_json) -> str:
    """The text of a file, plain or gzipped.

    Raises ``ScenarioError`` when there is none, or it is ``foreign``, with what that says.
    """
    data = read_bytes(path)
    if data.startswith(GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            message = f"is a damaged gzip file: {error}"
            raise ScenarioError([Fault(str(path), 0, 0, "", message)]) from None
    said = binary(data)
    text = decode(data, str(path)) if said is None else ""
    if said := said or foreign(text):
        raise ScenarioError([Fault(str(path), 0, 0, "", f"is {said}")])
    return text


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_TOKENS


def _is_positive(value: Any) -> bool:
    return type(value) is int and 0 < value <= MAX_TOKENS


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0.0 <= value <= MAX_DURATION_S


def _is_milliseconds(value: Any) -> bool:
    return type(value) in (int, float) and 0.0 <= value <= MAX_DURATION_S * 1e3


def _is_text(value: Any) -> bool:
    return type(value) is str


COUNT: Final = "a whole number of tokens, 0 or more"
POSITIVE: Final = "a whole number of tokens, at least 1"
MILLISECONDS: Final = f"milliseconds from 0 to {MAX_DURATION_S * 1e3:g}"
SECONDS: Final = f"seconds from 0 to {MAX_DURATION_S:g}"
TYPES: Final = ("n", "s", "subagent")


class _LineReader:
    """Reads line by line; ``faults`` of the last one are (column, path, message)."""

    def __init__(self) -> None:
        self.faults: list[tuple[int, str, str]] = []
        self._lines: dict[str, int] = {}

    def read(self, number: int, line: str) -> Recording | None:
        """The session in a line; None when it has faults."""
        self.faults = []
        try:
            session = json.loads(line)
        except json.JSONDecodeError as error:
            self.faults.append((error.colno, "", f"is not JSON: {error.msg.lower()}"))
            return None
        except (ValueError, RecursionError) as error:  # endless digits, endless brackets
            self._fault("", f"is not JSON: {error}")
            return None
        if not isinstance(session, dict):
            self._fault("", f"must be a session, an object; got {describe(session)}")
            return None
        self._check_id(session, number)
        block_tokens = self._take(session, "", "block_size", _is_positive, POSITIVE)
        shared_tokens = self._shared(session, "")
        calls: list[Call] = []
        sub_agents: dict[int, list[SubAgent]] = {}
        ended_s = 0.0
        for path, entry, kind in self._entries(session, "", block_tokens):
            if kind == "subagent":
                sub_agent = self._sub_agent(entry, path, ended_s, block_tokens)
                sub_agents.setdefault(len(calls), []).append(sub_agent)
                continue
            calls.append(self._call(entry, path, kind, block_tokens))
            ended_s = self._take(entry, path, "t", _is_seconds, SECONDS) + calls[-1].api_s
        if 0 in sub_agents:
            self._fault("requests[0]", "a session begins with a request of its own")
        return None if self.faults else Recording(shared_tokens, block_tokens, calls, sub_agents)

    def _check_id(self, session: dict[str, Any], number: int) -> None:
        """A session may do without an id, but one that is there twice would count double."""
        if "id" not in session:
            return
        name = self._take(session, "", "id", _is_text, "a name")
        first = self._lines.setdefault(name, number)
        if name and first != number:
            self._fault("id", f"{describe(name)} is the id of the session in line {first} already")

    def _entries(
        self, owner: dict[str, Any], at: str, block_tokens: int
    ) -> list[tuple[str, dict[str, Any], str]]:
        """The requests of a session or sub-agent, each with its path and type."""
        requests = owner.get("requests")
        if not isinstance(requests, list) or not requests:
            found = "an empty list" if requests == [] else describe(requests)
            self._fault(f"{at}requests", f"must be a list of requests; got {found}")
            return []
        entries = []
        for index, entry in enumerate(requests):
            path = f"{at}requests[{index}]."
            if not isinstance(entry, dict):
                self._fault(path[:-1], f"must be an object; got {describe(entry)}")
                continue
            kind = entry.get("type")
            if kind not in TYPES or (kind == "subagent" and at):
                self._fault(
                    f"{path}type", f"must be one of {', '.join(TYPES)}; got {describe(kind)}"
                )
                continue
            entries.append((path, entry, kind))
        return entries

    def _call(self, entry: dict[str, Any], at: str, kind: str, block_tokens: int) -> Call:
        think_s = None
        if entry.get("think_time") is not None:
            think_s = self._take(entry, at, "think_time", _is_seconds, SECONDS)
        api_s = 0.0
        if entry.get("api_time") is not None:
            api_s = self._take(entry, at, "api_time", _is_seconds, SECONDS)
        prompt_tokens = self._take(entry, at, "in", _is_positive, POSITIVE)
        return Call(
            prompt_tokens,
            self._take(entry, at, "out", _is_count, COUNT),
            kind == "s",
            self._take(entry, at, "model", _is_text, "a name"),
            think_s,
            api_s,
            self._runs(entry, at, prompt_tokens // block_tokens),
        )

    def _runs(self, entry: dict[str, Any], at: str, most: int) -> Runs:
        written = entry.get("hash_runs")
        runs: Runs = []
        blocks = 0
        following = None
        try:
            for first, count in written or ():
                if type(first) is not int or type(count) is not int or count < 1:
                    raise ValueError
                if first == following:
                    runs[-1][1] += count
                else:
                    runs.append([first, count])
                following = first + count
                blocks += count
        except (TypeError, ValueError):
            written = None
        if not isinstance(written, list):
            self._fault(f"{at}hash_runs", "must be a list of [first id, count of ids]")
            return []
        if blocks > most:
            self._fault(f"{at}hash_runs", f"lists {blocks} full blocks; the prompt has {most}")
        return runs

    def _sub_agent(
        self, entry: dict[str, Any], at: str, ended_s: float, block_tokens: int
    ) -> SubAgent:
        """``t`` is when a sub-agent came back; of one without a duration, when it was started."""
        t_s = self._take(entry, at, "t", _is_seconds, SECONDS)
        calls = [
            self._call(inner, path, kind, block_tokens)
            for path, inner, kind in self._entries(entry, at, block_tokens)
        ]
        if entry.get("duration_ms") is None:
            start_s = t_s - ended_s
            length_s = sum((call.think_s or 0.0) + call.api_s for call in calls)
        else:
            length_s = self._take(entry, at, "duration_ms", _is_milliseconds, MILLISECONDS) / 1e3
            start_s = t_s - length_s - ended_s
        start_s = max(0.0, start_s)
        kind = self._take(entry, at, "subagent_type", _is_text, "a name")
        return SubAgent(kind, self._shared(entry, at), start_s, start_s + length_s, calls)

    def _shared(self, owner: dict[str, Any], at: str) -> int:
        tools: int = self._take(owner, at, "tool_tokens", _is_count, COUNT)
        system: int = self._take(owner, at, "system_tokens", _is_count, COUNT)
        return tools + system

    def _take(
        self, owner: dict[str, Any], at: str, key: str, legal: Callable[[Any], bool], words: str
    ) -> Any:
        value = owner.get(key)
        if legal(value):
            return value
        found = describe(value) if key in owner else "nothing: the key is missing"
        self._fault(f"{at}{key}", f"must be {words}; got {found}")
        return "" if legal is _is_text else 1

    def _fault(self, path: str, message: str) -> None:
        self.faults.append((1, path, message))
