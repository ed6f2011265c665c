"""The engine of a translating command: its name, search options and weights."""

import argparse
import sys
from typing import Any


def engine_of(args: argparse.Namespace) -> str:
    """Returns the engine: that of the flag, else of a binding, else 'jax'."""
    from mmt import config, translate

    bound = config.bound(translate.Translator.load, "engine")
    return str(args.engine or bound or "jax")


def ensemble_of(args: argparse.Namespace) -> list[str]:
    """Returns the further runs of an ensemble: those of the flag, else of a binding."""
    from mmt import config, translate
    from mmt.translate import placement

    bound = config.bound(translate.Translator.load, "ensemble") or ()
    placement.check_runs(bound)
    return list(getattr(args, "ensemble", None) or bound)


def weights_of(args: argparse.Namespace) -> str | None:
    """Returns the weights: those of the flag, else of a binding, else the command's default.

    It is None for a command that keeps the weights as they were trained unless they are bound.
    """
    from mmt import config, translate

    if not hasattr(args, "default_weights"):
        return None
    bound = config.bound(translate.Translator.load, "weights")
    return getattr(args, "weights", None) or bound or args.default_weights


def decoding_of(args: argparse.Namespace, **defaults: Any) -> Any:
    """Returns the decoding options; a flag wins over a binding, and a binding over `defaults`.

    Unless it is bound, `search_style` is that of the engine.
    """
    from mmt import config, translate

    names = ("beam", "alpha", "nbest")
    flags = {name: getattr(args, name, None) for name in names}
    if engine_of(args) == "ctranslate2":
        defaults["search_style"] = "hf"
    options = {
        name: value
        for name, value in defaults.items()
        if config.bound(translate.Decoding, name) is None
    } | {name: value for name, value in flags.items() if value is not None}
    return config.configured(translate.Decoding)(**options)


def fastest_weights(engine: str) -> str:
    """Returns the fastest weights of an engine on this device."""
    from mmt.model import inference

    return "int8" if engine == "ctranslate2" else inference.fastest_weights()


def fastest_batches() -> dict[str, bool]:
    """Returns options of `Translator.load` by which few lines are fast; a binding wins over them.

    In float32, near-ties can then differ with the lines that are translated together.
    """
    from mmt import config, translate

    bound = config.bound(translate.Translator.load, "fixed_batch_size")
    return {} if bound is not None else {"fixed_batch_size": False}


def announce(engine: str, weights: str, setting: str) -> None:
    """Names the chosen weights on stderr, and how to set them."""
    engine_part = "" if engine == "jax" else f"engine: {engine}, "
    print(f"{engine_part}weights: {weights} ({setting})", file=sys.stderr)


def recorded(translator: Any, decoding: Any) -> str:
    """Returns the decoding as recorded in rows of results, with the engine unless it is JAX.

    It also names the weights, unless they are as the model was trained.
    """
    from mmt import config, translate

    if translator.ctranslate2 is not None:
        return f"{decoding}|engine:ctranslate2|weights:{translator.ctranslate2.weights}"
    weights = config.bound(translate.Translator.load, "weights")
    is_converted = weights is not None and translator.layout is None
    return f"{decoding}|weights:{weights}" if is_converted else str(decoding)
