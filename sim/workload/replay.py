"""One recorded conversation being replayed, and the sub-agents it waits for."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from sim.core.content import Node, Prompt
from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.request import NO_WAIT, Request, Status, Wait
from sim.workload.client import Clients
from sim.workload.conversation import Conversation
from sim.workload.replay_plan import Plan, SubPlan

SubAgentKeys: TypeAlias = Literal["own-key", "parent-key", "skip"]
Done: TypeAlias = Callable[[bool], None]


class Replay:
    """What all conversations of a replay share."""

    def __init__(
        self, context: WorkloadContext, clients: Clients, sub_agents: SubAgentKeys
    ) -> None:
        self.context = context
        self.clients = clients
        self.sub_agents = sub_agents
        self.broken_off = 0
        self._roots: dict[tuple[str, str], Node] = {}

    def root(self, model: str, kind: str = "") -> Node:
        """The tool and system prompt of sessions of a model, or of its sub-agents of a kind."""
        return self._roots.setdefault((model, kind), Node())


class Thread:
    """One conversation being replayed: a session, or a sub-agent of one.

    ``done`` is called once, with whether every turn was completed, when the
    last turn is over and the sub-agents behind it are.
    """

    def __init__(
        self,
        replay: Replay,
        plan: Plan,
        root: Node,
        agent_id: str,
        session_id: str,
        key: int,
        done: Done,
    ) -> None:
        self._replay = replay
        self._plan = plan
        self._agent_id = agent_id
        self._session_id = session_id
        self._key = key
        self._done = done
        self._conversation = Conversation(root, plan.shared_tokens)
        self._prompts: list[Prompt] = []
        self._sub_agents = 0
        self._awaited = 0
        self._wait = NO_WAIT
        self._last: Request | None = None
        self._launched: list[Thread] = []  # by the last turn

    @property
    def ends(self) -> tuple[Request, ...]:
        """The last turn, and the last ones of the sub-agents that ran behind it."""
        ends = [self._last, *(thread._last for thread in self._launched)]
        return tuple(request for request in ends if request is not None)

    def send_after(self, delay_s: float, wait: Wait = NO_WAIT) -> None:
        """Send the next turn, at first turn 1, after ``delay_s``."""
        self._wait = wait
        kernel = self._replay.context.kernel
        kernel.at(kernel.now_s + delay_s, Order.ARRIVAL, self._send)

    def _send(self) -> None:
        plan = self._plan
        context = self._replay.context
        turn = len(self._prompts)
        prompt = self._ask(turn)
        output_tokens = plan.output_tokens[turn]
        request = Request(
            self._session_id,
            self._agent_id,
            turn + 1,
            self._key,
            prompt,
            self._conversation.answer(prompt, output_tokens, plan.sent_back[turn]),
            output_tokens,
            self._ended,
            context.name,
            closes_session=turn + 1 == len(plan.prompt_tokens),
            wait=self._wait,
        )
        self._last, self._launched = request, []
        self._replay.clients.send(request)

    def _ask(self, turn: int) -> Prompt:
        plan = self._plan
        conversation = self._conversation
        tokens = plan.prompt_tokens[turn]
        if turn == 0:
            prompt = conversation.ask(tokens)
        elif plan.base[turn] < turn - 1:
            conversation.return_to(self._prompts[plan.base[turn]], plan.kept_tokens[turn])
            prompt = conversation.ask(tokens)
        elif plan.sent_back[turn - 1]:
            prompt = conversation.ask(tokens)
        else:
            prompt = conversation.ask(tokens, plan.kept_tokens[turn])
        self._prompts.append(prompt)
        return prompt

    def _ended(self, request: Request) -> None:
        if request.status != Status.COMPLETED:
            self._replay.broken_off += 1
            self._done(False)
            return
        group = self._plan.sub_agents.get(len(self._prompts))
        if group is None:
            self._go_on()
            return
        self._awaited = len(group)
        for sub_agent in group:
            self._launch(sub_agent, request)

    def _launch(self, sub_agent: SubPlan, launcher: Request) -> None:
        replay = self._replay
        self._sub_agents += 1
        session_id = f"{self._session_id}/{self._sub_agents}"
        key = self._key
        if replay.sub_agents == "own-key":
            key = replay.context.streams.key(f"workload/{session_id}")
        root = replay.root(sub_agent.plan.model, sub_agent.kind)
        thread = Thread(
            replay, sub_agent.plan, root, self._agent_id, session_id, key, self._sub_agent_over
        )
        self._launched.append(thread)
        thread.send_after(sub_agent.start_s, Wait((launcher,), (), sub_agent.start_s))

    def _sub_agent_over(self, completed: bool) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._go_on()

    def _go_on(self) -> None:
        turn = len(self._prompts)
        if turn == len(self._plan.prompt_tokens):
            self._done(True)
        else:
            last, *returned = self.ends
            think_s = self._plan.think_s[turn]
            self.send_after(think_s, Wait((last,), tuple(returned), think_s))
