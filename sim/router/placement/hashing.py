"""The ring of virtual nodes, shared by hash-based policies and a full session table."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Annotated, Final, TypeAlias

from pydantic import Field, StringConstraints
from xxhash import xxh3_64_intdigest

from sim.core.fields import HeaderName, whole
from sim.core.request import RequestView
from sim.router.views import PodAdded, PodRemoved

HASH_SPACE: Final = 2**64

SessionHeaders: TypeAlias = Annotated[
    tuple[Annotated[HeaderName, StringConstraints(to_lower=True)], ...],
    Field(
        description="Request headers that name the session; the first one that a request "
        "carries decides. Without any of them the workload's own session key does."
    ),
]

VirtualNodes: TypeAlias = Annotated[
    int,
    whole(1, 1000),
    Field(description="Points of each pod on the hash ring, 1 to 1000."),
]


def session_key(request: RequestView, headers: Sequence[str]) -> int | None:
    """The 64-bit key of the session a request belongs to, None when it names none.

    The first of ``headers`` (lower case) that the request carries decides;
    only the hash of its value is kept (rule R15). A request without any of
    them is known by the key that its workload gave it: a synthetic client
    sends its session in whatever header the router reads.
    """
    if headers and request.headers:
        sent = {name.lower(): value for name, value in reversed(request.headers)}
        for name in headers:
            if name in sent:
                return xxh3_64_intdigest(sent[name].encode())
    return request.session_key


class HashRing:
    """Virtual nodes of pods on a circle of 64-bit hashes.

    A pod's points depend on its name and the salt only, so a pod that joins
    or leaves changes nobody else's points: only sessions whose nearest point
    clockwise came or went change their owner.
    """

    def __init__(self, salt: str, virtual_nodes: int) -> None:
        self._salt = salt
        self._virtual_nodes = virtual_nodes
        self._ring: list[tuple[int, int]] = []  # (position, pod), sorted once settled
        self._joining: list[tuple[int, str]] = []
        self._settled = False
        self._positions: list[int] = []
        self._owners: list[int] = []

    def observe(self, fact: PodAdded | PodRemoved) -> None:
        """Follow the membership of the backend."""
        self._settled = False
        if isinstance(fact, PodAdded):
            self._joining.append((fact.pod, fact.name))
        else:
            self._joining = [member for member in self._joining if member[0] != fact.pod]
            self._ring = [point for point in self._ring if point[1] != fact.pod]

    def first(self, key: int, eligible: Sequence[bool]) -> tuple[int, int]:
        """The owner of ``key`` and the first eligible pod from there clockwise.

        ``eligible`` is a column over pod slots. Raises ``LookupError`` when no
        pod on the ring is eligible.
        """
        if not self._settled:
            self._settle()
        owners = self._owners
        start = bisect_left(self._positions, xxh3_64_intdigest(key.to_bytes(8, "little")))
        for index in chain(range(start, len(owners)), range(start)):
            if eligible[owners[index]]:
                return owners[start % len(owners)], owners[index]
        raise LookupError("no pod on the ring is eligible")

    def shares(self) -> dict[int, float]:
        """The part of the hash space that each pod owns, 0 to 1, in slot order."""
        if not self._settled:
            self._settle()
        owned = dict.fromkeys(sorted(set(self._owners)), 0)
        if self._positions:
            wrapped = [self._positions[-1] - HASH_SPACE, *self._positions]
            for (before, position), pod in zip(pairwise(wrapped), self._owners, strict=True):
                owned[pod] += position - before
        return {pod: arc / HASH_SPACE for pod, arc in owned.items()}

    def _settle(self) -> None:
        """Hash who joined and sort; done at the first walk after a change, not per change."""
        for pod, name in self._joining:
            self._ring += [
                (xxh3_64_intdigest(f"{self._salt}/{name}-{index}".encode()), pod)
                for index in range(self._virtual_nodes)
            ]
        self._joining = []
        self._ring.sort()
        self._positions = [position for position, _ in self._ring]
        self._owners = [pod for _, pod in self._ring]
        self._settled = True
