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
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from xxhash import xxh3_64_intdigest

from sim.core.content import Node, Prompt
from sim.core.errors import ScenarioError
from sim.core.fields import Duration, Text, real
from sim.core.kernel import instant
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Request, Status
from sim.core.rules import Problem, rule
from sim.scenario.inputs import Inputs
from sim.workload.agenda import Agenda
from sim.workload.client import Clients, ClientSpec, share_beyond
from sim.workload.conversation import ALL, Conversation
from sim.workload.distributions import exactly_one
from sim.workload.script_csv import Stamps, read_header, read_rows
from sim.workload.script_rows import Row, check_rows, in_order, unserved


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

    @rule
    def _has_rows(self) -> Iterator[Problem]:
        if self.rows == ():
            yield "rows", "at least one row is needed"

    @rule
    def _rows_go_together(self) -> Iterator[Problem]:
        for fault in check_rows(self.rows or (), self.reuse_output):
            yield f"rows.{fault.row}.{fault.key}", fault.message

    @rule
    def _rows_write_their_units(self) -> Iterator[Problem]:
        if self.rows is not None and self.unit is not None:
            yield "unit", "only for a file; rows write their units"

    @rule
    def _rows_come_when_they_say(self) -> Iterator[Problem]:
        if self.rows is None:
            return
        message = "only for a file; rows say when they come"
        if "first_arrival" in self.model_fields_set and self.first_arrival is not None:
            yield "firstArrival", message
        if self.speed != 1.0:
            yield "speed", message

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself: always."""
        return True

    @property
    def agents_total(self) -> int:
        """Closed-loop agents: none, a session is nobody's endless work."""
        return 0

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
        rows = self._rows_once(inputs)
        mine = {
            index: row.prompt_tokens
            for index, row in enumerate(rows)
            if (row.model or self.model or "") == model
        }
        for said in share_beyond(mine.values(), tokens):
            first = next(index for index, length in mine.items() if length > tokens)
            yield "file" if self.file else f"rows.{first}.promptTokens", said

    def files(self) -> tuple[str, ...]:
        """Files that the workload reads, relative to the scenario."""
        return () if self.file is None else (self.file,)

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file, and models nobody serves."""
        self._rows_once(inputs)

    def _rows_once(self, inputs: Inputs) -> Sequence[Row]:
        """The rows for a look at them, a file being read once for all looks."""
        if self.file is None:
            return self.read(inputs.directory, inputs.models, "")
        how = self._stamps(), self.reuse_output, inputs.models
        return inputs.once(read_rows, self.file, *how)

    def _stamps(self) -> Stamps:
        return Stamps(self.unit, self.first_arrival, self.speed)

    def read(self, directory: Path, models: tuple[str, ...], source: str) -> Sequence[Row]:
        """The rows, written here or in the file, for backends that serve ``models``.

        Raises ``ScenarioError``; ``source`` is that of rows written here.
        """
        if self.file is not None:
            return read_rows(directory / self.file, self._stamps(), self.reuse_output, models)
        assert self.rows is not None
        faults = unserved(self.rows, models)
        if faults:
            raise ScenarioError([each.in_list(source, "rows") for each in faults])
        return self.rows


class Turn:
    """One row, ready to be sent, and the row that waits for its end."""

    __slots__ = ("answer", "closes", "follower", "index", "number", "prompt", "row", "session_id")

    def __init__(self, index: int, row: Row, session_id: str) -> None:
        self.index = index
        self.row = row
        self.session_id = session_id
        self.number = 1
        self.closes = False
        self.prompt: Prompt
        self.answer: Node
        self.follower: Turn | None = None


@family(ScriptSpec)
class Script:
    """Sends the rows of a script.

    Rows that are due at one instant go in the order of the script, whether
    they arrive then or have thought until then; one that becomes due by what
    those before it have brought about goes after them.
    """

    finite = True

    def __init__(self, spec: ScriptSpec, context: WorkloadContext) -> None:
        self._context = context
        self._clients = Clients(spec, context)
        self._reuse_output = spec.reuse_output
        self._recorded = spec.file is not None
        self._shared: dict[str, Node] = {}
        rows = spec.read(context.directory, context.models, context.name)
        order, _ = in_order(rows)
        turns = self._turns(rows, order.sessions)
        arrivals: list[tuple[float, int, Turn]] = []
        for chain in order.chains:
            head = turns[chain[0]]
            assert head.row.arrival is not None
            arrivals.append((instant(head.row.arrival), head.index, head))
            for waited_for, waits in pairwise(chain):
                turns[waited_for].follower = turns[waits]
        self._agenda = Agenda(context.kernel, arrivals, self._send)
        self._open = len(rows)
        self._counts = {
            "rows_out_of_order": order.moved,
            "rows_not_sent": 0,
            "turns_at_fixed_times": sum(
                turn.number > 1 and turn.row.think is None for turn in turns
            ),
        }

    def start(self) -> None:
        """Schedule the first arrival."""
        self._agenda.start()

    def counts(self) -> dict[str, int]:
        """Rows that had to be sorted, rows never sent because the one before was not completed, and
        later turns that come at their times whether the one before has ended or not, and
        rows whose time had not come when the run ended.
        """
        return self._counts | self._agenda.counts()

    def _turns(self, rows: Sequence[Row], sessions: dict[str, list[int]]) -> list[Turn]:
        name = self._context.name
        turns = [
            Turn(index, row, f"{name}/{row.id or f'row-{index + 1}'}")
            for index, row in enumerate(rows)
        ]
        for session, indices in sessions.items():
            for number, index in enumerate(indices, start=1):
                turn = turns[index]
                turn.session_id = f"{name}/{self._shown(session)}"
                turn.number = number
                turn.closes = number == len(indices)
            self._write([turns[index] for index in indices])
        for turn in turns:
            if turn.row.session is None:
                self._write([turn])
        return turns

    def _shown(self, session: str) -> str:
        """A session as tables have it: those of a file are known by a hash of what was sent.

        A router keeps no more than that of a header either.
        """
        return f"{xxh3_64_intdigest(session.encode()):016x}" if self._recorded else session

    def _write(self, turns: list[Turn]) -> None:
        """Lay out what the turns of one conversation say."""
        first = turns[0].row
        shared = None
        shared_tokens = first.shared_tokens or 0
        if first.shared_prefix is not None:
            shared = self._shared.setdefault(first.shared_prefix, Node())
        conversation = Conversation(shared, shared_tokens)
        for index, turn in enumerate(turns):
            row = turn.row
            kept = ALL if row.kept_tokens is None else row.kept_tokens
            if kept == ALL and index and row.prompt_tokens < turns[index - 1].row.prompt_tokens:
                conversation.start_over()
            turn.prompt = conversation.ask(row.prompt_tokens, kept)
            following = turns[index + 1].row if index + 1 < len(turns) else None
            turn.answer = conversation.answer(
                turn.prompt, row.output_tokens, self._sent_back(row, following)
            )

    def _sent_back(self, row: Row, following: Row | None) -> bool:
        if following is None:
            return True  # nobody will ask
        if following.kept_tokens is not None:
            return following.kept_tokens > row.prompt_tokens
        whole = row.prompt_tokens + row.output_tokens
        return self._reuse_output and following.prompt_tokens >= whole

    def _send(self, turn: Turn) -> None:
        context = self._context
        row = turn.row
        request = Request(
            session_id=turn.session_id,
            agent_id="",  # the spec counts no agents, so no turn may count as one's
            turn=turn.number,
            session_key=self._key(row.session),
            prompt=turn.prompt,
            answer=turn.answer,
            output_tokens=row.output_tokens,
            on_end=partial(self._ended, turn),
            workload=context.name,
            model=row.model or "",
            closes_session=turn.closes,
            num_ctx=row.num_ctx,
        )
        patience_s = inf if row.cancel is None else row.cancel
        self._clients.send(request, row.priority, patience_s)

    def _key(self, session: str | None) -> int | None:
        """A session's key depends on the seed, as everywhere: seeds replicate the ring's luck."""
        if session is None:
            return None
        return self._context.streams.key(f"workload/{self._context.name}/session/{session}")

    def _ended(self, turn: Turn, request: Request) -> None:
        self._open -= 1
        follower = turn.follower
        if request.status in (Status.REJECTED, Status.FAILED):
            while follower is not None:
                self._counts["rows_not_sent"] += 1
                self._open -= 1
                follower = follower.follower
        if follower is not None:
            now_s = self._context.kernel.now_s
            assert follower.row.think is not None
            due_s = max(instant(now_s + follower.row.think), now_s)
            self._agenda.add(due_s, follower.index, follower)
        if self._open == 0:
            self._context.finished()
