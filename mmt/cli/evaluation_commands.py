"""The commands that score, test and compare models, and report on them.

Imports are lazy. Results go to stdout, messages to stderr.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mmt.cli import engines
from mmt.cli.data_commands import as_json
from mmt.cli.translate_commands import translator_of, translator_of_lines

if TYPE_CHECKING:
    from eval.behave import BehaviourResult
    from eval.records.results import Row
    from eval.systems import System
    from eval.testsets import TestSet
    from mmt.translate import Translator
    from mmt.translate.comet import CometModel


def _compare(args: argparse.Namespace) -> int:
    from eval import compare
    from eval.compare import text

    if args.out:
        compare.check_page(Path(args.out))
    comparison = compare.compare(args.runs, args.results)
    if args.format == "json":
        print(as_json(comparison.as_json()))
    else:
        text.write(comparison, sys.stdout)
    if args.out:
        from eval.compare import page

        page.write(comparison, Path(args.out))
        print(args.out, file=sys.stderr)
    for fault in comparison.faults:
        print(f"mmt compare: {fault}", file=sys.stderr)
    return 1 if comparison.faults else 0


def _evaluate(args: argparse.Namespace) -> None:
    from eval import evaluate, metrics, testsets
    from eval.analyses import about
    from eval.records import analysis
    from mmt import config
    from mmt.data.cache.manifest import read_manifest
    from mmt.run import Run
    from mmt.translate.context import ContextTranslator, check_trained_lines

    run = Run(args.model)
    run.check_is_model(run.manifest)
    whole = testset = testsets.for_model(args.testset, read_manifest(run.manifest))
    if args.languages is not None:
        testset = whole.only(args.languages.split(","))
    comet = _comet_model(args)
    if args.contrastive and args.context is None:
        raise ValueError("--contrastive needs --context N, the previous lines of its examples")
    if args.contrastive and args.comet:
        raise ValueError("--contrastive is in place of scores; omit --comet")
    if args.context is not None:
        check_trained_lines(args.model, args.context)
        for code in testset.languages:
            testsets.check_documents(testset, code)
    translator, decoding = translator_of(args, [metrics.Metrics])
    scores = config.configured(metrics.Metrics)()
    out = Path(args.out) if args.out else run.results
    system = _system_of(run.directory, translator)
    for other in translator.others if args.context is not None else ():
        check_trained_lines(other.directory, args.context)
    if args.contrastive:
        return _contrast(translator, testset, system, args.context, out)
    decode = engines.recorded(translator, decoding)
    context = None
    if args.context is not None:
        context = ContextTranslator(translator, args.context)
        decode += f"|context:{args.context}"
    rows = evaluate.evaluate(
        context or translator, testset, system=system, out=out, decoding=decoding, scores=scores,
        decode=decode, by_document=context is not None,
    )  # fmt: skip
    if context:
        print(context.report(), file=sys.stderr)
    if not translator.others:  # the rows describe one run
        described = about.rows(run, system, translator, testset)
        outdated = about.outdated(described, system, whole)
        analysis.add(analysis.path_for(out), described, outdated=outdated)
    neural = {} if comet is None else _comet([out], comet, rows)
    print(f"rows in {out}, texts in {out.parent / 'hypotheses'}", file=sys.stderr)
    print("language\tBLEU\tchrF++" + ("\tCOMET" if comet else ""), file=sys.stderr)
    for row in rows:
        columns = [row.source, f"{row.bleu:.2f}", f"{row.chrf:.2f}"]
        if comet:
            columns.append(f"{neural[row.key]:.4f}" if row.key in neural else "-")
        print("\t".join(columns))


def _system_of(directory: Path, translator: "Translator", *, kind: str = "") -> "System":
    """Returns the system of a translator: that of its run, or that of all runs of an ensemble."""
    from eval import systems

    members = [(directory, translator.steps), *((o.directory, o.steps) for o in translator.others)]
    each = [systems.system_of(Path(run), step=steps, kind=kind) for run, steps in members]
    return systems.ensemble_of(*each) if translator.others else each[0]


def _contrast(
    translator: "Translator", testset: "TestSet", system: "System", lines: int, out: Path
) -> None:
    """Prints the accuracy on contrastive examples, and adds its rows beside the results file."""
    from eval import contrastive
    from eval.records import analysis

    rows = []
    for of_language in contrastive.measure(translator, testset, system=system, lines=lines):
        analysis.add(analysis.path_for(out), of_language)
        rows += of_language
    print(f"rows in {analysis.path_for(out)}", file=sys.stderr)
    print(contrastive.table(rows))


def _behave(args: argparse.Namespace) -> int:
    from eval.behave import difference, text

    names = [Path(model).resolve().name for model in args.models]
    if len(names) > 2 or len(set(names)) < len(names):
        raise ValueError(f"--model {', '.join(names)}: expected one, or two with other names")
    judged_results, missed_thresholds = [], list[str]()
    for name, model in zip(names, args.models, strict=True):
        result, faults = _run_suite(args, model)
        judged_results.append(result.judged)
        missed_thresholds += [f"{name}: {fault}" for fault in faults]
        print(f"{name}: percent of the cases passed\n\n{text.table(result.rows)}\n")
        if args.show:
            print(f"{text.failures(result.judged)}\n")
    if len(judged_results) == 2:
        comparison = difference.compare(judged_results[0], judged_results[1])
        print(text.differences(names[0], names[1], comparison))
    for fault in missed_thresholds:
        print(f"mmt behave: {fault}", file=sys.stderr)
    return 1 if missed_thresholds else 0


def _run_suite(args: argparse.Namespace, model: str) -> tuple["BehaviourResult", list[str]]:
    """Returns the result of the suite on a model, and which thresholds it misses."""
    from eval import behave
    from mmt import config
    from mmt.run import Run

    args.model = model
    translator, decoding = translator_of_lines(args, [behave.Suite])
    suite = config.configured(behave.Suite)()
    names = None if args.languages is None else args.languages.split(",")
    codes = behave.languages_of(translator, names)
    materials = behave.materials(codes, behave.corpus_of(suite.corpus, args.models[0]))
    system = _system_of(Path(model), translator, kind="multilingual")
    result = behave.run(
        translator, materials, suite, system=system,
        out=Path(args.out) if args.out else Run(model).results,
        decoding=decoding, decode=engines.recorded(translator, decoding),
    )  # fmt: skip
    return result, suite.missed(result.rows)


def _calibrate(args: argparse.Namespace) -> None:
    from eval import calibration, testsets
    from mmt import config
    from mmt.checkpoint import published
    from mmt.run import Run

    testset = testsets.load(args.corpus, split="validation")
    translator, decoding = translator_of(args, [calibration.calibrate])
    if translator.others:
        raise ValueError("a calibration is that of one model; omit Translator.load.ensemble")
    run = Run(args.model)
    with published.updated(run.directory):
        fitted = config.configured(calibration.calibrate)(translator, testset, decoding=decoding)
        fitted.save(run.directory)
    print(calibration.table(fitted))
    print(f"calibrated on {fitted.lines} lines: {run.risk}", file=sys.stderr)


def _report(args: argparse.Namespace) -> None:
    from eval import report, study
    from eval.analyses import train_overlap, update

    if args.train:
        if args.results or args.out or args.allow or args.comet or args.corpus:
            raise ValueError("--train: the study names all files; omit the other arguments")
        files = study.load(args.train, args.bindings).finish()
    elif args.results:
        paths = [Path(file) for file in args.results]
        out = Path(args.out) if args.out else paths[0].parent / "report"
        comet = _comet_model(args)
        report.check_folder(out)
        report.check(paths, allow=args.allow)
        training = (
            train_overlap.TrainingTargets(study.targets(args.corpus)) if args.corpus else None
        )
        update.update(paths, training=training)
        if comet:
            _comet(paths, comet)
        files = report.report(args.results, out, allow=args.allow)
    else:
        raise ValueError("expected RESULTS.jsonl … or --train FILE")
    for path in files:
        print(path)


def _comet_model(args: argparse.Namespace) -> "CometModel | None":
    """Returns the model of --comet; None without it."""
    from mmt.translate.comet import CometModel

    return None if args.comet is None else CometModel.find(args.comet)


def _comet(
    files: list[Path], model: "CometModel", only: "list[Row] | None" = None
) -> dict[tuple[str, ...], float]:
    """Adds COMET to the analysis files; returns the scores of the model by key of their rows."""
    from eval.analyses import comet
    from eval.records import analysis

    scored, unsupported = comet.score(files, model, only=only)
    print(f"COMET: {scored:,} rows scored", file=sys.stderr)
    if unsupported:
        print(
            f"COMET: no score for {len(unsupported)} languages that its encoder was not trained "
            f"on: {', '.join(unsupported)}", file=sys.stderr,
        )  # fmt: skip
    rows = [row for file in files for row in analysis.read(analysis.path_for(file))]
    return {
        row.key[1:]: row.score
        for row in rows
        if isinstance(row, analysis.Comet) and row.model == model.name
    }


COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "evaluate": _evaluate, "behave": _behave, "calibrate": _calibrate, "report": _report,
    "compare": _compare,
}  # fmt: skip
