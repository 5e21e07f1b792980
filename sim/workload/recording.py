"""Open loop: the requests that one engine was sent, at the times recorded, with what they said."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from sim.core.content import Node, Prompt
from sim.core.fields import PositiveTokens, Text
from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Request
from sim.core.rules import Problem
from sim.scenario.inputs import Inputs
from sim.workload.client import Clients, ClientSpec, share_beyond
from sim.workload.recording_file import RecordedRequest, read_recording


class RecordingSpec(ClientSpec):
    """Recorded requests with the ids of their blocks, ``blockTokens`` tokens each.

    Every request is sent when it arrived, however long the answers take here.
    """

    kind: Literal["recording"]
    file: Text = Field(
        description="JSON lines, plain or gzipped: arrival_s, prompt_tokens, output_tokens, "
        "sequence_block_runs of each request (sim/workload/recording_file.py); relative to the "
        "scenario.",
    )
    block_tokens: PositiveTokens = Field(
        default=16, description="Tokens per block of the recorded ids."
    )

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself: always."""
        return True

    @property
    def agents_total(self) -> int:
        """Closed-loop agents: none."""
        return 0

    def keyless(self, inputs: Inputs) -> bool:
        """Whether no request has a session key: a recording of one engine knows of none."""
        return True

    def files(self) -> tuple[str, ...]:
        """Files that the workload reads, relative to the scenario."""
        return (self.file,)

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The recorded prompts."""
        found = inputs.once(read_recording, self.file, self.block_tokens)
        prompts = [each.prompt_tokens for each in found]
        for said in share_beyond(prompts, tokens):
            yield "file", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file."""
        inputs.once(read_recording, self.file, self.block_tokens)

    def read(self, directory: Path) -> list[RecordedRequest]:
        """The requests in order of arrival; raises ``ScenarioError``."""
        return read_recording(directory / self.file, self.block_tokens)


class Said(NamedTuple):
    """What a request says: its prompt, and the text on which its answer lies."""

    prompt: Prompt
    answer: Node


def texts(requests: Iterable[RecordedRequest], block_tokens: int) -> list[Said]:
    """The content tree of recorded requests.

    A sequence branches off an earlier one behind the last block that both
    have, counted from the first: what follows the last full block is its own.
    Ids are compared as sequences, since not every recording chains them.
    """
    # Blocks by the block before them and their id, numbered as they are first met.
    known: dict[tuple[int, int], int] = {}
    owners: list[Node] = []
    said = []
    for request in requests:
        shared = 0
        last = -1
        for block in request.blocks:
            number = known.get((last, block))
            if number is None:
                break
            shared += 1
            last = number
        node = Node(owners[last], shared * block_tokens) if shared else Node()
        for block in request.blocks[shared:]:
            known[last, block] = len(owners)
            last = len(owners)
            owners.append(node)
        said.append(Said(Prompt(node, request.prompt_tokens), node))
    return said


@family(RecordingSpec)
class Recording:
    """Sends the requests of a recording; each arrival schedules the next."""

    finite = True

    def __init__(self, spec: RecordingSpec, context: WorkloadContext) -> None:
        self._context = context
        self._clients = Clients(spec, context)
        self._recorded = spec.read(context.directory)
        self._said = texts(self._recorded, spec.block_tokens)
        self._sent = 0
        self._open = len(self._recorded)

    def start(self) -> None:
        """Schedule the first arrival."""
        self._context.kernel.at(self._recorded[0].arrival_s, Order.ARRIVAL, self._send)

    def counts(self) -> dict[str, int]:
        """Nothing about a recording needs saying."""
        return {}

    def _send(self) -> None:
        """Submit every request that is due now and schedule the next."""
        kernel = self._context.kernel
        now_s = kernel.now_s
        while self._sent < len(self._recorded):
            arrival_s = self._recorded[self._sent].arrival_s
            if arrival_s > now_s:
                kernel.at(arrival_s, Order.ARRIVAL, self._send)
                return
            self._sent += 1
            self._clients.send(self._request(self._sent - 1))

    def _request(self, index: int) -> Request:
        name = self._context.name
        prompt, answer = self._said[index]
        return Request(
            session_id=f"{name}/{index + 1}",
            agent_id="",
            turn=1,
            session_key=None,
            prompt=prompt,
            answer=answer,
            output_tokens=self._recorded[index].output_tokens,
            on_end=self._ended,
            workload=name,
        )

    def _ended(self, request: Request) -> None:
        self._open -= 1
        if self._open == 0:
            self._context.finished()
