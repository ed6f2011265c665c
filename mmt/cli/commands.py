"""The commands of `mmt`, each of which reads its arguments and calls the library.

`data_commands`, `evaluation_commands` and `translate_commands` hold the others.

Imports are lazy, so that `mmt --help` is instant. Results go to stdout, messages to stderr.
"""

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmt.cli import data_commands, engines, evaluation_commands
from mmt.cli.data_commands import as_json, make_cache, make_identifier
from mmt.cli.translate_commands import translate
from mmt.system import status, termination
from mmt.system.atomic import write_bytes


def _distill(args: argparse.Namespace) -> int:
    status.begin("loading libraries")
    from mmt import config, distill, train

    def prepare() -> None:
        status.begin("preparing what the student learns from")
        config.configured(distill.prepare)(config.configured(train.Program)())

    return _train_together(args, prepare)


@termination.watched(patience=0.0)  # SIGTERM ends it at once, until the training catches it
def _train_together(args: argparse.Namespace, prepare: Callable[[], None] = lambda: None) -> int:
    """Trains the run that the configuration describes, together with its other processes."""
    status.begin("loading libraries")
    from mmt import config, distributed

    config.load(args.gin_file, args.bindings)
    status.begin("finding the devices")
    config.configured(distributed.start)()
    if not distributed.is_first():
        status.off()
    held = distributed.held(config.macro("MODEL_DIR"))
    with distributed.losses_named(), distributed.quiet(), held:
        prepare()
        exit_status = _train_loaded(args.command)
    distributed.finish()
    status.end()
    if not exit_status and distributed.is_first():
        print(Path(config.macro("MODEL_DIR")))
    return exit_status


def _train_loaded(command: str) -> int:
    """Trains the run of the loaded configuration in this process; returns the exit status."""
    from mmt import config, distributed, initial, train
    from mmt.data import cache, pipeline, recipe
    from mmt.run import Run

    directory = Path(config.macro("MODEL_DIR"))
    program = config.configured(train.Program)()
    train.check_parents(program, directory)
    distributed.first_then_others(make_cache)
    status.begin("opening the data")
    batches = config.configured(pipeline.train_batches)()
    batches.share(program.layout.rows)
    model = program.model.config
    batches.manifest.check_ids(pad=model.pad_id, eos=model.eos_id, start=model.start_id)
    train.check(program, batches.manifest, directory)
    if parent := initial.embedding_parent(program, directory):
        batches.manifest.check_vocabulary_of(parent)
    if distributed.is_first() and not (run := Run(directory)).keeps_description():
        built_cache = cache.open_cache(Path(config.configured(recipe.CacheConfig)().directory))
        run.describe(built_cache.without(batches.leave_out))
        make_identifier(run)
    try:
        config.configured(train.train)(program, batches)
    except train.Terminated as error:
        print(f"mmt {command}: {str(error).splitlines()[0]}", file=sys.stderr)
        return termination.STATUS  # the run is saved but not finished
    finally:
        batches.close()
    return 0


def _baselines(args: argparse.Namespace) -> None:
    status.begin("loading libraries")
    from eval import baselines
    from eval.baselines import stacked
    from mmt import config

    stacked.one_device_per_core()
    config.load(args.gin_file, args.bindings)
    make_cache()
    status.end()
    config.configured(baselines.baselines)()


def _serve(args: argparse.Namespace) -> None:
    status.begin("loading libraries")
    try:
        from mmt import serve
    except ImportError as error:
        raise ImportError(
            f"a server needs the extra [serve] (pip install 'mmt[serve]'): {error}"
        ) from error
    from mmt import config, translate

    load = translate.Translator.load
    config.bind(args.bindings, [load, translate.Decoding, serve.Limits])
    engine = engines.engine_of(args)
    bound = config.bound(load, "weights")
    weights = bound or engines.fastest_weights(engine)
    batches = {} if bound else engines.fastest_batches()
    if engine != "jax":
        engines.announce(engine, weights, "--gin.Translator.load.weights")
    serve.serve(
        args.models, host=args.host, port=args.port,
        keys=Path(args.keys) if args.keys else None,
        decoding=engines.decoding_of(args, keep_placeholders=True, recase_capitals=True),
        limits=config.configured(serve.Limits)(),
        load=functools.partial(config.configured(load), engine=engine, weights=weights, **batches),
    )  # fmt: skip


def _launch(args: argparse.Namespace) -> int:
    from mmt.launch import launch

    arguments = args.arguments[1:] if args.arguments[:1] == ["--"] else args.arguments
    file = Path(args.file) if args.file else None
    return launch(arguments, file=file, processes=args.processes)


def _health(args: argparse.Namespace) -> int:
    import time

    from mmt import health
    from mmt.run import Run

    run = Run(args.directory)
    if not run.directory.is_dir():
        raise ValueError(f"{run.directory}: no such directory{run.nearest()}")
    beats = health.read(run.hosts)
    if not beats:
        raise ValueError(
            f"{run.hosts} has no heartbeats: only training by several processes writes them"
        )
    problems = health.examine(beats, time.time())
    print(health.table(beats, time.time()))
    for problem in problems:
        print(problem.text)
    return int(bool(problems))


def _watch(args: argparse.Namespace) -> None:
    from mmt import watch

    runs = watch.open_runs(args.runs)
    if args.export is not None:
        watch.export(runs, Path(args.export))
        print(args.export)
        return
    try:
        from mmt.watch import server
    except ImportError as error:
        raise ImportError(
            "the page needs the extra [serve] (pip install 'mmt[serve]'); --export FILE.html does "
            f"not: {error}"
        ) from error
    server.watch(runs, port=args.port)


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


def _plan(args: argparse.Namespace) -> None:
    if args.search is not None:
        return _search_meshes(args)
    if args.forecast is not None:
        return _forecast(args)
    if args.params:
        return _parameters(args)
    from mmt import plan

    planner = plan.compare_meshes if args.compare else plan.plan
    result = planner(args.gin_file, args.bindings, args.topology, decode=args.decode)
    print(as_json(result.to_json()) if args.json else result.table())


def _forecast(args: argparse.Namespace) -> None:
    for flag in ("params", "decode", "compare"):
        if getattr(args, flag):
            raise ValueError(f"--run forecasts a training on one mesh; omit --{flag}")
    from mmt.plan import run_inputs, run_table

    directory = Path(args.forecast) if args.forecast else None
    run = run_inputs.forecast(args.gin_file, args.bindings, args.topology, directory)
    text, content = run_table.table(run), as_json(run.to_json())
    print(content if args.json else text)
    if directory:
        from eval.report.figures import run_forecast

        figures = run_forecast.draw(run.to_json(), run.goodput.seconds.tolist())
        for name, data in {"forecast.txt": f"{text}\n", "forecast.json": f"{content}\n",
                           **figures}.items():  # fmt: skip
            write_bytes(directory / name, data if isinstance(data, bytes) else data.encode())
            print(directory / name, file=sys.stderr)


def _search_meshes(args: argparse.Namespace) -> None:
    other_modes = {"params": args.params, "decode": args.decode, "compare": args.compare,
            "run": args.forecast is not None}  # fmt: skip
    if flags := [flag for flag, is_set in other_modes.items() if is_set]:
        raise ValueError(f"--search ranks meshes for a training step; omit --{flags[0]}")
    from mmt.plan import mesh_search

    result = mesh_search.search(
        args.gin_file, args.bindings, args.topology, compiled=args.search
    )
    print(as_json(result.to_json()) if args.json else result.table())


def _parameters(args: argparse.Namespace) -> None:
    from mmt import config
    from mmt.plan import parameters

    config.load(args.gin_file, args.bindings, may_leave_open=True)
    model = config.macro("MODEL")
    if model is None:
        files = ", ".join(args.gin_file)
        raise ValueError(f"{files}: no MODEL; add a --gin_file of gin_configs/models")
    counts = parameters.count(model)
    print(as_json({"parameters": counts.to_json()}) if args.json else counts.table())


COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "train": _train_together, "distill": _distill, "watch": _watch,
    "launch": _launch, "health": _health,
    "translate": translate, "serve": _serve,
    "baselines": _baselines,
    "plan": _plan, "import": _import, "export": _export, "extract": _extract,
    "extend": _extend, "average": _average,
    **evaluation_commands.COMMANDS,
    **data_commands.COMMANDS,
}  # fmt: skip
