"""Every command of the README is run, or its flags are parsed and its gin files loaded."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from mmt import config
from mmt.cli.arguments import parser
from mmt.translate import Decoding, Translator
from mmt.translate.back_translation import BackTranslation

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if not language and re.search(r"(^|\| )mmt ", line)
]


SMALL = [  # a size that trains while one waits
    "--gin.transformer.Config.emb_dim=32", "--gin.transformer.Config.mlp_dim=64",
    "--gin.transformer.Config.encoder_layers=2", "--gin.transformer.Config.decoder_layers=2",
    "--gin.transformer.Config.dtype=float32", "--gin.moe.MoeConfig.num_experts=4",
]  # fmt: skip


def own(line: str) -> list[str]:
    """The arguments of the `mmt` of a line that may begin with a pipe."""
    return shlex.split(line[re.search(r"(^|\| )mmt ", line).end() :], comments=True)


@pytest.mark.parametrize("line", COMMANDS)
def test_flags_and_gin_files(line):
    arguments = own(line)
    args = parser().parse_args([a for a in arguments if not a.startswith("--gin.")])
    bindings = [a.removeprefix("--gin.") for a in arguments if a.startswith("--gin.")]
    if args.command in ("translate", "evaluate"):
        config.bind(bindings, [Translator.load, Decoding, BackTranslation])
    elif getattr(args, "gin_file", None):
        files = [file for file in args.gin_file if (ROOT / file).exists()]
        if len(files) == len(args.gin_file):  # the others name a run that is not there yet
            config.load(files, bindings)


def test_the_makefile_has_what_the_readme_names():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def follow(section: str, corpus: Path, mmt_command) -> None:
    """The commands of a section, in order, on a small corpus named my_corpus."""
    tmp_path = corpus.parent
    text = README.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in COMMANDS if line in text]
    assert len(lines) >= 5
    for line in lines:
        arguments = [
            a.replace("my_corpus", str(corpus)) if re.search("(^|=)my_corpus(_bt)?$", a) else
            re.sub("(^|=)runs/", rf"\1{tmp_path}/runs/", a)
            for a in own(line)
        ]  # fmt: skip
        if arguments[0] in ("train", "baselines"):
            arguments += ["--gin.TRAIN_STEPS=20", "--gin.VOCAB_SIZE=480", "--gin.BATCH_SIZE=8",
                          "--gin.EVAL_PERIOD=20", "--gin.CHECKPOINT_PERIOD=20", *SMALL]  # fmt: skip
        if arguments[0] == "baselines":
            arguments += ["--gin.baselines.Plan.steps=(20, 20)"]
        done = mmt_command(*arguments, MMT_DATA=str(tmp_path / "data"))
        assert done.returncode == 0, f"{arguments}\n{done.stderr.decode()}"


@pytest.mark.slow
def test_the_own_corpus_road(toy_corpus, mmt_command, tmp_path):
    corpus = tmp_path / "my_corpus"
    shutil.copytree(toy_corpus, corpus)
    follow("Your own data", corpus, mmt_command)
    assert (tmp_path / "runs/report/report.html").is_file()


@pytest.mark.slow
def test_the_road_of_text_without_a_translation(toy_corpus, mmt_command, tmp_path):
    corpus = tmp_path / "my_corpus"
    shutil.copytree(toy_corpus, corpus)
    with (corpus / "corpus.toml").open("a") as file:
        file.write('[monolingual]\nswh = "swh.txt"\neng = "eng.txt"\n')
    (corpus / "swh.txt").write_text("moja mbili tatu nne\nnne tatu\n" * 20)
    (corpus / "eng.txt").write_text("one two three four\nfour three\n" * 20)
    follow("Text without a translation", corpus, mmt_command)
    written = json.loads((tmp_path / "my_corpus_bt/back_translation.json").read_text())["written"]
    assert all(sum(counts.values()) == 40 for counts in written.values()) and len(written) == 3
    seen = json.loads((tmp_path / "runs/on_both/ledger.json").read_text())["rows"]
    assert all("back_translated/eng.txt" in row["corpora"] for row in seen)


@pytest.mark.slow
def test_the_demo(tmp_path):
    """`make demo` from nothing: 110 languages or more, a report; typed again, it adds nothing."""
    import subprocess

    rows = ROOT / "runs/demo/results.jsonl"
    subprocess.run(["make", "demo"], cwd=ROOT, check=True, timeout=3000)
    before = rows.read_bytes()
    assert len(before.splitlines()) >= 110 + 12
    subprocess.run(["make", "demo"], cwd=ROOT, check=True, timeout=600)
    assert rows.read_bytes() == before
