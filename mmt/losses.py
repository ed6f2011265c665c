"""Losses: cross entropy with label smoothing and z-loss, and the divergence from a teacher.

Sums over target tokens, not means: the trainer divides by the number of tokens of the whole batch,
so that micro-batches, devices and padding do not change the gradient.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mmt.metrics import Meters, by_language


@dataclasses.dataclass(frozen=True)
class Objective:
    """The weights of the loss's parts.

    label_smoothing: the probability that is spread evenly over all pieces (Vaswani et al. 2017).
    z_loss: weight of log²Z of the output softmax, as in T5X (1e-4 there).
    moe_aux: weight of the load-balancing loss; GShard's code and Switch (eq. 4) use 1e-2.
    moe_z: weight of the router z-loss; ST-MoE (eq. 5) uses 1e-3.
    moe_budget: weight of the budget loss of conditional routing (`MoeConfig.gate_budget`); 0.1 in
        fairseq's branch nllb.
    teacher: the weight of the teacher, if there is one; labels have the rest. Switch uses 0.25.
    guided_alignment: weight of the loss of guided cross-attention (Chen et al. 2016), -log of the
        weight of the aligned source token; 0.1 in Marian. It needs batches with alignments.
    guided_layer: the decoder layer whose cross-attention it guides; -1: the last one.
    """

    label_smoothing: float = 0.1
    z_loss: float = 0.0
    moe_aux: float = 1e-2
    moe_z: float = 0.0
    moe_budget: float = 0.1
    teacher: float = 0.25
    guided_alignment: float = 0.0
    guided_layer: int = -1

    def __post_init__(self) -> None:
        if not 0 <= self.teacher <= 1:
            raise ValueError(f"losses.Objective.teacher = {self.teacher}; allowed: 0 to 1")
        if self.guided_alignment < 0:
            weight = self.guided_alignment
            raise ValueError(f"losses.Objective.guided_alignment = {weight}; allowed: 0 or more")


def alignments(objective: Objective, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the model's inputs for guided cross-attention; none if the objective has no weight.

    Raises ValueError where the batches have no alignments.
    """
    if not objective.guided_alignment:
        return {}
    if "decoder_alignment" not in batch:
        raise ValueError(
            f"losses.Objective.guided_alignment = {objective.guided_alignment} needs word "
            "alignments, which the batches do not have: run `mmt data align`, and set "
            "pipeline.train_batches.alignment = True"
        )
    return {"decoder_alignment": batch["decoder_alignment"]}


def measure(
    objective: Objective, logits: Float[Array, "B T V"], batch: Mapping[str, Any], *, languages: int
) -> Meters:
    """Returns the sums over target tokens of a batch: loss, nll, accuracy; loss also by language.

    Batches with `decoder_corpus_ids` give the loss by corpus of each language in place of that by
    language; `languages` is then the number of these ids.

    A token is right if no other logit exceeds its logit; `argmax` takes 30 times as long on a CPU.
    With `teacher_logits` in the batch, `teacher_loss` is the teacher's part of the loss.
    """
    weights, targets = batch["decoder_loss_weights"], batch["decoder_target_tokens"]
    loss, nll = cross_entropy(
        logits, targets, label_smoothing=objective.label_smoothing, z_loss=objective.z_loss
    )
    sums = {}
    if "teacher_logits" in batch:
        teacher_nats = divergence(logits, batch["teacher_logits"])
        loss = (1 - objective.teacher) * loss + objective.teacher * teacher_nats
        sums["teacher_loss"] = (teacher_nats * weights).sum()
    target_logit = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    is_correct = target_logit >= logits.max(axis=-1)
    source_tokens = (batch["encoder_segment_ids"] > 0).sum()
    ids = batch.get("decoder_corpus_ids", batch["decoder_language_ids"])
    sums |= {
        "loss": (loss * weights).sum(),
        "nll": (nll * weights).sum(),
        "accuracy": (is_correct * weights).sum(),
        "target_tokens": weights.sum(),
        "tokens": weights.sum() + source_tokens.astype(float),
    }
    return Meters(
        sums,
        by_language(jax.lax.stop_gradient(nll) * weights, ids, languages),
        by_language(weights, ids, languages),
    )


def cross_entropy(
    logits: Float[Array, "B T V"],
    targets: Int[Array, "B T"],
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """Returns (loss, nll) of every target token in nats; loss includes smoothing and z-loss.

    The smoothed target gives 1 - s to the right piece and s / V to every piece, so that
    loss = (1 - s) nll + s (log Z - mean logit) + z_loss log²Z. Never materialises a [B, T, V]
    one-hot.
    """
    logits = logits.astype(float)
    log_z = jax.nn.logsumexp(logits, axis=-1)
    target_logit = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    nll = log_z - target_logit
    loss = nll
    if label_smoothing:
        uniform_nll = log_z - logits.mean(axis=-1)
        loss = (1 - label_smoothing) * nll + label_smoothing * uniform_nll
    if z_loss:
        loss = loss + z_loss * jnp.square(log_z)
    return loss, nll


def divergence(
    logits: Float[Array, "B T V"], teacher: Float[Array, "B T V"]
) -> Float[Array, "B T"]:
    """Returns KL(teacher || student) of every target token, in nats: 0 where they agree.

    It differs from the cross entropy with the teacher's probabilities (Hinton et al. 2015) by the
    teacher's entropy, a constant. With weight w, and 1 - w for `cross_entropy`, the gradient is
    that of the targets w p_teacher + (1 - w) label, the mixture of Switch (4.2).
    """
    student = jax.nn.log_softmax(logits.astype(float), axis=-1)
    teacher = jax.nn.log_softmax(jax.lax.stop_gradient(teacher).astype(float), axis=-1)
    return jnp.sum(jnp.exp(teacher) * (teacher - student), axis=-1)
