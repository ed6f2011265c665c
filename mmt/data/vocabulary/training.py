"""Trains a vocabulary on texts that are sampled by temperature."""

import io
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import sentencepiece

from mmt import suggest
from mmt.data import mixing
from mmt.data.corpora import Corpus
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import Pair
from mmt.data.vocabulary.sentencepiece_model import EOS, PAD, UNK, Vocabulary
from mmt.data.vocabulary.tags import tag_of

SIDES = ("source", "target", "both")
BACK_TRANSLATED = "<bt>"  # before a back-translated source (Caswell et al. 2019)


def train(
    texts: Iterable[str], path: Path, *, size: int, tags: Sequence[str], split_digits: bool = True
) -> None:
    """Trains a vocabulary of `size` pieces on `texts` and writes it to `path` atomically.

    It is BPE with byte fallback (all 256 bytes are pieces), without normalisation and without a
    leading space. Equal texts give equal files. If the texts have fewer distinct pieces than
    `size`, the vocabulary is smaller, with a warning.

    Args:
      texts: the training texts.
      path, size: the SentencePiece model, and its number of pieces.
      tags: separate pieces: a literal `<2eng>` in a text is encoded as the tag, and decodes to it.
      split_digits: whether the digits 0-9 are single pieces, so that numbers share pieces.

    Raises:
      ValueError: no text, or a size too small for the bytes and letters; the message has a
        sufficient size.
    """
    sentences = list(texts)  # C++ would lose errors of an iterator
    if not any(map(str.strip, sentences)):
        raise ValueError(f"no text to train the vocabulary {path} on")
    model = io.BytesIO()
    try:
        sentencepiece.set_min_log_level(2)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            user_defined_symbols=list(tags),
            byte_fallback=True,
            character_coverage=0.9999,
            split_digits=split_digits,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            num_threads=2,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(_explain(str(error), size, path)) from error
    _write(path, model.getvalue())
    if (pieces := Vocabulary.load(path).size) < size:
        warnings.warn(
            f"{path}: the texts have only {pieces} pieces, so the vocabulary has fewer than {size}",
            stacklevel=2,
        )


def training_texts(
    corpus: Corpus, *, side: str, temperature: float = 5.0, limit: int = 60_000
) -> Iterator[str]:
    """Yields about `limit` training texts, with languages sampled by n^(1/temperature).

    No pair is repeated; a language's pairs are taken evenly from its files.

    Args:
      side: 'source' (texts as they are encoded, with the tag), 'target', or 'both' (two texts per
        pair, and half as many monolingual texts as pairs, if the corpus has any).
    """
    if side not in SIDES:
        near = suggest.hint(side, SIDES, cutoff=0.0)
        raise ValueError(f"side is {side!r}, it must be one of {SIDES}{near}")
    for pair in _sample_pairs(corpus, "train", temperature, limit):
        if side != "target":
            yield f"{tag_of(corpus, pair.language)} {source_text(pair)}"
        if side != "source":
            yield pair.target
    if side == "both" and corpus.monolingual:
        texts = _sample_pairs(corpus, MONOLINGUAL, temperature, limit // 2)
        yield from (text.target for text in texts)


def quotas(counts: Mapping[str, int], temperature: float, limit: int) -> dict[str, int]:
    """Returns the number of pairs of each language, with sum `limit`; no pair is repeated."""
    if limit >= sum(counts.values()):
        return dict(counts)
    rates = mixing.mixing_rates(counts, temperature, max_epochs=1.0, examples=limit)
    return {code: min(counts[code], round(rates[code] * limit) or 1) for code in counts}


def source_text(pair: Pair) -> str:
    """Returns the source of a pair; with the tag '<bt> ' if it is back-translated: '<bt> Hallo'."""
    return f"{BACK_TRANSLATED} {pair.source}" if pair.back_translated else pair.source


def _sample_pairs(corpus: Corpus, split: str, temperature: float, limit: int) -> Iterator[Pair]:
    codes = corpus.monolingual if split == MONOLINGUAL else corpus.languages
    counts = {code: count for code in codes if (count := corpus.count(code, split))}
    for code, quota in quotas(counts, temperature, limit).items():
        for index, pair in enumerate(corpus.pairs(code, split)):
            if (index + 1) * quota // counts[code] > index * quota // counts[code]:
                yield pair


def _write(path: Path, content: bytes) -> None:
    """Writes a file atomically; an OSError names the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise OSError(f"cannot write {path}: {error.strerror}") from error


def _explain(message: str, size: int, path: Path) -> str:
    """Returns SentencePiece's message with a suggestion."""
    if too_small := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"{path}: a vocabulary of {size} pieces is too small: bytes, tags and the letters of "
            f"the texts alone are {too_small[1]}; choose a larger size"
        )
    return f"{path}: SentencePiece cannot train a vocabulary of {size} pieces: {message}"
