"""The router of a scenario, with the keys of a ModelRouter manifest."""

from collections import Counter
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from sim.scenario.fields import (
    Duration,
    HeaderName,
    Model,
    Name,
    PollInterval,
    PositiveDuration,
    PositiveTokens,
    Text,
    refuse,
    whole,
)

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

    name: Name
    match: Match = Field(default=Match(), description="Every request when missing.")
    backends: tuple[Name, ...] = Field(
        min_length=1, description="Names of backends, in order of preference."
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

    @model_validator(mode="after")
    def _tries_each_backend_once(self) -> Self:
        twice = [name for name, times in Counter(self.backends).items() if times > 1]
        if twice:
            refuse([("backends", f"names {twice[0]!r} twice: it would fail twice")])
        return self


class Metrics(Model):
    """How the proxy polls the engines."""

    poll_interval: PollInterval = Field(default=1.0, description="Time between two polls of a pod.")


class ProxySettings(Model):
    """The proxy process."""

    replicas: Literal[1] = Field(
        default=1, description="Only one: with a pooled backend there must be no more."
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


class Budget(Model):
    """A cap on tokens over a rolling window; what exceeds it is answered 429."""

    name: Name
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

    @model_validator(mode="after")
    def _knows_whose(self) -> Self:
        problems = []
        if (self.scope == "rule") != (self.rule_name is not None):
            problems.append(("ruleName", "goes with scope rule, and only with it"))
        if self.scope != "team" and self.header_key is not None:
            problems.append(("headerKey", "only for scope team"))
        refuse(problems)
        return self


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
    proxy: ProxySettings = ProxySettings()
    policy: RouterPolicy = RouterPolicy()
    metrics: Metrics = Metrics()

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        problems: list[tuple[str, Any]] = []
        if not self.rules and self.default_route is None:
            problems.append(("", "give rules, defaultRoute or both: nothing would be served"))
        names = Counter(rule.name for rule in self.rules)
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            problems.append(("rules", f"two rules are called {twice[0]!r}"))
        for budget in self.policy.budgets:
            if budget.rule_name is not None and budget.rule_name not in names:
                said = f"budget {budget.name!r} is for rule {budget.rule_name!r}, which is not here"
                problems.append(("policy", said))
        refuse(problems)
        return self
