"""Closed loop: agents that replay recorded sessions.

Each agent works through all sessions of the file in an order of its own,
drawn from its own stream and drawn anew when all have been dealt, so that who
plays what depends on the seed only. A session that is dealt again is a new
conversation under a new key. Its tool and system prompt is a text shared by
all sessions of the same first model; the session branches off it at its own
length. Changes of the model inside a session are ignored, and answers without
a token have one; both are counted.

A session ends at its first request beyond ``maxContext``; sessions of fewer
than two requests are left out. The delay before a request starts at the end
of the response before it, the sub-agents that run in between included. A turn
that is not completed (refused, broken off or left at the client's timeout)
ends its session, or its sub-agent; the agent goes on with the next session as
``sim.workload.agents`` says.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from sim.core.content import Node, Prompt
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import Duration, PositiveTokens, Text
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import NO_WAIT, Request, Wait
from sim.core.rules import Problem
from sim.scenario.inputs import Inputs
from sim.workload.agent_spec import Agents, Ramp, ReuseOutput, SessionsPerAgent
from sim.workload.clients import PAUSE_S, Clients, ClientSpec, share_beyond
from sim.workload.conversation import ALL, Conversation
from sim.workload.replay import Replay, ReplayItem, requests_of
from sim.workload.session_file import (
    Plan,
    Rules,
    Session,
    Think,
    Turn,
    kept_calls,
    plan_session,
    read_sessions,
)

SubAgentKeys: TypeAlias = Literal["own-key", "parent-key", "skip"]


class SessionsSpec(ClientSpec):
    """Recorded sessions, dealt to ``agents``.

    ``think`` is the recorded delay, or the one corrected for the doubled
    calls of the recording proxy; at most ``cap``. Sub-agents run in parallel
    under a session key of their own or their parent's, or are skipped, and
    their parent waits.
    """

    kind: Literal["sessions"]
    agents: Agents
    file: Text = Field(
        description="Recorded sessions, JSON lines, plain or gzipped (kv-cache-tester; "
        "scenarios/traces/README.md); relative to the scenario.",
    )
    cap: Duration = Field(default=60.0, description="Longest think.")
    max_context: PositiveTokens = Field(
        default=128_000, description="A session ends before its first prompt of more tokens."
    )
    think: Think = Field(
        default="corrected",
        description="The recorded delays, or those corrected for the calls that the recording "
        "proxy has doubled.",
    )
    sub_agents: SubAgentKeys = Field(
        default="own-key",
        description="Sub-agents run under a session key of their own or under their parent's, or "
        "are skipped.",
    )
    reuse_output: ReuseOutput = True
    ramp: Ramp = 30.0
    sessions_per_agent: SessionsPerAgent = None

    @property
    def finite(self) -> bool:
        """Whether the agents stop by themselves."""
        return self.sessions_per_agent is not None

    @property
    def agents_total(self) -> int:
        """Closed-loop agents."""
        return int(self.agents)

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The recorded prompts that are kept."""
        if tokens < self.max_context:
            calls = [
                call.prompt_tokens
                for each in self.usable(inputs.once(read_sessions, self.file), inputs.directory)
                for call in kept_calls(each.calls, self.max_context)
            ]
            for said in share_beyond(calls, tokens):
                yield "maxContext", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file."""
        self.usable(inputs.once(read_sessions, self.file), inputs.directory)

    def usable(self, sessions: list[Session], directory: Path) -> list[Session]:
        """Those with at least two requests within ``maxContext``; without any ``ScenarioError``."""
        usable = [each for each in sessions if len(kept_calls(each.calls, self.max_context)) >= 2]
        if not usable:
            message = f"no session has two requests of at most {self.max_context} tokens"
            raise ScenarioError([Fault(str(directory / self.file), 0, 0, "", message)])
        return usable


@family(SessionsSpec)
class Sessions:
    """The recorded sessions of one file, and the agents that replay them."""

    def __init__(self, spec: SessionsSpec, context: WorkloadContext) -> None:
        self.finite = spec.finite
        self.spec = spec
        self.context = context
        self.replay = Replay(context.kernel, Clients(spec, context))
        self._working = spec.agents
        self._rules = Rules(
            max_context=spec.max_context,
            cap_s=spec.cap,
            think=spec.think,
            reuse_output=spec.reuse_output,
            sub_agents=spec.sub_agents != "skip",
        )
        everything = read_sessions(context.directory / spec.file)
        self._sessions = spec.usable(everything, context.directory)
        self._left_out = len(everything) - len(self._sessions)
        # Planning a session takes a while and many are never dealt.
        self._plans: dict[int, Plan] = {}
        self._roots: dict[tuple[str, str], Node] = {}

    def start(self) -> None:
        """Schedule the first request of every agent, uniformly over the ramp."""
        for index in range(self.spec.agents):
            agent = ReplayingAgent(self, index)
            generator = self.context.streams.get(f"workload/{self.context.name}/agent/{index}")
            offset_us = int(generator.random() * self.spec.ramp * 1e6)
            agent.begin_session(offset_us / 1e6)

    def counts(self) -> dict[str, int]:
        """What was read, what of it was ignored or changed, and sessions that broke off."""
        calls = [kept_calls(session.calls, self.spec.max_context) for session in self._sessions]
        return {
            "sessions": len(self._sessions),
            "sessions_left_out": self._left_out,
            "session_requests": sum(len(session) for session in calls),
            "model_changes_ignored": sum(
                one.model != other.model for session in calls for one, other in pairwise(session)
            ),
            "empty_outputs_raised": sum(
                call.output_tokens == 0 for session in calls for call in session
            ),
            "sessions_broken_off": self.replay.not_completed,
        }

    @property
    def dealt_total(self) -> int:
        """Sessions that every agent has to play before any comes again."""
        return len(self._sessions)

    def plan(self, index: int) -> Plan:
        """Return the turns of a session of the file."""
        if index not in self._plans:
            self._plans[index] = plan_session(self._sessions[index], self._rules)
        return self._plans[index]

    def text_of(self, plan: Plan) -> Conversation:
        """Return a new conversation, after the tool and system prompt of its model and kind."""
        root = self._roots.setdefault((plan.model, plan.kind), Node())
        return Conversation(root, plan.shared_tokens)

    def retire(self) -> None:
        """An agent has ended its last session."""
        self._working -= 1
        if self._working == 0:
            self.context.finished()


class ReplayingAgent:
    """One agent and its order of the sessions."""

    def __init__(self, sessions: Sessions, index: int) -> None:
        self._sessions = sessions
        self._agent_id = f"{sessions.context.name}/{index}"
        self._stream = f"workload/{sessions.context.name}/agent/{index}"
        self._number = -1
        self._order: list[int] = []
        self._session: Thread

    def begin_session(self, delay_s: float | None = None, pause_s: float = 0.0) -> None:
        """Deal the next session; it begins after ``delay_s``.

        Without ``delay_s`` after its own first delay, but not before ``pause_s``.
        """
        sessions = self._sessions
        self._number += 1
        dealt, place = divmod(self._number, sessions.dealt_total)
        if place == 0:
            generator = sessions.context.streams.get(f"{self._stream}/order/{dealt}")
            self._order = generator.permutation(sessions.dealt_total).tolist()
        plan = sessions.plan(self._order[place])
        wait = NO_WAIT
        if delay_s is None:
            delay_s = max(plan.turns[0].think_s, pause_s)
            wait = Wait((), requests_of(self._session.ends), delay_s)
        key = sessions.context.streams.key(f"{self._stream}/session/{self._number}")
        session_id = f"{self._agent_id}/{self._number}"
        self._session = Thread(sessions, plan, self._agent_id, session_id, key)
        first = self._session.first(sessions.context.kernel.now_s + delay_s, wait)
        sessions.replay.play([first], self._session_over)

    def _session_over(self) -> None:
        if self._number + 1 == self._sessions.spec.sessions_per_agent:
            self._sessions.retire()
        else:
            self.begin_session(pause_s=0.0 if self._session.completed else PAUSE_S)


class Thread:
    """One conversation being replayed: a session, or a sub-agent of one."""

    def __init__(
        self, sessions: Sessions, plan: Plan, agent_id: str, session_id: str, key: int
    ) -> None:
        self._sessions = sessions
        self._plan = plan
        self._agent_id = agent_id
        self._session_id = session_id
        self._key = key
        self._conversation = sessions.text_of(plan)
        self.ends: list[ReplayItem] = []  # the present turn, the ends of sub-agents behind it
        self._prompts: list[Prompt] = []
        self._completed = 0  # turns
        self._launched = 0  # sub-agents

    @property
    def completed(self) -> bool:
        """Whether every turn of a session was."""
        return self._completed == len(self._plan.turns)

    def first(self, arrival_s: float, wait: Wait) -> ReplayItem:
        """Return the first turn of a session; the others are added one by one."""
        make = partial(self._request, 0)
        item = ReplayItem(make, arrival_s=arrival_s, then=self._go_on, wait=wait)
        self.ends = [item]
        return item

    def _go_on(self, before: ReplayItem) -> list[ReplayItem]:
        """Return the sub-agents that the turn ``before`` launches, and the turn that waits."""
        items: list[ReplayItem] = []
        behind: list[ReplayItem] = []
        for plan in self._plan.turns[self._completed].sub_agents:
            items += self._sub_agent(plan).all_turns(before)
            behind.append(items[-1])
        self._completed += 1
        self.ends = [before, *behind]
        if not self.completed:
            turn = self._turn(self._completed, (before,))
            turn.behind, turn.then = behind, self._go_on
            items.append(turn)
            self.ends = [turn]
        return items

    def all_turns(self, launched_by: ReplayItem) -> list[ReplayItem]:
        """Return the turns of a sub-agent."""
        turns = [launched_by]
        for index in range(len(self._plan.turns)):
            turns.append(self._turn(index, (turns[-1],)))
        return turns[1:]

    def _turn(self, index: int, after: tuple[ReplayItem, ...]) -> ReplayItem:
        think_s = self._plan.turns[index].think_s
        return ReplayItem(partial(self._request, index), think_s=think_s, after=after)

    def _sub_agent(self, plan: Plan) -> "Thread":
        sessions = self._sessions
        self._launched += 1
        session_id = f"{self._session_id}/{self._launched}"
        key = self._key
        if sessions.spec.sub_agents == "own-key":
            key = sessions.context.streams.key(f"workload/{session_id}")
        return Thread(sessions, plan, self._agent_id, session_id, key)

    def _request(self, index: int) -> Request:
        turns = self._plan.turns
        turn = turns[index]
        prompt = self._ask(index, turn)
        return Request(
            session_id=self._session_id,
            agent_id=self._agent_id,
            turn=index + 1,
            session_key=self._key,
            prompt=prompt,
            answer=self._conversation.answer(prompt, turn.output_tokens, turn.sent_back),
            output_tokens=turn.output_tokens,
            workload=self._sessions.context.name,
            closes_session=index + 1 == len(turns),
        )

    def _ask(self, index: int, turn: Turn) -> Prompt:
        conversation = self._conversation
        kept_tokens = turn.kept_tokens
        if index == 0 or self._plan.turns[index - 1].sent_back:
            kept_tokens = ALL
        if index and turn.base < index - 1:
            conversation.return_to(self._prompts[turn.base], turn.kept_tokens)
            kept_tokens = ALL
        prompt = conversation.ask(turn.prompt_tokens, kept_tokens)
        self._prompts.append(prompt)
        return prompt
