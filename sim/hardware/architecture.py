"""What a model weighs and computes, counted from its configuration.

Matrices are counted, norms and biases are not: they are below 0.1 % of any
model here. Symbols in the docstrings are those of ``sim.hardware.step_times``.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from sim.core.fields import HubName, Model, Text, real, whole
from sim.core.rules import Problem, rule
from sim.hardware.gpu import KV_BYTES, WEIGHT_FORMATS, Extent, KvDtype, WeightDtype

BF16_BYTES: Final = 2.0
STATE_BYTES: Final = 4.0  # the recurrent state is kept in fp32

Part: TypeAlias = Literal["head", "layers", "experts"]
STORED_PARTS: Final[dict[Extent, tuple[Part, ...]]] = {
    "all": ("head", "layers", "experts"),
    "layers": ("layers", "experts"),
    "experts": ("experts",),
}
"""What a format covers: output head and embedding, the rest of the layers, their experts."""

Dimension: TypeAlias = Annotated[int, whole(1, 10**7)]


class Experts(Model):
    """The feed-forward part of a mixture-of-experts layer."""

    count: Dimension = Field(description="Experts per layer.")
    per_token: Dimension = Field(description="Experts that each token is sent to.")
    feed_forward: Dimension = Field(description="Inner width of an expert.")
    shared: Annotated[int, whole(0, 10**7)] = Field(
        default=0, description="Inner width of what every token passes beside its experts."
    )


class Recurrent(Model):
    """The layers without attention: gated delta rule, with a short convolution before it."""

    key_heads: Dimension = Field(description="Heads of queries and keys.")
    value_heads: Dimension = Field(description="Heads of values, each with a state.")
    head_dim: Dimension = Field(description="Width of a head.")
    convolution: Dimension = Field(description="Taps of the convolution.")

    @property
    def channels(self) -> int:
        """What the convolution runs over: queries, keys and values."""
        return (2 * self.key_heads + self.value_heads) * self.head_dim

    @property
    def state_bytes(self) -> float:
        """Bytes that one sequence keeps in one layer: the state, and the convolution's past."""
        state = self.value_heads * self.head_dim**2 * STATE_BYTES
        return state + self.channels * (self.convolution - 1) * BF16_BYTES

    def parameters(self, hidden: int) -> int:
        """Of the matrices of one layer: into the heads, gates and decays, and out of them."""
        values = self.value_heads * self.head_dim
        return hidden * (self.channels + values + 2 * self.value_heads) + values * hidden


class Architecture(Model):
    """A decoder: its dimensions as in its config.json."""

    name: HubName = Field(default="own-model", description="What requests may ask for.")
    layers: Dimension = Field(description="Decoder layers (num_hidden_layers).")
    full_attention: Dimension = Field(
        default_factory=lambda data: data["layers"],
        description="Layers that attend to the whole context.",
    )
    window: Annotated[int, whole(0, 10**7)] = Field(
        default=0, description="Tokens that the other layers attend to, if they attend."
    )
    hidden: Dimension = Field(description="Width of the model (hidden_size).")
    heads: Dimension = Field(description="Query heads (num_attention_heads).")
    kv_heads: Dimension = Field(description="Heads of keys and values (num_key_value_heads).")
    head_dim: Dimension = Field(description="Width of a head.")
    gated_attention: bool = Field(
        default=False, description="Whether a gate as wide as the queries follows the attention."
    )
    feed_forward: Annotated[int, whole(0, 10**7)] = Field(
        default=0, description="Inner width of the feed-forward part; not with experts."
    )
    gated_feed_forward: bool = Field(
        default=True, description="Whether it has three matrices (SwiGLU), not two."
    )
    experts: Experts | None = Field(
        default=None, description="Of a mixture of experts, instead of feedForward."
    )
    recurrent: Recurrent | None = Field(
        default=None, description="The layers without attention, if there are any."
    )
    vocabulary: Dimension = Field(description="Tokens of the vocabulary (vocab_size).")
    tied_embeddings: bool = Field(
        default=False, description="Whether the output head is the embedding."
    )
    weight_dtype: WeightDtype = Field(default="bf16", description="Of the published weights.")
    context: Dimension | None = Field(
        default=None,
        description="Longest sequence in tokens (max_position_embeddings); not limited when "
        "missing.",
    )
    parameters: Annotated[float, real(0.0, 1e5)] | None = Field(
        default=None, description="As published, in 1e9; podsim counts for itself."
    )
    source: Text = Field(default="", description="Where the numbers are from.")

    @rule
    def _feeds_forward_in_one_way(self) -> Iterator[Problem]:
        if (self.experts is None) == (self.feed_forward == 0):
            yield "feedForward", "give feedForward or experts"

    @rule
    def _has_one_other_kind_of_layer(self) -> Iterator[Problem]:
        others = self.full_attention < self.layers
        if others != bool(self.window or self.recurrent):
            yield "fullAttention", "the other layers need a window or are recurrent"

    def splits_over(self, gpus: int) -> bool:
        """Whether tensor parallelism shares out the heads evenly, KV heads replicated if few."""
        few, many = sorted((self.kv_heads, gpus))
        return self.heads % gpus == 0 and many % few == 0

    # -- parameters -----------------------------------------------------------------------

    @property
    def attention_layers(self) -> int:
        """Layers that attend, to everything or to a window."""
        return self.full_attention if self.recurrent else self.layers

    @property
    def mixing_parameters(self) -> int:
        """Of all layers without their feed-forward part: attention, recurrence, routers."""
        queries = self.heads * self.head_dim
        into = (2 if self.gated_attention else 1) * queries + 2 * self.kv_heads * self.head_dim
        total = self.attention_layers * self.hidden * (into + queries)
        if self.recurrent is not None:
            others = self.layers - self.full_attention
            total += others * self.recurrent.parameters(self.hidden)
        if self.experts is not None:
            total += self.layers * self.hidden * self.experts.count
        return total

    @property
    def shared_parameters(self) -> int:
        """Of the feed-forward parts that every token passes."""
        width = self.feed_forward if self.experts is None else self.experts.shared
        return self.layers * self._matrices * self.hidden * width

    @property
    def expert_parameters(self) -> int:
        """Of all experts."""
        if self.experts is None:
            return 0
        width = self.experts.feed_forward
        return self.layers * self.experts.count * self._matrices * self.hidden * width

    @property
    def head_parameters(self) -> int:
        """Of the output head, which is computed for the tokens that are sampled only."""
        return self.vocabulary * self.hidden

    @property
    def active_parameters(self) -> float:
        """Pm: what each token is multiplied with in the layers."""
        return self.mixing_parameters + self.shared_parameters + self._active_expert_parameters

    @property
    def total_parameters(self) -> int:
        """All of them, the embedding included."""
        layers = self.mixing_parameters + self.shared_parameters + self.expert_parameters
        return layers + self.head_parameters * (1 if self.tied_embeddings else 2)

    @property
    def _matrices(self) -> int:
        return 3 if self.gated_feed_forward else 2

    @property
    def _active_expert_parameters(self) -> float:
        if self.experts is None:
            return 0.0
        return self.expert_parameters * self.experts.per_token / self.experts.count

    # -- bytes ----------------------------------------------------------------------------

    def weights_bytes(self, dtype: WeightDtype | None = None) -> float:
        """Of all weights stored as ``dtype``, that of the published ones when missing."""
        head = self.head_parameters * _bytes_per_weight(dtype or self.weight_dtype, "head")
        unshared = 0.0 if self.tied_embeddings else head
        return self.read_bytes(dtype) + self.expert_bytes(dtype) + unshared

    def read_bytes(self, dtype: WeightDtype | None = None) -> float:
        """What every step reads, whoever is in the batch: all but experts and embedding."""
        dtype = dtype or self.weight_dtype
        layers = self.mixing_parameters + self.shared_parameters
        head = self.head_parameters * _bytes_per_weight(dtype, "head")
        return layers * _bytes_per_weight(dtype, "layers") + head

    def expert_bytes(self, dtype: WeightDtype | None = None) -> float:
        """Of all experts."""
        return self.expert_parameters * _bytes_per_weight(dtype or self.weight_dtype, "experts")

    def kv_bytes_per_token(self, dtype: KvDtype = "bf16", tensor_parallel: int = 1) -> float:
        """κ: keys and values of one token in the layers that keep them all, over all GPUs.

        Above one GPU per KV head, heads are replicated: each GPU holds one.
        """
        return self.full_attention * self._kv_bytes(dtype, tensor_parallel)

    def window_bytes(self, dtype: KvDtype = "bf16", tensor_parallel: int = 1) -> float:
        """Keys and values that one long sequence keeps in its windows, over all GPUs."""
        others = self.layers - self.full_attention
        return others * self.window * self._kv_bytes(dtype, tensor_parallel)

    @property
    def state_bytes(self) -> float:
        """σ: the recurrent state of one sequence in all layers."""
        if self.recurrent is None:
            return 0.0
        return (self.layers - self.full_attention) * self.recurrent.state_bytes

    def _kv_bytes(self, dtype: KvDtype, tensor_parallel: int) -> float:
        heads = max(self.kv_heads, tensor_parallel)
        return 2 * heads * self.head_dim * KV_BYTES[dtype]


def _bytes_per_weight(dtype: WeightDtype, part: Part) -> float:
    written = WEIGHT_FORMATS[dtype]
    return written.bits / 8 if part in STORED_PARTS[written.extent] else BF16_BYTES
