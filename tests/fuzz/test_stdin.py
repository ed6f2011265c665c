"""`mmt translate` writes a line for each line of any input, in order. The search is replaced by the
identity.
"""

import io
import re

import pytest
from hypothesis import strategies as st

from mmt.data import vocabulary
from mmt.data.cache.manifest import Manifest
from mmt.decoding.bucketing import BucketedBatches, DecodedSequence
from mmt.model.transformer import Config, Transformer
from mmt.translate import arriving_lines, format_text, to_json
from mmt.translate import translator as translate
from tests.fuzz.strategies import NASTY, fuzzed

ODD = [
    *(text for text in NASTY if len(text) < 9000), b"\r\n", b"\n", b"\n", b"\r", "\u2028".encode(),
    "\u2029\x85".encode(), b"\x0b\x0c\x1c",
    b"\xef\xbb\xbf", b"\x1a", b"\x04", b"\x1b[2J", "\u202e".encode(), "👩‍👩‍👧".encode(), b"<2eng>",
    b"</s>", b"<unk>", "\u2581".encode(), b"a. b! c? " * 300, "漢".encode() * 900,
    "e\u0301".encode() * 500, b" " * 9000, b"x" * 9000, b"|||",
]  # fmt: skip
BYTES = st.lists(st.one_of(st.sampled_from(ODD), st.binary(max_size=9), st.just(b"ein Satz")))


class Echo(BucketedBatches):
    """Stands in for `BucketedBatches`: every translation is its source."""

    def search(self, sources):
        return [[DecodedSequence(list(source.tokens), [], 0.0)] for source in sources]


class Chunks(io.BytesIO):
    """Gives at most `most` bytes at once, as a pipe does."""

    most = 1 << 16

    def read1(self, size=-1):
        return super().read1(min(size, self.most) if size > 0 else self.most)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    file = tmp_path_factory.mktemp("stdin") / "vocabulary.model"
    vocabulary.train(["ein kleiner Satz", "日本"] * 9, file, size=300, tags=["<2eng>"])
    known = vocabulary.Vocabulary.load(file)
    manifest = Manifest(
        "toy", "eng_Latn", (), {}, "1",
        dict.fromkeys(("source", "target"), known.hash), dict.fromkeys(("source", "target"), 300),
    )  # fmt: skip
    sides = {"source": known, "target": known}
    return translate.Translator(
        Transformer(Config(vocab_size=known.size)), None, sides, manifest, max_source_length=16
    )


def letters(text):
    """Without space, tags and breaks of lines, which may come and go; also a tag where a line was
    split, be it within a tag.
    """
    text = re.sub(r"[\s\x1c-\x1f\x85\u2028\u2029\u2581]", "", text)
    while "<2eng>" in text:
        text = text.replace("<2eng>", "")
    return text


@fuzzed(st.tuples(BYTES, st.sampled_from([1, 7, 1 << 16])), short=20, long=3000)
def test_lines_of_any_bytes_are_translated_line_by_line(example, translator, monkeypatch):
    monkeypatch.setattr(translate, "BucketedBatches", Echo)
    content = b"".join(example[0])
    stream = Chunks(content)
    stream.most = example[1]
    lines = content.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    lines[:1] = [line.removeprefix(b"\xef\xbb\xbf") for line in lines[:1]]
    translations = list(translator.translate(arriving_lines(stream)))
    assert [translation.line for translation in translations] == list(range(len(lines)))
    for translation, raw in zip(translations, lines, strict=True):
        text = format_text(translation)
        assert len(text.splitlines()) <= 1
        assert letters(text) == letters(raw.decode(errors="replace"))
        assert to_json(translation)["hypotheses"]
