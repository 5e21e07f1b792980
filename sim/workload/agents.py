"""Closed loop: agents that work through one drawn session after the other.

Everything an agent will do in a session is drawn from the session's own
stream when it begins, so that the list of requests depends on the seed and on
nothing that the cluster does. The think time before a turn starts when the
turn before it has ended; the one before a session, when the session before it
has ended.

A turn that is not completed, be it refused, broken off or left at the client's
timeout, ends its session: the agent goes on with its next one, after the think
time but not before ``PAUSE_S``, lest a cluster that refuses at once be asked
for ever at one instant.
"""

from typing import Final, NamedTuple

import numpy as np

from sim.core.content import Node
from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import NO_WAIT, Request, Status, Wait
from sim.workload.agent_spec import MAX_TURNS, AgentsSpec
from sim.workload.clients import PAUSE_S, Clients
from sim.workload.conversation import ALL, Conversation
from sim.workload.distributions import Counts, Delays

PAST_SESSIONS: Final = 1024
"""Sessions among which agents that start in the middle of one are dealt their place."""


class Session(NamedTuple):
    """The turns of one session, one entry each.

    ``kept_tokens`` says how much of the text so far the prompt repeats (``ALL``
    but for edits and compactions); ``think_s`` passes before the turn.
    """

    family: int
    prompt_tokens: list[int]
    kept_tokens: list[int]
    output_tokens: list[int]
    think_s: list[float]


class SessionSource:
    """Draws sessions with the parameters of a spec."""

    def __init__(self, spec: AgentsSpec) -> None:
        self._spec = spec
        ranks = np.arange(1, spec.shared_prefix.families + 1, dtype=np.float64)
        weights = np.cumsum(ranks**-spec.shared_prefix.zipf)
        self._families: Delays = weights / weights[-1]

    def draw(self, generator: np.random.Generator) -> Session:
        """A session; takes as many draws from ``generator`` as it needs."""
        spec = self._spec
        family = int(np.searchsorted(self._families, generator.random(), side="right"))
        first = spec.fresh_prompt if generator.random() < spec.fresh_share else spec.resumed_prompt
        prompts, compacted = self._prompts(generator, int(first.draw(generator, 1)[0]))
        turns = len(prompts)
        kept = self._kept(generator, prompts, compacted)
        output = spec.output.draw(generator, turns)
        think = spec.think.draw(generator, turns, spec.think_cap)
        return Session(family, prompts.tolist(), kept.tolist(), output.tolist(), think.tolist())

    def _prompts(self, generator: np.random.Generator, first: int) -> tuple[Counts, list[int]]:
        """Prompt lengths of the turns, and which of the turns are compactions."""
        spec = self._spec
        limit = spec.prompt_limit
        intended = min(int(spec.turns.draw(generator, 1)[0]), MAX_TURNS)
        grown = np.cumsum(spec.growth.draw(generator, intended))
        compacted: list[int] = []
        stretches = []
        begin = 0
        prompt = min(first, limit)
        while True:
            # Looked up in the one sum: a session may be compacted at every turn.
            base = prompt - int(grown[begin])
            end = int(np.searchsorted(grown, limit - base, side="right"))
            stretches.append(base + grown[begin:end])
            if end == intended or spec.at_context_limit == "end":
                return np.concatenate(stretches), compacted
            compacted.append(end)
            begin = end
            prompt = min(int(spec.compaction.prompt.draw(generator, 1)[0]), limit)

    def _kept(
        self, generator: np.random.Generator, prompts: Counts, compacted: list[int]
    ) -> Counts:
        """Tokens of the text so far that each prompt repeats.

        After an early edit something between the shared prefix and half of
        the prompt survives; after a compaction the shared prefix.
        """
        shared = min(self._spec.shared_prefix.tokens, int(prompts[0]))
        kept = np.full(len(prompts), ALL, np.int64)
        edited = np.flatnonzero(generator.random(len(prompts)) < self._spec.early_edit_share)
        edited = edited[edited > 0]
        room = np.maximum(prompts[edited] // 2 - shared, 0)
        kept[edited] = shared + np.rint(room * generator.random(len(edited))).astype(np.int64)
        kept[compacted] = shared
        return kept


@family(AgentsSpec)
class Agents:
    """The agents of one workload and what they share: parameters and prompt families."""

    def __init__(self, spec: AgentsSpec, context: WorkloadContext) -> None:
        self.finite = spec.finite
        self.spec = spec
        self.context = context
        self.clients = Clients(spec, context)
        self.source = SessionSource(spec)
        self.families = [Node() for _ in range(spec.shared_prefix.families)]
        self.broken_off = 0
        self._working = spec.agents

    def start(self) -> None:
        """Schedule the first request of every agent, uniformly over the ramp."""
        past = self._past() if self.spec.start == "mid-session" else None
        for index in range(self.spec.agents):
            generator = self.context.streams.get(f"workload/{self.context.name}/agent/{index}")
            offset_us = int(generator.random() * self.spec.ramp * 1e6)
            agent = Agent(self, index)
            if past is None:
                agent.begin_session()
            else:
                agent.join(*past.place(generator))
            self.context.kernel.at(offset_us / 1e6, Order.ARRIVAL, agent.send)

    def counts(self) -> dict[str, int]:
        """Sessions that ended early because a turn was not completed."""
        return {"sessions_broken_off": self.broken_off}

    def retire(self) -> None:
        """An agent has ended its last session."""
        self._working -= 1
        if self._working == 0:
            self.context.finished()

    def _past(self) -> "Past":
        generator = self.context.streams.get(f"workload/{self.context.name}/past")
        return Past([self.source.draw(generator) for _ in range(PAST_SESSIONS)])


class Past:
    """Sessions laid end to end: a random point falls into a long one more often.

    That is what one sees of agents at work at a random moment.
    """

    def __init__(self, sessions: list[Session]) -> None:
        self._sessions = sessions
        self._ends = np.cumsum([len(session.prompt_tokens) for session in sessions])

    def place(self, generator: np.random.Generator) -> tuple[Session, int]:
        """A session and the index of one of its turns, every turn of all equally likely."""
        point = int(generator.integers(0, self._ends[-1]))
        index = int(np.searchsorted(self._ends, point, side="right"))
        session = self._sessions[index]
        return session, point - int(self._ends[index]) + len(session.prompt_tokens)


class Agent:
    """One agent: at most one request in flight."""

    __slots__ = (
        "_agent_id",
        "_agents",
        "_conversation",
        "_key",
        "_number",
        "_session",
        "_session_id",
        "_stream",
        "_turn",
        "_wait",
    )

    def __init__(self, agents: Agents, index: int) -> None:
        self._agents = agents
        self._agent_id = f"{agents.context.name}/{index}"
        self._stream = f"workload/{agents.context.name}/agent/{index}"
        self._number = -1
        self._turn = 0
        self._wait = NO_WAIT

    def begin_session(self) -> None:
        """Draw the next session; its first turn is what ``send`` will send."""
        agents = self._agents
        stream = f"{self._stream}/session/{self._number + 1}"
        self.join(agents.source.draw(agents.context.streams.get(stream)), 0)

    def join(self, session: Session, turn: int) -> None:
        """Be in ``session``, about to send the turn of this index."""
        self._number += 1
        self._session = session
        self._session_id = f"{self._agent_id}/{self._number}"
        self._turn = turn
        agents = self._agents
        self._key = agents.context.streams.key(f"{self._stream}/session/{self._number}")
        shared_tokens = min(agents.spec.shared_prefix.tokens, session.prompt_tokens[0])
        self._conversation = Conversation(agents.families[session.family], shared_tokens)

    def send(self) -> None:
        """Send the present turn."""
        agents = self._agents
        session = self._session
        turn = self._turn
        following = turn + 1
        last = following == len(session.prompt_tokens)
        prompt_tokens = session.prompt_tokens[turn]
        output_tokens = session.output_tokens[turn]
        conversation = self._conversation
        prompt = conversation.ask(prompt_tokens, session.kept_tokens[turn])
        sent_back = last or (
            agents.spec.reuse_output
            and session.kept_tokens[following] == ALL
            and session.prompt_tokens[following] >= prompt_tokens + output_tokens
        )
        request = Request(
            session_id=self._session_id,
            agent_id=self._agent_id,
            turn=following,
            session_key=self._key,
            prompt=prompt,
            answer=conversation.answer(prompt, output_tokens, sent_back),
            output_tokens=output_tokens,
            on_end=self._ended,
            workload=agents.context.name,
            closes_session=last,
            wait=self._wait,
        )
        agents.clients.send(request)

    def _ended(self, request: Request) -> None:
        agents = self._agents
        completed = request.status == Status.COMPLETED
        agents.broken_off += not completed
        self._turn += 1
        goes_on = completed and self._turn < len(self._session.prompt_tokens)
        if not goes_on:
            if self._number + 1 == agents.spec.sessions_per_agent:
                agents.retire()
                return
            self.begin_session()
        pause_s = self._session.think_s[self._turn]
        if not completed:
            pause_s = max(pause_s, PAUSE_S)
        self._wait = Wait((request,), (), pause_s) if goes_on else Wait((), (request,), pause_s)
        kernel = agents.context.kernel
        kernel.at(kernel.now_s + pause_s, Order.ARRIVAL, self.send)
