"""ModelRouter to backends and rules: which pods serve which requests."""

from dataclasses import dataclass, field
from typing import Final

from sim.core.suggest import suggestion
from sim.manifests import balancing, limits
from sim.manifests.balancing import Placement
from sim.manifests.fields import Fields
from sim.manifests.objects import SERVICE, Object, Objects
from sim.manifests.writing import NoteKind, Plain, YamlBlock, seconds

COMPLEXITIES: Final = ("simple", "moderate", "complex")
ACTIVATIONS: Final = ("Wait", "IfIdle")
STRATEGIES: Final = ("primary-fallback", "weighted", "shadow")
NAME_MATCH: Final = "BackendNameMatch"
DEFAULT_STRATEGIES: Final = ("Static", NAME_MATCH)
MAX_PROXIES: Final = 10
OWN_PLANE: Final = "Proxy"


@dataclass(eq=False)
class ImportedBackend:
    """A service as the router knows it."""

    name: str
    service: Object
    capabilities: list[str] = field(default_factory=list)
    timeout_s: float | None = None
    placement: Placement | None = None


@dataclass
class ImportedRule:
    """One rule: ``match`` and ``settings`` with the scenario's keys."""

    name: str
    match: dict[str, Plain]
    backends: list[str]
    settings: dict[str, Plain]
    origin: str


@dataclass
class ImportedRouter:
    """What the scenario's ``router`` and ``backends`` say."""

    origin: str
    backends: dict[str, ImportedBackend] = field(default_factory=dict)
    rules: list[ImportedRule] = field(default_factory=list)
    settings: YamlBlock = field(default_factory=YamlBlock)
    default_route: str | None = None

    def backend_of(self, service: Object) -> ImportedBackend | None:
        """The backend that serves with ``service``."""
        return next((each for each in self.backends.values() if each.service is service), None)


def translate(manifest: Object, objects: Objects) -> ImportedRouter:
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
        self._balancing = self._spec.child("balancing")
        self._external: set[str] = set()
        self._shown: dict[str, str] = {}  # backends by what clients call them
        self._named: list[str] = []  # rules, those that are left out among them
        self._called: dict[str, str] = {}  # backends of the manifest, as the scenario calls them

    def router(self) -> ImportedRouter:
        """Everything that the manifest says."""
        router = ImportedRouter(f"{self._manifest.kind} {self._manifest.name}")
        self._proxy(router)
        for backend in self._spec.children("backends"):
            self._backend(backend, router)
        if "backends" not in self._spec:
            self._spec.fault("backends", "is missing")
        for rule in self._spec.children("rules"):
            self._rule(rule, router)
        self._default_route(router)
        policy = self._spec.child("policy")
        if policy is not None:
            rules = [rule.name for rule in router.rules]
            enforced = limits.translate(policy, rules, self._named)
            if not enforced.empty:
                router.settings.add("policy", enforced)
        plane = self._spec.text("dataPlane") or OWN_PLANE
        if plane != OWN_PLANE:
            message = f"{plane} is not modelled; requests take LLMKube's own proxy"
            self._spec.note(NoteKind.WARNING, "dataPlane", message)
        return router

    def _proxy(self, router: ImportedRouter) -> None:
        proxy = self._spec.child("proxy")
        if proxy is None:
            return
        block = YamlBlock()
        for key in ("responseHeaderTimeout", "quarantineDuration"):
            duration_s = proxy.duration_s(key)
            if duration_s:
                block.add(key, seconds(duration_s), proxy.origin(key))
        if not block.empty:
            router.settings.add("proxy", block)
        if (proxy.whole("replicas", 1, MAX_PROXIES) or 1) > 1:
            message = "a scenario has one proxy, whose counts and tables know every request"
            proxy.note(NoteKind.WARNING, "replicas", message)
        image = proxy.text("image")
        ring = balancing.has_ring(image)
        self._ring = bool(ring)
        if image is not None and ring is None:
            message = "its tag is no version; balancing is what LLMKube has had since 0.10.8"
            proxy.note(NoteKind.WARNING, "image", message)

    def _backend(self, backend: Fields, router: ImportedRouter) -> None:
        name = backend.own_name("name")
        if name is None:
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
            external.leave(*external.node)
            backend.leave(*backend.node)
            message = f"backend {name} is outside of the cluster; podsim does not model it"
            self._objects.notes.add(NoteKind.NOT_MODELLED, backend.place, backend.path, message)
        elif reference is not None:
            self._in_cluster(name, backend, reference, router)

    def _in_cluster(
        self, name: str, backend: Fields, reference: Fields, router: ImportedRouter
    ) -> None:
        self._called[name] = name
        wanted = reference.name("name") or ""
        service = self._objects.refer(SERVICE, wanted, self._manifest, reference, "name")
        if service is None:
            return
        found = ImportedBackend(name, service, backend.texts("capabilities"))
        if (shown := backend.name("displayName")) is not None:
            self._shown[name] = shown
        found.timeout_s = backend.duration_s("timeout")
        found.placement = balancing.translate(backend, self._balancing, self._ring)
        twin = router.backend_of(service)
        if twin is None:
            router.backends[name] = found
            return
        self._called[name] = twin.name
        message = f"{wanted!r} serves backend {twin.name} already; both are one in the scenario"
        reference.note(NoteKind.WARNING, "name", message)

    def _rule(self, rule: Fields, router: ImportedRouter) -> None:
        name = rule.own_name("name")
        if name is None:
            return
        if name in self._named:
            rule.fault("name", f"there are two rules {name!r}")
            return
        self._named.append(name)
        settings: dict[str, Plain] = {}
        if "poolActivation" in rule:
            rule.leave("poolActivation")
            rule.fault("poolActivation", "belongs into route: spec.rules[].route.poolActivation")
        if (fail_closed := rule.flag("failClosed")) is not None:
            settings["failClosed"] = fail_closed
        if timeout_s := rule.duration_s("timeout"):
            settings["timeout"] = seconds(timeout_s)
        match, backends = self._match(rule), self._route(rule, settings)
        if backends:
            router.rules.append(ImportedRule(name, match, backends, settings, rule.origin("name")))

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

    def _route(self, rule: Fields, settings: dict[str, Plain]) -> list[str]:
        """The backends of a rule, those outside of the cluster left out; its activation is set."""
        route = rule.child("route")
        if route is None or not (written := route.placed_texts("backends")):
            at_fault = rule if route is None else route
            at_fault.fault("route" if route is None else "backends", "must name a backend")
            return []
        if (activation := route.one_of("poolActivation", ACTIVATIONS)) is not None:
            settings["poolActivation"] = activation
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

    def _default_route(self, router: ImportedRouter) -> None:
        name = self._spec.name("defaultRoute")
        if name is not None and name in self._called:
            router.default_route = self._called[name]
            router.settings.add("defaultRoute", router.default_route, "spec.defaultRoute")
        elif name is not None and name in self._external:
            message = "left out: it is outside of the cluster, and podsim answers 503 instead"
            self._spec.note(NoteKind.WARNING, "defaultRoute", message)
        elif name is not None:
            self._spec.fault("defaultRoute", self._unknown(name))
        key = "defaultRouteStrategy"
        strategy = self._spec.one_of(key, DEFAULT_STRATEGIES)
        if strategy is not None:
            router.settings.add(key, strategy, self._spec.origin(key))
        if strategy == NAME_MATCH:
            self._name_rules(router)
        if not router.rules and router.default_route is None and not self._objects.notes.faults:
            message = "no rule and no default route leads to a service of the cluster"
            self._objects.notes.fault(self._manifest.place, self._spec.path[:1], message)

    def _name_rules(self, router: ImportedRouter) -> None:
        """Last rules for backends that a request may name.

        The scenario's own BackendNameMatch knows them by their names only, and
        needs rules or a default route beside it.
        """
        alone = not router.rules and router.default_route is None
        for name, called in self._called.items():
            model = self._shown.get(name, name if alone else None)
            if model is None:
                continue
            origin = f"spec.defaultRouteStrategy: {NAME_MATCH}"
            router.rules.append(
                ImportedRule(f"{name}-by-name", {"models": [model]}, [called], {}, origin)
            )
