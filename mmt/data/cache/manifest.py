"""The manifest of a cache or a run: languages, numbers of examples, vocabularies.

`mmt.run` defines its file name; the other files belong to cache.py and to the run.
"""

import functools
import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from mmt.data import mixing
from mmt.data.cache.origins import CorpusOrigin, check_corpora, in_corpora
from mmt.data.vocabulary import EOS, PAD
from mmt.run import Run

VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """The content of a cache, or the training data of a run.

    Attributes:
      name: the mixture's name.
      target: FLORES code of the target language; '' if `source` is set.
      languages: sorted FLORES codes; monolingual text counts as a language (`mixing.monolingual`).
        A language's id is its index here. An imported model has none.
      counts: split -> language -> examples.
      corpus_hash: identifies the text.
      vocabulary_hash, vocabulary_size: 'source' and 'target' -> value; equal if both sides share
        one vocabulary.
      pad, eos, start: ids of padding, end of text and a decoder's first input; the model's must be
        equal.
      corpora: split -> language -> [[corpus name, examples], ...] in the order of the records;
        empty if the names are not known.
      source: FLORES code of the source, if pairs are from it into `languages`; else ''.
      origins: files and cleaning of the training corpora, where they are known.
    """

    name: str
    target: str
    languages: tuple[str, ...]
    counts: dict[str, dict[str, int]]
    corpus_hash: str
    vocabulary_hash: dict[str, str]
    vocabulary_size: dict[str, int]
    version: int = VERSION
    pad: int = PAD
    eos: int = EOS
    start: int = PAD
    corpora: dict[str, dict[str, list[list[Any]]]] = field(default_factory=dict)
    source: str = ""
    origins: list[CorpusOrigin] = field(default_factory=list)

    def check_ids(self, *, pad: int, eos: int, start: int) -> None:
        """Raises ValueError if a model's special ids differ from those of the data."""
        for name, expected in (("pad", pad), ("eos", eos), ("start", start)):
            if getattr(self, name) != expected:
                raise ValueError(
                    f"the cache has the {name} id {getattr(self, name)}, the model {expected} "
                    f"(Config.{name}_id): for an imported model build the cache with "
                    "VOCABULARY_FROM = its run directory"
                )

    def check_continues(self, run: Run) -> None:
        """Raises ValueError if `run` has checkpoints from other text or vocabularies."""
        if not run.manifest.is_file() or not run.checkpoint_steps():
            return
        saved = read_manifest(run.manifest)
        hashes = "corpus_hash", "vocabulary_hash"
        changed = [name for name in hashes if getattr(self, name) != getattr(saved, name)]
        if changed:
            raise ValueError(
                f"{run.directory} has checkpoints of another {' and '.join(changed)} than the "
                "cache; it is not changed: set another MODEL_DIR, or use its training data"
            )

    def check_vocabulary_of(self, parent: Run) -> None:
        """Raises ValueError if the vocabularies differ from those of `parent`, an initial model.

        A parent without a manifest is not checked.
        """
        if not parent.manifest.is_file():
            return
        for side, expected in read_manifest(parent.manifest).vocabulary_hash.items():
            if self.vocabulary_hash[side] != expected:
                raise ValueError(
                    f"the initial model {parent.directory} has another {side} vocabulary "
                    f"({expected}) than the cache ({self.vocabulary_hash[side]}); "
                    f"set VOCABULARY_FROM={parent.directory} to use the former"
                )

    def check_languages_of(self, parent: Run) -> None:
        """Raises ValueError if the languages differ from those of `parent`, which routes by them.

        A language's id is its index, so an equal number of other languages is an error too.
        """
        parent_languages = read_manifest(parent.manifest).languages
        if parent_languages != self.languages:
            added = sorted(set(self.languages) - set(parent_languages))
            missing = sorted(set(parent_languages) - set(self.languages))
            raise ValueError(
                f"the model {parent.directory} routes by language, and its languages are not the "
                f"cache's; only the cache has {', '.join(added[:5]) or 'none'} ({len(added)}), "
                f"only the model {', '.join(missing[:5]) or 'none'} ({len(missing)}); allowed: a "
                "cache of the same languages, or a model that routes by token"
            )

    @functools.cached_property
    def translated(self) -> tuple[str, ...]:
        """Returns the languages with pairs."""
        return tuple(code for code in self.languages if not mixing.is_monolingual(code))

    @property
    def model_files(self) -> dict[str, str]:
        """Returns the file names of the models of 'source' and 'target'; they may share one."""
        shared = len(set(self.vocabulary_hash.values())) == 1
        return {
            side: Run(".").vocabulary(side, shared=shared).name for side in self.vocabulary_hash
        }

    @property
    def corpus_table(self) -> tuple[tuple[str, str], ...]:
        """Returns (language, corpus) of every corpus id; empty if the names are not known.

        The training examples of a language are consecutive runs of one corpus each (`corpora`), so
        the id of an example follows from its record number; see `corpus_runs`.
        """
        counts, runs = self.counts.get("train", {}), self.corpora.get("train", {})
        for code, count in counts.items():
            if sum(examples for _, examples in runs.get(code, ())) != count:
                return ()
        names = {code: dict.fromkeys(name for name, _ in runs.get(code, ())) for code in counts}
        return tuple((code, name) for code in self.languages for name in names.get(code, ()))

    def corpus_runs(self, language: str) -> list[tuple[int, int]]:
        """Returns (corpus id, examples) of each run of a language, in order of the records.

        The manifest must have a `corpus_table`.
        """
        ids = {entry: corpus_id for corpus_id, entry in enumerate(self.corpus_table)}
        runs = self.corpora.get("train", {}).get(language, [])
        return [(ids[language, name], count) for name, count in runs]

    def corpus_ids(self, language: str) -> Int[np.ndarray, "n"]:
        """Returns the corpus id of each training example of a language, as `corpus_runs` does."""
        ids, counts = np.array(self.corpus_runs(language), np.int64).reshape(-1, 2).T
        return np.repeat(ids.astype(np.int32), counts)

    def without(self, corpora: Sequence[str]) -> "Manifest":
        """Returns the manifest without the training examples of some corpora; all languages stay.

        Raises ValueError as `check_corpora` does.
        """
        if not corpora:
            return self
        check_corpora(corpora, [name for _, name in self.corpus_table])
        runs = {
            code: [[name, count] for name, count in runs if not in_corpora(name, corpora)]
            for code, runs in self.corpora["train"].items()
        }
        counts = self.counts["train"] | {
            code: sum(count for _, count in runs[code]) for code in runs
        }
        return replace(
            self,
            counts=self.counts | {"train": counts},
            corpora=self.corpora | {"train": runs},
            origins=[origin for origin in self.origins if not in_corpora(origin.corpus, corpora)],
        )

    def only(self, languages: Sequence[str]) -> "Manifest":
        """Returns the manifest restricted to some languages, given by their codes."""

        def restrict(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
            return {
                split: {code: value for code, value in by_language.items() if code in languages}
                for split, by_language in table.items()
            }

        return replace(
            self,
            languages=tuple(languages),
            counts=restrict(self.counts),
            corpora=restrict(self.corpora),
            origins=[origin for origin in self.origins if origin.language in languages],
        )

    def write(self, directory: Path) -> None:
        """Writes the file that `read_manifest` reads."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        Run(directory).manifest.write_text(text, encoding="utf-8")


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest in the file `path`, of a cache or a run. Raises ValueError if broken."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: broken JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: broken JSON: {error}") from error
    names = {field.name for field in fields(Manifest)}
    needed = {
        field.name
        for field in fields(Manifest)
        if field.default is MISSING and field.default_factory is MISSING
    }
    if not isinstance(content, dict) or content.get("version") != VERSION:
        version = content.get("version") if isinstance(content, dict) else None
        subject, remedy = "the cache", "delete the cache and build it again"
        if Run(path.parent).config.exists():
            subject, remedy = "the model's manifest", "copy that of the cache it was trained on"
        raise ValueError(
            f"{path}: {subject} has version {version}, this program reads {VERSION}; {remedy}"
        )
    unexpected = (needed - set(content)) | (set(content) - names)
    if unexpected:
        raise ValueError(f"{path}: missing or unknown: {', '.join(sorted(unexpected))}")
    for name, value in content.items():
        if not _has_shape(value, _SHAPES.get(name, int)):
            raise ValueError(f"{path}: {name} is {json.dumps(value)[:60]}, an invalid value")
    origins = [_origin(origin, path) for origin in content.get("origins", [])]
    return Manifest(**{**content, "languages": tuple(content["languages"]), "origins": origins})


def _origin(content: dict[str, Any], path: Path) -> CorpusOrigin:
    if unexpected := ({"language", "corpus"} - set(content)) | (set(content) - set(_ORIGIN)):
        raise ValueError(f"{path}: origins: missing or unknown: {', '.join(sorted(unexpected))}")
    for name, value in content.items():
        if not _has_shape(value, _ORIGIN[name]):
            fault = f"{name} is {json.dumps(value)[:60]}, an invalid value"
            raise ValueError(f"{path}: {content['language']} {content['corpus']}: {fault}")
    return CorpusOrigin(**content)


_COUNTS = {"split": {"language": int}}
_SHAPES: dict[str, Any] = {  # types of JSON: of an object's values, of a list's items
    "name": str, "source": str, "target": str, "languages": [str], "counts": _COUNTS,
    "corpus_hash": str, "vocabulary_hash": {"side": str}, "vocabulary_size": {"side": int},
    "corpora": {"split": {"language": [(str, int)]}}, "origins": [{"field": object}],
}  # fmt: skip
_ORIGIN: dict[str, Any] = {
    "language": str, "corpus": str, "files": {"file": str}, "read": int, "kept": int,
    "dropped": {"reason": int}, "changed": {"rule": int}, "tests": [str], "listed": str,
}  # fmt: skip


def _has_shape(value: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):
        is_list_of_length = isinstance(value, list) and len(value) == len(shape)
        return is_list_of_length and all(map(_has_shape, value, shape))
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        (inner,) = shape.values()
        return isinstance(value, dict) and all(_has_shape(item, inner) for item in value.values())
    return shape is object or type(value) is shape
