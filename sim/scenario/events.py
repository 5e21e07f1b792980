"""What happens to the cluster while it serves: one entry of ``events`` per incident."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from sim.core.fields import Duration, Model, Name, PositiveDuration, whole

MAX_LOADS: Final = 1_000_000


class PodLost(Model):
    """A pod dies: what is in it breaks off, its cache is gone."""

    kind: Literal["pod-lost"]
    at: Duration = Field(description="When.")
    backend: Name = Field(description="Whose pod.")
    replica: Annotated[int, whole(0, 9_999)] = Field(default=0, description="Which one, from 0.")
    duration: PositiveDuration | None = Field(
        default=None,
        alias="for",
        description="It serves again so much later; when missing it does not by itself.",
    )
    restarts_proxy: bool = Field(
        default=False,
        description="The proxy restarts when the pod is lost and when it serves again. LLMKube's "
        "does with resolution: endpoint, its pods being part of its configuration. Not for members "
        "of pools.",
    )


class BackendErrors(Model):
    """All pods of a backend answer every new request with an error."""

    kind: Literal["backend-errors"]
    at: Duration = Field(description="When.")
    backend: Name = Field(description="Whose pods.")
    duration: PositiveDuration | None = Field(
        default=None, alias="for", description="How long; to the end of the run when missing."
    )
    http_status: Annotated[int, whole(400, 599)] = Field(
        default=500, description="What they answer."
    )


class ProxyRestart(Model):
    """The proxy restarts: its tables and counts are empty, what it held breaks off."""

    kind: Literal["proxy-restart"]
    at: Duration = Field(description="When.")


class LoadFailureEvent(Model):
    """The next loads of a member of a pool fail."""

    kind: Literal["load-failure"]
    at: Duration = Field(description="When; loads that begin then or later are meant.")
    backend: Name = Field(description="The member.")
    after: Duration | None = Field(
        default=0.0,
        description="How long after its begin a load fails, which is not ready until then; 0 is a "
        "refused one, null one that hangs until somebody gives it up.",
    )
    loads: Annotated[int, whole(1, MAX_LOADS)] | None = Field(
        default=1, description="How many fail; null for all that follow."
    )


class ProbeFailure(Model):
    """A probe of a member of a pool does not answer.

    Without its readiness probe a load does not come to an end, without its idle
    probe the member counts as busy: it is not drained, nor reclaimed.
    """

    kind: Literal["probe-failure"]
    at: Duration = Field(description="When.")
    backend: Name = Field(description="The member.")
    probe: Literal["readiness", "idle"] = Field(description="Which one.")
    duration: PositiveDuration | None = Field(
        default=None, alias="for", description="How long; to the end of the run when missing."
    )


Event: TypeAlias = Annotated[
    PodLost | BackendErrors | ProxyRestart | LoadFailureEvent | ProbeFailure,
    Field(discriminator="kind"),
]
