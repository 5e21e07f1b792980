"""What a scenario may say about coding agents, and the parameter sets that say the rest."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, model_validator

from sim.errors import Fault
from sim.scenario.fields import (
    Duration,
    Model,
    PositiveTokens,
    Probability,
    Tokens,
    count,
    number,
)
from sim.scenario.rules import Problem, rule
from sim.workload.client import ClientSpec
from sim.workload.distributions import Count, Delay

NESTED: Final = ("sharedPrefix", "compaction")
"""Parameters of which a scenario may give a part."""

MAX_TURNS: Final = 10_000
"""Most turns of a session, a turn every minute for a week; a longer drawn one ends there."""

AgentCount: TypeAlias = count(1, 10**6)  # type: ignore[valid-type]
FamilyCount: TypeAlias = count(1, 10**5)  # type: ignore[valid-type]
SessionCount: TypeAlias = count(1, 10**6)  # type: ignore[valid-type]
Exponent: TypeAlias = number(0.0, 10.0)  # type: ignore[valid-type]


# The loader completes a part from the set, so an editor must not ask for the whole.
_COMPLETED_FROM_SET: Final = ConfigDict(json_schema_extra={"required": []})


class SharedPrefix(Model):
    """The tool and system prompt: one text per family, family k as likely as k^-zipf."""

    model_config = _COMPLETED_FROM_SET

    tokens: Tokens
    families: FamilyCount
    zipf: Exponent


class Compaction(Model):
    """When the next prompt passes ``threshold`` of the context, it is rewritten to ``prompt``."""

    model_config = _COMPLETED_FROM_SET

    threshold: Probability
    prompt: Count


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
    agents: AgentCount
    set: Literal["A", "B"] = "A"
    start: Literal["fresh", "mid-session"] = "fresh"
    ramp: Duration = 30.0
    sessions_per_agent: SessionCount | None = None
    reuse_output: bool = True
    turns: Count
    fresh_share: Probability
    fresh_prompt: Count
    resumed_prompt: Count
    shared_prefix: SharedPrefix
    growth: Count
    output: Count
    think: Delay
    think_cap: Duration | None = None
    max_context: PositiveTokens
    at_context_limit: Literal["end", "compact"]
    compaction: Compaction
    early_edit_share: Probability

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, written: Any) -> Any:
        return completed(written) if isinstance(written, dict) else written

    @rule
    def _leaves_room(self) -> Iterator[Problem]:
        if self.shared_prefix.tokens >= self.prompt_limit:
            most = self.prompt_limit
            yield "sharedPrefix", f"must be shorter than the longest prompt, {most} tokens"

    @rule
    def _ends_in_time(self) -> Iterator[Problem]:
        if self.turns.typical > MAX_TURNS:
            yield "turns", f"a session has at most 10k turns; got {self.turns.typical:,.0f}"

    def doubts(self) -> list[Fault]:
        """Lengths and times that another setting cuts in most sessions."""
        limit, shared = self.prompt_limit, self.shared_prefix.tokens
        cut = f"more than half of its draws are longer than the longest prompt, {limit:,} tokens"
        first = [("freshPrompt", self.fresh_prompt)] if self.fresh_share > 0 else []
        first += [("resumedPrompt", self.resumed_prompt)] if self.fresh_share < 1 else []
        found = [
            (key, f"{cut} (maxContext), and cut to it")
            for key, length in first
            if length.median_draw > limit
        ]
        found += [
            (key, f"more than half of its draws are shorter than sharedPrefix, {shared:,} tokens")
            for key, length in first
            if length.median_draw < shared
        ]
        compacted = self.compaction.prompt.median_draw
        if self.at_context_limit == "compact" and compacted > limit:
            found.append(("compaction.prompt", f"{cut}, at which it is compacted again"))
        if self.think_cap is not None and self.think.least_s > self.think_cap:
            found.append(("thinkCap", "shorter than every think: each lasts for thinkCap"))
        return [*super().doubts(), *(Fault("workload", 0, 0, key, said) for key, said in found)]

    @property
    def prompt_limit(self) -> int:
        """The longest prompt in tokens: a longer one ends the session or is compacted."""
        if self.at_context_limit == "end":
            return self.max_context
        return int(self.max_context * self.compaction.threshold)

    @property
    def finite(self) -> bool:
        """Whether the agents stop by themselves."""
        return self.sessions_per_agent is not None

    @property
    def agents_total(self) -> int:
        """Closed-loop agents."""
        return int(self.agents)

    def files(self) -> tuple[str, ...]:
        """Files that the workload reads: none beside podsim's own."""
        return ()


def completed(written: dict[str, Any]) -> dict[str, Any]:
    """``written``, keys as in files, with the parameters of its set where it gives none."""
    result = dict(parameters(str(written.get("set", "A"))))
    if "think" in written:
        del result["thinkCap"]
    for key, value in written.items():
        part = key in NESTED and isinstance(value, dict)
        result[key] = result[key] | value if part else value
    return result


def parameters(name: str) -> dict[str, Any]:
    """The keys of a set; those of set A for a name that does not exist."""
    text = files("sim").joinpath("data/agent_sets.json").read_text(encoding="utf-8")
    sets = json.loads(text)["sets"]
    own = sets.get(name, sets["A"])
    base = sets[own["like"]] if "like" in own else {}
    whole: dict[str, Any] = _frozen(base | own)
    whole.pop("like", None)
    return whole


def _frozen(value: Any) -> Any:
    """JSON arrays as tuples, which is what frozen models hold."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
