"""Takes one language's experts out of a model that routes by language, into a dense model.

The router of such a layer sees only the language, so a language always uses the same experts with
the same weights. Their sum is one MLP: the hidden units side by side, the output weights multiplied
by the gates. Logits stay the same, and translation costs what a dense model costs.
"""

from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from mmt import languages
from mmt.convert import derived
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.model.balance import NAME as BIAS
from mmt.model.config import Config
from mmt.model.expert_load import token_weights
from mmt.run import Run

_STACKS = ("encoder", "decoder")
_Weights = dict[str, np.ndarray]  # by flat name (`mmt.model.parameter_names`)


def extract(model_dir: str | Path, names: Sequence[str], out: str | Path) -> None:
    """Writes the run directory `out` with the experts that some languages use, as dense layers.

    Layers that route by token keep their experts. Layers are padded with zeros to one width, the
    widest of them, which is `Config.mlp_dim` of the new model.

    Args:
        model_dir: a run directory whose model routes by language.
        names: codes or names of languages, which must use the same experts with the same weights.
        out: a new directory.

    Raises:
        ValueError: the model does not route by language or mixes a shared MLP by a gate, a language
            is not in it, the languages use different experts, or `out` exists.
    """
    run = Run(model_dir)
    codes = check(run, names)
    model, manifest = run.model(), read_manifest(run.manifest)
    flat = derived.parameters(run)
    mlps = _routed_mlps(flat, model.config)
    _check_together(codes, {mlp: _gates(flat, mlp, model.config) for mlp in mlps}, manifest)
    language = manifest.languages.index(codes[0])
    for mlp in mlps:
        merge(flat, mlp, _gates(flat, mlp, model.config)[language], model.config)
    width = pad(flat)
    bindings = _bindings(model.config, width)
    derived.write_run(run, out, bindings, manifest.only(codes), flat)


def check(run: Run, names: Sequence[str]) -> list[str]:
    """Returns the codes of languages, in the order of the run's manifest.

    Raises ValueError unless its model routes by language alone and has them.
    """
    c = run.model().config
    if not c.languages:
        raise ValueError(
            f"{run.directory} does not route by language, so no experts belong to one; allowed: a "
            "model with Config.encoder_routing or decoder_routing = language. From a model that "
            "routes by token take the experts that the languages use most (--experts N)"
        )
    if c.moe.gate_budget:
        raise ValueError(
            f"{run.directory} mixes experts and a shared MLP by a gate of each token "
            f"(MoeConfig.gate_budget = {c.moe.gate_budget}), which no dense layer can do; allowed: "
            "a model without a gate. Distil this one (`mmt distill`)"
        )
    return codes_of(names, read_manifest(run.manifest))


def codes_of(names: Sequence[str], manifest: Manifest) -> list[str]:
    """Returns the codes of languages in the order of the manifest."""
    requested = [languages.find(name) for name in names]
    for language in requested:
        if language.code not in manifest.translated:
            nearest = languages.nearest(language, manifest.translated)
            raise ValueError(
                f"the model does not have {language.code} ({language.name}); nearest: "
                f"{', '.join(candidate.code for candidate in nearest)}"
            )
    return sorted({language.code for language in requested}, key=manifest.languages.index)


def _routed_mlps(flat: _Weights, c: Config) -> list[str]:
    """Returns the prefixes ('decoder/1/mlp') of the layers that route by language."""
    return [
        name.removesuffix("/router")
        for name in flat
        if name.endswith("/mlp/router") and c.routing_table(name.partition("/")[0])
    ]


def _gates(flat: _Weights, mlp: str, c: Config) -> np.ndarray:
    """Returns the weight of each expert for each language [L E] in translation, by the router."""
    dtype = float if c.moe.router_dtype == "float32" else jnp.bfloat16
    bias = jnp.asarray(flat[f"{mlp}/{BIAS}"]) if c.moe.balance_rate else None
    weights = token_weights(c.moe, jnp.asarray(flat[f"{mlp}/router"]).astype(dtype), bias)
    return np.asarray(weights) * output_scale(c)


def output_scale(c: Config) -> float:
    """Returns the factor of the experts' output in translation, by expert output masking."""
    return (1 - c.moe.output_masking) * (1 - c.moe.final_output_masking)


def _check_together(codes: Sequence[str], gates: dict[str, np.ndarray], manifest: Manifest) -> None:
    """Raises ValueError unless the languages have the same gates in all layers."""
    together: dict[bytes, list[str]] = {}
    for code in codes:
        index = manifest.languages.index(code)
        of_layers = np.concatenate([layer[index] for layer in gates.values()])
        together.setdefault((of_layers.round(5) + 0.0).tobytes(), []).append(code)
    if len(together) > 1:
        raise ValueError(
            f"{', '.join(codes)} use different experts, or the same with different weights, and "
            "one dense model cannot hold both; these can be extracted together: "
            f"{'; '.join(', '.join(group) for group in together.values())}"
        )


def merge(flat: _Weights, mlp: str, gates: np.ndarray, c: Config) -> None:
    """Replaces a layer's experts, router and added shared MLP by one MLP of the used experts."""
    used = np.flatnonzero(gates)
    for i in range(len(c.mlp_activations)):
        parts = [*flat[f"{mlp}/wi_{i}"][used]]
        if c.moe.shared_mlp_dim:
            parts.append(flat.pop(f"{mlp}/shared/wi_{i}"))
        flat[f"{mlp}/wi_{i}"] = np.concatenate(parts, axis=1)
    parts = [gates[expert] * flat[f"{mlp}/wo"][expert] for expert in used]
    if c.moe.shared_mlp_dim:
        parts.append(flat.pop(f"{mlp}/shared/wo"))
    flat[f"{mlp}/wo"] = np.concatenate(parts, axis=0)
    for name in ("router", BIAS):
        flat.pop(f"{mlp}/{name}", None)


def pad(flat: _Weights) -> int:
    """Adds hidden units of zeros, so that all dense MLPs have one width; returns the width."""
    dense = {name for name, leaf in flat.items() if "/mlp/w" in name and leaf.ndim == 2}
    outputs = [name for name in dense if name.endswith("/wo")]
    width = max(flat[name].shape[0] for name in outputs)
    for name in dense:
        axis = 0 if name.endswith("/wo") else 1
        padding = [(0, 0), (0, 0)]
        padding[axis] = (0, width - flat[name].shape[axis])
        flat[name] = np.pad(flat[name], padding)
    return width


def _bindings(c: Config, width: int) -> list[str]:
    """Returns the bindings of the sizes of the new model."""
    depth = {"encoder": c.encoder_layers, "decoder": c.decoder_layers}
    routing = {
        stack: "none" if c.routing_table(stack) else getattr(c, f"{stack}_routing")
        for stack in _STACKS
    }
    kept = any(kind == "token" and c.moe_period <= depth[at] for at, kind in routing.items())
    if not kept:
        routing = dict.fromkeys(_STACKS, "token")
    bindings = [
        f"transformer.Config.mlp_dim = {width}",
        "transformer.Config.languages = 0",
        f"transformer.Config.moe_period = {c.moe_period if kept else 0}",
        *(f"transformer.Config.{stack}_routing = '{kind}'" for stack, kind in routing.items()),
    ]
    if kept:
        bindings.append(f"moe.MoeConfig.mlp_dim = {c.moe.mlp_dim or c.mlp_dim}")
    return bindings
