"""Rows of a scripted workload: what one may say, and how rows form conversations."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints

from sim.core.errors import Fault
from sim.core.fields import (
    Duration,
    Model,
    PositiveDuration,
    PositiveTokens,
    Tokens,
    count,
)
from sim.core.kernel import instant
from sim.core.rules import Problem, rule
from sim.workload.clients import Priority


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Label: TypeAlias = Annotated[
    str,
    BeforeValidator(_as_text, json_schema_input_type=str | int),
    StringConstraints(min_length=1, max_length=200),
]
"""A name given by the user; a bare number is taken as its digits."""

TurnNumber: TypeAlias = count(1, 10**9)  # type: ignore[valid-type]


class RowFault(NamedTuple):
    """What is wrong with one row: its index from 0, the key as written in files, and the words."""

    row: int
    key: str
    message: str

    def in_list(self, source: str, name: str) -> Fault:
        """The fault of a row that is an entry of the list ``name`` in ``source``."""
        return Fault(source, 0, 0, f"{name}.{self.row}.{self.key}", self.message)


class Row(Model):
    """One request.

    It arrives at ``arrival`` from the start of the run, or ``think`` after
    the end of the row before it in its session. ``cancel`` is when the client
    leaves, from the arrival. The lower the ``priority``, the more urgent it
    is. Rows of a session are its turns; a row without one has no session key.
    The first ``sharedTokens`` are those of every other row with this
    ``sharedPrefix``; a later prompt of a session repeats the text so far, or
    its first ``keptTokens`` when given.
    """

    id: Label | None = Field(
        default=None, description="Names the request in the results; unlike all others."
    )
    session: Label | None = Field(
        default=None,
        description="The conversation that it is a turn of, and its session key; none when "
        "missing.",
    )
    turn: TurnNumber | None = Field(
        default=None, description="Its number in the session, from 1; only checked."
    )
    arrival: Duration | None = Field(
        default=None, description="When it is sent, from the start of the run; or give think."
    )
    think: Duration | None = Field(
        default=None,
        description="Time from the end of the row before it in its session to when it is sent.",
    )
    prompt_tokens: PositiveTokens = Field(description="Tokens of the prompt.")
    output_tokens: PositiveTokens = Field(description="Tokens of the answer.")
    shared_prefix: Label | None = Field(
        default=None, description="Names a text that prompts of several sessions begin with."
    )
    shared_tokens: Tokens | None = Field(
        default=None, description="Tokens of sharedPrefix at the beginning of the prompt."
    )
    kept_tokens: Tokens | None = Field(
        default=None,
        description="Tokens of the session so far that the prompt repeats; when missing, all of "
        "it if it is long enough.",
    )
    model: Label | None = Field(
        default=None, description="The model that it asks for; the workload's when missing."
    )
    cancel: PositiveDuration | None = Field(
        default=None, description="The client leaves so long after the arrival."
    )
    priority: Priority | None = Field(
        default=None,
        description="The lower the number, the more urgent; the workload's when missing.",
    )
    num_ctx: PositiveTokens | None = Field(
        default=None, description="Context that its model is to be loaded with, for Ollama."
    )

    @rule
    def _comes_at_one_time(self) -> Iterator[Problem]:
        if self.arrival is None and self.think is None:
            yield "arrival", "missing: a row needs arrival, or think after the row before it"
        if self.arrival is not None and self.think is not None:
            yield "think", "a row has arrival or think, not both"

    @rule
    def _has_a_row_before_it(self) -> Iterator[Problem]:
        if self.session is not None:
            return
        for key, value in (("think", self.think), ("keptTokens", self.kept_tokens)):
            if value is not None:
                yield key, "only a row with a session has a row before it"
        if self.turn is not None:
            yield "turn", "only a row with a session has a turn"

    @rule
    def _shares_and_keeps_no_more_than_it_says(self) -> Iterator[Problem]:
        if (self.shared_prefix is None) != (self.shared_tokens is None):
            key = "sharedPrefix" if self.shared_tokens is not None else "sharedTokens"
            yield key, "missing: sharedPrefix and sharedTokens go together"
        for key, tokens in (("sharedTokens", self.shared_tokens), ("keptTokens", self.kept_tokens)):
            if tokens is not None and tokens > self.prompt_tokens:
                yield key, f"must not be above promptTokens, {self.prompt_tokens}; got {tokens}"


class Order(NamedTuple):
    """The rows as they are sent, each named by its index.

    A chain is a row with an arrival and the rows that wait for it, in turn;
    chains are in order of arrival. ``sessions`` are the turns of each session.
    ``moved`` rows came later in the file than a row with a later arrival;
    ``orphans`` would wait for a row of their session where there is none.
    """

    chains: list[list[int]]
    sessions: dict[str, list[int]]
    moved: int
    orphans: list[int]


def in_order(rows: Sequence[Row]) -> Order:
    """Sort rows by arrival, stably; rows that wait stay behind the one they wait for."""
    latest: dict[str, list[int]] = {}
    heads: list[tuple[float, list[int]]] = []
    orphans: list[int] = []
    moved = 0
    newest_s = 0.0
    for index, row in enumerate(rows):
        if row.arrival is not None:
            waiting = [index]
            heads.append((row.arrival, waiting))
            moved += row.arrival < newest_s
            newest_s = max(newest_s, row.arrival)
            if row.session is not None:
                latest[row.session] = waiting
        elif row.session is not None and row.session in latest:
            latest[row.session].append(index)
        else:
            orphans.append(index)
    heads.sort(key=lambda head: instant(head[0]))
    chains = [waiting for _, waiting in heads]
    sessions: dict[str, list[int]] = {}
    for index in chain.from_iterable(chains):
        session = rows[index].session
        if session is not None:
            sessions.setdefault(session, []).append(index)
    return Order(chains, sessions, moved, orphans)


def check_rows(
    rows: Sequence[Row], reuse_output: bool, models: Collection[str] = ()
) -> list[RowFault]:
    """Return what is wrong between rows, and with the models they ask for, in file order.

    Which turn of its session a row is depends on the times and sessions of all.
    """
    order = in_order(rows)
    first = "the first row of a session needs an arrival"
    faults = [RowFault(index, "think", first) for index in order.orphans]
    faults += [*_repeated_ids(rows), *unserved(rows, models)]
    for turns in order.sessions.values():
        faults += _faults_of_turns(rows, turns, reuse_output)
    return sorted(faults)


def unserved(rows: Sequence[Row], models: Collection[str]) -> list[RowFault]:
    """Return the models that rows ask for and no backend serves, each at its first row.

    Without ``models`` any is served.
    """
    asking: dict[str, list[int]] = {}
    for index, row in enumerate(rows if models else ()):
        if row.model is not None and row.model not in models:
            asking.setdefault(row.model, []).append(index)
    faults = []
    for model, indices in asking.items():
        which = f" (the first of {len(indices)} rows)" if len(indices) > 1 else ""
        said = f"no backend serves {model!r}{which}; served: {', '.join(models)}"
        faults.append(RowFault(indices[0], "model", said))
    return faults


def _repeated_ids(rows: Sequence[Row]) -> Iterator[RowFault]:
    seen: dict[str, int] = {}
    for index, row in enumerate(rows):
        first = index if row.id is None else seen.setdefault(row.id, index)
        if first != index:
            yield RowFault(index, "id", f"{row.id!r} is the id of row {first + 1} already")


def _faults_of_turns(
    rows: Sequence[Row], turns: list[int], reuse_output: bool
) -> Iterator[RowFault]:
    """Yield what is wrong with the turns of a session beside those before them."""
    first = rows[turns[0]]
    shared = first.shared_prefix, first.shared_tokens
    said = "none" if first.shared_prefix is None else "{!r}, {} tokens".format(*shared)
    for number, index in enumerate(turns, start=1):
        row = rows[index]
        if row.turn not in (None, number):
            wrong = f"turn {row.turn} of session {row.session!r} comes as its turn {number}"
            yield RowFault(index, "turn", wrong)
        if row.shared_prefix is not None and (row.shared_prefix, row.shared_tokens) != shared:
            wrong = f"must be as in the session's first row ({said}), or left out"
            yield RowFault(index, "sharedPrefix", wrong)
        if row.kept_tokens is None:
            continue
        if number == 1:
            yield RowFault(index, "keptTokens", "the first turn has no text to keep")
            continue
        before = rows[turns[number - 2]]
        text = before.prompt_tokens + (before.output_tokens if reuse_output else 0)
        if row.kept_tokens > text:
            wrong = f"the text so far has {text} tokens; got {row.kept_tokens}"
            yield RowFault(index, "keptTokens", wrong)
