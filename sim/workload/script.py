"""Scripted requests: rows with exact numbers, in the scenario or in a CSV file.

How rows become conversations: rows of one session are its turns, in the order
of arrival. A prompt as long as the text so far, answer included, repeats all
of it; one that is at least as long as the prompt before repeats that prompt
without its answer; a shorter one is a compaction and repeats the session's
shared prefix only. ``keptTokens`` says otherwise for one row, ``reuseOutput:
false`` strips every answer. A row without a session is a conversation by
itself, but no session: ``session_s`` does not speak of it.

A row with a think time goes out when the row before it has ended, whether it
was completed or its client left. If it was rejected or broke off, the rows
that wait for it are not sent; ``rows_not_sent`` counts them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from math import inf
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from xxhash import xxh3_64_intdigest

from sim.core.content import Node, Prompt
from sim.core.errors import ScenarioError
from sim.core.fields import Duration, Text, real
from sim.core.kernel import instant
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Request
from sim.core.rules import Problem, rule
from sim.scenario.inputs import Inputs
from sim.workload.clients import Clients, ClientSpec, share_beyond
from sim.workload.conversation import ALL, Conversation
from sim.workload.distributions import exactly_one
from sim.workload.replay import Replay, ReplayItem
from sim.workload.script_csv import Stamps, read_header, read_rows
from sim.workload.script_rows import Row, check_rows, in_order, unserved


class Turn(NamedTuple):
    """What a row says, as a turn of its session."""

    session_id: str
    number: int
    prompt: Prompt
    answer: Node
    closes: bool


class ScriptSpec(ClientSpec):
    """Requests one by one: ``rows`` here, or a CSV ``file`` with the same keys as columns.

    ``unit`` is that of times in a file whose header does not say it. With
    ``firstArrival`` its stamps count from the first of them, which is then, so
    that they may be those of any clock. ``speed`` divides the gaps between
    arrivals, not think times: 2 offers twice the load.

    A row's own ``priority`` and ``numCtx`` go before the workload's. Its ``cancel`` is the
    patience of its user: of that and the workload's ``patience`` the shorter
    one counts.
    """

    kind: Literal["script"]
    rows: tuple[Row, ...] | None = Field(default=None, description="The requests, or give file.")
    file: Text | None = Field(
        default=None,
        description="A CSV file with the keys of a row as columns, times in unit; relative to "
        "the scenario.",
    )
    unit: Literal["s", "ms", "us"] | None = Field(
        default=None,
        description="Unit of the times in file where its header does not say it, such as "
        "arrival_s.",
    )
    first_arrival: Duration | None = Field(
        default=None,
        description="When the first row of file arrives; its stamps count from there and may be "
        "those of any clock. As they stand when missing.",
    )
    speed: Annotated[float, real(0.001, 1000.0)] = Field(
        default=1.0,
        description="Divides the gaps between arrivals of file, not think times: 2 offers twice "
        "the load.",
    )
    reuse_output: bool = Field(
        default=True,
        description="A later prompt of a session begins with the answer as well where it is long "
        "enough; false: answers are stripped.",
    )

    @rule
    def _is_in_one_place(self) -> Iterator[Problem]:
        yield from exactly_one(self, ("rows", "file"))
        if self.rows == ():
            yield "rows", "at least one row is needed"
        for fault in check_rows(self.rows or (), self.reuse_output):
            yield f"rows.{fault.row}.{fault.key}", fault.message

    @rule
    def _rows_come_when_they_say(self) -> Iterator[Problem]:
        if self.rows is None:
            return
        if self.unit is not None:
            yield "unit", "only for a file; rows write their units"
        message = "only for a file; rows say when they come"
        if self.first_arrival is not None:
            yield "firstArrival", message
        if self.speed != 1.0:
            yield "speed", message

    def asks_for(self) -> tuple[str, ...]:
        """As any workload's; what the rows of a file ask for is not known here."""
        rows = dict.fromkeys(row.model or self.model or "" for row in self.rows or ())
        return (*rows, *self.fallback_models)

    def keyless(self, inputs: Inputs) -> bool:
        """Whether no row has a session; of a file, whether it has no such column."""
        if self.file is not None:
            return "session" not in inputs.once(read_header, self.file)
        return all(row.session is None for row in self.rows or ())

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The rows, the first of them where they stand here."""
        rows = self.read(inputs)
        mine = {
            index: row.prompt_tokens
            for index, row in enumerate(rows)
            if (row.model or self.model or "") == model
        }
        for said in share_beyond(mine.values(), tokens):
            first = next(index for index, length in mine.items() if length > tokens)
            yield "file" if self.file else f"rows.{first}.promptTokens", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file, and models nobody serves."""
        self.read(inputs)

    def read(self, inputs: Inputs, source: str = "") -> Sequence[Row]:
        """Return the rows, written here or in the file.

        Raises ``ScenarioError``; ``source`` is that of rows written here.
        """
        if self.file is not None:
            stamps = Stamps(self.unit, self.first_arrival, self.speed)
            return inputs.once(read_rows, self.file, stamps, self.reuse_output, inputs.models)
        rows = self.rows or ()
        if faults := unserved(rows, inputs.models):
            raise ScenarioError([each.in_list(source, "rows") for each in faults])
        return rows


@family(ScriptSpec)
class Script:
    """Sends the rows of a script; those that are due at one instant in the order of the script."""

    finite = True

    def __init__(self, spec: ScriptSpec, context: WorkloadContext) -> None:
        self._context = context
        self._replay = Replay(context.kernel, Clients(spec, context), to_the_nanosecond=True)
        self._reuse_output = spec.reuse_output
        self._recorded = spec.file is not None
        self._shared: dict[str, Node] = {}
        self._rows = spec.read(Inputs(context.directory, context.models), context.name)
        order = in_order(self._rows)
        self._items = self._waiting(order.chains)
        self._turns: dict[int, Turn] = {}
        for session, indices in order.sessions.items():
            self._lay_out(self._shown(session), indices)
        for index, row in enumerate(self._rows):
            if row.session is None:
                self._lay_out(row.id or f"row-{index + 1}", [index])
        self._moved = order.moved
        self._at_fixed_times = sum(
            self._rows[index].think is None
            for turns in order.sessions.values()
            for index in turns[1:]
        )

    def start(self) -> None:
        """Schedule the first arrival."""
        self._replay.play(self._items, self._context.finished)

    def counts(self) -> dict[str, int]:
        """Rows that had to be sorted, rows never sent because the one before was not completed, and
        later turns that come at their times whether the one before has ended or not, and
        rows whose time had not come when the run ended.
        """
        return {
            "rows_out_of_order": self._moved,
            "rows_not_sent": 0,
            "turns_at_fixed_times": self._at_fixed_times,
            **self._replay.counts(),
        }

    def _waiting(self, chains: list[list[int]]) -> list[ReplayItem]:
        """Return the rows as items, each but the first of a chain after the one before it."""
        items = [
            ReplayItem(
                partial(self._request, index),
                index,
                arrival_s=None if row.arrival is None else instant(row.arrival),
                think_s=row.think or 0.0,
                or_cancelled=True,
                priority=row.priority,
                patience_s=inf if row.cancel is None else row.cancel,
            )
            for index, row in enumerate(self._rows)
        ]
        for before, index in chain.from_iterable(map(pairwise, chains)):
            items[index].after = (items[before],)
        return items

    def _shown(self, session: str) -> str:
        """Return a session as tables have it: those of a file by a hash of what was sent.

        A router keeps no more than that of a header either.
        """
        return f"{xxh3_64_intdigest(session.encode()):016x}" if self._recorded else session

    def _lay_out(self, name: str, indices: list[int]) -> None:
        """Lay out what the turns of one conversation say."""
        rows = [self._rows[index] for index in indices]
        shared = None
        if rows[0].shared_prefix is not None:
            shared = self._shared.setdefault(rows[0].shared_prefix, Node())
        conversation = Conversation(shared, rows[0].shared_tokens or 0)
        session_id = f"{self._context.name}/{name}"
        before: Row | None = None
        for number, (index, row) in enumerate(zip(indices, rows), start=1):
            kept = ALL if row.kept_tokens is None else row.kept_tokens
            if kept == ALL and before is not None and row.prompt_tokens < before.prompt_tokens:
                conversation.start_over()
            prompt = conversation.ask(row.prompt_tokens, kept)
            last = number == len(rows)
            sent_back = last or self._sent_back(row, rows[number])  # nobody asks after the last
            answer = conversation.answer(prompt, row.output_tokens, sent_back)
            closes = last and row.session is not None
            self._turns[index] = Turn(session_id, number, prompt, answer, closes)
            before = row

    def _sent_back(self, row: Row, following: Row) -> bool:
        if following.kept_tokens is not None:
            return following.kept_tokens > row.prompt_tokens
        whole = row.prompt_tokens + row.output_tokens
        return self._reuse_output and following.prompt_tokens >= whole

    def _request(self, index: int) -> Request:
        row, turn = self._rows[index], self._turns[index]
        return Request(
            session_id=turn.session_id,
            agent_id="",  # the spec counts no agents, so no turn may count as one's
            turn=turn.number,
            session_key=self._key(row.session),
            prompt=turn.prompt,
            answer=turn.answer,
            output_tokens=row.output_tokens,
            workload=self._context.name,
            model=row.model or "",
            closes_session=turn.closes,
            num_ctx=row.num_ctx,
        )

    def _key(self, session: str | None) -> int | None:
        """A session's key depends on the seed, as everywhere: seeds replicate the ring's luck."""
        if session is None:
            return None
        return self._context.streams.key(f"workload/{self._context.name}/session/{session}")
