"""Which rule takes a request, and which backends it may go to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from sim.core.request import Request
from sim.router.upstream import Upstream
from sim.scenario.reachability import backends_of, matches
from sim.scenario.routing import Router, Rule
from sim.scenario.schema import Backend

DEFAULT_ROUTE: Final = "(default)"
"""What stands for the rule of requests that none takes; no rule can be called so."""


@dataclass(frozen=True, slots=True, eq=False)
class RouteTarget:
    """A backend of a rule, how long its first token may take, and whether it comes again."""

    upstream: Upstream
    timeout_s: float
    again: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A rule as the proxy follows it; the default route is one without a match."""

    name: str
    targets: tuple[RouteTarget, ...]
    if_idle: bool = False
    fail_closed: bool = False


class Routes:
    """The rules of a router over its backends, in order."""

    def __init__(
        self, router: Router, backends: Mapping[str, Backend], upstreams: Mapping[str, Upstream]
    ) -> None:
        self._router = router
        self._backends = backends
        self._upstreams = upstreams
        self._rules = [(rule.match, self._route(rule)) for rule in router.rules]
        self._default = None
        if router.default_route is not None:
            self._default = self._single(router.default_route)
        # Nothing but these two is looked at, and few combinations of them occur.
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], Route | None] = {}

    def of(self, request: Request) -> Route | None:
        """The route of ``request``; None when nothing takes it."""
        key = request.model, request.headers
        try:
            return self._known[key]
        except KeyError:
            route = self._known[key] = self._find(request.model, dict(request.headers))
            return route

    def _find(self, model: str, headers: Mapping[str, str]) -> Route | None:
        headers = {name.lower(): value for name, value in headers.items()}
        for match, route in self._rules:
            if route.targets and matches(match, model, headers):
                return route
        by_name = self._router.default_route_strategy == "BackendNameMatch"
        if by_name and model in self._upstreams:
            return self._single(model)
        return self._default

    def _route(self, rule: Rule) -> Route:
        targets = self._targets(backends_of(rule, self._backends), rule.timeout)
        return Route(rule.name, targets, rule.pool_activation == "IfIdle", rule.fail_closed)

    def _single(self, name: str) -> Route:
        return Route(DEFAULT_ROUTE, self._targets((name,), None))

    def _targets(self, names: Sequence[str], timeout_s: float | None) -> tuple[RouteTarget, ...]:
        """The backends in order, each as often as one of its pods may be tried."""
        tries = 1 + self._router.proxy.max_instance_failover_reroute_attempts
        found: list[RouteTarget] = []
        for name in names:
            upstream, limit_s = self._upstreams[name], self._timeout_s(name, timeout_s)
            again = any(each.upstream is upstream for each in found)
            others = min(tries, len(upstream.pods)) - 1
            found += [
                RouteTarget(upstream, limit_s, again),
                *[RouteTarget(upstream, limit_s, True)] * others,
            ]
        return tuple(found)

    def _timeout_s(self, backend: str, of_rule: float | None) -> float:
        """The rule's, else the backend's, else the proxy's; infinite for none."""
        for timeout_s in (of_rule, self._backends[backend].timeout):
            if timeout_s is not None:
                return timeout_s
        general_s = self._router.proxy.response_header_timeout
        return inf if general_s is None else general_s
