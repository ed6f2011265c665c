"""The commands `mmt data …`, and the cache that other commands need.

Imports are lazy. Results go to stdout, messages to stderr.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmt.run import Run


def make_cache() -> None:
    """Builds the cache of the loaded configuration if it is missing."""
    from mmt import config
    from mmt.data import recipe
    from mmt.system import status

    cache = config.configured(recipe.CacheConfig)()
    status.begin("comparing the cache with the corpus")
    if cache.present():
        return
    status.begin("loading TensorFlow and SeqIO")
    try:
        from tasks import build
    except ImportError as error:
        raise ValueError(
            f"there is no cache in {cache.directory}, and building it needs the extra [data] "
            f"(pip install 'mmt[data]'): {error}"
        ) from error
    status.begin("reading the corpus")
    build.ensure_cache(cache)


def make_identifier(run: "Run") -> None:
    """Trains the language identifier of the loaded configuration's run if it is missing."""
    from mmt import config, identify
    from mmt.data import cache, recipe
    from mmt.system import status

    status.begin("training the language identifier")
    settings = config.configured(identify.IdentifierConfig)()
    source = config.configured(recipe.CacheConfig)()
    built_cache = cache.open_cache(Path(source.directory))
    if reason := identify.add_to_run(run, source.corpus, cache=built_cache, config=settings):
        print(f"mmt: the run has no language identifier: {reason}", file=sys.stderr)


def as_json(row: Any) -> str:
    """Returns a row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False)


def _prepare(args: argparse.Namespace) -> None:
    """Cleans the given corpus, or builds the cache of the given configuration."""
    if bool(args.corpus) == bool(args.gin_file):
        raise ValueError("expected CORPUS and --out DIR, or --gin_file FILE")
    if args.corpus:
        return _clean(args)
    if args.out or args.rules or args.testset or args.explain or args.language:
        raise ValueError("--out, --rules, --testset, --explain and --language belong to CORPUS")
    from mmt import config
    from mmt.data import recipe

    config.load(args.gin_file, args.bindings)
    make_cache()
    print(config.configured(recipe.CacheConfig)().directory)


def _clean(args: argparse.Namespace) -> None:
    from eval import testsets
    from mmt import config
    from mmt.data import corpora
    from mmt.data.cleaning import cascade, prepare, rulebook

    if bool(args.out) == bool(args.explain) or bool(args.language) != bool(args.explain):
        raise ValueError("expected --out DIR, or --explain 'SOURCE<TAB>TARGET' --language NAME")
    config.bind(args.bindings, [prepare.prepare])
    corpus = corpora.load(args.corpus)
    book = cascade.rules_of(corpus, rulebook.read(Path(args.rules)) if args.rules else None)
    tests = testsets.lines(args.testset, target=corpus.target)
    if not args.explain:
        report = config.configured(prepare.prepare)(corpus, Path(args.out), book=book, tests=tests)
        print(f"{report.table()}\n\n{report.rules}" if args.verbose else report.table())
        print(f"{args.out}: report.html, report.txt", file=sys.stderr)
        return
    sides = args.explain.replace("\\t", "\t").split("\t")
    if len(sides) != 2:
        raise ValueError(f"--explain {args.explain!r}: expected source<TAB>target")
    all_tests = cascade.test_sets(corpus, tests)
    print(cascade.explain(corpus, (sides[0], sides[1]), args.language, book=book, tests=all_tests))


def _split(args: argparse.Namespace) -> None:
    """Holds out the given numbers of pairs; by default for the splits that the corpus lacks."""
    from mmt.data import corpora
    from mmt.data.cleaning import held_out
    from mmt.system import environment

    given = {"validation": args.validation, "test": args.test}
    sizes = {split: size for split, size in given.items() if size is not None}
    if not sizes:
        existing = corpora.load(args.corpus).files
        sizes = {split: held_out.PAIRS for split in given if not existing[split]}
    if not sizes:
        raise ValueError(f"{args.corpus} has [validation] and [test] already")
    made = held_out.hold_out(args.corpus, sizes, processes=environment.cores())
    for split, by_language in made.items():
        numbers = by_language.values()
        print(
            f"{split}: {sum(numbers)} pairs of {len(numbers)} languages, {min(numbers)} to "
            f"{max(numbers)} each",
            file=sys.stderr,
        )
    print(corpora.check_place(args.corpus))


def _languages(args: argparse.Namespace) -> None:
    from mmt import languages

    rows = languages.rows()
    print("\n".join(map(as_json, rows)) if args.json else languages.table())


def _stats(args: argparse.Namespace) -> None:
    from mmt.data import corpora, stats

    corpus = corpora.load(args.corpus)
    for line in stats.describe_entries(corpus):
        print(line, file=sys.stderr)
    rows = stats.stats(corpus, args.temperature)
    print("\n".join(map(as_json, rows)) if args.json else stats.table(rows))


def _align(args: argparse.Namespace) -> None:
    """Aligns the words of the given cache, or of that of the given configuration."""
    from mmt import config
    from mmt.data import alignment, cache, recipe

    if bool(args.cache) == bool(args.gin_file):
        raise ValueError("expected CACHE, or --gin_file FILE")
    aligner_bindings = [
        binding for binding in args.bindings if "Aligner." in binding.partition("=")[0]
    ]
    directory = args.cache
    if args.gin_file:
        config.load(
            args.gin_file, [binding for binding in args.bindings if binding not in aligner_bindings]
        )
        make_cache()
        directory = config.configured(recipe.CacheConfig)().directory
    config.bind(aligner_bindings if args.gin_file else args.bindings, [alignment.Aligner])
    aligner = config.configured(alignment.Aligner)()
    os.nice(10)
    codes = aligner(cache.open_cache(Path(directory)))
    print(f"languages aligned: {len(codes)}", file=sys.stderr)
    print(directory)


def _identify(args: argparse.Namespace) -> None:
    """Trains the language identifier of a run on a corpus; updates the sums of a published model.
    """
    from mmt import config, identify
    from mmt.checkpoint import published
    from mmt.data import corpora
    from mmt.data.cache.manifest import read_manifest
    from mmt.run import Run

    config.bind(args.bindings, [identify.IdentifierConfig])
    settings = config.configured(identify.IdentifierConfig)()
    run = Run(args.model)
    run.check_is_model()
    corpus = corpora.load(args.corpus)
    with published.updated(run.directory):
        identifier = identify.train_on_corpus(corpus, config=settings)
        identifier.save(run.directory)
    if missing := sorted(set(read_manifest(run.manifest).translated) - set(identifier.codes)):
        print(f"{args.corpus} has no text in {', '.join(missing)}", file=sys.stderr)
    print(run.identifier)


def _forecast(args: argparse.Namespace) -> None:
    from mmt.data.forecast import fitting, forecast, request

    if args.bindings and not args.gin_file:
        raise ValueError("--gin.… bindings change a gin file: name it with --gin_file")
    fields = request.ForecastArguments._fields
    arguments = request.ForecastArguments(*(getattr(args, name) for name in fields))
    mixture_forecast, fitted = request.make_forecast(arguments, args.gin_file or (), args.bindings)
    if args.figure:
        from eval.report.figures import mixture

        mixture.save(mixture_forecast, Path(args.figure))
    print(
        "\n".join(map(as_json, mixture_forecast.rows))
        if args.json
        else forecast.table(mixture_forecast)
    )
    if fitted:
        print(fitting.gin(fitted), file=sys.stderr if args.json else sys.stdout)


def _consumed(args: argparse.Namespace) -> None:
    from mmt.data import ledger

    consumed = ledger.load(args.model_dir)
    print("\n".join(map(as_json, consumed["rows"])) if args.json else ledger.table(consumed))


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "languages": _languages, "stats": _stats, "prepare": _prepare, "forecast": _forecast,
    "consumed": _consumed, "align": _align, "identify": _identify, "split": _split,
}  # fmt: skip
