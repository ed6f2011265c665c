"""Losses: cross entropy with label smoothing and z-loss, and what a MoE adds to it.

Sums over target tokens, not means: the trainer divides by the number of tokens of the whole batch,
so that micro-batches, devices and padding do not change the gradient.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@dataclasses.dataclass(frozen=True)
class Objective:
    """The weights of the loss's parts.

    label_smoothing: the share of probability that goes evenly to all pieces (Vaswani et al. 2017).
    z_loss: weight of log²Z of the output softmax, as in T5X (1e-4 there).
    moe_aux: weight of the load-balancing loss; GShard's code and Switch (eq. 4) use 1e-2.
    moe_z: weight of the router z-loss; ST-MoE (eq. 5) uses 1e-3.
    """

    label_smoothing: float = 0.1
    z_loss: float = 0.0
    moe_aux: float = 1e-2
    moe_z: float = 0.0


def cross_entropy(
    logits: Float[Array, "B T V"],
    targets: Int[Array, "B T"],
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """The loss of every target token, with smoothing and z-loss, and without: (loss, nll), in nats.

    The smoothed target gives 1 - s to the right piece and s / V to every piece, so that
    loss = (1 - s) nll + s (log Z - mean logit) + z_loss log²Z. Never materialises a [B, T, V]
    one-hot.
    """
    logits = logits.astype(jnp.float32)
    log_z = jax.nn.logsumexp(logits, axis=-1)
    right = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    nll = log_z - right
    loss = nll
    if label_smoothing:
        even = log_z - logits.mean(axis=-1)
        loss = (1 - label_smoothing) * nll + label_smoothing * even
    if z_loss:
        loss = loss + z_loss * jnp.square(log_z)
    return loss, nll
