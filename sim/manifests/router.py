"""ModelRouter to backends and rules: which pods serve which requests."""

from dataclasses import dataclass, field
from typing import Final

from sim.manifests import balancing
from sim.manifests.balancing import Placement
from sim.manifests.fields import Fields
from sim.manifests.names import scenario_name
from sim.manifests.notes import NoteKind
from sim.manifests.objects import SERVICE, Object, Objects
from sim.manifests.writing import Block, Plain, seconds
from sim.scenario.routing import CLASSIFICATION_HEADER
from sim.scenario.suggest import suggestion

COMPLEXITIES: Final = ("simple", "moderate", "complex")
ACTIVATIONS: Final = ("Wait", "IfIdle")
STRATEGIES: Final = ("primary-fallback", "weighted", "shadow")
DEFAULT_STRATEGIES: Final = ("Static", "BackendNameMatch")
BUDGET_SCOPES: Final = ("router", "rule", "team")
MAX_PROXIES: Final = 10
MAX_BUDGET_TOKENS: Final = 10**12
MAX_BUDGET_WINDOW_S: Final = 366 * 86400


@dataclass(eq=False)
class Backend:
    """A service as the router knows it."""

    name: str
    service: Object
    capabilities: list[str] = field(default_factory=list)
    timeout_s: float | None = None
    placement: Placement | None = None


@dataclass
class Rule:
    """One rule: ``match`` and ``settings`` with the scenario's keys."""

    name: str
    match: dict[str, Plain]
    backends: list[str]
    settings: dict[str, Plain]
    origin: str


@dataclass
class Router:
    """What the scenario's ``router`` and ``backends`` say."""

    origin: str
    backends: dict[str, Backend] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    settings: Block = field(default_factory=Block)
    default_route: str | None = None

    def backend_of(self, service: Object) -> Backend | None:
        """The backend that serves with ``service``."""
        return next((each for each in self.backends.values() if each.service is service), None)


def translate(manifest: Object, objects: Objects) -> Router:
    """Backends, rules and settings of the one ModelRouter."""
    router = _Translation(manifest, objects).router()
    manifest.spec.ignore_unread()
    return router


class _Translation:
    def __init__(self, manifest: Object, objects: Objects) -> None:
        self._manifest = manifest
        self._spec = manifest.spec
        self._objects = objects
        self._ring = False
        self._external: set[str] = set()
        self._named: list[str] = []  # rules, those that are left out among them
        self._called: dict[str, str] = {}  # backends of the manifest, as the scenario calls them

    def router(self) -> Router:
        """Everything that the manifest says."""
        router = Router(f"{self._manifest.kind} {self._manifest.name}")
        self._proxy(router)
        for backend in self._spec.children("backends"):
            self._backend(backend, router)
        if "backends" not in self._spec:
            self._spec.fault("backends", "is missing")
        for rule in self._spec.children("rules"):
            self._rule(rule, router)
        self._default_route(router)
        self._policy(router)
        if self._spec.one_of("dataPlane", ("Proxy", "Gateway")) == "Gateway":
            message = "the Envoy AI Gateway is not modelled; requests take LLMKube's own proxy"
            self._spec.note(NoteKind.WARNING, "dataPlane", message)
        return router

    def _proxy(self, router: Router) -> None:
        proxy = self._spec.child("proxy")
        if proxy is None:
            return
        block = Block()
        for key in ("responseHeaderTimeout", "quarantineDuration"):
            duration_s = proxy.duration_s(key)
            if duration_s:
                block.add(key, seconds(duration_s), proxy.origin(key))
        if not block.empty:
            router.settings.add("proxy", block)
        if (proxy.whole("replicas", 1, MAX_PROXIES) or 1) > 1:
            message = "a scenario has one proxy, whose counts and tables know every request"
            proxy.note(NoteKind.WARNING, "replicas", message)
        self._ring = balancing.has_ring(proxy.text("image"))

    def _backend(self, backend: Fields, router: Router) -> None:
        name = backend.name("name")
        if name is None or scenario_name(name) != name:
            backend.fault("name", "must be letters, digits and hyphens, a letter or a digit first")
            return
        if name in self._called or name in self._external:
            backend.fault("name", f"there are two backends {name!r}")
            return
        reference, external = backend.child("inferenceServiceRef"), backend.child("external")
        backend.leave("tier")
        if (reference is None) == (external is None):
            found = "neither" if reference is None else "both"
            message = f"give inferenceServiceRef or external; got {found}"
            self._objects.notes.fault(backend.place, backend.path, message)
            self._external.add(name)
        elif external is not None:
            self._external.add(name)
            external.leave(*external.node.values)
            backend.leave(*backend.node.values)
            message = f"backend {name} is outside of the cluster; podsim does not model it"
            self._objects.notes.add(NoteKind.IGNORED, backend.place, backend.path, message)
        elif reference is not None:
            self._in_cluster(name, backend, reference, router)

    def _in_cluster(self, name: str, backend: Fields, reference: Fields, router: Router) -> None:
        self._called[name] = name
        wanted = reference.name("name") or ""
        service = self._objects.find(SERVICE, wanted, self._manifest)
        if service is None:
            reference.fault("name", self._objects.missing(SERVICE, wanted, self._manifest))
            return
        found = Backend(name, service, backend.texts("capabilities"))
        found.timeout_s = backend.duration_s("timeout")
        found.placement = balancing.translate(backend, self._ring)
        twin = router.backend_of(service)
        if twin is None:
            router.backends[name] = found
            return
        self._called[name] = twin.name
        message = f"{wanted!r} serves backend {twin.name} already; both are one in the scenario"
        reference.note(NoteKind.WARNING, "name", message)

    def _rule(self, rule: Fields, router: Router) -> None:
        name = rule.name("name")
        if name is None or scenario_name(name) != name:
            rule.fault("name", "must be letters, digits and hyphens, a letter or a digit first")
            return
        if name in self._named:
            rule.fault("name", f"there are two rules {name!r}")
            return
        self._named.append(name)
        settings: dict[str, Plain] = {}
        if (activation := rule.one_of("poolActivation", ACTIVATIONS)) is not None:
            settings["poolActivation"] = activation
        if (fail_closed := rule.flag("failClosed")) is not None:
            settings["failClosed"] = fail_closed
        if timeout_s := rule.duration_s("timeout"):
            settings["timeout"] = seconds(timeout_s)
        match, backends = self._match(rule), self._route(rule)
        if backends:
            router.rules.append(Rule(name, match, backends, settings, rule.origin("name")))

    def _match(self, rule: Fields) -> dict[str, Plain]:
        match = rule.child("match")
        if match is None:
            return {}
        found: dict[str, Plain] = {
            "models": match.texts("models"),
            "headers": match.labels("headers"),
            "dataClassification": match.texts("dataClassification"),
            "taskComplexity": match.one_of("taskComplexity", COMPLEXITIES),
            "requiredCapabilities": match.texts("requiredCapabilities"),
        }
        return {key: value for key, value in found.items() if value}

    def _route(self, rule: Fields) -> list[str]:
        """The backends of a rule, those outside of the cluster left out."""
        route = rule.child("route")
        if route is None or not (written := route.placed_texts("backends")):
            at_fault = rule if route is None else route
            at_fault.fault("route" if route is None else "backends", "must name a backend")
            return []
        strategy = route.one_of("strategy", STRATEGIES)
        if strategy in ("weighted", "shadow"):
            said = "backends are tried in their order"
            if strategy == "shadow":
                said, written = "only its first backend gets requests", written[:1]
            route.note(NoteKind.WARNING, "strategy", f"{strategy} is not modelled; {said}")
        found: list[str] = []
        for index, (name, place) in enumerate(written):
            if name in self._called:
                found.append(self._called[name])
            elif name not in self._external:
                path = (*route.path, "backends", index)
                self._objects.notes.fault(place, path, self._unknown(name))
        if not found and all(name in self._external for name, _ in written):
            message = "left out: all its backends are outside of the cluster"
            rule.note(NoteKind.WARNING, "route", message)
        return list(dict.fromkeys(found))

    def _unknown(self, name: str) -> str:
        return f"unknown backend {name!r}{suggestion(name, [*self._called, *self._external])}"

    def _default_route(self, router: Router) -> None:
        name = self._spec.name("defaultRoute")
        if name is not None and name in self._called:
            router.default_route = self._called[name]
            router.settings.add("defaultRoute", router.default_route, "spec.defaultRoute")
        elif name is not None and name in self._external:
            message = "left out: it is outside of the cluster, and podsim answers 503 instead"
            self._spec.note(NoteKind.WARNING, "defaultRoute", message)
        elif name is not None:
            self._spec.fault("defaultRoute", self._unknown(name))
        strategy = self._spec.one_of("defaultRouteStrategy", DEFAULT_STRATEGIES)
        if strategy is not None:
            key = "defaultRouteStrategy"
            router.settings.add(key, strategy, self._spec.origin(key))

    def _policy(self, router: Router) -> None:
        policy = self._spec.child("policy")
        if policy is None:
            return
        rules = [rule.name for rule in router.rules]
        written = policy.children("budgets")
        budgets = [budget for each in written for budget in self._budget(each, rules)]
        if budgets:
            block = Block()
            block.add("budgets", budgets, policy.origin("budgets"))
            router.settings.add("policy", block)
        classification = policy.child("classification")
        if classification is None:
            return
        classification.ignore("sensitiveClassifications", "rules say themselves what fails closed")
        mode = classification.one_of("mode", ("header-only", "detector", "hybrid"))
        if mode in ("detector", "hybrid"):
            message = f"podsim has no detector; the header {CLASSIFICATION_HEADER} decides"
            classification.note(NoteKind.WARNING, "mode", message)
        header = classification.name("headerKey")
        if header is not None and header.lower() != CLASSIFICATION_HEADER:
            message = f"podsim's clients say it in {CLASSIFICATION_HEADER}"
            classification.note(NoteKind.WARNING, "headerKey", message)

    def _budget(self, budget: Fields, rules: list[str]) -> list[Block]:
        """The block of a budget; none when it is in dollars only, or of a rule left out."""
        name, scope = budget.name("name"), budget.one_of("scope", BUDGET_SCOPES)
        for key in ("name", "scope"):
            if key not in budget:
                budget.fault(key, "is missing")
        tokens = budget.whole("maxTokens", 1, MAX_BUDGET_TOKENS)
        window_s = budget.whole("windowSeconds", 1, MAX_BUDGET_WINDOW_S)
        budget.ignore("maxUSD", "podsim counts tokens and knows no prices")
        block = Block()
        block.add("name", name)
        block.add("scope", scope)
        block.add("maxTokens", tokens)
        if window_s is not None:
            block.add("windowSeconds", window_s)
        if scope == "team" and (header := budget.name("headerKey")) is not None:
            block.add("headerKey", header)
        if scope == "rule":
            rule = budget.name("ruleName")
            if rule is None or rule not in self._named:
                hint = suggestion(rule or "", self._named)
                budget.fault("ruleName", f"must be the name of a rule{hint}")
            block.add("ruleName", rule)
            return [] if tokens is None or rule not in rules else [block]
        return [] if tokens is None else [block]
