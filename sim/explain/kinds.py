"""The parts of a time to first token: what each is, and in which order they follow each other.

From the arrival to the first token every instant belongs to exactly one part, so that
they add up. Up to the front end they are read off the tables of the result; what follows
is what the steps of the pod did, which a repetition of the run tells (``sim.explain.explanation``).
A step in which the request computes is divided in a fixed order: what its own tokens
would have cost alone (the step's constant included) is ``prefill_s``; what the decodes of
the step add to that is ``decodes_s``, what the tokens of other prompts add to both is
``other_prefills_s``, and how much longer the slowest rank of a lockstep took is
``other_ranks_s``. Costs are those of ``sim.engine.steptime``.
"""

from typing import Final, NamedTuple


class Part(NamedTuple):
    """A part: its column, what a table calls it, what it is; all are seconds, never negative."""

    name: str
    label: str
    meaning: str


PARTS: Final = (
    Part("earlier_tries_s", "earlier tries", "tries of its client before the one that was served"),
    Part("backoff_s", "backoff", "between tries: its client waited before it tried again"),
    Part("failed_backends_s", "failed backends", "at backends of its rule that did not serve it"),
    Part("hold_s", "hold", "held in the proxy before it was sent to the pod that served it"),
    Part("front_end_s", "front end", "read and tokenised by the API server of the pod"),
    Part("step_in_flight_s", "step in flight", "until the step ended that ran when it came"),
    Part("queue_places_s", "queue: places", "in the queue, all places of the pod being taken"),
    Part("queue_tokens_s", "queue: tokens", "in the queue, steps being full of others' tokens"),
    Part("queue_kv_s", "queue: KV", "in the queue, no KV blocks for it or for one before it"),
    Part("planned_ahead_s", "planned ahead", "admitted, while the step planned before it ran"),
    Part("preempted_s", "preempted", "from its first step to its last readmission: thrown out"),
    Part("no_share_s", "no share of steps", "admitted, in steps that computed nothing for it"),
    Part("prefill_s", "own prefill", "its own cold tokens, as if its steps had nothing else"),
    Part("decodes_s", "decodes beside", "longer steps, for the decodes of others in them"),
    Part("other_prefills_s", "other prefills", "longer steps, for the prompts of others in them"),
    Part("other_ranks_s", "other ranks", "longer steps, for ranks that step together"),
    Part("queue_unsplit_s", "queue", "in the queue; why is not known"),
    Part("service_unsplit_s", "prefill and others", "from its admission on; whose is not known"),
)
"""In the order in which a request passes through them."""

NAMES: Final = tuple(part.name for part in PARTS)

QUEUE: Final = (
    *("step_in_flight_s", "queue_places_s", "queue_tokens_s", "queue_kv_s"),
    *("planned_ahead_s", "queue_unsplit_s"),
)
"""What a short table adds up as the queue."""

BESIDE: Final = ("decodes_s", "other_prefills_s", "other_ranks_s", "no_share_s")
"""What a short table adds up as interference."""

BEFORE: Final = ("earlier_tries_s", "backoff_s", "failed_backends_s")
"""What a short table adds up as earlier tries: what was before the pod that served was due."""
