"""The layers of T5 1.1: RMSNorm, embedding, relative position bias, attention, gated MLP.

Every layer owns its parameters, which carry logical axis names. Layers compute in `dtype`;
parameters, norms and softmax are float32. The code writes `float` for it, which JAX reads as
float64 under jax_enable_x64. No layer here knows of stacks, experts or decoding.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from mmt.model.product import Kernel, Quantized, SeparateExperts, product

Axes = int | tuple[int, ...]
KeyValue = tuple[Float[Array, "B H S K"], Float[Array, "B H S K"]]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": nn.gelu,  # the tanh approximation, 'gelu_new' of Hugging Face
    "relu": nn.relu,
    "silu": nn.silu,
    "linear": lambda x: x,
}
_NAN_BITS = 0x7FC0  # of bfloat16
MASKED = -1e9  # finite, so that a fully masked row stays finite


def parameter(
    module: nn.Module,
    name: str,
    *,
    init: Callable,
    shape: Sequence[int],
    axes: Sequence[str | None],
) -> Any:
    """Declares a float32 parameter of `module` with logical axis names; None is never sharded.

    Returns its value, which is stored differently in a model for inference (`mmt.model.inference`).
    """
    if isinstance(stored := module.variables.get("params", {}).get(name), SeparateExperts):
        return stored  # Flax would compare it with `shape`
    named: Any = nn.with_logical_partitioning(init, tuple(axes))
    return module.param(name, named, tuple(shape), float)


def fan_in(
    scale: float = 1.0,
    *,
    inputs: Axes = 0,
    outputs: Axes = -1,
    experts: Axes = (),
    kind: Literal["normal", "truncated_normal"] = "truncated_normal",
) -> Callable:
    """Returns an initialiser of standard deviation sqrt(scale / fan_in), as in T5X and Switch.

    A kernel has the axes `inputs` and `outputs`, and `experts` where each expert has a kernel.
    """
    return nn.initializers.variance_scaling(
        scale, "fan_in", kind, in_axis=inputs, out_axis=outputs, batch_axis=experts
    )


def contract(
    x: Float[Array, "B T ..."], kernel: Kernel, *, axes: int = 1, dtype: Any = None
) -> Array:
    """Contracts the last `axes` axes of `x` with the first of `kernel`: [B T in] -> [B T out].

    It is computed as a product of two matrices. With two batch axes XLA would transpose operands
    of the kernel's gradient, which costs more than the arithmetic on a CPU.
    """
    inputs = math.prod(kernel.shape[:axes])
    output = product(x.reshape(-1, inputs), kernel.reshape(inputs, -1), dtype)
    return output.reshape(*x.shape[:2], *kernel.shape[axes:])


class RMSNorm(nn.Module):
    """Computes x / sqrt(mean(x^2) + eps) * scale over the last axis, in float32."""

    dtype: jnp.dtype
    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        ones = nn.initializers.ones_init()
        scale = parameter(self, "scale", init=ones, shape=x.shape[-1:], axes=["embed"])
        x = x.astype(float)
        x = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)
        return (x * scale).astype(self.dtype)


class Embed(nn.Module):
    """An embedding table of `size` vectors, initialised with standard deviation 1."""

    size: int
    features: int
    dtype: jnp.dtype

    def setup(self) -> None:
        init, shape = nn.initializers.normal(1.0), (self.size, self.features)
        self.embedding = parameter(
            self, "embedding", init=init, shape=shape, axes=["vocab", "embed"]
        )

    def __call__(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        if isinstance(self.embedding, Quantized):
            values, scale = (_rows(t, tokens) for t in self.embedding)
            return values.astype(self.dtype) * scale.astype(self.dtype)
        return _rows(self.embedding, tokens).astype(self.dtype)

    def attend(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """Returns logits: the products of `x` with all vectors of the table."""
        return contract(x, self.embedding.T, dtype=float)


def _rows(table: Array, tokens: Int[Array, "B T"]) -> Array:
    """Returns the rows of `tokens`; NaN instead of another token's vector for an id outside.

    A table of integers has the bits of bfloat16 numbers (`mmt.model.inference`).
    """
    if table.dtype != jnp.uint16:
        return jnp.take(table, tokens, axis=0, mode="fill")
    rows = jnp.take(table, tokens, axis=0, mode="fill", fill_value=_NAN_BITS)
    return jax.lax.bitcast_convert_type(rows, jnp.bfloat16)


class Logits(nn.Module):
    """Projection to the vocabulary with separate weights; returns float32."""

    size: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        shape = (x.shape[-1], self.size)
        kernel = parameter(self, "kernel", init=fan_in(), shape=shape, axes=["embed", "vocab"])
        return contract(x, kernel, dtype=float)


class RelativeBias(nn.Module):
    """T5's relative position bias: one learned number per head and distance bucket."""

    heads: int
    bidirectional: bool
    buckets: int = 32
    max_distance: int = 128

    @nn.compact
    def __call__(self, queries: Int[Array, "Q"], keys: Int[Array, "S"]) -> Float[Array, "1 H Q S"]:
        """Returns the bias of positions `queries` and `keys`; only their differences matter."""
        init = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
        table = parameter(
            self,
            "embedding",
            init=init,
            shape=(self.buckets, self.heads),
            axes=["relpos_buckets", "heads"],
        )
        bucket = relative_bucket(
            keys[None, :] - queries[:, None],
            bidirectional=self.bidirectional,
            buckets=self.buckets,
            max_distance=self.max_distance,
        )
        return jnp.moveaxis(table[bucket], -1, 0)[None]


class Attention(nn.Module):
    """Multi-head attention with T5's unscaled logits; the query's initialiser has the scale."""

    heads: int
    head_dim: int
    dropout_rate: float
    dtype: jnp.dtype
    features: int

    def setup(self) -> None:
        shape = (self.features, self.heads, self.head_dim)
        axes = ("embed", "heads", "kv")

        def projection(name: str, scale: float) -> Any:
            init = fan_in(scale, outputs=(1, 2), kind="normal")
            return parameter(self, name, init=init, shape=shape, axes=axes)

        self.query = projection("query", 1 / self.head_dim)
        self.key = projection("key", 1.0)
        self.value = projection("value", 1.0)
        self.out = parameter(
            self,
            "out",
            init=fan_in(inputs=(0, 1), kind="normal"),
            shape=(self.heads, self.head_dim, self.features),
            axes=("heads", "kv", "embed"),
        )
        # One dropout mask for all queries, as in Mesh TensorFlow and T5X.
        self.dropout = nn.Dropout(self.dropout_rate, broadcast_dims=(-2,))

    def project(self, x: Float[Array, "B S D"]) -> KeyValue:
        """Returns keys and values of the positions of `x`."""
        return self._heads(x, self.key), self._heads(x, self.value)

    def __call__(
        self,
        x: Float[Array, "B Q D"],
        key_value: KeyValue,
        *,
        mask: Bool[Array, "#B 1 #Q S"],
        bias: Float[Array, "1 H #Q S"] | None = None,
        alignment: Int[Array, "B Q"] | None = None,
        enable_dropout: bool = False,
    ) -> Float[Array, "B Q D"]:
        """Attends from `x` to `key_value` of `project`, where `mask` is True.

        Where `alignment` has the index of a key for each query, or -1, it sows `alignment_nll`
        [B Q]: -log of the mean weight of that key over the heads, 0 without one. Where the
        collection 'attention' is mutable, it sows `weights` [B Q S], the mean over the heads.
        """
        keys, values = key_value
        query = self._heads(x, self.query)
        scores = _scores(query, keys, bias)
        weights = jax.nn.softmax(jnp.where(mask, scores, MASKED), axis=-1)
        if alignment is not None:
            self.sow("intermediates", "alignment_nll", _alignment_nll(weights, alignment))
        if self.is_mutable_collection("attention") and not self.is_initializing():
            self.sow("attention", "weights", jnp.mean(weights, axis=1))
        weights = self.dropout(weights.astype(self.dtype), deterministic=not enable_dropout)
        return contract(jnp.swapaxes(weights @ values, 1, 2), self.out, axes=2)

    def _heads(self, x: Array, kernel: Kernel) -> Array:
        """Projects [B T D] to [B H T K], the layout of the matrix products."""
        y = jnp.swapaxes(contract(x, kernel), 1, 2)
        return nn.with_logical_constraint(y, ("batch", "heads", "length", "kv"))


class Mlp(nn.Module):
    """Computes dropout(product_i activation_i(x W_i)) W_o; ("gelu", "linear") is gated GELU."""

    hidden: int
    activations: Sequence[str]
    dropout_rate: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        padding_mask: Bool[Array, "B T"],
        enable_dropout: bool = False,
    ) -> Float[Array, "B T D"]:
        """Applies the MLP. `padding_mask` is for `MoeMlp`, which has the same signature."""
        del padding_mask
        features, hidden = x.shape[-1], jnp.ones((), self.dtype)
        for i, activation in enumerate(self.activations):
            shape = (features, self.hidden)
            wi = parameter(self, f"wi_{i}", init=fan_in(), shape=shape, axes=["embed", "mlp"])
            hidden = hidden * ACTIVATIONS[activation](contract(x, wi))
        hidden = nn.with_logical_constraint(hidden, ("batch", "length", "mlp"))
        dropout = nn.Dropout(self.dropout_rate, broadcast_dims=(-2,))
        hidden = dropout(hidden, deterministic=not enable_dropout)
        shape = (self.hidden, features)
        wo = parameter(self, "wo", init=fan_in(), shape=shape, axes=["mlp", "embed"])
        return contract(hidden, wo)


def relative_bucket(
    distance: Int[Array, "Q S"], *, bidirectional: bool, buckets: int = 32, max_distance: int = 128
) -> Int[Array, "Q S"]:
    """Returns T5's bucket of a distance, which is key position - query position.

    Half of the buckets hold one distance each; the others grow logarithmically up to
    `max_distance`. If `bidirectional`, each direction has half of the buckets. With 32 buckets and
    one direction: -3 -> 3, -15 -> 15, -16 -> 16, -40 -> 23, -127 and below -> 31, 2 -> 0.
    """
    offset = jnp.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        offset = jnp.where(distance > 0, buckets, 0)
        distance = jnp.abs(distance)
    else:
        distance = jnp.maximum(-distance, 0)
    exact_buckets = buckets // 2
    ratio = jnp.log(jnp.maximum(distance, 1) / exact_buckets) / jnp.log(
        max_distance / exact_buckets
    )
    far_bucket = exact_buckets + (ratio * (buckets - exact_buckets)).astype(distance.dtype)
    return offset + jnp.where(
        distance < exact_buckets, distance, jnp.minimum(far_bucket, buckets - 1)
    )


@jax.custom_vjp
def _scores(
    query: Float[Array, "B H Q K"],
    keys: Float[Array, "B H S K"],
    bias: Float[Array, "1 H #Q S"] | None,
) -> Float[Array, "B H Q S"]:
    """Returns query @ keys^T + bias in float32.

    Its gradient reads the scores' gradient in the type of `query`: in bfloat16 it is half as large
    in memory, which limits attention over short sequences. The bias' gradient, a sum over rows, is
    a product with ones: on a CPU, XLA's sum over a leading axis takes fifty times as long.
    """
    scores = jnp.matmul(query, jnp.swapaxes(keys, 2, 3), preferred_element_type=float)
    return scores if bias is None else scores + bias


def _scores_forward(query: Array, keys: Array, bias: Array | None) -> tuple[Array, tuple]:
    return _scores(query, keys, bias), (query, keys, bias)


def _scores_backward(
    operands: tuple[Array, Array, Array | None], gradient: Array
) -> tuple[Array, Array, Array | None]:
    query, keys, bias = operands
    gradient = gradient.astype(query.dtype)
    by_query = jnp.matmul(gradient, keys)
    by_keys = jnp.matmul(jnp.swapaxes(gradient, 2, 3), query)
    if bias is None:
        return by_query, by_keys, None
    rows = jnp.ones((1, query.shape[0]), query.dtype)
    by_bias = jnp.matmul(rows, gradient.reshape(query.shape[0], -1), preferred_element_type=float)
    by_bias = by_bias.reshape(1, *gradient.shape[1:])
    return by_query, by_keys, by_bias.sum(axis=2, keepdims=True) if bias.shape[2] == 1 else by_bias


_scores.defvjp(_scores_forward, _scores_backward)


def _alignment_nll(
    weights: Float[Array, "B H Q S"], alignment: Int[Array, "B Q"]
) -> Float[Array, "B Q"]:
    aligned = alignment[:, None, :, None] == jnp.arange(weights.shape[-1])
    weight = jnp.where(aligned, weights, 0.0).sum(axis=-1).mean(axis=1)
    return jnp.where(alignment < 0, 0.0, -jnp.log(weight + 1e-9))
