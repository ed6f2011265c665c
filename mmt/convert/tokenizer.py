"""Writes a SentencePiece model as the files of a Hugging Face tokenizer with the same ids.

Decoded text is the same too, except for byte pieces that form no UTF-8: `tokenizers` replaces each
byte of such a run by U+FFFD, SentencePiece keeps the readable part. The files are JSON made from
the model's bytes; the `tokenizers` library is not needed. The files of an imported tokenizer are
copied.
"""

import base64
import hashlib
import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmt.data.vocabulary import Vocabulary

MODEL = "spiece.model"
FILES = (
    MODEL, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
)  # fmt: skip
_SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2


def sentencepiece_file(directory: Path) -> Path:
    """Returns the SentencePiece model of a directory. Raises ValueError without one."""
    candidates = [directory / MODEL] if (directory / MODEL).is_file() else []
    candidates = candidates or sorted(directory.glob("*.model"))
    if len(candidates) != 1:
        raise ValueError(
            f"{directory} has no {MODEL}: mmt reads SentencePiece models, from which the "
            "tokenizers of T5's family are made"
        )
    return candidates[0]


def kept_files(directory: Path) -> Iterator[Path]:
    """Yields the tokenizer files of a directory, which `write` can copy later."""
    for name in {*FILES, sentencepiece_file(directory).name}:
        if (directory / name).is_file():
            yield directory / name


def write(model: Path, out: Path, *, kept: Path, pad: int) -> None:
    """Writes the tokenizer of a SentencePiece model.

    Args:
        model: the SentencePiece model.
        out: directory for the files.
        kept: directory of original files, which are copied if they are of the same model.
        pad: id of the padding token.

    Raises:
        ValueError: `tokenizers` has no equivalent of this kind of model.
    """
    if kept.is_dir() and _same(sentencepiece_file(kept), model):
        for path in kept_files(kept):
            shutil.copyfile(path, out / path.name)
        return
    shutil.copyfile(model, out / MODEL)
    vocabulary = Vocabulary.load(model)
    special = {
        "eos_token": vocabulary.piece(vocabulary.eos),
        "unk_token": vocabulary.piece(vocabulary.unk),
        "pad_token": vocabulary.piece(pad),
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # '</s>' in a text is plain text, as in SentencePiece
        "model_max_length": 1 << 30,
        "extra_special_tokens": {},
        **special,
    }
    _write(out / "tokenizer.json", to_json(model.read_bytes(), eos=vocabulary.eos, pad=pad))
    _write(out / "tokenizer_config.json", settings)
    _write(out / "special_tokens_map.json", special)


def to_json(model: bytes, *, eos: int, pad: int) -> dict[str, Any]:
    """Returns the tokenizer.json of a BPE or Unigram SentencePiece model, given its bytes."""
    parsed = parse(model)
    kinds = {BPE: _bpe, UNIGRAM: _unigram}
    if parsed.kind not in kinds:
        raise ValueError(f"SentencePiece model type {parsed.kind}; allowed: 1 (Unigram), 2 (BPE)")
    pieces = [piece for piece, _, _ in parsed.pieces]
    added_kinds = {CONTROL, UNKNOWN} | ({USER_DEFINED} if parsed.kind == BPE else set())
    added = [
        {
            "id": i, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": kind != USER_DEFINED,
        }
        for i, (piece, _, kind) in enumerate(parsed.pieces)
        if kind in added_kinds or i == pad
    ]  # fmt: skip
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    end = {"SpecialToken": {"id": pieces[eos], "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        **kinds[parsed.kind](parsed),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, end],
            "pair": [first, end, second, end],
            "special_tokens": {
                pieces[eos]: {"id": pieces[eos], "ids": [eos], "tokens": [pieces[eos]]}
            },
        },
    }


@dataclass(frozen=True)
class Parsed:
    """The content of a SentencePiece model.

    Attributes:
        pieces: (text, score, type) by id.
        kind: UNIGRAM or BPE.
        byte_fallback: whether unknown characters become byte pieces.
        charsmap: compiled normalisation rules; b'' is the identity.
        dummy_prefix: whether a space is put before the text.
        single_spaces: whether repeated spaces become one, and outer ones none.
    """

    pieces: tuple[tuple[str, float, int], ...]
    kind: int
    byte_fallback: bool
    charsmap: bytes
    dummy_prefix: bool
    single_spaces: bool


def parse(model: bytes) -> Parsed:
    """Parses the wire format of sentencepiece_model.proto: ModelProto, its pieces and two specs."""
    pieces, trainer, normalizer = [], {}, {}
    for number, value in _fields(model):
        if number == 1:
            piece = dict(_fields(value))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append((piece[1].decode("utf-8"), score, piece.get(3, NORMAL)))
        elif number == 2:
            trainer = dict(_fields(value))
        elif number == 3:
            normalizer = dict(_fields(value))
    return Parsed(
        tuple(pieces),
        kind=trainer.get(3, UNIGRAM),
        byte_fallback=bool(trainer.get(35, 0)),
        charsmap=normalizer.get(2, b""),
        dummy_prefix=bool(normalizer.get(3, 1)),
        single_spaces=bool(normalizer.get(4, 1)),
    )


def _bpe(parsed: Parsed) -> dict[str, Any]:
    """Returns the parts of a BPE tokenizer. Merges are ordered by score, as in SentencePiece."""
    if parsed.dummy_prefix or parsed.single_spaces or parsed.charsmap:
        raise ValueError(
            "a SentencePiece BPE model that normalises text or puts a space in front has no equal "
            "tokenizer.json; models trained by `mmt` do neither"
        )
    vocabulary = {piece: i for i, (piece, _, _) in enumerate(parsed.pieces)}
    symbols = {piece for piece, _, kind in parsed.pieces if kind == NORMAL}
    by_score = sorted(
        (piece for piece in parsed.pieces if piece[2] == NORMAL), key=lambda piece: -piece[1]
    )
    merges = [
        (piece[:cut], piece[cut:])
        for piece, _, _ in by_score
        for cut in range(1, len(piece))
        if piece[:cut] in symbols and piece[cut:] in symbols
    ]
    unknown = next(piece for piece, _, kind in parsed.pieces if kind == UNKNOWN)
    return {
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": _to_text()},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": unknown,
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
            "byte_fallback": parsed.byte_fallback, "ignore_merges": False,
            "vocab": vocabulary, "merges": merges,
        },
    }  # fmt: skip


def _unigram(parsed: Parsed) -> dict[str, Any]:
    """Returns the parts of a Unigram tokenizer.

    User-defined pieces get the best score, 0, so every other segmentation scores lower.
    """
    rules: list[dict[str, Any]] = []
    if parsed.charsmap:
        rules.append({
            "type": "Precompiled",
            "precompiled_charsmap": base64.b64encode(parsed.charsmap).decode("ascii"),
        })  # fmt: skip
    if parsed.single_spaces:
        rules.append({"type": "Strip", "strip_left": True, "strip_right": True})
        rules.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if parsed.dummy_prefix:
        rules.append({"type": "Prepend", "prepend": _SPACE})
    scores = [
        (piece, 0.0 if kind == USER_DEFINED else score) for piece, score, kind in parsed.pieces
    ]
    start = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    return {
        "normalizer": {"type": "Sequence", "normalizers": rules} if rules else None,
        "pre_tokenizer": {
            "type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "never", "split": True,
        },
        "decoder": {
            "type": "Sequence", "decoders": _to_text() + (start if parsed.dummy_prefix else []),
        },
        "model": {
            "type": "Unigram", "vocab": scores, "byte_fallback": parsed.byte_fallback,
            "unk_id": next(i for i, piece in enumerate(parsed.pieces) if piece[2] == UNKNOWN),
        },
    }  # fmt: skip


def _to_text() -> list[dict[str, Any]]:
    spaces = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    return [spaces, {"type": "ByteFallback"}, {"type": "Fuse"}]


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (number, value) of a protobuf message: ints for varints, bytes for other types."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        length = {1: 8, 2: 0, 5: 4}[key & 7] or varint()
        yield key >> 3, message[position : position + length]
        position += length


def _same(first: Path, second: Path) -> bool:
    """Returns whether two files have the same content."""
    digest = [hashlib.sha256(path.read_bytes()).digest() for path in (first, second)]
    return digest[0] == digest[1]


def _write(path: Path, content: Any) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
