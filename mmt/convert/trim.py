"""Trims the target vocabulary of a model to the pieces that the texts of a corpus have.

A model of many languages into English has a vocabulary of all of them, but writes English. Fewer
pieces make each decoding step cheaper: the logits are the largest product of a small model. The
other pieces have hardly any probability, so translations stay (vocabulary trimming, Ushio et al.
2023, https://arxiv.org/abs/2305.15020; here the source keeps its vocabulary). A model from English
into many keeps the pieces of the corpus' languages.
"""

import dataclasses
import itertools
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from mmt import checkpoint
from mmt.convert import derived
from mmt.convert.hf import staged
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.corpora import Corpus
from mmt.data.modifiers import SEPARATOR
from mmt.data.vocabulary import Vocabulary
from mmt.model import parameter_names
from mmt.model.transformer import parameter_shapes
from mmt.run import SIDES, Run

_BATCH = 10_000  # texts that are encoded in one call


def trim(model_dir: str | Path, corpus: Corpus, out: str | Path) -> tuple[int, int]:
    """Writes the run directory `out` with a smaller target vocabulary.

    It has the pieces of all training targets and of the separator of `--context`, their characters,
    what merges into them, bytes, and special pieces. Their order, and the source vocabulary, stay.

    Args:
        model_dir: a run directory.
        corpus: a corpus of the model's languages. It is read in the model's direction.
        out: a new directory.

    Returns:
        The numbers of target pieces before and after.

    Raises:
        ValueError: the corpus has other languages, a special piece would get another id, nothing
            can be left out, or `out` exists.
    """
    run = Run(model_dir)
    model, manifest = run.model(), read_manifest(run.manifest)
    corpus = _as_trained(corpus, manifest, run)
    files = run.vocabularies()
    vocabulary = Vocabulary.load(files["target"])
    kept_ids = np.flatnonzero(kept_pieces(vocabulary, _texts(corpus)))
    c = model.config
    if len(kept_ids) >= min(vocabulary.size, c.target_vocabulary):
        raise ValueError(f"{files['target']}: the corpus {corpus.name} uses all of its pieces")
    moved = [i for i in (c.pad_id, c.eos_id, c.start_id) if i >= len(kept_ids) or kept_ids[i] != i]
    if moved:
        raise ValueError(
            f"{files['target']}: the special ids {moved} stand behind pieces that are left out"
        )
    params = checkpoint.restore_params(model_dir, parameter_shapes(model), step=run.best_step())
    flat = {name: np.asarray(leaf) for name, leaf in parameter_names.to_flat(params, c).items()}
    table = "target_embed" if c.target_vocab_size else "source_embed"
    flat["target_embed/embedding"] = flat[f"{table}/embedding"][kept_ids]
    if not c.tied_logits:
        flat["logits/kernel"] = flat["logits/kernel"][:, kept_ids]
    with staged(Path(out)) as temporary:
        new_run = Run(temporary)
        bindings = [f"transformer.Config.target_vocab_size = {len(kept_ids)}"]
        new_run.config.write_text(derived.gin_text(run, bindings, out), encoding="utf-8")
        names = dict(zip(SIDES, (new_run.vocabulary(s, shared=False) for s in SIDES), strict=True))
        shutil.copyfile(files["source"], names["source"])
        names["target"].write_bytes(trimmed(files["target"].read_bytes(), kept_ids))
        _with_vocabularies(manifest, names).write(temporary)
        for file in (run.environment, run.identifier):
            if file.is_file():
                shutil.copyfile(file, temporary / file.name)
        derived.write_parameters(temporary, flat)
    return c.target_vocabulary, len(kept_ids)


def kept_pieces(vocabulary: Vocabulary, texts: Iterable[str]) -> Bool[np.ndarray, "V"]:
    """Returns which pieces encode the texts, or are needed to: the texts keep their encoding."""
    special = vocabulary.special
    kept = special.copy()
    iterator = iter(texts)
    while batch := list(itertools.islice(iterator, _BATCH)):
        for ids in vocabulary.encode_all(batch):
            kept[ids] = True
    for number in np.flatnonzero(kept & ~special):
        kept[list(merged(vocabulary, vocabulary.piece(int(number))))] = True
    return kept


def merged(vocabulary: Vocabulary, piece: str) -> Iterator[int]:
    """Yields the ids of a piece's characters, and of what BPE merges on the way to the piece."""
    parts = list(piece)
    yield from (vocabulary.id(part) for part in parts if vocabulary.has(part))
    while len(parts) > 1:
        pairs = ((i, parts[i] + parts[i + 1]) for i in range(len(parts) - 1))
        known_pairs = [(vocabulary.score(pair), -i) for i, pair in pairs if vocabulary.has(pair)]
        if not known_pairs:
            return
        index = -max(known_pairs)[1]
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
        yield vocabulary.id(parts[index])


def trimmed(model: bytes, kept: Int[np.ndarray, "K"]) -> bytes:
    """Returns a SentencePiece model with some of its pieces.

    A model is a message of protocol buffers whose field 1 repeats for each piece. All fields have
    a length (https://protobuf.dev/programming-guides/encoding/).
    """
    numbers, offset, piece = set(kept.tolist()), 0, 0
    parts = []
    while offset < len(model):
        start = offset
        tag, offset = _varint(model, offset)
        length, offset = _varint(model, offset)
        offset += length
        if tag != 0x0A:  # field 1, with a length
            parts.append(model[start:offset])
            continue
        if piece in numbers:
            parts.append(model[start:offset])
        piece += 1
    return b"".join(parts)


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Returns a number of 7 bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset


def _as_trained(corpus: Corpus, manifest: Manifest, run: Run) -> Corpus:
    """Returns the corpus in the direction of the model. Raises ValueError for other languages."""
    ours = manifest.source or manifest.target
    if ours and corpus.target != ours:
        raise ValueError(
            f"corpus {corpus.name} has the target {corpus.target}, the model {run.directory} "
            f"translates {'from' if manifest.source else 'into'} {ours}"
        )
    if ours and corpus.reverse != bool(manifest.source):
        corpus = corpus.reversed()
    if manifest.translated and not set(corpus.languages) & set(manifest.translated):
        raise ValueError(
            f"corpus {corpus.name} has none of the languages of the model {run.directory}, which "
            f"are {', '.join(manifest.translated[:5])}{', …' if manifest.translated[5:] else ''}"
        )
    return corpus


def _texts(corpus: Corpus) -> Iterator[str]:
    """Yields what the model writes: the targets, and what the modifier `context` puts between them.
    """
    yield f" {SEPARATOR} "
    for language in corpus.languages:
        for pair in corpus.pairs(language, "train"):
            yield pair.target


def _with_vocabularies(manifest: Manifest, names: dict[str, Path]) -> Manifest:
    loaded = {side: Vocabulary.load(path) for side, path in names.items()}
    return dataclasses.replace(
        manifest,
        vocabulary_hash={side: each.hash for side, each in loaded.items()},
        vocabulary_size={side: each.size for side, each in loaded.items()},
    )
