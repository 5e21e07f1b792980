"""The router of a scenario, with the keys of a ModelRouter manifest."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from sim.core.fields import (
    Duration,
    HeaderName,
    Model,
    Name,
    PollInterval,
    PositiveDuration,
    PositiveTokens,
    Text,
    whole,
)
from sim.core.rules import Problem, repeated, rule

CLASSIFICATION_HEADER: Final = "x-llmkube-classification"
COMPLEXITY_HEADER: Final = "x-llmkube-task-complexity"
TEAM_HEADER: Final = "x-llmkube-team"

Label: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Match(Model):
    """What a request must be for a rule to take it: all that is given, one of each list."""

    models: tuple[Label, ...] = Field(
        default=(),
        description="Globs of the model that is asked for, such as qwen3-*; no wildcard stands "
        "for a slash.",
    )
    headers: dict[HeaderName, Text] = Field(
        default={}, description="Headers with exactly these values."
    )
    data_classification: tuple[Label, ...] = Field(
        default=(), description=f"Values of the header {CLASSIFICATION_HEADER}."
    )
    task_complexity: Literal["simple", "moderate", "complex"] | None = Field(
        default=None, description=f"Value of the header {COMPLEXITY_HEADER}."
    )
    required_capabilities: tuple[Label, ...] = Field(
        default=(), description="One of the backends must have all of these."
    )


class Rule(Model):
    """Which backends serve which requests; of the rules that match the first one counts."""

    name: Name = Field(description="Names the rule in results and budgets.")
    match: Match = Field(default=Match(), description="Every request when missing.")
    backends: tuple[Name, ...] = Field(
        min_length=1,
        description="Names of backends, in order of preference. One that is named again is tried "
        "on another of its pods.",
    )
    pool_activation: Literal["Wait", "IfIdle"] = Field(
        default="Wait",
        description="Whether to wait for a pool whose member in memory is busy with other "
        "requests, or to go on to the next backend at once.",
    )
    fail_closed: bool = Field(
        default=False, description="Answer 503 instead of 502 when no backend serves."
    )
    timeout: PositiveDuration | None = Field(
        default=None,
        description="Most time from the dispatch to the first token, for each backend; the "
        "backend's when missing.",
    )


class Metrics(Model):
    """How the proxy polls the engines."""

    poll_interval: PollInterval = Field(default=1.0, description="Time between two polls of a pod.")


def _only_one(value: Any) -> Any:
    """Refuse several replicas with the reason."""
    if type(value) is not int or value < 2:
        return value
    message = (
        "must be 1: podsim has only one proxy. Several would each have counts, a ring and a table "
        "of their own, and in front of a pooled backend, where LLMKube allows no second one, "
        f"each would swap members without asking the others; got {value}"
    )
    raise PydanticCustomError("replicas", "{message}", {"message": message})


class ProxySettings(Model):
    """The proxy process."""

    replicas: Annotated[Literal[1], BeforeValidator(_only_one)] = Field(
        default=1,
        description="Only one: several would share neither counts nor tables, and LLMKube allows "
        "no more with a pooled backend.",
    )
    response_header_timeout: PositiveDuration | None = Field(
        default=120.0,
        description="Most time from the dispatch to the first token where neither the rule nor "
        "the backend has a timeout; null for none.",
    )
    quarantine_duration: Duration = Field(
        default=15.0,
        description="How long a pod is avoided after it answered 500 or more, or its connection "
        "broke; with none left the quarantine does not count.",
    )
    max_instance_failover_reroute_attempts: Annotated[int, whole(0, 100)] = Field(
        default=0,
        description="On how many other pods of a backend a request is tried when it breaks or "
        "times out without a first token, or is answered 500 or more, before the next backend of "
        "its rule. 0 as in LLMKube and by default in vLLM's production stack, whose key it is.",
    )
    abandoned: Literal["aborted", "runs-on"] = Field(
        default="aborted",
        description="What becomes in the engine of a request whose client has left. aborted: the "
        "proxy hangs up, and the engine stops at the end of its step. runs-on: the proxy tells "
        "nobody and the engine computes it to its end for nobody; until then it is in flight for "
        "the proxy and for the pool of its member.",
    )


class Budget(Model):
    """A cap on tokens over a rolling window; what exceeds it is answered 429."""

    name: Name = Field(description="Names the budget in results.")
    scope: Literal["router", "rule", "team"] = Field(
        description="All requests, those of ruleName, or each value of the header headerKey."
    )
    max_tokens: PositiveTokens = Field(
        description="Tokens of prompts and answers; they count when an answer is complete."
    )
    window_seconds: Annotated[int, whole(1, 31_622_400)] = Field(
        default=3600, description="Length of the window in seconds."
    )
    rule_name: Name | None = Field(default=None, description="The rule, for scope rule.")
    header_key: HeaderName | None = Field(
        default=None, description=f"The header, for scope team; {TEAM_HEADER} when missing."
    )

    @rule
    def _knows_which_rule(self) -> Iterator[Problem]:
        if (self.scope == "rule") != (self.rule_name is not None):
            yield "ruleName", "goes with scope rule, and only with it"

    @rule
    def _knows_which_teams(self) -> Iterator[Problem]:
        if self.scope != "team" and self.header_key is not None:
            yield "headerKey", "only for scope team"


class RouterPolicy(Model):
    """What the router enforces."""

    budgets: tuple[Budget, ...] = Field(default=(), description="Caps on tokens; all of them hold.")


class Router(Model):
    """One proxy in front of the backends."""

    rules: tuple[Rule, ...] = Field(default=(), description="In order: the first that matches.")
    default_route: Name | None = Field(
        default=None, description="Backend of requests that no rule takes; else they get 503."
    )
    default_route_strategy: Literal["Static", "BackendNameMatch"] = Field(
        default="Static",
        description="BackendNameMatch sends a request that no rule takes to the backend whose "
        "name is the model that it asks for, if there is one.",
    )
    proxy: ProxySettings = Field(default=ProxySettings(), description="Settings of the proxy.")
    policy: RouterPolicy = Field(
        default=RouterPolicy(), description="Limits that the router enforces."
    )
    metrics: Metrics = Field(default=Metrics(), description="How often engines are polled.")

    @rule
    def _leads_somewhere(self) -> Iterator[Problem]:
        if not self.rules and self.default_route is None:
            yield "", "give rules, defaultRoute or both: nothing would be served"

    @rule
    def _rules_differ(self) -> Iterator[Problem]:
        for name in repeated(each.name for each in self.rules):
            yield "rules", f"two rules are called {name!r}"

    @rule
    def _budgets_are_of_rules(self) -> Iterator[Problem]:
        names = {each.name for each in self.rules}
        for budget in self.policy.budgets:
            if budget.rule_name is not None and budget.rule_name not in names:
                said = f"budget {budget.name!r} is for rule {budget.rule_name!r}, which is not here"
                yield "policy", said
