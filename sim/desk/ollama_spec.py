"""The settings of a pool of kind ``ollama``; the names are those of its variables OLLAMA_*."""

import re
from collections.abc import Iterator, Mapping
from math import fsum, inf
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import (
    Duration,
    Name,
    PositiveBytes,
    PositiveDuration,
    PositiveTokens,
    whole,
)
from sim.core.rules import Problem, rule
from sim.hardware.engine import Engine
from sim.hardware.gpu import gib
from sim.hardware.loading import Member
from sim.hardware.memory import resident_bytes
from sim.scenario.pool import Pool, strangers

MAX_REQUESTS: Final = 1_000_000
MAX_MODELS: Final = 1000
NEGATIVE: Final = re.compile(r"-\d+(\.\d+)?(ms|s|m|h)?")


def _for_ever(value: Any) -> Any:
    return None if NEGATIVE.fullmatch(str(value)) else value


KeepAlive: TypeAlias = Annotated[
    Duration | None,
    BeforeValidator(_for_ever, json_schema_input_type=Duration | Literal[-1] | None),
]
"""Seconds of idleness, None for ever, which Ollama says by a negative number or duration."""


class OllamaMember(Member):
    """A model of Ollama."""

    memory: PositiveBytes | None = Field(
        default=None,
        description="Bytes that it takes while it is loaded; weights, KV cache and workspace of "
        "its engine when missing.",
    )
    keep_alive: KeepAlive = Field(
        default=None,
        description="Idle time after which it is unloaded; 0 at once, null or -1 never, that of "
        "the pool when missing.",
    )
    num_ctx: PositiveTokens | None = Field(
        default=None,
        description="Context that it is loaded with for a request without numCtx, as a Modelfile "
        "or OLLAMA_CONTEXT_LENGTH says it; that of one sequence of its engine when missing.",
    )


class OllamaPool(Pool):
    """Models in one memory, as Ollama keeps them: as many as fit, one load at a time.

    Beside others a further model may need 80 % of what is free; the first one is
    loaded in any case. A model loaded for another ``numCtx`` takes the same memory.
    Who is held is held until its client leaves.
    """

    kind: Literal["ollama"]
    members: Mapping[Name, OllamaMember] = Field(
        min_length=1, description="Names of backends, each of one pod, and how they are loaded."
    )
    memory: PositiveBytes = Field(description="Bytes of all GPUs together.")
    initial: tuple[Name, ...] = Field(
        default=(), description="Members that are ready at the start; none when missing."
    )
    max_queue: Annotated[int, whole(0, MAX_REQUESTS)] = Field(
        default=512,
        description="Requests that wait; others get 503 at once. Those that wait for a slot of a "
        "loaded model count, too, as ollama/ollama#7758 wants it; Ollama itself queues them "
        "without a limit.",
    )
    max_loaded_models: Annotated[int, whole(1, MAX_MODELS)] = Field(
        default=3, description="Members loaded at a time: 3 for each GPU is Ollama's default."
    )
    num_parallel: Annotated[int, whole(1, MAX_REQUESTS)] = Field(
        default=1, description="Requests in flight per member; others wait."
    )
    keep_alive: KeepAlive = Field(
        default=300.0,
        description="Idle time after which a member is unloaded; 0 at once, null or -1 never.",
    )
    load_timeout: PositiveDuration = Field(
        default=300.0,
        description="A load that makes no progress for so long fails: one that hangs, not one that "
        "takes long.",
    )
    vram_recovery: Duration = Field(
        default=0.5,
        description="Time from the end of an unload until the memory is seen to be free, looked "
        "for every 250ms and for 5s at most; 0 is not waited for, nor is it when a model is loaded "
        "again for another numCtx.",
    )

    @property
    def exclusive(self) -> bool:
        """Whether never more than one member is in memory."""
        return self.max_loaded_models == 1

    @rule
    def _begins_with_members(self) -> Iterator[Problem]:
        yield from strangers(self.initial, self.members)

    @rule
    def _begins_with_no_more_than_it_may(self) -> Iterator[Problem]:
        initial = {name for name in self.initial if name in self.members}
        if len(initial) > self.max_loaded_models:
            yield "initial", f"more members than maxLoadedModels, {self.max_loaded_models}"

    def keep_alive_s(self, member: str) -> float:
        """Seconds of idleness after which ``member`` is unloaded; infinite for never."""
        own = self.members[member]
        given = own.keep_alive if "keep_alive" in own.model_fields_set else self.keep_alive
        return inf if given is None else given

    def contexts(self, engines: Mapping[str, Engine]) -> dict[str, int]:
        """What each member is loaded with for a request that does not say it; see ``Pool``."""
        given = {name: member.num_ctx for name, member in self.members.items()}
        return {name: own or engines[name].context_tokens() for name, own in given.items()}

    def resident_bytes(self, engines: Mapping[str, Engine]) -> dict[str, float]:
        """What each member takes: as given, or as its engine says."""
        taken: dict[str, float] = {}
        faults = [fault for name in self.members for fault in self._alone(name, engines, taken)]
        if not faults:
            faults.extend(self._together(taken))
        if faults:
            raise ScenarioError(faults)
        return taken

    def _alone(
        self, name: str, engines: Mapping[str, Engine], taken: dict[str, float]
    ) -> Iterator[Fault]:
        """Why the memory of a member cannot be had; what it takes goes to ``taken``."""
        path = f"members.{name}"
        try:
            given = self.members[name].memory
            taken[name] = resident_bytes(engines[name]) if given is None else given
        except ScenarioError as error:
            message = f"{error.faults[0].message}; give memory, such as 20GB"
            yield Fault("pool", 0, 0, path, message)
            return
        if taken[name] > self.memory:
            message = (
                f"takes {gib(taken[name])}, more than the memory of the pool, "
                f"{gib(self.memory)}; nothing is offloaded to the host"
            )
            yield Fault("pool", 0, 0, path, message)

    def _together(self, taken: Mapping[str, float]) -> Iterator[Fault]:
        together = fsum(taken.get(name, 0.0) for name in dict.fromkeys(self.initial))
        if together > self.memory:
            message = f"take {gib(together)} together, more than the memory of the pool"
            yield Fault("pool", 0, 0, "initial", message)
