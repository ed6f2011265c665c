"""Adds held-out languages to a trained model, and compares with having had them from the start.

    python -m benchmarks.mix150.extend [CORPUS] [DIRECTORY] [--gin_file=FILE] [--gin.NAME=VALUE ...]

Three models are trained on the languages of CORPUS (default: that of mix150, which `make mix150`
writes) by the gin file (default: mix150's dense model): `full` on all of them, `parent` without the
held-out ones, and `grown`, which `mmt extend` makes of `parent`, with a tenth of the steps. Two
tables follow: BLEU of the new languages in `grown` and in `full`, and what `grown` has lost of the
old languages against `parent`, with paired tests that are corrected for their number.

It takes about 5 core-hours. The same command resumes. It needs the extra [data].
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval import compare
from eval.compare.chapters import signed
from eval.compare.scores import ScoreComparison
from eval.records import results
from eval.study import mmt
from mmt.data import corpora
from mmt.data.corpora import Corpus
from mmt.data.pair import SPLITS, Pair
from mmt.run import Run

HELD_OUT = "fin,kat,zul"  # a large one in Latin script, a script of its own, a small one
TEST_LINES = 100  # of a language
_FLAT = str.maketrans("\t\n\r", "   ")


def write(
    corpus: Corpus, folder: Path, name: str, keep: Callable[[Pair], bool] = lambda pair: True
) -> Path:
    """Writes a corpus as TSV files of pairs, with TEST_LINES test lines a language.

    Of the training pairs, those that `keep` accepts are written.
    """
    description = folder / "corpus.toml"
    if description.is_file():  # it is written last
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f'name = "{name}"', f'target = "{corpus.target}"']
    for split in SPLITS:
        lines.append(f"[{split}]")
        for code in corpus.languages:
            if not corpus.files.get(split, {}).get(code):
                continue
            rows = [
                f"{pair.source.translate(_FLAT)}\t{pair.target.translate(_FLAT)}\n"
                for pair in corpus.pairs(code, split)
                if split != "train" or keep(pair)
            ][: TEST_LINES if split == "test" else None]
            (folder / f"{split}.{code}.tsv").write_text("".join(rows), encoding="utf-8")
            lines.append(f'{code} = "{split}.{code}.tsv"')
    description.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder


def trained(directory: Path, corpus: Path, name: str, flags: list[str]) -> None:
    """Trains a model on a corpus unless it is trained."""
    mixture = f"{name}_to_{corpora.load(corpus).target.split('_')[0]}"
    mmt(
        "train", *flags, f"--gin.CORPUS={corpus}", f"--gin.MIXTURE_OR_TASK_NAME={mixture}",
        f"--gin.MODEL_DIR={directory}",
    )  # fmt: skip


def table_of_new(full: Path, grown: Path, codes: tuple[str, ...]) -> Table:
    """Returns BLEU of the new languages in both models."""
    table = Table("new language", "from the start", "added", "share")
    bleu = [
        {row.source: row.bleu for row in results.read_rows(Run(run).results)}
        for run in (full, grown)
    ]
    rows = {code: tuple(by[code] for by in bleu) for code in codes if code in bleu[0]}
    rows["mean"] = tuple(sum(row[i] for row in rows.values()) / len(rows) for i in (0, 1))
    for name, (start, added) in rows.items():
        share = f"{added / start:.0%}" if start else "–"
        table.add_row(name, f"{start:.2f}", f"{added:.2f}", share)
    return table


def table_of_old(comparison: ScoreComparison) -> Table:
    """Returns what the old languages have lost."""
    table = Table("old languages", "mean ΔBLEU", "95 %", "better", "no difference", "worse")
    ends = comparison.interval
    table.add_row(
        str(len(comparison.languages)), signed(comparison.mean("delta"), 2),
        f"{signed(ends.low, 2)} to {signed(ends.high, 2)}" if ends else "–",
        *(str(comparison.count(verdict)) for verdict in ("better", "tie", "worse")),
    )  # fmt: skip
    return table


def main() -> None:
    """Trains and evaluates missing models, and prints the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.mix150.extend")
    parser.add_argument("corpus", nargs="?", default="runs/mix150/data/mix150")
    parser.add_argument("directory", nargs="?", type=Path, default=Path("runs/mix150/extend"))
    parser.add_argument("--languages", help="comma-separated; default: all of the corpus")
    parser.add_argument("--held_out", default=HELD_OUT, help=f"default: {HELD_OUT}")
    parser.add_argument("--pieces", default="1000")
    parser.add_argument("--rehearsal", default="0.5")
    parser.add_argument("--gin_file", action="append", help="default: mix150's dense model")
    parser.add_argument("--further", action="append", default=[], metavar="NAME=VALUE",
                        help="binding of the training of the new languages")  # fmt: skip
    args, bindings = parser.parse_known_args()
    files = args.gin_file or ["benchmarks/mix150/dense.gin"]
    flags = [*(f"--gin_file={file}" for file in files), *bindings]
    corpus, folder = corpora.load(args.corpus), args.directory
    corpus = corpus.only(args.languages.split(",")) if args.languages else corpus
    new = corpus.only(args.held_out.split(",")).languages
    parts = {
        "all": corpus, "new": corpus.only(new),
        "old": corpus.only(code for code in corpus.languages if code not in new),
    }  # fmt: skip
    names = {part: f"{corpus.name}_{part}" for part in parts}
    texts = {part: write(parts[part], folder / "data" / part, names[part]) for part in parts}
    full, parent, extended, grown = (
        folder / name for name in ("full", "parent", "extended", "grown")
    )
    trained(parent, texts["old"], names["old"], flags)
    if not extended.exists():
        mmt("extend", "--model", str(parent), "--corpus", str(texts["new"]), "--out", str(extended),
            "--pieces", args.pieces, "--rehearsal", args.rehearsal)  # fmt: skip
    mmt("train", f"--gin_file={extended}/config.gin", f"--gin.MODEL_DIR={grown}",
        *(f"--gin.{binding}" for binding in args.further))  # fmt: skip
    trained(full, texts["all"], names["all"], flags)
    for run in (parent, grown, full):
        mmt("evaluate", "--model", str(run), "--testset", str(texts["all"]), "--beam", "1")
    print(header())
    console = Console(width=100)
    console.print(table_of_new(full, grown, new))
    for comparison in compare.compare([parent, grown]).scores[0].comparisons:
        if not comparison.only:
            console.print(table_of_old(comparison))


if __name__ == "__main__":
    main()
