"""Open loop: the requests that one engine was sent, at the times recorded, with what they said.

One JSON object per line of the file is one request:

- ``arrival_s``: when it was to arrive, in seconds; ``recorded_arrival_s``, if
  there, is when it did, and goes before it
- ``prompt_tokens``, ``output_tokens``
- ``sequence_block_runs``: the ids of the full blocks of prompt and output, as
  ``[first, count]`` of first, first + 1, ...

Two requests say the same as far as their ids are equal from the first one on.
Further keys are of no interest here. A file may list ``MAX_BLOCKS`` full blocks.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, Field, PlainValidator

from sim.core.content import Node, Prompt
from sim.core.fields import MAX_TOKENS, PositiveTokens, Text
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Request
from sim.core.rules import Problem
from sim.scenario.inputs import Inputs
from sim.workload.clients import Clients, ClientSpec, share_beyond
from sim.workload.files import JsonLines, illegal, record, times, tokens
from sim.workload.replay import Replay, ReplayItem

MAX_BLOCKS: Final = 10**7
"""Full blocks that a file may list: runs are written shorter than the blocks they stand for, of
which each takes some 200 bytes."""

Tokens = Annotated[int, tokens(f"a whole number of tokens from 1 to {MAX_TOKENS:g}", low=1)]


def _runs(found: Any) -> Any:
    if isinstance(found, list) and all(map(_is_run, found)):
        return found
    raise illegal("must be a list of [first id, count of ids]")


def _is_run(found: Any) -> bool:
    return (
        isinstance(found, list)
        and [type(part) for part in found] == [int, int]
        and 1 <= found[1] <= MAX_TOKENS
    )


@record
class RecordedRequest:
    """One line."""

    arrival_s: Annotated[float, times()] = Field(
        validation_alias=AliasChoices("recorded_arrival_s", "arrival_s")
    )
    prompt_tokens: Tokens
    output_tokens: Tokens
    sequence_block_runs: Annotated[list[list[int]], PlainValidator(_runs)]

    @property
    def blocks(self) -> Iterator[int]:
        """The ids of the full blocks of prompt and output."""
        for first, count in self.sequence_block_runs:
            yield from range(first, first + count)


def read_recording(path: Path, block_tokens: int) -> list[RecordedRequest]:
    """Return the requests of a file, plain or gzipped, in order of arrival.

    Raises ``ScenarioError`` with line and key of everything that is wrong.
    """
    lines = JsonLines(path, "a request, an object")
    requests = []
    listed = 0
    for number, request in lines.rows(RecordedRequest):
        blocks = sum(count for _, count in request.sequence_block_runs)
        most = (request.prompt_tokens + request.output_tokens) // block_tokens
        said = f"lists {blocks} full blocks; "
        if blocks > most:
            lines.fault(number, "sequence_block_runs", f"{said}prompt and output have {most}")
        elif listed + blocks > MAX_BLOCKS:
            before = f", {listed} of them before this line" if listed else ""
            said += f"a file may list {MAX_BLOCKS}{before}"
            lines.fault(number, "sequence_block_runs", said)
        else:
            listed += blocks
            requests.append(request)
    if not requests and not lines.faults:
        lines.fault(0, "", "is empty; one request per line is needed")
    lines.refuse_faults()
    return sorted(requests, key=lambda request: request.arrival_s)


class RecordingSpec(ClientSpec):
    """Recorded requests with the ids of their blocks, ``blockTokens`` tokens each.

    Every request is sent when it arrived, however long the answers take here.
    """

    kind: Literal["recording"]
    file: Text = Field(
        description="JSON lines, plain or gzipped: arrival_s, prompt_tokens, output_tokens, "
        "sequence_block_runs of each request (sim/workload/recording.py); relative to the "
        "scenario.",
    )
    block_tokens: PositiveTokens = Field(
        default=16, description="Tokens per block of the recorded ids."
    )

    def keyless(self, inputs: Inputs) -> bool:
        """Whether no request has a session key: a recording of one engine knows of none."""
        return True

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The recorded prompts."""
        found = inputs.once(read_recording, self.file, self.block_tokens)
        for said in share_beyond([each.prompt_tokens for each in found], tokens):
            yield "file", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file."""
        inputs.once(read_recording, self.file, self.block_tokens)


def texts(requests: Iterable[RecordedRequest], block_tokens: int) -> list[Node]:
    """Return the node on which prompt and answer of each request end, in one content tree.

    A sequence branches off an earlier one behind the last block that both
    have, counted from the first: what follows the last full block is its own.
    Ids are compared as sequences, since not every recording chains them.
    """
    # Blocks by the block before them and their id, numbered as they are first met.
    known: dict[tuple[int, int], int] = {}
    owners: list[Node] = []
    ends = []
    for request in requests:
        blocks = list(request.blocks)
        shared = 0
        last = -1
        for block in blocks:
            number = known.get((last, block))
            if number is None:
                break
            shared += 1
            last = number
        node = Node(owners[last], shared * block_tokens) if shared else Node()
        for block in blocks[shared:]:
            known[last, block] = len(owners)
            last = len(owners)
            owners.append(node)
        ends.append(node)
    return ends


@family(RecordingSpec)
class Recording:
    """Sends the requests of a recording."""

    finite = True

    def __init__(self, spec: RecordingSpec, context: WorkloadContext) -> None:
        self._context = context
        self._replay = Replay(context.kernel, Clients(spec, context))
        recorded = read_recording(context.directory / spec.file, spec.block_tokens)
        self._items = [
            ReplayItem(partial(self._request, number, each, node), number, each.arrival_s)
            for number, (each, node) in enumerate(zip(recorded, texts(recorded, spec.block_tokens)))
        ]

    def start(self) -> None:
        """Schedule the first arrival."""
        self._replay.play(self._items, self._context.finished)

    def counts(self) -> dict[str, int]:
        """Nothing about a recording needs saying."""
        return {}

    def _request(self, number: int, recorded: RecordedRequest, node: Node) -> Request:
        name = self._context.name
        return Request(
            session_id=f"{name}/{number + 1}",
            agent_id="",
            turn=1,
            session_key=None,
            prompt=Prompt(node, recorded.prompt_tokens),
            answer=node,
            output_tokens=recorded.output_tokens,
            workload=name,
        )
