"""Distillation: a student learns from a trained model, by its logits or by its translations.

`Teacher` gives the trainer logits for every batch. `Translations` writes the teacher's translations
of the training sources as a corpus; it is trained on like any other, with any vocabulary. The
student's initial weights come from `mmt.initial`, the loss from `mmt.losses`.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Float

from mmt import distributed, initial
from mmt.checkpoint import digests
from mmt.data import corpora
from mmt.data.cache.manifest import read_manifest
from mmt.data.cleaning.prepare import cleaned
from mmt.data.pair import Pair
from mmt.decoding import DEFAULT, Decoding
from mmt.model.transformer import Transformer
from mmt.run import Run
from mmt.sharding import Layout
from mmt.trainer import Trainer, features
from mmt.translate import Translator, output_log


@dataclasses.dataclass(frozen=True)
class Teacher:
    """The best checkpoint of a run, whose logits a student learns from (`train.Trainer.teacher`).

    It reads the student's batches, so both must have the same vocabularies.
    """

    model_dir: str

    @functools.cached_property
    def model(self) -> Transformer:
        return Run(self.model_dir).model()

    def check(self, model: Transformer, manifest: Any) -> None:
        """Checks that a student of `model` on the cache of `manifest` can learn from this teacher.

        Raises ValueError if the directory has no trained model, or if the vocabularies differ.
        """
        Run(self.model_dir).best_step()
        hashes = read_manifest(Run(self.model_dir).manifest).vocabulary_hash
        for side, vocabulary_hash in manifest.vocabulary_hash.items():
            if hashes[side] != vocabulary_hash:
                raise ValueError(
                    f"the teacher {self.model_dir} has another {side} vocabulary ({hashes[side]}) "
                    f"than the student's cache ({vocabulary_hash}): their logits do not compare. "
                    f"Take the teacher's (VOCABULARY_FROM={self.model_dir}), or distil by "
                    "sequence, which any vocabulary allows: gin_configs/runs/distill_sequences.gin"
                )
        sizes = [self.model.config.target_vocabulary, model.config.target_vocabulary]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the teacher {self.model_dir} has logits of {sizes[0]} pieces, the student of "
                f"{sizes[1]}: set VOCAB_SIZE (or TARGET_VOCAB_SIZE) to {sizes[0]}"
            )
        if self.model.config.languages:
            manifest.check_languages_of(Run(self.model_dir))

    def parameters(self, layout: Layout) -> Any:
        """Returns the parameters on the devices of `layout`. No checkpoint contains them."""
        return initial.restore(self.model_dir, layout)[1]

    def logits(self, params: Any, batch: Mapping[str, Any]) -> Float[Array, "B T V"]:
        """Returns logits of the targets in `batch`, without dropout; experts drop no tokens."""
        logits: Any = self.model.apply({"params": params}, **features(self.model, batch))
        return logits


@dataclasses.dataclass(frozen=True)
class Translations:
    """Writes a teacher's translations of a corpus's training sources as a corpus for a student.

    Sequence-level distillation (Kim & Rush 2016): the student learns the teacher's beam search
    output. Where the output is empty, the reference is used. Validation and test pairs are copied
    from the corpus.

    teacher: a run directory.
    corpus: as for `corpora.load`.
    directory: directory of the new corpus, named <corpus>_distilled.
    pairs: the maximum number of pairs per language, spread evenly; 0: all.
    references: whether all training pairs of the corpus are added.
    """

    teacher: str
    corpus: str
    directory: str
    decoding: Decoding = DEFAULT
    pairs: int = 0
    references: bool = False

    def write(self) -> None:
        """Writes the missing parts of the corpus; a complete corpus stays unchanged.

        An interrupted run resumes after the last complete line. `corpus.toml` is written last.
        Raises ValueError if the directory holds something else, or translations of another recipe.
        """
        folder, corpus = Path(self.directory), corpora.load(self.corpus)
        if jax.process_count() > 1 and not (folder / "corpus.toml").exists():
            raise ValueError(
                f"the teacher's translations in {folder} are not complete, and one process must "
                "write them: run `mmt distill` as one until its training begins, then as several"
            )
        step = Run(self.teacher).best_step()
        recipe = {
            "teacher": str(Path(self.teacher).absolute()),
            "step": step, "corpus": corpus.hash(),
            "decoding": str(self.decoding), "pairs": self.pairs, "references": self.references,
            "teacher_digest": digests.of_steps(Run(self.teacher), [step]),
        }  # fmt: skip
        is_complete = (folder / "corpus.toml").exists()
        with contextlib.nullcontext() if is_complete else distributed.held(folder):
            output_log.begin(folder / "translations.json", recipe, added=["teacher_digest"])
            if not (folder / "corpus.toml").exists():
                self._write_missing(folder, corpus)

    def _write_missing(self, folder: Path, corpus: corpora.Corpus) -> None:
        corpus = cleaned(corpus)
        copied = {split: f"{split}." for split in corpora.SPLITS[1:]}
        if self.references:
            copied["train"] = "references."
        for split, name in copied.items():
            for code in corpus.files[split]:
                with output_log.new_file(folder / f"{name}{code}.tsv") as file:
                    for pair in corpus.pairs(code, split):
                        file.write(output_log.row(pair.source, pair.target))
        self._translate(folder, corpus)
        with output_log.new_file(folder / "corpus.toml") as file:
            file.write(self._description(corpus))

    def _translate(self, folder: Path, corpus: corpora.Corpus) -> None:
        """Translates the training split, language by language, as one stream."""
        output_files = [
            output_log.OutputFile(folder / f"train.{code}.tsv", self._count(corpus, code))
            for code in corpus.languages
        ]
        selected: Iterator[tuple[str, Pair]] = (
            (code, pair)
            for code, part in zip(corpus.languages, output_files, strict=True)
            for pair in itertools.islice(self._selected_pairs(corpus, code), part.done, None)
        )
        translator, sources = Translator.load(self.teacher), None
        if translator.routes_by_language:
            for code in corpus.languages:
                translator.language_id(code, corpus.target)
            selected, for_languages = itertools.tee(selected)
            sources = (code for code, _ in for_languages)
        pairs, for_sources = itertools.tee(selected)
        translations = translator.translate(
            (pair.source for _, pair in for_sources),
            target=corpus.target, decoding=self.decoding, sources=sources,
        )  # fmt: skip
        output_log.write(
            output_files,
            (
                output_log.row(pair.source, translation.text or pair.target)
                for (_, pair), translation in zip(pairs, translations, strict=True)
            ),
        )

    def _count(self, corpus: corpora.Corpus, code: str) -> int:
        count = corpus.count(code, "train")
        return min(count, self.pairs) if self.pairs else count

    def _selected_pairs(self, corpus: corpora.Corpus, code: str) -> Iterator[Pair]:
        count, chosen = corpus.count(code, "train"), self._count(corpus, code)
        for i, pair in enumerate(corpus.pairs(code, "train")):
            if (i + 1) * chosen // count > i * chosen // count:
                yield pair

    def _description(self, corpus: corpora.Corpus) -> str:
        text = f'name = "{corpus.name}_distilled"\ntarget = "{corpus.target}"\n'
        for split in corpora.SPLITS:
            text += f"[{split}]\n"
            for code in sorted(corpus.files[split]):
                files = [f"{split}.{code}.tsv"]
                if split == "train" and self.references:
                    files.append(f"references.{code}.tsv")
                text += f"{code} = {json.dumps(files)}\n"
        return text


def prepare(program: Trainer, translations: Translations | None = None) -> None:
    """Prepares a student's training: writes the teacher's translations, if gin binds them.

    Raises ValueError if the config names no teacher.
    """
    if translations is not None:
        translations.write()
    elif program.teacher is None and not program.initial_model_dir:
        raise ValueError(
            "the config names no teacher; add --gin_file=gin_configs/runs/distill.gin or "
            "--gin_file=gin_configs/runs/distill_sequences.gin"
        )
