"""Adapts `Transformer` to T5X: `t5x.train`, `t5x.eval` and `t5x.infer` run it by gin.

`Module` has the methods and the cache that T5X expects, `Model` the loss and the axes of the
parameters. Parameters, their names and the loss are ours. gin_configs/t5x binds them. This is the
only `import t5x`. T5X is in no package registry; docs/t5x.md describes its installation.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import core
from flax import linen as nn
from flax.linen.partitioning import AxisMetadata
from jaxtyping import Array, Float, Shaped
from t5x import metrics, models

from mmt import losses
from mmt.model import moe
from mmt.model.kv_cache import KVCache
from mmt.model.transformer import Transformer

Tokens = Shaped[Array, "B T"]  # T5X passes some as float32
CACHE = ("cached_key", "cached_value", "cache_index")  # T5X recognises the counter by its name


class Module(Transformer):
    """A `Transformer` with the methods of a T5X encoder-decoder and the same parameters.

    Positions are accepted and ignored: attention stays within a segment (see `Transformer`).
    """

    scan_layers = True  # tells T5X that the batch axis of the cache is 1, after the layers

    def __call__(
        self,
        encoder_input_tokens: Shaped[Array, "B S"],
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens | None = None,
        encoder_segment_ids: Shaped[Array, "B S"] | None = None,
        decoder_segment_ids: Tokens | None = None,
        encoder_positions: Shaped[Array, "B S"] | None = None,
        decoder_positions: Tokens | None = None,
        *,
        decoder_alignment: Tokens | None = None,
        decoder_language_ids: Shaped[Array, "B T"] | None = None,
        decode: bool = False,
        enable_dropout: bool = True,
    ) -> Float[Array, "B T V"]:
        """Returns teacher-forced logits; `decode` also creates a cache of the targets' shape."""
        del decoder_target_tokens, encoder_positions, decoder_positions
        if decode:
            self._put(self.empty_cache(*decoder_input_tokens.shape))
        return super().__call__(
            _ids(encoder_input_tokens),
            _ids(decoder_input_tokens),
            encoder_segment_ids=_ids(encoder_segment_ids),
            decoder_segment_ids=_ids(decoder_segment_ids),
            decoder_alignment=_ids(decoder_alignment),
            decoder_language_ids=decoder_language_ids,
            enable_dropout=enable_dropout,
        )

    def encode(
        self,
        encoder_input_tokens: Shaped[Array, "B S"],
        encoder_segment_ids: Shaped[Array, "B S"] | None = None,
        *,
        language_ids: Shaped[Array, "B"] | None = None,
        enable_dropout: bool = True,
    ) -> Float[Array, "B S D"]:
        """Returns the encoder's normalised output."""
        return super().encode(
            _ids(encoder_input_tokens),
            encoder_segment_ids=_ids(encoder_segment_ids),
            language_ids=language_ids,
            enable_dropout=enable_dropout,
        )

    def decode(
        self,
        encoded: Float[Array, "B S D"],
        encoder_input_tokens: Shaped[Array, "B S"],
        decoder_input_tokens: Shaped[Array, "B 1"],
        decoder_target_tokens: Shaped[Array, "B 1"] | None = None,
        *,
        enable_dropout: bool = False,
        decode: bool = True,
        max_decode_length: int | None = None,
    ) -> Float[Array, "B 1 V"]:
        """Decodes one step of T5X's search and extends the cache.

        Returns the logits that follow `decoder_input_tokens`. The keys and values of `encoded` do
        not change, so XLA moves them out of the loop.
        """
        del decoder_target_tokens, max_decode_length
        if enable_dropout or not decode:
            raise ValueError("Module.decode needs enable_dropout=False and decode=True")
        cross_kv = self.cross_kv(encoded, _ids(encoder_input_tokens))
        cache = KVCache(*(self.get_variable("cache", name) for name in CACHE))
        logits, cache = self.decode_step(_ids(decoder_input_tokens)[:, 0], cross_kv, cache)
        self._put(cache)
        return logits[:, None]

    def _put(self, cache: KVCache) -> None:
        for name, value in zip(CACHE, cache, strict=False):  # T5X's search reorders the rows itself
            self.put_variable("cache", name, value)


class Model(models.EncoderDecoderModel):
    """T5X's model of a `Module`, with T5X's optimizer, metrics, scores and searches, and our loss.

    The loss is that of `mmt train`: `objective` per target token of the batch, plus the routers'
    losses. T5X sums gradients of microbatches, so `num_microbatches` multiplies them.

    Raises:
        ValueError: a vocabulary has more pieces than the module has embeddings, or targets do not
            start with 0, as T5X requires.
    """

    def __init__(
        self,
        module: Module,
        input_vocabulary: Any,
        output_vocabulary: Any,
        optimizer_def: Any,
        *,
        objective: losses.Objective = losses.Objective(),  # noqa: B008  (frozen)
        **options: Any,
    ) -> None:
        super().__init__(
            module, input_vocabulary, output_vocabulary, optimizer_def,
            label_smoothing=objective.label_smoothing, z_loss=objective.z_loss, **options,
        )  # fmt: skip
        self.objective = objective
        config = module.config
        for name in ("pad_id", "start_id"):
            if getattr(config, name):
                raise ValueError(f"Config.{name} = {getattr(config, name)}; in T5X allowed: 0")
        if config.moe_period and config.moe.balance_rate:
            raise ValueError(
                f"MoeConfig.balance_rate = {config.moe.balance_rate}: T5X's trainer does not know "
                "this update; in T5X allowed: 0, with losses.Objective.moe_aux above 0"
            )
        if objective.guided_alignment:
            raise ValueError(
                f"losses.Objective.guided_alignment = {objective.guided_alignment}: batches of "
                "SeqIO have no word alignments; in T5X allowed: 0"
            )
        if config.languages:
            raise ValueError(
                f"Config.encoder_routing = {config.encoder_routing} and decoder_routing = "
                f"{config.decoder_routing}: T5X's batches have no language ids; in T5X allowed: "
                "token"
            )
        sizes = {"input": config.vocab_size, "output": config.target_vocabulary}
        for side, size in sizes.items():
            vocabulary = getattr(self, f"{side}_vocabulary")
            if vocabulary.vocab_size > size:
                raise ValueError(
                    f"the {side} vocabulary has {vocabulary.vocab_size} pieces, the model only "
                    f"{size} embeddings: set VOCAB_SIZE (or TARGET_VOCAB_SIZE) to "
                    f"{vocabulary.vocab_size} or more"
                )

    def get_initial_variables(self, *arguments: Any, **keywords: Any) -> Any:
        """Returns initial parameters and their logical axes in T5X's format.

        The axes of NAME in `params` are NAME_axes in `params_axes`.
        """
        boxed = core.unfreeze(super().get_initial_variables(*arguments, **keywords))["params"]
        return core.freeze({"params": nn.unbox(boxed), "params_axes": _axes(boxed)})

    def loss_fn(
        self, params: Any, batch: Mapping[str, Array], dropout_rng: Array | None
    ) -> tuple[Float[Array, ""], Any]:
        """Returns the loss per target token, with the routers' losses, and T5X's metrics."""
        logits, sown = self._compute_logits(params, batch, dropout_rng, mutable=["intermediates"])
        complete_batch = _with_loss_features(batch)
        sums = losses.measure(self.objective, logits, complete_batch, languages=1).sums
        weights = complete_batch["decoder_loss_weights"]
        total = sums["loss"] / jnp.maximum(weights.sum(), 1.0)
        routing = moe.summarize(sown.get("intermediates", {}))
        if routing:
            total += self.objective.moe_aux * routing["moe_aux_loss"]
            total += self.objective.moe_z * routing["moe_z_loss"]
            if "moe_budget_loss" in routing:
                total += self.objective.moe_budget * routing["moe_budget_loss"]
        batch_metrics = self._compute_metrics(
            logits=logits,
            targets=batch["decoder_target_tokens"],
            mask=weights,
            loss=sums["loss"],
            segment_ids={
                side: complete_batch[f"{side}_segment_ids"] for side in ("encoder", "decoder")
            },
        )
        batch_metrics["nll_per_nonpadding_target_token"] = metrics.AveragePerStep.from_model_output(
            sums["nll"] / jnp.maximum(weights.sum(), 1.0)
        )
        batch_metrics |= {
            f"experts/{name}": metrics.AveragePerStep.from_model_output(value)
            for name, value in routing.items()
        }
        return total, batch_metrics


def _axes(boxed: Mapping[str, Any]) -> dict[str, Any]:
    """Converts {'norm': {'scale': boxed parameter}} to {'norm': {'scale_axes': its axis names}}."""
    axes: dict[str, Any] = {}
    for name, leaf in boxed.items():
        if isinstance(leaf, Mapping):
            axes[name] = _axes(leaf)
        else:
            axes[f"{name}_axes"] = AxisMetadata(names=leaf.names)
    return axes


def _with_loss_features(batch: Mapping[str, Array]) -> dict[str, Any]:
    """Returns SeqIO's batch with the features that `losses.measure` needs.

    These are segments, for rows that are not packed, and language ids: a single language.
    """
    sides = {"encoder": "encoder_input_tokens", "decoder": "decoder_target_tokens"}
    segments = {
        f"{side}_segment_ids": (batch[tokens] > 0).astype(jnp.int32)
        for side, tokens in sides.items()
    }
    targets = batch["decoder_target_tokens"]
    weights = batch.get("decoder_loss_weights", targets > 0)
    return {
        **segments,
        **batch,
        "decoder_loss_weights": weights.astype(jnp.float32),
        "decoder_language_ids": jnp.zeros_like(targets),
    }


def _ids(tokens: Any) -> Any:
    return None if tokens is None else tokens.astype(jnp.int32)
