"""A small corpus of made-up sentences, registered as SeqIO tasks, for the tests of `tasks`."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mmt.data import corpora

SIZES = {"deu_Latn": 600, "swh_Latn": 75, "jpn_Jpan": 20}
WORDS = {
    "deu_Latn": ["der", "Löwe", "trinkt", "kühles", "Wasser", "am", "Ufer"],
    "swh_Latn": ["simba", "anakunywa", "maji", "baridi", "mtoni", "leo"],
    "jpn_Jpan": ["ライオン", "が", "川", "で", "冷たい", "水を飲む"],
    "eng_Latn": ["the", "lion", "drinks", "cold", "water", "by", "the", "river"],
}
PIECES = 400


def write_corpus(folder: Path, name: str = "lions", scale: int = 1) -> Path:
    """A corpus of made-up sentences; Japanese has no validation and test pairs."""
    lines = [f'name = "{name}"']
    random = np.random.default_rng(0)
    for split, part in (("train", 1), ("validation", 10), ("test", 12)):
        lines.append(f"[{split}]")
        for code, size in SIZES.items():
            if split != "train" and code == "jpn_Jpan":
                continue
            (folder / split).mkdir(parents=True, exist_ok=True)
            with open(folder / split / f"{code}.tsv", "w", encoding="utf-8") as file:
                for number in range(scale * max(size // part, 2)):
                    sides = [
                        " ".join(random.choice(WORDS[side], random.integers(1, 7)))
                        for side in (code, "eng_Latn")
                    ]
                    file.write(f"{number}. {sides[0]}\t{number}. {sides[1]}\n")
            lines.append(f'{code} = "{split}/{code}.tsv"')
    (folder / "corpus.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


@contextlib.contextmanager
def registered(root: Path, name: str) -> Iterator[corpora.Corpus]:
    """The corpus, with its tasks; what is kept for it lies in `root` too."""
    import tasks

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMT_DATA", str(root / "data"))
        loaded = corpora.load(write_corpus(root / name, name))
        tasks.register(loaded, vocabularies=PIECES)
        yield loaded


def ids(task, split="train", lengths=None):
    dataset = task.get_dataset(lengths, split, shuffle=False)
    examples = dataset.as_numpy_iterator()
    return [(example["inputs"].tolist(), example["targets"].tolist()) for example in examples]
