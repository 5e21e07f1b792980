"""What the objects of an import are to each other: who serves behind which name, and where."""

from sim.core.document import Place
from sim.manifests import engines, hardware, router, service
from sim.manifests.engines import Given, ImportedEngine, ImportedPool
from sim.manifests.objects import MODEL, POOL, ROUTER, SERVICE, Object, Objects
from sim.manifests.router import ImportedBackend, ImportedRouter, ImportedRule
from sim.manifests.writing import NoteKind, scenario_name


class ImportedFleet:
    """Backends, rules, pools and engines of all objects.

    What is wrong goes to the notes of ``objects``; the rest is there in any case.
    """

    def __init__(self, objects: Objects, given: Given) -> None:
        self._objects = objects
        self._notes = objects.notes
        self.pools = self._read_pools()
        self.router = self._read_router()
        self._add_members()
        self._check_names()
        self.engines: dict[str, ImportedEngine] = {
            backend.name: service.translate(
                backend.service, objects, given, self._slot_labels(backend.service)
            )
            for backend in self.router.backends.values()
        }
        for slot in self._slots():
            hardware.assume_gpu([self.engines[backend.name] for backend in slot])
        self._skip_unused()

    def _slots(self) -> list[list[ImportedBackend]]:
        """Those that share GPUs: the members of each pool, and everybody else alone."""
        pooled = [self.backends_of(members) for members in self.pools]
        names = {backend.name for members in pooled for backend in members}
        alone = [[each] for each in self.router.backends.values() if each.name not in names]
        return [*pooled, *alone]

    def _read_pools(self) -> list[ImportedPool]:
        taken: dict[str, Object] = {}
        found = self._objects.found[POOL]
        return [engines.members(manifest, self._objects, taken) for manifest in found]

    def _read_router(self) -> ImportedRouter:
        routers = self._objects.found[ROUTER]
        for other in routers[1:]:
            message = f"a scenario has one router, and {routers[0].name} is one already"
            path = (f"{ROUTER}/{other.name}",)
            if self._objects.assume:
                message += "; this one is left out"
                self._notes.add(NoteKind.WARNING, other.place, path, message)
            else:
                self._notes.fault(other.place, path, message)
        if routers:
            return router.translate(routers[0], self._objects)
        return self._without_router()

    def _without_router(self) -> ImportedRouter:
        """A rule for each service, by its name as the model."""
        services = self._objects.found[SERVICE]
        if not services and not self._notes.faults:
            message = "no ModelRouter and no InferenceService: there is nothing to simulate"
            skipped = [each.about for each in self._notes.found if each.kind == NoteKind.SKIPPED]
            message += "".join(f"; skipped {each}" for each in skipped[:1])
            self._notes.fault(Place("manifests"), (), message)
        found = ImportedRouter(
            "assumed, since there is no ModelRouter: a rule for each InferenceService"
        )
        for each in services:
            name = scenario_name(each.name)
            if name not in found.backends:
                found.backends[name] = ImportedBackend(name, each)
                origin = f"{SERVICE} {each.name}"
                found.rules.append(ImportedRule(name, {"models": [each.name]}, [name], {}, origin))
        return found

    def _add_members(self) -> None:
        """Members of pools that no backend of the router is about."""
        for member in (each for found in self.pools for each in found.members):
            name = scenario_name(member.name)
            if self.router.backend_of(member) is not None:
                continue
            taken = self.router.backends.get(name)
            if taken is None:
                self.router.backends[name] = ImportedBackend(name, member)
            else:
                message = f"member {member.name} clashes with backend {name}, another service"
                self._notes.fault(member.place, member.spec.path[:1], message)

    def _check_names(self) -> None:
        """Engines are named after services; two names may become one."""
        owners: dict[str, Object] = {}
        for backend in self.router.backends.values():
            owner = owners.setdefault(engine_name(backend.service), backend.service)
            if owner is not backend.service:
                message = f"clashes with {owner.name} ({owner.written_at}): both are " + (
                    f"{engine_name(owner)!r} in a scenario, whose names have no dots"
                )
                at_fault = backend.service
                self._notes.fault(at_fault.place, at_fault.spec.path[:1], message)

    def _skip_unused(self) -> None:
        used = [backend.service for backend in self.router.backends.values()]
        for each in self._objects.found[SERVICE]:
            if each not in used:
                self._skip(each, "no backend and no pool refers to it")
        wanted = {(each.namespace, each.spec.name("modelRef")) for each in used}
        for model in self._objects.found[MODEL]:
            if (model.namespace, model.name) in wanted:
                model.spec.ignore_unread()
            else:
                self._skip(model, "no service of the scenario refers to it")

    def _skip(self, skipped: Object, why: str) -> None:
        message = f"{skipped.kind} {skipped.name}: {why}"
        self._notes.add(NoteKind.SKIPPED, skipped.place, (), message)

    def pool_of(self, member: Object) -> ImportedPool | None:
        """The pool that a service is a member of."""
        return next((each for each in self.pools if member in each.members), None)

    def _slot_labels(self, member: Object) -> dict[str, str] | None:
        found = self.pool_of(member)
        return None if found is None else found.labels

    @property
    def name(self) -> str:
        """A name for the scenario: that of the router, or of a pool."""
        named = self._objects.found[ROUTER] + self._objects.found[POOL]
        return (scenario_name(named[0].name) if named else "") or "imported"

    def backends_of(self, members: ImportedPool) -> list[ImportedBackend]:
        """The backends of the members of a pool, in the order of its manifest."""
        backends = (self.router.backend_of(member) for member in members.members)
        return [backend for backend in backends if backend is not None]


def engine_name(owner: Object) -> str:
    """What the scenario calls the engine of a service."""
    return scenario_name(owner.name)
