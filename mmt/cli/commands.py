"""The commands of `mmt`, each of which reads its arguments and calls the library.

Here are those that train, watch and serve; `model_commands`, `plan_commands`, `data_commands`,
`evaluation_commands`, `translate_commands` and `score_commands` hold the others.

Imports are lazy, so that `mmt --help` is instant. Results go to stdout, messages to stderr.
"""

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path

from mmt.cli import data_commands, engines, evaluation_commands, model_commands, plan_commands
from mmt.cli.data_commands import make_cache, make_identifier
from mmt.cli.score_commands import score
from mmt.cli.translate_commands import translate
from mmt.system import status, termination


def _distill(args: argparse.Namespace) -> int:
    status.begin("loading libraries")
    from mmt import config, distill, train

    def prepare() -> None:
        status.begin("preparing what the student learns from")
        config.configured(distill.prepare)(config.configured(train.Trainer)())

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
    from mmt import checkpoint, config, distributed, initial, train
    from mmt.data import cache, pipeline, recipe
    from mmt.run import Run

    directory = Path(config.macro("MODEL_DIR"))
    program = config.configured(train.Trainer)()
    train.check_parents(program, directory)
    distributed.first_then_others(make_cache)
    status.begin("opening the data")
    batches = config.configured(pipeline.train_batches)()
    batches.share(program.layout.rows)
    model = program.model.config
    batches.manifest.check_ids(pad=model.pad_id, eos=model.eos_id, start=model.start_id)
    train.check(program, batches.manifest, directory)
    if (state := checkpoint.data_state(directory)) is not None:
        batches.manifest.check_continues(Run(directory))
        batches.check_state(state)
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
    if config.bound(translate.Decoding, "split") == "long":
        raise ValueError("--gin.Decoding.split=long: a server translates each sentence by itself")
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


COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "train": _train_together, "distill": _distill, "watch": _watch,
    "launch": _launch, "health": _health,
    "translate": translate, "score": score, "serve": _serve,
    "baselines": _baselines,
    **model_commands.COMMANDS,
    **plan_commands.COMMANDS,
    **evaluation_commands.COMMANDS,
    **data_commands.COMMANDS,
}  # fmt: skip
