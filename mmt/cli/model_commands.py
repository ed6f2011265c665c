"""The commands that convert and change models.

Imports are lazy. Results go to stdout, messages to stderr.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmt.cli.data_commands import make_cache
from mmt.system import status


def _import(args: argparse.Namespace) -> None:
    from mmt.convert import hf, t5x

    t5x_arguments = args.vocabulary or (), args.gin_file or (), args.bindings
    if args.format == "t5x":
        t5x.import_t5x(args.directory, args.out, *t5x_arguments)
    elif any(t5x_arguments):
        raise ValueError("a Hugging Face model contains its vocabulary and sizes")
    else:
        hf.import_hf(args.directory, args.out)
    print(args.out)


def _export(args: argparse.Namespace) -> None:
    from mmt.convert import ctranslate2, hf, published, t5x

    if args.format == "mmt":
        from eval import card

        if not (args.card and args.results):
            raise ValueError("a published model needs its card: --card FACTS.toml --results FILE")
        model_card = card.Card(
            Path(args.model), Path(args.card), Path(args.results), dtype=args.dtype
        )
        published.publish(args.model, args.out, dtype=args.dtype, card=model_card.text)
        print(args.out)
        return
    if args.card or args.results or args.dtype != "int8":
        raise ValueError("--card, --results and --dtype are for the format mmt")
    writers = {"hf": hf.export_hf, "t5x": t5x.export_t5x, "t5x_network": t5x.export_network}
    writers.get(args.format, ctranslate2.export)(args.model, args.out)
    print(args.out)


def _average(args: argparse.Namespace) -> None:
    from mmt.convert import average

    average.average(args.models, args.out, args.weights)
    print(args.out)


def _extract(args: argparse.Namespace) -> None:
    if args.languages is not None:
        return _extract_languages(args)
    for flag in ("experts", "corpus", "testset", "baseline"):
        if getattr(args, flag) is not None:
            raise ValueError(f"--{flag} belongs to --languages")
    if args.bindings:
        raise ValueError(f"--gin.{args.bindings[0]} belongs to --languages with --experts N")
    from mmt.convert import trim
    from mmt.data import corpora
    from mmt.data.cleaning import prepare

    corpus = prepare.cleaned(corpora.load(args.pieces))
    pieces_before, pieces_after = trim.trim(args.model, corpus, args.out)
    print(f"{args.out}: {pieces_after:,} of {pieces_before:,} target pieces")


def _extract_languages(args: argparse.Namespace) -> None:
    if args.bindings and args.experts is None:
        raise ValueError(f"--gin.{args.bindings[0]} belongs to --languages with --experts N")
    status.begin("loading libraries")
    from eval import extraction
    from mmt.run import Run

    names = args.languages.split(",")
    if args.baseline is not None:
        extraction.check_baseline(args.baseline, names)
    take = _extract_routed if args.experts is None else _extract_most_used
    testset = take(args, Run(args.model), names)
    status.begin("comparing the models")
    comparison = extraction.compare(args.model, args.out, testset, baseline=args.baseline)
    status.end()
    print(comparison.table())
    print(args.out)


def _extract_routed(args: argparse.Namespace, run: Any, names: list[str]) -> Any:
    """Writes a dense model of the experts to which the languages are routed; returns a test set."""
    from eval import extraction
    from mmt.convert import expert_pruning, extract
    from mmt.data.cache.manifest import read_manifest

    codes = extract.check(run, names)
    name = args.corpus or expert_pruning.corpus_that_is_here(run)
    testset = extraction.scoring_set(args.testset, name, codes, read_manifest(run.manifest))
    extract.extract(args.model, names, args.out)
    return testset


def _extract_most_used(args: argparse.Namespace, run: Any, names: list[str]) -> Any:
    """Writes a model of the experts that the languages use most; returns a test set."""
    from eval import extraction
    from mmt import config
    from mmt.convert import expert_pruning
    from mmt.data import corpora
    from mmt.data.cache.manifest import read_manifest

    config.bind(args.bindings, [expert_pruning.Pruning])
    options = config.configured(expert_pruning.Pruning)()
    codes = expert_pruning.check(run, names, args.experts, options)
    name = args.corpus or expert_pruning.corpus_of(run)
    testset = extraction.scoring_set(args.testset, name, codes, read_manifest(run.manifest))
    status.begin("measuring the load of the experts")
    pruned = expert_pruning.prune(
        args.model, codes, args.experts, args.out, corpus=corpora.load(name), options=options
    )
    status.end()
    print(pruned.table(), flush=True)
    command = expert_pruning.recovery_command(run, args.out, codes)
    print(f"train it further: {command}", file=sys.stderr)
    return testset


def _extend(args: argparse.Namespace) -> None:
    from mmt import config
    from mmt.convert import extend
    from mmt.data import cache, corpora, recipe
    from mmt.data.cleaning import prepare
    from mmt.run import Run

    config.bind(args.bindings, [extend.Extension])
    flag_values = {"pieces": args.pieces, "rehearsal": args.rehearsal}
    flags = {name: value for name, value in flag_values.items() if value is not None}
    options = config.configured(extend.Extension)(**flags)
    run, corpus = Run(args.model), corpora.load(args.corpus)
    if args.languages is not None:
        corpus = corpus.only(args.languages.split(","))
    extend.check(run, corpus, args.out)
    with config.isolated(run.config):
        try:
            make_cache()
        except ValueError as error:
            raise ValueError(f"the data that {args.model} was trained on: {error}") from error
        directory = config.configured(recipe.CacheConfig)().directory
    corpus = prepare.cleaned(corpora.load(args.corpus)).only(corpus.languages)
    extended = extend.extend(
        run, corpus, args.out, old=cache.open_cache(Path(directory)), options=options
    )
    print(extended.summary(), file=sys.stderr)
    print(
        f"train it: mmt train --gin_file={Run(args.out).config} --gin.MODEL_DIR={args.out}-trained",
        file=sys.stderr,
    )
    print(args.out)


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "import": _import, "export": _export, "extract": _extract, "extend": _extend,
    "average": _average,
}  # fmt: skip
