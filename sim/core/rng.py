"""Named random substreams: a draw depends on the seed and a name, never on who came first."""

import random

import numpy as np
import xxhash


class Streams:
    """The random streams of one run.

    A name such as ``workload/coding/agent/17`` always gives the same stream
    under one seed, in whatever order streams are asked for, so adding a pod
    or a second workload shifts nobody else's draws.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def key(self, name: str) -> int:
        """A 64-bit value for ``name`` under this seed."""
        return xxhash.xxh3_64_intdigest(f"{self.seed}/{name}".encode())

    def get(self, name: str) -> np.random.Generator:
        """A generator for draws in bulk."""
        digest = xxhash.xxh3_128_intdigest(f"{self.seed}/{name}".encode())
        return np.random.Generator(np.random.PCG64(digest))

    def scalar(self, name: str) -> random.Random:
        """A generator that is cheap for one draw at a time."""
        return random.Random(xxhash.xxh3_128_intdigest(f"{self.seed}/{name}".encode()))
