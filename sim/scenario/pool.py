"""What is common to all kinds of model pools: who takes turns, and how long that takes."""

from pydantic import Field

from sim.scenario.fields import Model, Name
from sim.scenario.swap import Member


class Pool(Model):
    """Backends that share one place, each with one pod.

    A kind of pool is a subclass with its own settings and a ``kind`` of its own,
    bound by ``sim.registry.family`` to its implementation, a ``sim.ports.PoolPort``
    that is built as ``Implementation(name, spec, context)``.
    """

    kind: str = "model-pool"
    members: dict[Name, Member] = Field(
        min_length=1, description="Names of backends, each with its time to load and unload."
    )
