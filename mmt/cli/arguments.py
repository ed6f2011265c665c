"""The commands of `mmt` and their flags; `commands.py` runs them."""

import argparse

from mmt.cli import data_arguments, model_arguments
from mmt.cli.parser import CommandParser, VersionAction


def parser() -> argparse.ArgumentParser:
    """Returns the parser of `mmt`; `run` of the parsed arguments names the command."""
    root = CommandParser(prog="mmt", description="Massively multilingual machine translation.")
    root.add_argument("--version", action=VersionAction, help="print the version and exit")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train or resume a run, from gin files")
    _gin_flags(train)
    train.set_defaults(run="train")

    distill = commands.add_parser("distill", help="train a student of a trained model")
    _gin_flags(distill)
    distill.set_defaults(run="distill")

    _launch_flags(commands.add_parser("launch", help="start the processes of a run here"))

    _health_flags(commands.add_parser("health", help="find the host of a run that is at fault"))

    _watch_flags(commands.add_parser("watch", help="serve a page that follows runs per language"))

    _translate_flags(
        commands.add_parser("translate", help="translate stdin, many files, or a document")
    )

    _score_flags(commands.add_parser("score", help="score given translations, and align words"))

    _serve_flags(commands.add_parser("serve", help="serve LibreTranslate's API and a web page"))

    scored = "score a model on a test set, per language"
    _evaluate_flags(commands.add_parser("evaluate", help=scored))

    _behave_flags(commands.add_parser("behave", help="test behaviours of a model, as a gate"))

    _calibrate_flags(commands.add_parser("calibrate", help="fit translate --risk to chrF"))

    baselines = commands.add_parser("baselines", help="train and score bilingual models")
    _gin_flags(baselines)
    baselines.set_defaults(run="baselines")

    _report_flags(
        commands.add_parser("report", help="render results as HTML, Markdown, CSV, figures")
    )

    _compare_flags(
        commands.add_parser("compare", help="compare settings, curves and scores of runs")
    )

    _plan_flags(commands.add_parser("plan", help="forecast memory and time on any machine"))
    model_arguments.add(commands)
    data_arguments.add(commands.add_parser("data", help="inspect, clean and cache corpora"))
    return root


def _gin_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gin_file", action="append", required=True, metavar="FILE",
        help="may be repeated; a later file wins; gin_configs/… is found from any folder",
    )  # fmt: skip
    parser.epilog = "--gin.NAME=VALUE overrides a macro or binding of the gin files."


def _launch_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, metavar="N", help="default: that of the file")
    parser.add_argument(
        "--file", metavar="FILE", help="a batch script of Slurm, a manifest with a JobSet, or a "
        "shell script that each process runs",
    )  # fmt: skip
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT",
        help="a command of mmt; with --file: additional arguments of its command",
    )  # fmt: skip
    parser.epilog = "Processes run on the CPU, unless JAX_PLATFORMS is set."
    parser.set_defaults(run="launch")


def _health_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="RUN", help="the run directory")
    parser.set_defaults(run="health")


def _evaluate_flags(parser: argparse.ArgumentParser) -> None:
    _decoding_flags(parser)
    _ensemble_flag(parser)
    parser.add_argument(
        "--testset", required=True, metavar="NAME_OR_DIR",
        help="cldr, a corpus (its test split), a folder of FLORES, NTREX-128 or TICO-19, a folder "
        "with test.de and test.en, or sacrebleu:wmt19/de-en",
    )  # fmt: skip
    parser.add_argument("--languages", help="comma-separated; default: all of the test set")
    parser.add_argument("--context", type=int, metavar="N", help="translate lines with up to N "
                        "previous ones of their document, if trained with context")  # fmt: skip
    parser.add_argument(
        "--contrastive", action="store_true", help="with --context: in place of scores, how often "
        "right pronouns and names are likelier than wrong ones, in context and without",
    )  # fmt: skip
    parser.add_argument(
        "--comet", metavar="DIR", help="also score with this COMET model, for the languages that "
        "its encoder knows",
    )  # fmt: skip
    parser.add_argument("--out", metavar="FILE", help="default: DIR/results.jsonl")
    parser.set_defaults(run="evaluate")


def _watch_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run directory, also of another "
                        "machine's file system; its files are only read")  # fmt: skip
    parser.add_argument("--port", type=int, default=6007, help="default: 6007; 0: any free port")
    parser.add_argument(
        "--export", metavar="FILE.html", help="write the page as one file instead of serving it"
    )
    parser.set_defaults(run="watch")


def _translate_flags(parser: argparse.ArgumentParser) -> None:
    _decoding_flags(parser)
    _ensemble_flag(parser)
    _language_flags(
        parser, "language of the lines, or auto to detect it (optional, unless the model routes by "
        "language)",
    )  # fmt: skip
    parser.add_argument(
        "--nbest", type=int, metavar="N", help="N translations per line, with scores"
    )
    parser.add_argument("--format", choices=("text", "jsonl"), default="text", help="default: text")
    parser.add_argument(
        "--weights", choices=("auto", "float32", "bfloat16", "int8"),
        help="precision of matrix products; default: auto, bfloat16 where it is fast, else float32;"
        " with --engine ctranslate2 int8",
    )  # fmt: skip
    parser.add_argument(
        "--glossary", metavar="FILE.tsv",
        help="terms and their translations: source, target and optionally language of the lines",
    )  # fmt: skip
    parser.add_argument(
        "--risk", action="store_true", help="add the confidence of each line, and what is wrong"
    )
    parser.add_argument(
        "--retry", action="store_true", help="translate risky lines again in other ways"
    )
    parser.add_argument(
        "--rerank", metavar="DIR",
        help="choose among the translations of the beam by this COMET model, which needs no "
        "references (such as CometKiwi); needs --from",
    )  # fmt: skip
    parser.add_argument(
        "--context", type=int, metavar="N",
        help="translate each sentence with up to N previous ones of its document, for a model that "
        "was trained with the modifier context; an empty line ends a document",
    )  # fmt: skip
    parser.add_argument("--file", help="translate a document or catalogue: .docx, .html, .po, ...")
    parser.add_argument(
        "--overwrite", action="store_true", help="with --file: also entries with a translation"
    )
    parser.add_argument("--corpus", help="back-translate the monolingual text of this corpus")
    _bulk_flags(parser)
    parser.add_argument(
        "--out", metavar="PATH",
        help="the file of --file, the folder of --in, or the new corpus folder of --corpus",
    )  # fmt: skip
    parser.epilog = f"{parser.epilog} --gin.BackTranslation.lines=N limits the lines of --corpus."
    parser.set_defaults(run="translate", default_weights="auto")


def _score_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="DIR", help="a run directory")
    _ensemble_flag(parser)
    _checkpoint_flags(parser)
    _language_flags(parser, "language of the lines (optional, unless the model routes by language)")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text", help="default: text")
    parser.add_argument(
        "--alignment", action="store_true",
        help="also print the source word of each word of the translation, as in 0-0 1-2",
    )  # fmt: skip
    parser.description = (
        "Reads lines `source<TAB>translation` from stdin and prints the score of each translation: "
        "its log-probability, divided by the length penalty. --alpha 0 gives the log-probability."
    )
    parser.epilog = (
        "--gin.Decoding.penalty and --gin.Translator.load.NAME=VALUE (average, batch_size) set the "
        "rest."
    )
    parser.set_defaults(run="score", gin_file=(), engine="jax", default_weights="float32")


def _bulk_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--in", nargs="+", dest="inputs", metavar="FILE",
        help="translate the lines of many files, or of all files of a folder, into --out DIR; "
        "files may be compressed. The same command again resumes",
    )  # fmt: skip
    parser.add_argument(
        "--shard_lines", type=int, metavar="N",
        help="with --in: lines that are translated and written together; default: 4096",
    )  # fmt: skip
    parser.add_argument(
        "--beam_runner", metavar="NAME",
        help="with --in: run as an Apache Beam pipeline: DirectRunner, DataflowRunner, ...",
    )  # fmt: skip
    parser.add_argument(
        "--pipeline_options", metavar="--NAME=VALUE,...",
        help="of the Beam pipeline, as in --pipeline_options=--direct_num_workers=2,--...",
    )  # fmt: skip


def _behave_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", action="append", required=True, metavar="DIR", dest="models",
        help="a run directory; a second one is compared with the first, on the same cases",
    )  # fmt: skip
    _search_flags(parser)
    parser.add_argument("--languages", help="comma-separated; default: all of the model")
    parser.add_argument(
        "--out", metavar="RESULTS.jsonl",
        help="rows go to the analysis.jsonl beside it; default: DIR/results.jsonl",
    )  # fmt: skip
    parser.add_argument(
        "--show", action="store_true",
        help="also print each failed case: language, behaviour, reason, source, output",
    )  # fmt: skip
    parser.epilog = (
        "--gin.Suite.NAME=VALUE (cases, behaviours, corpus, threshold, thresholds, "
        f"language_threshold) sets the suite. {parser.epilog}"
    )
    parser.set_defaults(run="behave")


def _calibrate_flags(parser: argparse.ArgumentParser) -> None:
    _decoding_flags(parser)
    parser.add_argument(
        "--corpus", required=True, help="a corpus with validation pairs: its folder, or cldr"
    )
    amount = "--gin.calibrate.lines_per_language=N limits the lines of a language."
    parser.epilog = f"{parser.epilog} {amount}"
    parser.set_defaults(run="calibrate")


def _serve_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", action="append", required=True, metavar="DIR", dest="models",
        help="a run directory; may be repeated: the first that has a pair of languages is used",
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    parser.add_argument("--port", type=int, default=5000, help="default: 5000; 0: any free port")
    parser.add_argument(
        "--keys", metavar="FILE", help="hashes of the keys that may use the server; default: all"
    )
    parser.add_argument("--beam", type=int, help="1 is greedy; default: 4")
    _engine_flag(parser)
    parser.set_defaults(run="serve", gin_file=())
    parser.epilog = (
        "--gin.Limits.NAME=VALUE (characters, queue_tokens, ...), --gin.Decoding.NAME=VALUE and "
        "--gin.Translator.load.batch_size=N set the rest."
    )


def _report_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="*", metavar="RESULTS.jsonl")
    parser.add_argument("--out", metavar="DIR", help="default: report/ beside the first file")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="WHAT",
        help="signatures or versions: compare rows though these differ; small: count languages "
        "with fewer than 100 sentences in the means",
    )  # fmt: skip
    parser.add_argument(
        "--comet", metavar="DIR", help="first score the kept texts with this COMET model"
    )
    parser.add_argument(
        "--corpus", help="also count outputs that equal a training target of this corpus"
    )
    parser.add_argument(
        "--train", metavar="FILE", help="first train and evaluate the runs of a study's gin file"
    )
    parser.set_defaults(run="report")


def _compare_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="two or more run directories; the "
                        "others are compared with the first; only files are read")  # fmt: skip
    parser.add_argument(
        "--results", action="append", default=[], metavar="RESULTS.jsonl",
        help="a file with the scores of all runs; may be repeated; default: each run's own",
    )  # fmt: skip
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--out", metavar="FILE.html", help="also write one self-contained page")
    parser.set_defaults(run="compare")


def _decoding_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="DIR", help="a run directory")
    _search_flags(parser)


def _language_flags(parser: argparse.ArgumentParser, source: str) -> None:
    parser.add_argument("--from", dest="source", help=source)
    parser.add_argument("--to", dest="target", help="default: the target of the model, else eng")


def _checkpoint_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, help="checkpoint; default: the best, else the latest")
    parser.add_argument("--alpha", type=float, help="length penalty; default: 0.8")


def _ensemble_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ensemble", nargs="+", metavar="RUN",
        help="more runs with the same vocabulary: the mean of the probabilities of all models "
        "chooses each token",
    )  # fmt: skip


def _search_flags(parser: argparse.ArgumentParser) -> None:
    _checkpoint_flags(parser)
    parser.add_argument("--beam", type=int, help="1 is greedy; default: 4")
    _engine_flag(parser)
    parser.set_defaults(gin_file=())
    parser.epilog = (
        "--gin.Decoding.NAME=VALUE (no_repeat_ngram, temperature, ...) and "
        "--gin.Translator.load.NAME=VALUE (average, batch_size) set the rest; a flag wins. With "
        "several devices also --gin.device_mesh.axes and --gin.Layout.over; default: those of the "
        "run."
    )


def _engine_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=("jax", "ctranslate2"),
        help="default: jax. ctranslate2 is for dense models on a CPU, exported into the "
        "run directory on first use",
    )  # fmt: skip


def _plan_flags(parser: argparse.ArgumentParser) -> None:
    _gin_flags(parser)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--params", action="store_true", help="count the parameters of each part")
    mode.add_argument(
        "--topology", metavar="NAME", help="compile the training step for v4:8x16x16, cpu:8, ..."
    )
    parser.add_argument("--decode", action="store_true", help="compile the decoding step instead")
    parser.add_argument(
        "--compare", action="store_true", help="compare the meshes of gin_configs/meshes"
    )
    parser.add_argument(
        "--search", nargs="?", const=0, type=int, metavar="N",
        help="rank all meshes by the roofline, from shapes alone; N: compile the N fastest, too",
    )  # fmt: skip
    parser.add_argument(
        "--run", dest="forecast", nargs="?", const="", metavar="DIR",
        help="forecast the whole run: time, failures, cost, data; DIR: also as files, with a "
        "picture, and the compiled step, which is reused",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.set_defaults(run="plan")
