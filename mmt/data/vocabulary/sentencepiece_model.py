"""A SentencePiece model: encodes and decodes text. No TensorFlow.

Ids are those of `seqio.SentencePieceVocabulary` for the same file. Text is not normalised:
decode(encode(text)) == text for every text without U+2581, SentencePiece's sign for a space. Text
without a piece is encoded as bytes.
"""

import functools
import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from jaxtyping import Bool

from mmt import languages, suggest

PAD, EOS, UNK = 0, 1, 2  # as in T5, without BOS: decoders start with PAD
SENTINELS = 100  # number in a vocabulary for monolingual text, as in T5
_FEW = 32  # texts; fewer are encoded one by one, since a call for a list starts a thread
_TAG = re.compile(r"<2([A-Za-z][\w-]*)>")


def sentinel(number: int) -> str:
    """Returns the sentinel of a noise span in T5's spelling: '<extra_id_0>' is the first.

    As with tags, the literal text is also the sentinel.
    """
    return f"<extra_id_{number}>"


class Vocabulary:
    """A trained vocabulary; `load` returns one.

    Attributes:
      size: the number of pieces; ids are 0 ... size - 1.
      pad, eos, unk: the special ids; pad is -1 if the file has none.
      hash: 16 hex digits of the file's SHA-256.
    """

    def __init__(self, model: bytes):
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size: int = self._processor.get_piece_size()
        self.pad: int = self._processor.pad_id()
        self.eos: int = self._processor.eos_id()
        self.unk: int = self._processor.unk_id()
        self.hash = hashlib.sha256(model).hexdigest()[:16]

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Returns the vocabulary of a file. Raises ValueError for any other file, or without EOS.
        """
        if not path.is_file():
            raise ValueError(f"no vocabulary at {path}")
        model = path.read_bytes()
        if not model:  # SentencePiece loads it, but crashes on use
            raise ValueError(f"{path} is not a SentencePiece model: it is empty")
        try:
            loaded = cls(model)
            loaded.has("")  # reads the pieces
        except (RuntimeError, UnicodeDecodeError) as error:  # pieces are no valid text
            raise ValueError(f"{path} is not a SentencePiece model: {error}") from error
        if loaded.eos < 0:
            raise ValueError(f"{path} has no id for the end of a text: train it with --eos_id=1")
        return loaded

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without EOS."""
        return self._processor.encode(text)

    def encode_all(
        self, texts: Sequence[str] | Sequence[bytes], *, threads: int = 0
    ) -> list[list[int]]:
        """Returns the ids of many texts, in one call: about 2 us per short text.

        `threads` 0 uses all cores for many texts; use 1 in one of several processes.
        """
        batch: Any = list(texts)
        if len(batch) < _FEW:
            return list(map(self._processor.encode, batch))
        return self._processor.encode(batch, num_threads=threads or _num_threads(texts))

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to the first EOS, without PAD; an id out of range is UNK."""
        text = itertools.takewhile(lambda i: i != self.eos, map(int, ids))
        kept = [i if i < self.size else self.unk for i in text if i != self.pad]
        return self._processor.decode(kept)

    def decode_all(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns the texts of many lists of ids, in one call."""
        return self._processor.decode(list(ids), num_threads=_num_threads(ids)) if ids else []

    @functools.cached_property
    def tags(self) -> Mapping[str, str | None]:
        """Returns the tags of target languages and their FLORES codes, None for unknown ones.

        For example {'<2eng>': 'eng_Latn', '<2zh_Hant>': 'zho_Hant', '<2qqq>': None}.
        """
        matches = {piece: _TAG.fullmatch(piece) for piece in self._pieces if piece.startswith("<2")}
        return {piece: _code_or_none(tag[1]) for piece, tag in matches.items() if tag}

    @functools.cached_property
    def sentinels(self) -> tuple[int, ...]:
        """Returns the ids of the sentinels, '<extra_id_0>' first; mT5's begin with a space."""
        piece_ids = (
            self._pieces.get(sentinel(n), self._pieces.get(f"\u2581{sentinel(n)}", -1))
            for n in itertools.count()
        )
        return tuple(itertools.takewhile(lambda piece_id: piece_id >= 0, piece_ids))

    def has(self, piece: str) -> bool:
        """Returns whether `piece` (a tag, for example) is a piece."""
        return piece in self._pieces

    def id(self, piece: str) -> int:
        """Returns the id of a piece. Raises ValueError with the nearest pieces for an unknown one.
        """
        if piece not in self._pieces:
            near = suggest.hint(piece, self._pieces, 3) or "; nearest: none"
            raise ValueError(f"the vocabulary has no piece {piece!r}{near}")
        return self._pieces[piece]

    def piece(self, number: int) -> str:
        """Returns the piece of an id."""
        return self._processor.id_to_piece(number)

    def score(self, piece: str) -> float:
        """Returns the score of a piece; of two BPE merges the one with the higher score is done."""
        return self._processor.get_score(self.id(piece))

    @property
    def special(self) -> Bool[np.ndarray, "V"]:
        """Returns which pieces are no text of their own: control pieces, bytes, tags, sentinels."""
        is_special = np.ones(self.size, bool)
        is_special[self._text_ids()] = False
        is_special[[self._pieces[tag] for tag in self.tags]] = True
        is_special[list(self.sentinels)] = True
        return is_special

    def merges(self) -> dict[str, int]:
        """Returns the pieces that a BPE vocabulary can split or merge, and their merge's rank.

        Rank 0 is merged first; single characters have the last ranks. Tags, bytes and other special
        pieces are omitted. Raises ValueError for another kind of vocabulary.
        """
        processor = self._processor
        text_ids = self._text_ids()
        pieces = processor.id_to_piece(text_ids)
        # With every merge omitted, only pieces that are always separate stay whole.
        splits = processor.encode(pieces, enable_sampling=True, nbest_size=-1, alpha=1.0)
        ranks = {
            piece: -processor.get_score(piece_id)
            for piece_id, piece, split_ids in zip(text_ids, pieces, splits, strict=True)
            if len(piece) == 1 or piece_id not in split_ids
        }
        if len({*ranks.values()}) < len(ranks) or any(rank % 1 for rank in ranks.values()):
            raise ValueError("the vocabulary is not BPE: its scores are no ranks of merges")
        return {piece: int(rank) for piece, rank in ranks.items()}

    def _text_ids(self) -> list[int]:
        """Returns the ids of all pieces but control, unknown, byte and unused ones."""
        model = self._processor
        checks = (model.is_control, model.is_unknown, model.is_byte, model.is_unused)
        return [i for i in range(self.size) if not any(check(i) for check in checks)]

    @functools.cached_property
    def _pieces(self) -> Mapping[str, int]:
        numbers = range(self.size)
        return dict(zip(self._processor.id_to_piece(list(numbers)), numbers, strict=True))


@dataclass(frozen=True)
class Tokeniser:
    """Tokenises pairs as SeqIO's preprocessors of our tasks do; a function that can be pickled.

    Attributes:
      prefix: the text before every source, '<2eng> '.
      source, target: the SentencePiece models.
    """

    prefix: str
    source: Path
    target: Path

    def __call__(
        self, sources: Sequence[bytes], targets: Sequence[bytes], *columns: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """Returns (source ids, target ids, *more) of each pair of UTF-8 texts, without EOS."""
        prefix = self.prefix.encode()
        ids = (
            _load_cached(self.source).encode_all([prefix + text for text in sources], threads=1),
            _load_cached(self.target).encode_all(targets, threads=1),
        )
        return list(zip(*ids, *columns, strict=True))


@functools.lru_cache(maxsize=4)
def _load_cached(path: Path) -> Vocabulary:
    return Vocabulary.load(path)


def _num_threads(texts: Sequence[object]) -> int:
    """Returns the number of threads: one for few texts, -1 (all cores) for many."""
    return 1 if len(texts) < 256 else -1


def _code_or_none(name: str) -> str | None:
    try:
        return languages.find(name).code
    except ValueError:  # a language that the table does not have
        return None
