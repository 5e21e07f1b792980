"""What a scenario may say about coding agents, and the parameter sets that say the rest."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from sim.core.errors import Fault
from sim.core.fields import (
    Duration,
    Model,
    PositiveTokens,
    Probability,
    Tokens,
    count,
    number,
)
from sim.core.rules import Problem, rule
from sim.scenario.inputs import Inputs
from sim.workload.clients import NOTABLE, ClientSpec
from sim.workload.distributions import Count, CountForms, Delay

NESTED: Final = ("sharedPrefix", "compaction")
"""Parameters of which a scenario may give a part."""

MAX_TURNS: Final = 10_000
"""Most turns of a session, a turn every minute for a week; a longer drawn one ends there."""

AgentCount: TypeAlias = count(1, 10**6)  # type: ignore[valid-type]
Agents: TypeAlias = Annotated[
    AgentCount, Field(description="How many agents work at the same time.")
]
Ramp: TypeAlias = Annotated[
    Duration, Field(description="First requests are spread evenly over so long.")
]
ReuseOutput: TypeAlias = Annotated[
    bool,
    Field(
        description="The next prompt of a session begins with the answer as well, so that its KV "
        "can be found again; false: only with the prompt, as where reasoning is stripped."
    ),
]
FamilyCount: TypeAlias = count(1, 10**5)  # type: ignore[valid-type]
SessionCount: TypeAlias = count(1, 10**6)  # type: ignore[valid-type]
SessionsPerAgent: TypeAlias = Annotated[
    SessionCount | None,
    Field(
        description="An agent stops after so many sessions; never when missing, so that "
        "window.measure must end the run."
    ),
]
Exponent: TypeAlias = number(0.0, 10.0)  # type: ignore[valid-type]


# The loader completes a part from the set, so an editor must not ask for the whole.
_COMPLETED_FROM_SET: Final = ConfigDict(json_schema_extra={"required": []})


class SharedPrefix(Model):
    """The tool and system prompt: one text per family, family k as likely as k^-zipf."""

    model_config = _COMPLETED_FROM_SET

    tokens: Tokens = Field(description="Its length.")
    families: FamilyCount = Field(
        description="How many different ones there are; a session has one of them."
    )
    zipf: Exponent = Field(
        description="How unequal they are: family k is as likely as k^-zipf; 0: all alike."
    )


class Compaction(Model):
    """When the next prompt passes ``threshold`` of the context, it is rewritten to ``prompt``."""

    model_config = _COMPLETED_FROM_SET

    threshold: Probability = Field(description="Share of maxContext that no prompt passes.")
    prompt: Count = Field(description="Tokens of the prompt that a longer one is rewritten to.")


class AgentsSpec(ClientSpec):
    """Closed loop: each agent works through one session after the other.

    What is not given is as ``set`` says (``sim/data/agent_sets.json``). A
    session makes at most ``turns`` requests, never more than 10k. Its first prompt is fresh or
    resumed; each later one is ``growth`` tokens longer, what it sends back of
    the answer included, until it would pass ``maxContext``: then the session
    ends, or is compacted. ``think`` passes before each request, at most
    ``thinkCap``; a ``think`` of one's own is not capped unless asked for.
    ``start`` is where agents begin: at turn 1 of a session, or in the middle
    of one, with cold caches either way.
    """

    model_config = ConfigDict(json_schema_extra={"required": ["kind", "agents"]})

    kind: Literal["agents"]
    agents: Agents
    set: Literal["A", "B"] = Field(
        default="A",
        description="Parameters that are not given: A, as recorded with Claude Code; B, with the "
        "thinking of people and tools apart, and longer pauses.",
    )
    start: Literal["fresh", "mid-session"] = Field(
        default="fresh",
        description="Where agents begin: at the first turn of a session, or in the middle of "
        "one; with cold caches either way.",
    )
    ramp: Ramp = 30.0
    sessions_per_agent: SessionsPerAgent = None
    reuse_output: ReuseOutput = True
    turns: Count = Field(description="Most requests of a session.")
    fresh_share: Probability = Field(
        description="Share of the sessions that begin with freshPrompt; the others resume an "
        "earlier conversation, of which no cache knows.",
    )
    fresh_prompt: Count = Field(
        description="Tokens of the first prompt of a new session, sharedPrefix included."
    )
    resumed_prompt: Count = Field(
        description="Tokens of the first prompt of a resumed session, sharedPrefix included."
    )
    shared_prefix: SharedPrefix = Field(
        description="The tool and system prompt that sessions have in common."
    )
    growth: Count = Field(
        description="Tokens by which a prompt is longer than the one before, what it repeats of "
        "the answer included.",
    )
    output: Count = Field(description="Tokens of an answer.")
    think: Delay = Field(
        description="Time from the end of an answer to the next request of the session: tools "
        "and people.",
    )
    think_cap: Duration | None = Field(
        default=None,
        description="Longest think; that of the set when missing, none with a think of one's own.",
    )
    max_context: PositiveTokens = Field(
        description="Longest prompt; atContextLimit says what happens beyond."
    )
    at_context_limit: Literal["end", "compact"] = Field(
        description="What happens to a session whose next prompt would be too long: it ends, or "
        "it is compacted and goes on.",
    )
    compaction: Compaction = Field(
        description="How prompts are shortened with atContextLimit: compact."
    )
    early_edit_share: Probability = Field(
        description="Share of the later turns whose prompt was edited early: it repeats the one "
        "before up to some token between sharedPrefix and its half, and what follows is computed "
        "again.",
    )

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, written: Any) -> Any:
        return completed(written) if isinstance(written, dict) else written

    @rule
    def _ends_in_time(self) -> Iterator[Problem]:
        if self.shared_prefix.tokens >= self.prompt_limit:
            most = self.prompt_limit
            yield "sharedPrefix", f"must be shorter than the longest prompt, {most} tokens"
        if self.turns.typical > MAX_TURNS:
            yield "turns", f"a session has at most 10k turns; got {self.turns.typical:,.0f}"

    def warnings(self) -> list[Fault]:
        """Return what is possible and hardly meant: cuts in most sessions."""
        return [
            *super().warnings(),
            *(Fault("workload", 0, 0, key, said) for key, said in self._cuts()),
        ]

    def _cuts(self) -> Iterator[Problem]:
        limit, shared = self.prompt_limit, self.shared_prefix.tokens
        cut = f"more than half of its draws are longer than the longest prompt, {limit:,} tokens"
        short = f"more than half of its draws are shorter than sharedPrefix, {shared:,} tokens"
        for key, length, share in self._first_prompts():
            if share and length.share_above(limit) > 0.5:
                yield key, f"{cut} (maxContext), and cut to it"
            if share and length.share_above(shared - 1) < 0.5:
                yield key, short
        compacts = self.at_context_limit == "compact"
        if compacts and self.compaction.prompt.share_above(limit) > 0.5:
            yield "compaction.prompt", f"{cut}, at which it is compacted again"
        if self.think_cap is not None and self.think.least_s > self.think_cap:
            yield "thinkCap", "shorter than every think: each lasts for thinkCap"

    def _first_prompts(self) -> Iterator[tuple[str, CountForms, float]]:
        """Yield key, length and share of each kind of first prompt."""
        yield "freshPrompt", self.fresh_prompt, self.fresh_share
        yield "resumedPrompt", self.resumed_prompt, 1.0 - self.fresh_share

    def defaults(self) -> dict[str, Any]:
        """What its set says."""
        bare = AgentsSpec.model_validate({"kind": "agents", "agents": 1, "set": self.set})
        named = parameters(self.set)
        fields = type(self).model_fields
        return {name: getattr(bare, name) for name, each in fields.items() if each.alias in named}

    @property
    def prompt_limit(self) -> int:
        """The longest prompt in tokens: a longer one ends the session or is compacted."""
        if self.at_context_limit == "end":
            return self.max_context
        return int(self.max_context * self.compaction.threshold)

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """First prompts, and those to which sessions grow."""
        for key, prompt, share in self._first_prompts():
            above = share * prompt.share_above(min(tokens, self.prompt_limit - 1))
            if tokens < self.prompt_limit and above >= NOTABLE:
                yield key, f"{100 * above:.0f} % of the sessions begin with a prompt that is longer"
        first = self.fresh_prompt if self.fresh_share else self.resumed_prompt
        last = first.typical + (self.turns.typical - 1) * self.growth.typical
        if tokens < min(self.prompt_limit, last):
            said = f"sessions grow to prompts of {self.prompt_limit:,} tokens and then break off"
            yield "maxContext", said

    @property
    def finite(self) -> bool:
        """Whether the agents stop by themselves."""
        return self.sessions_per_agent is not None

    @property
    def agents_total(self) -> int:
        """Closed-loop agents."""
        return int(self.agents)


def completed(written: dict[str, Any]) -> dict[str, Any]:
    """Return ``written``, keys as in files, with the parameters of its set where it gives none."""
    result = dict(parameters(str(written.get("set", "A"))))
    if "think" in written:
        del result["thinkCap"]
    for key, value in written.items():
        part = key in NESTED and isinstance(value, dict)
        result[key] = result[key] | value if part else value
    return result


def parameters(name: str) -> dict[str, Any]:
    """Return the keys of a set; those of set A for a name that does not exist."""
    text = files("sim").joinpath("data/agent_sets.json").read_text(encoding="utf-8")
    sets = json.loads(text)["sets"]
    own = sets.get(name, sets["A"])
    base = sets[own["like"]] if "like" in own else {}
    whole: dict[str, Any] = _frozen(base | own)
    whole.pop("like", None)
    return whole


def _frozen(value: Any) -> Any:
    """Return JSON arrays as tuples, which is what frozen models hold."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
