"""Measures the effect of monolingual text on small languages.

    python -m benchmarks.data.monolingual [DIRECTORY]

The data are every third language of the demo's corpus. Monolingual text is generated phrases: 1,500
lines of English and of each language in the smallest third (101 to 150 pairs). All models have one
shape and the same number of steps. The rows are:
* "none": pairs only, with all steps or 70 % of them;
* "mixed": 30 % of the examples are span corruption;
* "before": the first 30 % of the steps are span corruption;
* "back-translated": pairs, and translations of English lines into each language of that third, by a
  reverse model of as many steps.

The phrases are of the same kinds as the test set (mmt/data/cldr/corpus.py), so the text is
in-domain. The models are small and far from convergence, so the result may differ for larger ones.
Finished work in DIRECTORY (default: runs/monolingual) is reused. A complete run takes about 25
minutes on 2 CPU cores, and needs the extra [data].
"""

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval import evaluate, systems, testsets
from mmt import languages, translate
from mmt.cli import main as cli
from mmt.data import cldr, corpora
from mmt.data.cldr import phrases as cldr_phrases
from mmt.data.cldr.speaker import Missing, Speaker
from mmt.run import Run, read_metrics

STEPS = 500
BEFORE = 150  # steps on text, where it comes first
LINES = 1500  # lines of monolingual text per language
SPOKEN = (1000, 100)  # English lines that the reverse model translates into each language
TESTED = 50  # lines of the test split, per language

MODEL = (
    "--gin_file=gin_configs/examples/demo.gin", "--gin.VOCAB_SIZE=4000",
    "--gin.TARGET_VOCAB_SIZE=0", "--gin.transformer.Config.moe_period=0",
    "--gin.train.train.hooks=[@hooks.ValidationLoss()]",
)  # fmt: skip


def thirds() -> dict[str, list[str]]:
    """Returns FLORES codes of every third language of the demo, by training pairs."""
    corpus = corpora.load("cldr")
    pairs = {code: corpus.count(code, "train") for code in corpus.languages}
    codes = sorted(pairs, key=lambda code: -pairs[code])[1::3]
    size = len(codes) // 3
    return {"large": codes[:size], "middle": codes[size:-size], "small": codes[-size:]}


def write_corpus(folder: Path, groups: Mapping[str, Sequence[str]]) -> None:
    """Writes the demo's pairs of these languages, with text of the small ones and English."""
    root, locales = cldr.ensure(), {}
    for locale in cldr.LOCALES:
        locales[languages.find(locale.replace("_", "-")).code] = locale
    folder.mkdir(parents=True, exist_ok=True)
    text = 'name = "phrases"\n'
    codes = sorted(code for group in groups.values() for code in group)
    for split in corpora.SPLITS:
        text += f"[{split}]\n"
        text += "".join(f'{code} = "{root}/{split}/{code}.tsv"\n' for code in codes)
    text += "[monolingual]\n"
    drawer = cldr_phrases.Drawer(Speaker("en_US"))
    for code in (*groups["small"], "eng_Latn"):
        speaker = Speaker(locales[code], script=code[-4:]) if code in locales else None
        drawn = sorted(islice(phrases(drawer, speaker, code), LINES))
        random.Random(code).shuffle(drawn)
        lines = "".join(f"{line}\n" for line in drawn)
        (folder / f"{code}.txt").write_text(lines, encoding="utf-8")
        text += f'{code} = "{code}.txt"\n'
    (folder / "corpus.toml").write_text(text, encoding="utf-8")


def phrases(drawer, speaker, code):
    """Yields distinct phrases of a language, or of English, that belong to the training split."""
    chance, seen = random.Random(f"monolingual {code}"), set()
    for kind in islice(cldr_phrases.schedule(cldr_phrases.TRAIN_WEIGHTS), 40 * LINES):
        drawn = drawer.draw(kind, chance)
        if cldr.split_of(drawn.english) == "train":
            try:
                text = speaker.say(drawn.phrase) if speaker else drawn.english
            except Missing:
                continue
            if text not in seen:
                seen.add(text)
                yield text


def run(directory: Path, corpus: Path, mixture: str, *more: str, steps: int = STEPS) -> Path:
    """Trains a model unless it is trained; in a new process, because two corpora share a name."""
    arguments = [
        *MODEL, f"--gin.CORPUS={corpus}", f"--gin.MIXTURE_OR_TASK_NAME={mixture}",
        f"--gin.MODEL_DIR={directory}", f"--gin.TRAIN_STEPS={steps}",
        f"--gin.EVAL_PERIOD={steps}", f"--gin.CHECKPOINT_PERIOD={steps}", *more,
    ]  # fmt: skip
    subprocess.run([sys.executable, "-m", "mmt.cli", "train", *arguments], check=True)
    return directory


def trained(directory: Path, corpus: Path) -> dict[str, Path]:
    """Returns the models of the table, after training the missing ones."""
    none, alone = "--gin.mixing.Mixing.monolingual=0.0", "--gin.mixing.Mixing.monolingual=1.0"
    models = {"none": run(directory / "none", corpus, "phrases_mixed", none)}
    fewer = run(directory / "fewer", corpus, "phrases_mixed", none, steps=STEPS - BEFORE)
    models[f"none, {STEPS - BEFORE} steps"] = fewer
    models["mixed"] = run(
        directory / "mixed", corpus, "phrases_mixed", "--gin.mixing.Mixing.monolingual=0.3"
    )
    first = run(
        directory / "pretrained", corpus, "phrases_mixed", alone, "--gin.train.train.hooks=[]",
        "--gin.train.warmup_cosine.warmup_steps=50", steps=BEFORE,
    )  # fmt: skip
    models["before"] = run(
        directory / "before", corpus, "phrases_mixed", none,
        f"--gin.train.Trainer.initial_model_dir={first}", steps=STEPS - BEFORE,
    )  # fmt: skip
    reverse = run(directory / "reverse", corpus, "phrases_from_eng")
    into = ",".join(corpora.load(corpus).monolingual).replace("eng_Latn,", "")
    for lines in SPOKEN:
        translated = directory / f"back_translated_corpus_{lines}"
        if status := cli.main(["translate", "--model", str(reverse), "--beam", "1", "--to", into,
                               "--corpus", str(corpus), "--out", str(translated),
                               f"--gin.BackTranslation.lines={lines}"]):  # fmt: skip
            sys.exit(status)
        models[f"back-translated, {lines:,} lines"] = run(
            directory / f"back_translated_{lines}", translated, "phrases_back_translated_to_eng",
            f"--gin.CACHE_DIR={directory / f'back_translated_cache_{lines}'}",
        )  # fmt: skip
    return models


def scored(model_dir: Path, codes: Sequence[str]) -> dict[str, float]:
    """Returns greedy BLEU by language."""
    testset = testsets.load("cldr").only(codes)
    some = {
        code: testsets.Sentences(sentences.sources[:TESTED], sentences.references[:TESTED])
        for code, sentences in testset.languages.items()
    }
    rows = evaluate.evaluate(
        translate.Translator.load(model_dir, batch_size=64),
        testsets.TestSet(f"cldr-{TESTED}", testset.target, some),
        system=systems.system_of(model_dir, step=Run(model_dir).best_step()),
        out=model_dir.parent / "results.jsonl",
        decoding=translate.Decoding(beam=1, alpha=0.0),
    )
    return {row.source: row.bleu for row in rows}


def main() -> None:
    """Trains and scores missing models, and prints the table."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/monolingual").absolute()
    groups, corpus = thirds(), directory / "corpus"
    if not (corpus / "corpus.toml").exists():
        write_corpus(corpus, groups)
    models = trained(directory, corpus)
    codes = [code for group in groups.values() for code in group]
    scores = {name: scored(model_dir, codes) for name, model_dir in models.items()}
    table = Table("text", "loss",
                  *(f"BLEU, {len(codes)} {name}" for name, codes in groups.items()),
                  "of the small better")  # fmt: skip
    for name, bleu in scores.items():
        rows = read_metrics(models[name] / "metrics.jsonl")
        loss = [row["validation_loss"] for row in rows if "validation_loss" in row][-1]
        means = (sum(bleu[code] for code in group) / len(group) for group in groups.values())
        better = sum(bleu[code] > scores["none"][code] for code in groups["small"])
        loss_text = "-" if name.startswith("back") else f"{loss:.3f}"  # its vocabulary differs
        cells = (f"{mean:.2f}" for mean in means)
        table.add_row(name, loss_text, *cells, "" if name.startswith("none") else str(better))
    print(header())
    print(f"{STEPS} steps each; validation loss; mean BLEU, greedy, of {TESTED} test lines")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
