"""The commands of README.md and docs/: flags and gin files of all, and most are run.

A block of commands is run by the slow tests, page by page, unless the line before it is a comment
with a reason: `<!-- not run: needs a TPU -->`.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from mmt import config
from mmt.cli.arguments import parser
from mmt.cli.main import main
from mmt.translate import Decoding, Translator
from mmt.translate.back_translation import BackTranslation

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
TEXT = "\n".join(PAGES.values())
COMMAND = r"(?:^|\| |^\w+=\S+ )mmt "  # at the start of a line, behind a pipe or a variable


class Block(NamedTuple):
    """A fenced block of a page. reason: why it is not run, '' for one that is."""

    reason: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Its lines that run `mmt`, continued lines joined."""
        joined = self.text.replace("\\\n", " ").splitlines()
        shell = self.language in ("", "bash")
        return [line for line in joined if shell and re.search(COMMAND, line)]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    form = r"(?:^<!-- not run: ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```$"
    return [Block(*match) for match in re.findall(form, PAGES[page], re.MULTILINE | re.DOTALL)]


ALL = [block for page in PAGES for block in blocks(page)]
COMMANDS = list(dict.fromkeys(line for block in ALL for line in block.commands))
QUICK = [  # no model is trained and no cache is built
    line for line in COMMANDS
    if re.match(r"mmt (data (languages|stats|forecast my_corpus)|plan --params)|.*--explain", line)
]  # fmt: skip
RUN = [page for page in PAGES if any(b.commands and not b.reason for b in blocks(page))]

SIZES = (  # a model that trains while one waits
    "--gin.transformer.Config.emb_dim=32 --gin.transformer.Config.mlp_dim=64 "
    "--gin.transformer.Config.encoder_layers=2 --gin.transformer.Config.decoder_layers=2 "
    "--gin.transformer.Config.dtype=float32 --gin.TRAIN_STEPS=20 --gin.BATCH_SIZE=8 "
    "--gin.EVAL_PERIOD=20 --gin.CHECKPOINT_PERIOD=10"
)
MODELS = (  # that the pages take for granted; the demo's comes from `make demo`
    "mmt train --gin_file=gin_configs/examples/demo.gin",
    "mmt train --gin_file=gin_configs/examples/own_corpus.gin --gin.CORPUS=my_corpus "
    "--gin.MIXTURE_OR_TASK_NAME=my_corpus_to_eng --gin.MODEL_DIR=runs/mine",
    "mmt train --gin_file=gin_configs/models/tiny.gin --gin_file=gin_configs/runs/train.gin "
    "--gin.CORPUS=my_corpus --gin.MIXTURE_OR_TASK_NAME=my_corpus_to_eng --gin.MODEL_DIR=runs/dense",
    "mmt distill --gin_file=runs/mine/config.gin --gin_file=gin_configs/runs/distill.gin "
    "--gin.TEACHER_DIR=runs/mine --gin.MODEL_DIR=runs/student",
    "mmt evaluate --model runs/mine --testset my_corpus --out runs/results.jsonl --beam 1",
)


def arguments_of(line: str) -> list[str]:
    """The arguments of the `mmt` of a line."""
    return shlex.split(line[re.search(COMMAND, line).end() :], comments=True)


def write_corpus(folder: Path, toy_corpus: Path) -> None:
    """The toy corpus with monolingual text, as the pages have it."""
    shutil.copytree(toy_corpus, folder)
    with (folder / "corpus.toml").open("a") as file:
        file.write('[monolingual]\nswh = "swh.txt"\neng = "eng.txt"\n')
    (folder / "swh.txt").write_text("moja mbili tatu nne\nnne tatu\n" * 20)
    (folder / "eng.txt").write_text("one two three four\nfour three\n" * 20)


@pytest.mark.parametrize("line", COMMANDS)
def test_flags_and_gin_files(line):
    arguments = arguments_of(line)
    args = parser().parse_args([a for a in arguments if not a.startswith("--gin.")])
    bindings = [a.removeprefix("--gin.") for a in arguments if a.startswith("--gin.")]
    if args.command in ("translate", "evaluate"):
        from eval.metrics import Metrics

        config.bind(bindings, [Translator.load, Decoding, BackTranslation, Metrics])
    elif getattr(args, "gin_file", None):
        files = [file for file in args.gin_file if (ROOT / file).exists()]
        if len(files) == len(args.gin_file):  # the others name a run that is not there yet
            if getattr(args, "forecast", None) is not None:
                files = ["gin_configs/runs/plan.gin", *files]
            config.load(files, bindings, may_leave_open=args.command in ("plan", "import"))


@pytest.mark.parametrize("line", QUICK)
def test_quick_commands_run(line, toy_corpus, tmp_path, monkeypatch, capsys):
    write_corpus(tmp_path / "my_corpus", toy_corpus)
    monkeypatch.chdir(tmp_path)
    assert main(arguments_of(line)) == 0
    assert capsys.readouterr().out


def test_named_targets_and_benchmarks_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", TEXT, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in set(re.findall(r"python -m benchmarks\.([a-z][\w.]*\w)", TEXT)):
        place = ROOT / "benchmarks" / name.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name


def test_descriptions_are_toml():
    described = [tomllib.loads(block.text) for block in ALL if block.language == "toml"]
    assert len(described) >= 4


def test_a_newcomer_finds_every_page_from_the_readme():
    pages = {page for page in PAGES if page != "README.md"}
    generated = {page for page in pages if page.startswith("docs/reference/")}
    assert pages - generated - {"docs/index.md"} <= set(re.findall(r"\((docs/\S+?\.md)", TEXT)) | {
        f"docs/{link}" for link in re.findall(r"\]\(([\w/]+\.md)\)", PAGES["docs/index.md"])
    }
    assert len(PAGES["README.md"].splitlines()) <= 150


@pytest.fixture(scope="module")
def shell(toy_corpus, tmp_path_factory):
    """A function that runs a line of a page in a folder with `my_corpus` and the models."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("my_corpus", "new_corpus", "raw_corpus"):
        write_corpus(folder / name, toy_corpus)
    description = folder / "raw_corpus/corpus.toml"
    description.write_text(description.read_text().partition("[validation]")[0])
    published = "benchmarks/mix150/model"
    shutil.copytree(ROOT / published, folder / published)
    (folder / "page.html").write_text("<p>Dienstag, <b>2. März</b> 2021</p>")
    (folder / "bin").mkdir()
    (folder / "bin/mmt").write_text(f'#!/bin/sh\nexec {sys.executable} -m mmt.cli "$@"\n')
    (folder / "bin/mmt").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "MMT_DATA": str(folder / "data"),
    }  # fmt: skip

    def run(line: str, *command: str) -> None:
        done = subprocess.run(
            command or ("bash", "-c", smaller(line)), cwd=folder, env=environment, timeout=900,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{smaller(line)}\n{done.stdout}\n{done.stderr}"

    for line in MODELS:
        run(line)
    run.folder = folder
    return run


def smaller(line: str) -> str:
    """A command that trains, with a model and a run of seconds; any other as it is."""
    match = re.match(r"mmt (train|distill|baselines) ", line)
    if not match:
        return line
    line += f" {SIZES}"
    if "examples/demo.gin" in line:
        line += " --gin.train.warmup_cosine.warmup_steps=10"
        line += " --gin.train.train.hooks='[@hooks.ValidationLoss()]'"  # BLEU takes minutes
    else:  # the embedded corpus has more characters than that
        line += " --gin.VOCAB_SIZE=480"
    return line + " --gin.baselines.Plan.steps='(20, 20)'" * (match[1] == "baselines")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", RUN)
def test_the_page_runs(page, shell):
    """What is not marked as not run, in order: commands, and blocks of Python."""
    for block in blocks(page):
        if block.reason:
            continue
        if block.language == "python":
            shell(block.text, sys.executable, "-c", block.text)
        for line in block.commands:
            shell(line)
    for check in CHECKS.get(page, ()):
        check(shell.folder)


def _has_a_report(folder: Path) -> None:
    assert (folder / "runs/report/report.html").is_file()


def _was_back_translated(folder: Path) -> None:
    written = json.loads((folder / "my_corpus_bt/back_translation.json").read_text())["written"]
    assert all(sum(counts.values()) == 40 for counts in written.values()) and len(written) == 3
    seen = json.loads((folder / "runs/on_both/ledger.json").read_text())["rows"]
    assert all("back_translated/eng.txt" in row["corpora"] for row in seen)


CHECKS = {"README.md": [_has_a_report], "docs/data/monolingual.md": [_was_back_translated]}


@pytest.mark.slow
def test_the_demo():
    """`make demo` from nothing: 110 languages or more, a report; run again, it adds nothing."""
    rows = ROOT / "runs/demo/results.jsonl"
    shown = subprocess.run(
        ["make", "demo"], cwd=ROOT, check=True, timeout=3000, stdout=subprocess.PIPE, text=True
    ).stdout
    for translation in (  # of the lines that the demo shows
        "Tuesday, March 2, 2021", "3 hours", "5 days ago", "France, Italy, and Spain",
        "in 7 hours", "38.1 kilograms",
    ):  # fmt: skip
        assert f"\n{translation}\n" in shown, shown
    before = rows.read_bytes()
    assert len(before.splitlines()) >= 110 + 12
    subprocess.run(["make", "demo"], cwd=ROOT, check=True, timeout=600)
    assert rows.read_bytes() == before
