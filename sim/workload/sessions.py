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
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import Field

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import Duration, PositiveTokens, Text
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Wait
from sim.core.rules import Problem
from sim.scenario.inputs import Inputs
from sim.workload.agent_spec import Agents, Ramp, ReuseOutput, SessionsPerAgent
from sim.workload.agents import PAUSE_S
from sim.workload.client import Clients, ClientSpec, share_beyond
from sim.workload.recorded import Recording, read_recordings
from sim.workload.replay import Replay, SubAgentKeys, Thread
from sim.workload.replay_plan import Plan, Rules, Think, kept_calls, plan_session


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

    def files(self) -> tuple[str, ...]:
        """Files that the workload reads, relative to the scenario."""
        return (self.file,)

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The recorded prompts that are kept."""
        if tokens < self.max_context:
            calls = [
                call.prompt_tokens
                for each in self.usable(inputs.once(read_recordings, self.file), inputs.directory)
                for call in kept_calls(each.calls, self.max_context)
            ]
            for said in share_beyond(calls, tokens):
                yield "maxContext", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file."""
        self.usable(inputs.once(read_recordings, self.file), inputs.directory)

    def usable(self, recordings: list[Recording], directory: Path) -> list[Recording]:
        """Those with at least two requests within ``maxContext``; without any ``ScenarioError``."""
        usable = [each for each in recordings if len(kept_calls(each.calls, self.max_context)) >= 2]
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
        self.replay = Replay(context, Clients(spec, context), spec.sub_agents)
        self._working = spec.agents
        self._rules = Rules(
            spec.max_context, spec.cap, spec.think, spec.reuse_output, spec.sub_agents != "skip"
        )
        everything = read_recordings(context.directory / spec.file)
        self._recordings = spec.usable(everything, context.directory)
        self._left_out = len(everything) - len(self._recordings)
        # Planning a session takes a while and many are never dealt.
        self._plans: dict[int, Plan] = {}

    def start(self) -> None:
        """Schedule the first request of every agent, uniformly over the ramp."""
        for index in range(self.spec.agents):
            agent = ReplayingAgent(self, index)
            generator = self.context.streams.get(f"workload/{self.context.name}/agent/{index}")
            offset_us = int(generator.random() * self.spec.ramp * 1e6)
            agent.begin_session(offset_us / 1e6)

    def counts(self) -> dict[str, int]:
        """What was read, what of it was ignored or changed, and sessions that broke off."""
        calls = [
            kept_calls(recording.calls, self.spec.max_context) for recording in self._recordings
        ]
        return {
            "sessions": len(self._recordings),
            "sessions_left_out": self._left_out,
            "session_requests": sum(len(session) for session in calls),
            "model_changes_ignored": sum(
                one.model != other.model for session in calls for one, other in pairwise(session)
            ),
            "empty_outputs_raised": sum(
                call.output_tokens == 0 for session in calls for call in session
            ),
            "sessions_broken_off": self.replay.broken_off,
        }

    @property
    def dealt_total(self) -> int:
        """Sessions that every agent has to play before any comes again."""
        return len(self._recordings)

    def plan(self, index: int) -> Plan:
        """The turns of a session of the file."""
        if index not in self._plans:
            self._plans[index] = plan_session(self._recordings[index], self._rules)
        return self._plans[index]

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
        self._thread: Thread  # the session

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
        before = None if delay_s is not None else self._thread
        self._thread = Thread(
            sessions.replay,
            plan,
            sessions.replay.root(plan.model),
            self._agent_id,
            f"{self._agent_id}/{self._number}",
            sessions.context.streams.key(f"{self._stream}/session/{self._number}"),
            self._session_over,
        )
        if before is not None:
            delay_s = max(plan.think_s[0], pause_s)
            self._thread.send_after(delay_s, Wait((), before.ends, delay_s))
        elif delay_s is not None:
            self._thread.send_after(delay_s)

    def _session_over(self, completed: bool) -> None:
        if self._number + 1 == self._sessions.spec.sessions_per_agent:
            self._sessions.retire()
        else:
            self.begin_session(pause_s=0.0 if completed else PAUSE_S)
