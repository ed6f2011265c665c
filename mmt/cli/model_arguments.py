"""The commands that convert and change models, and their flags; `model_commands.py` runs them."""

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Adds `mmt import`, `export`, `extract`, `extend` and `average` to the subparsers."""
    _import_flags(
        commands.add_parser("import", help="convert a published model to a run directory")
    )
    _export_flags(commands.add_parser("export", help="write a model for other programs"))

    extract = "cut a model to the experts of languages, or to the target pieces of a corpus"
    _extract_flags(commands.add_parser("extract", help=extract))

    _extend_flags(commands.add_parser("extend", help="add languages to a trained model"))

    _average_flags(commands.add_parser("average", help="average the weights of several runs"))


def _import_flags(parser: argparse.ArgumentParser) -> None:
    _format(parser, "hf", "t5x").add_argument("directory", metavar="DIR", help="the saved model")
    parser.add_argument("--vocabulary", action="append", metavar="FILE", help="t5x: SentencePiece")
    parser.add_argument("--gin_file", action="append", metavar="FILE", help="t5x: the model")
    parser.set_defaults(run="import")


def _export_flags(parser: argparse.ArgumentParser) -> None:
    formats = "mmt", "hf", "ctranslate2", "t5x", "t5x_network"
    _format(parser, *formats).add_argument("--model", required=True, metavar="RUN")
    parser.add_argument(
        "--dtype", choices=("int8", "bfloat16"), default="int8",
        help="mmt: type of the stored weights; default: int8",
    )  # fmt: skip
    parser.add_argument("--card", metavar="FACTS.toml", help="mmt: sources, licences, risks")
    parser.add_argument("--results", metavar="RESULTS.jsonl", help="mmt: the scores of the card")
    parser.set_defaults(run="export")


def _extract_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="RUN")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--languages",
        help="comma-separated: with --experts the experts that they use most; without, of a model "
        "that routes by language, their experts as a dense model",
    )
    mode.add_argument(
        "--pieces", metavar="CORPUS",
        help="a model that writes only the target pieces of the corpus's training text, faster",
    )  # fmt: skip
    parser.add_argument(
        "--experts", type=int, metavar="N",
        help="number of experts per layer that are kept, by load; 1: a dense model",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", metavar="CORPUS",
        help="text to measure the load on, and to score on; default: the run's corpus",
    )  # fmt: skip
    parser.add_argument(
        "--testset", metavar="NAME_OR_DIR",
        help="text to score the model on, as in evaluate; default: the corpus's test split",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="RUN", help="a dense model: print the share of the gain over it"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="a new directory")
    parser.epilog = "--gin.Pruning.merge=average makes a dense model of several experts."
    parser.set_defaults(run="extract", gin_file=())


def _extend_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="RUN", help="the run directory to extend")
    parser.add_argument(
        "--corpus", required=True, help="text of the new languages: a description (TOML), its "
        "folder, or cldr",
    )  # fmt: skip
    parser.add_argument("--languages", help="comma-separated; default: all of the corpus")
    parser.add_argument(
        "--pieces", type=int, metavar="N", help="maximum of new pieces; default: 1000"
    )
    parser.add_argument(
        "--rehearsal", type=float, metavar="RATE",
        help="fraction of the training examples from the old languages; default: 0.5",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="a new directory")
    parser.epilog = "--gin.Extension.overlap=0 keeps the pieces of all old text."
    parser.set_defaults(run="extend", gin_file=())


def _average_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", dest="models", required=True, nargs="+", metavar="RUN",
        help="runs of one model that were trained further from the same weights",
    )  # fmt: skip
    parser.add_argument(
        "--weights", nargs="+", type=float, metavar="W", help="one per run; default: equal"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="a new directory")
    parser.set_defaults(run="average", gin_file=())


def _format(parser: argparse.ArgumentParser, *formats: str) -> argparse.ArgumentParser:
    parser.add_argument("format", choices=formats)
    parser.add_argument("--out", required=True, metavar="DIR", help="a new directory")
    return parser
