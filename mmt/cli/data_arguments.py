"""The commands `mmt data …` and their flags; `data_commands.py` runs them."""

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the commands of `mmt data`."""
    commands = parser.add_subparsers(dest="data_command", required=True, metavar="COMMAND")
    languages = commands.add_parser("languages", help="list the known languages and their names")
    stats = commands.add_parser("stats", help="count the pairs and words of a corpus per language")
    stats.add_argument("corpus", help="a description (TOML), its folder, or cldr")
    stats.add_argument("--temperature", type=float, default=5.0, help="default: 5")
    for command in (languages, stats):
        command.add_argument("--json", action="store_true", help="one JSON object per line")
    languages.set_defaults(run="languages")
    stats.set_defaults(run="stats")
    forecast = "predict the examples per language of a mixture, before training"
    _shares_flags(commands.add_parser("forecast", aliases=["shares"], help=forecast))
    consumed = commands.add_parser(
        "consumed", aliases=["ledger"], help="count the examples that a run has seen"
    )
    consumed.add_argument("model_dir", metavar="RUN", help="a run directory")
    consumed.add_argument("--json", action="store_true", help="one JSON object per line")
    consumed.set_defaults(run="consumed")
    align = commands.add_parser(
        "align", help="align the words of a cache, for guided cross-attention"
    )
    align.add_argument("cache", nargs="?", help="a cache; default: that of the gin files")
    align.add_argument("--gin_file", action="append", metavar="FILE", help="may be repeated")
    align.epilog = "--gin.Aligner.processes=N sets the processes (default: one per core)."
    align.set_defaults(run="align")
    identify = commands.add_parser(
        "identify", help="train the language identifier of a run on a corpus"
    )
    identify.add_argument("--model", required=True, metavar="RUN", help="a run directory")
    identify.add_argument(
        "--corpus", required=True, help="a description (TOML), its folder, or cldr"
    )
    identify.epilog = "--gin.IdentifierConfig.lines_per_language=N sets how much text is used."
    identify.set_defaults(run="identify", gin_file=())
    _prepare_flags(
        commands.add_parser("prepare", help="clean a corpus, or build the cache of a configuration")
    )
    split = commands.add_parser("split", help="hold out validation and test pairs of a corpus")
    split.add_argument("corpus", help="a description (TOML) or its folder; tables are added to it")
    for name in ("validation", "test"):
        split.add_argument(
            f"--{name}", type=int, metavar="PAIRS",
            help="of each language, at most a tenth of its pairs; default: 500, if it has none",
        )  # fmt: skip
    split.set_defaults(run="split")


def _prepare_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", nargs="?", help="a description (TOML), its folder, or cldr")
    parser.add_argument("--out", metavar="DIR", help="the cleaned corpus, a new folder")
    parser.add_argument(
        "--rules", metavar="FILE", help="default: [clean] of the corpus, else the default rules"
    )
    parser.add_argument(
        "--testset", action="append", default=[], metavar="NAME",
        help="remove pairs that overlap this test set; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--explain", metavar="SRC<TAB>TGT", help="print the effect of each rule on a pair"
    )
    parser.add_argument("--language", help="language of the pair of --explain")
    parser.add_argument("--verbose", action="store_true", help="also print the rules in full")
    parser.add_argument(
        "--gin_file",
        action="append",
        metavar="FILE",
        help="without CORPUS: build the cache of this configuration",
    )
    parser.epilog = "--gin.prepare.processes=N sets the processes (default: one per core)."
    parser.set_defaults(run="prepare")


def _shares_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "corpus", nargs="?",
        help="a cache, a corpus, or cldr; default: the corpus of the gin files",
    )  # fmt: skip
    parser.add_argument(
        "--gin_file", action="append", metavar="FILE",
        help="use the stages, lengths, steps and batch of a run; may be repeated",
    )  # fmt: skip
    parser.add_argument("--temperature", type=float, help="mixing temperature; default: 5")
    parser.add_argument("--max_epochs", type=float, help="limit of epochs for every language")
    parser.add_argument("--steps", type=int, help="training steps; default: of the gin files")
    parser.add_argument("--batch", type=int, metavar="ROWS", help="rows per batch")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--figure", metavar="FILE.png", help="draw the forecast (also .svg)")
    parser.add_argument(
        "--fit", metavar="BOUNDS",
        help="'epochs<=20,share>=0.003': propose a temperature and a limit within these bounds",
    )  # fmt: skip
    parser.set_defaults(run="forecast")
