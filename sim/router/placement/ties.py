"""Who is least loaded, and who of several equals gets the request.

Ties decide more than they seem to: under light load every decision is a tie,
and taking the first of them sends everything to pod 0.
"""

import random
from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress

from sim.router.views import PolicyContext


def ready_pods(ready: Sequence[bool]) -> list[int]:
    """The slots of the pods that serve, in slot order."""
    return list(compress(range(len(ready)), ready))


def least_loaded(load: Sequence[int], among: Sequence[int]) -> list[int]:
    """The pods of ``among`` that carry the least, in the order of ``among``."""
    least = min([load[pod] for pod in among])
    return [pod for pod in among if load[pod] == least]


def tie_stream(context: PolicyContext) -> random.Random:
    """The stream from which a policy draws its random choices."""
    return context.streams.scalar(f"policy/{context.proxy}/{context.backend}/ties")


def draw(stream: random.Random, among: Sequence[int]) -> int:
    """One of ``among``, each with the same chance; a single one costs no draw."""
    if len(among) == 1:
        return among[0]
    return among[int(stream.random() * len(among))]


class Rotation:
    """Round robin over pod slots: the next one after the last taken, whoever is offered.

    What is remembered is a slot, not a place in a list, so pods that come and
    go do not restart the rotation or make it skip somebody.
    """

    def __init__(self) -> None:
        self._next = 0

    def take(self, among: Sequence[int]) -> int:
        """The next of ``among``, which is in slot order."""
        place = bisect_left(among, self._next)
        pod = among[place] if place < len(among) else among[0]
        self._next = pod + 1
        return pod
