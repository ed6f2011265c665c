"""`mmt translate`: lines of stdin, documents, many files, and monolingual text of a corpus.

Imports are lazy. Results go to stdout, messages to stderr.
"""

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmt.cli import engines
from mmt.cli.data_commands import as_json

if TYPE_CHECKING:
    from mmt.decoding import Decoding
    from mmt.documents import Locales
    from mmt.translate.bulk import TranslateLines
    from mmt.translate.comet import Reranker
    from mmt.translate.context import ContextTranslator

_BULK_OPTIONS = ("shard_lines", "beam_runner", "pipeline_options")
# Unless they are bound.
_OF_LINES: dict[str, Any] = {
    "split": "sentences", "keep_placeholders": True, "recase_capitals": True,
}  # fmt: skip


def translate(args: argparse.Namespace) -> None:
    """Runs `mmt translate` in the mode that the arguments select."""
    if args.inputs:
        return _translate_in_bulk(args)
    for name in _BULK_OPTIONS:
        if getattr(args, name) is not None:
            raise ValueError(f"--{name} belongs to --in FILES --out DIR")
    if args.file:
        return _translate_file(args)
    if args.overwrite:
        raise ValueError("--overwrite belongs to --file")
    if args.corpus or args.out:
        return _back_translate(args)
    from mmt.translate import arriving_lines

    translate_lines = _line_translator(args)
    if sys.stdin is None:
        raise ValueError("there is no standard input to translate")
    stdin: Any = sys.stdin.buffer
    for row in translate_lines(arriving_lines(stdin), 0):
        print(row, flush=True)


def _line_translator(args: argparse.Namespace) -> "TranslateLines":
    """Loads the model; returns a function that yields the output of each line, in order.

    Its arguments are the lines, and the number of the first one in its file, from 0.
    """
    from mmt import translate

    glossary = translate.Glossary.read(args.glossary) if args.glossary else None
    decoding = _decoding_of_lines(args)
    printed = decoding.nbest
    reranker = _reranker(args)
    translator = _load_translator(args)
    if reranker:
        translator = dataclasses.replace(translator, reranker=reranker)
        decoding = dataclasses.replace(decoding, nbest=decoding.beam)
    search_options = {"source": args.source, "target": args.target, "decoding": decoding}
    options: dict[str, Any] = search_options | {"glossary": glossary}
    if args.risk or args.retry:
        from mmt.translate import retry, risk

        calibration = risk.Calibration.load(args.model)
        translate_all: Callable[[Iterable[str]], Iterator[translate.Translation]] = (
            functools.partial(
                retry.translate, translator, calibration=calibration, retry=args.retry, **options
            )
        )
    else:
        translate_all = functools.partial(
            translator.translate, token_scores=args.format == "jsonl", **options
        )

    def rows(lines: Iterable[str], first: int) -> Iterator[str]:
        if context := _context(args, translator):
            translations = context.translate(lines, **search_options)
        else:
            translations = translate_all(lines)
        for translation in translations:
            translation = translation._replace(line=translation.line + first).best(printed)
            if not args.risk:
                translation = translation._replace(risk=None)
            if args.format == "jsonl":
                yield as_json(translate.to_json(translation))
            else:
                yield translate.format_text(translation, nbest=printed)
        if context:
            print(context.report(), file=sys.stderr)

    return rows


def _reranker(args: argparse.Namespace) -> "Reranker | None":
    """Returns the neural score of --rerank; None without it.

    Raises ValueError for a model that needs references, or languages that it does not know.
    """
    if args.rerank is None:
        return None
    from mmt.data.cache.manifest import read_manifest
    from mmt.run import Run
    from mmt.translate.comet import CometModel, Reranker

    run = Run(args.model)
    run.check_is_model()
    manifest = read_manifest(run.manifest)
    reranker = Reranker(CometModel.find(args.rerank))
    reranker.check(args.source or manifest.source, args.target or manifest.target or "eng")
    return reranker


def _context(args: argparse.Namespace, translator: Any) -> "ContextTranslator | None":
    """Returns the translator of --context; None without it."""
    if args.context is None:
        return None
    from mmt.translate.context import ContextTranslator

    return ContextTranslator(translator, args.context)


def _decoding_of_lines(args: argparse.Namespace) -> "Decoding":
    """Returns the decoding options of lines. Raises ValueError for those that exclude others."""
    decoding = _decoding_of(args, **_OF_LINES)
    if (args.risk or args.retry) and decoding.nbest > 1:
        raise ValueError("--risk and --retry are for one translation of a line; omit --nbest")
    if (args.risk or args.retry) and engines.ensemble_of(args):
        raise ValueError("--risk and --retry are calibrated for one model; omit --ensemble")
    if args.rerank is not None and decoding.beam == 1:
        raise ValueError("--rerank chooses among the hypotheses of a beam; --beam 1 has only one")
    if args.context is not None:
        from mmt.translate.context import check_trained_lines

        excluded_options = {"--risk": args.risk, "--retry": args.retry, "--glossary": args.glossary}
        excluded_options["--rerank"] = args.rerank
        excluded_options["--gin.Decoding.prefix"] = decoding.prefix
        if excluded := [name for name, value in excluded_options.items() if value]:
            raise ValueError(f"--context excludes {', '.join(excluded)}")
        for model in (args.model, *engines.ensemble_of(args)):
            check_trained_lines(model, args.context)
    return decoding


def _translate_in_bulk(args: argparse.Namespace) -> None:
    from mmt.system import lock
    from mmt.translate import bulk

    if not args.out or args.file or args.corpus or args.overwrite:
        raise ValueError("--in FILES needs --out DIR; not --file, --corpus or --overwrite")
    if args.pipeline_options is not None and args.beam_runner is None:
        raise ValueError("--pipeline_options belongs to --beam_runner")
    storage, runner = bulk.Storage(), None
    if args.beam_runner is not None:
        from mmt.translate.bulk import pipeline

        runner = pipeline.BeamRunner(args.beam_runner, args.pipeline_options or "")
        storage = pipeline.BeamStorage()
    remote = storage.is_remote(args.out)
    lines = bulk.SHARD_LINES if args.shard_lines is None else args.shard_lines
    with contextlib.nullcontext() if remote else lock.held(args.out):
        job = bulk.BulkJob.plan(args.inputs, args.out, storage=storage, shard_lines=lines)
        recipe = _recipe(args)
        job.begin(recipe | {"shard_lines": lines})
        args.weights = recipe["weights"]
        load = functools.partial(_line_translator, args)
        if runner is None:
            job.run(load)
        else:
            runner.run(job, load)
    for file in job.files:
        print(file.path)


def _recipe(args: argparse.Namespace) -> dict[str, Any]:
    """Returns all settings that determine the translation of a line."""
    from mmt import config, languages
    from mmt.run import Run
    from mmt.translate import AUTO, Glossary, Translator, placement, risk

    for name in (args.source, args.target):
        if name not in (None, AUTO):
            languages.find(name)
    if args.glossary:
        Glossary.read(args.glossary)
    decoding, run = _decoding_of_lines(args), Run(args.model)
    run.check_is_model()
    average = config.bound(Translator.load, "average") or 1
    step = config.bound(Translator.load, "step") if args.step is None else args.step
    steps = placement.steps(run, step, average)
    engine, ensemble = engines.engine_of(args), engines.ensemble_of(args)
    others = {
        str(other.directory): placement.steps(other, None, average)
        for other in placement.checked_others(engine, ensemble, run)
    }
    needs_risk, reranker = args.risk or args.retry, _reranker(args)
    if needs_risk:
        risk.Calibration.load(args.model)
    files = {"glossary": args.glossary, "calibration": run.risk if needs_risk else None}
    return _model_recipe(args.model, steps) | {
        "decoding": str(decoding),
        "engine": engine,
        "weights": _weights(args),
        "from": args.source,
        "to": args.target,
        "format": args.format,
        "retry": args.retry,
        "risk": args.risk,
        "context": args.context,
        "ensemble": [_model_recipe(*other) for other in others.items()] or None,
        "rerank": reranker.model.name if reranker else None,
        **{name: _digest(Path(path)) if path else None for name, path in files.items()},
    }


def _model_recipe(model_dir: str, steps: Sequence[int]) -> dict[str, Any]:
    from mmt.data.cache.manifest import read_manifest
    from mmt.run import Run
    from mmt.translate import output_log

    return output_log.model_recipe(model_dir, steps, read_manifest(Run(model_dir).manifest))


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def _translate_file(args: argparse.Namespace) -> None:
    from mmt import suggest
    from mmt.system import atomic

    path, out = Path(args.file), Path(args.out or "")
    if not args.out or args.corpus or args.nbest or args.format != "text":
        raise ValueError("--file FILE needs --out FILE; not --corpus, --nbest or --format")
    if args.risk or args.retry or args.rerank:
        raise ValueError("--risk, --retry and --rerank are for lines, not for --file")
    if not path.exists():
        siblings = sorted(each.name for each in path.parent.glob("*"))
        raise ValueError(f"{path}: no such file{suggest.hint(path.name, siblings)}")
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; expected the name of a file")
    if out.exists() and out.samefile(path):
        raise ValueError(f"--out is the file itself, {path}")
    from mmt.translate import Glossary, files, markup

    detect = functools.partial(_language_of, args.model) if args.source == "auto" else None
    document = files.read(str(path), path.read_bytes(), _locales(args), detect)
    glossary = Glossary.read(args.glossary) if args.glossary else None
    decoding = _decoding_of_lines(args)
    translator = _load_translator(args)
    options: dict[str, Any] = {"glossary": glossary} if glossary else {}
    if context := _context(args, translator):
        options = {"context": context}
    translate = functools.partial(
        markup.translate, translator,
        source=args.source, target=args.target, decoding=decoding, **options,
    )  # fmt: skip
    atomic.write_bytes(
        out, files.translate_document(document, translate, overwrite=args.overwrite)
    )
    if context:
        print(context.report(), file=sys.stderr)
    print(out)


def _language_of(model_dir: str, text: str) -> str:
    """Returns the likeliest language of a text, of those that the run's identifier knows."""
    from mmt.identify import LanguageIdentifier

    return LanguageIdentifier.load(model_dir).rank([text], most=1)[0][0][0]


def _locales(args: argparse.Namespace) -> "Locales":
    """Returns the languages of a file: those of the flags, else the only ones of the model."""
    from mmt import documents
    from mmt.data.cache.manifest import read_manifest
    from mmt.run import Run

    source = None if args.source == "auto" else args.source
    target = args.target
    file = Run(args.model).manifest
    if file.is_file():
        manifest = read_manifest(file)
        if args.source is None:
            source = manifest.source
        target = target or manifest.target
    return documents.locales(source, target or "eng")


def _back_translate(args: argparse.Namespace) -> None:
    from mmt import config
    from mmt.translate import back_translation

    if not (args.corpus and args.out):
        raise ValueError("--corpus CORPUS and --out DIR belong together: back-translation")
    stdin_options = (
        "source", "nbest", "glossary", "risk", "retry", "rerank", "context", "ensemble",
    )  # fmt: skip
    if args.format != "text" or any(getattr(args, name) for name in stdin_options):
        raise ValueError(
            "--from, --nbest, --format, --glossary, --risk, --retry, --rerank, --context and "
            "--ensemble are not for --corpus"
        )
    translator, decoding = translator_of(args, [back_translation.BackTranslation])
    if translator.others:
        raise ValueError("--corpus is translated by one model; omit Translator.load.ensemble")
    languages = args.target.split(",") if args.target else ()
    job = config.configured(back_translation.BackTranslation)(
        args.model, args.corpus, args.out, languages
    )
    engine = engines.engine_of(args)
    job.write(translator, decoding, engine=engine, weights=_weights_used(args, engine))
    print(args.out)


def translator_of(
    args: argparse.Namespace, bound: Sequence[Callable[..., Any]] = ()
) -> tuple[Any, Any]:
    """Returns the translator and the decoding options; a flag wins over a binding.

    bound: further functions whose parameters bindings may set.
    """
    decoding = _decoding_of(args, bound)
    return _load_translator(args), decoding


def translator_of_lines(
    args: argparse.Namespace, bound: Sequence[Callable[..., Any]] = ()
) -> tuple[Any, Any]:
    """Returns the same as `translator_of`; lines are translated as those of stdin."""
    decoding = _decoding_of(args, bound, **_OF_LINES)
    return _load_translator(args), decoding


def _decoding_of(
    args: argparse.Namespace, bound: Sequence[Callable[..., Any]] = (), **defaults: Any
) -> "Decoding":
    """Loads the bindings of the command line; returns the decoding options.

    defaults: options that apply unless they are bound.
    """
    from mmt import config, sharding, translate

    load, make = translate.Translator.load, translate.Decoding
    config.bind(args.bindings, [load, make, sharding.device_mesh, sharding.Layout, *bound])
    return engines.decoding_of(args, **defaults)


def _load_translator(args: argparse.Namespace) -> Any:
    """Returns the translator, with the bindings that `_decoding_of` has loaded."""
    from mmt import config, translate

    engine, load = engines.engine_of(args), translate.Translator.load
    options: dict[str, Any] = {} if args.step is None else {"step": args.step}
    layout = translate.layout_of(args.model, engine)
    weights = engines.weights_of(args)
    if weights and layout is None:
        options["weights"] = _weights(args)
        if weights == "auto":
            options |= engines.fastest_batches()
    elif weights and weights not in ("auto", args.default_weights):
        print(
            f"weights: as trained; {weights} is for one device without a layout", file=sys.stderr
        )
    if ensemble := engines.ensemble_of(args):
        options["ensemble"] = ensemble
    return config.configured(load)(args.model, layout=layout, engine=engine, **options)


def _weights_used(args: argparse.Namespace, engine: str) -> str | None:
    """Returns the precision that `_load_translator` uses; None: as trained."""
    from mmt import translate

    weights = engines.weights_of(args)
    if not weights or translate.layout_of(args.model, engine) is not None:
        return None
    return engines.fastest_weights(engine) if weights == "auto" else weights


def _weights(args: argparse.Namespace) -> str:
    """Returns the precision of a command; names the one that `auto` chooses on stderr."""
    weights = engines.weights_of(args)
    if weights is not None and weights != "auto":
        return weights
    engine = engines.engine_of(args)
    weights = engines.fastest_weights(engine)
    engines.announce(engine, weights, "--weights")
    return weights
