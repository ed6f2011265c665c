"""Adds languages to a trained model: new pieces for their sources, and data to train them with.

The target language stays, and so do its vocabulary, the decoder and all parameters that it has. The
embedding of a new piece is the mean of those of the old pieces that it replaces. So the new model
translates a text as the old one does, unless the text has a new piece.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmt import checked, config, languages
from mmt.checked import within
from mmt.convert import derived
from mmt.convert.hf import check_new, staged
from mmt.data.cache import Cache
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.corpora import Corpus
from mmt.data.extension import pieces
from mmt.data.extension.merged_cache import MergedCache
from mmt.data.mixing import Mixing, resolve
from mmt.data.vocabulary import Vocabulary
from mmt.model.config import Config
from mmt.run import SIDES, Run

CONFIG = "gin_configs/runs/extend.gin"
STEPS = 0.1  # of the parent's


@dataclass(frozen=True)
class Extension:
    """Options of an extension. Raises ValueError for a value out of range.

    Attributes:
      pieces: the most new pieces of the source vocabulary.
      rehearsal: the fraction of the training examples that are from the old languages.
      overlap: how frequent a new piece may be in the old languages' text, relative to its frequency
        in the new text. With 0 the old text that pieces are learnt on has none of them.
    """

    pieces: int = field(default=1000, metadata=within(0, 2**20))
    rehearsal: float = field(default=0.5, metadata=within(0, 1, above=True, below=True))
    overlap: float = field(default=0.01, metadata=within(0, 1))

    def __post_init__(self) -> None:
        checked.check(self)


@dataclass(frozen=True)
class ExtendedModel:
    """What an extension has made.

    Attributes:
      languages: the new languages.
      pieces: the new pieces; the id of the first is `first_id`.
      changed: old training pairs whose source has a new piece, of `pairs`.
      steps: TRAIN_STEPS of its configuration.
    """

    languages: tuple[str, ...]
    pieces: tuple[str, ...]
    first_id: int
    changed: int
    pairs: int
    steps: int

    def summary(self) -> str:
        """Returns what was added, in two sentences."""
        last = self.first_id + len(self.pieces) - 1
        ids = f" with the ids {self.first_id} to {last}" if self.pieces else ""
        return (
            f"new: {', '.join(self.languages)}, {len(self.pieces):,} pieces{ids}. Sources with new "
            f"pieces among the {self.pairs:,} old training pairs: {self.changed:,}"
        )


def check(run: Run, corpus: Corpus, out: str | Path) -> None:
    """Raises ValueError if a run cannot be extended by the languages of a corpus, or `out` exists.
    """
    check_new(Path(out))
    run.check_is_model()
    manifest = read_manifest(run.manifest)
    kind = ""
    if not manifest.translated or not manifest.target:
        kind = "from one language into many" if manifest.source else "of unknown languages"
    elif not manifest.counts.get("train"):
        kind = "of unknown training pairs (counts in its manifest)"
    if kind:
        raise ValueError(
            f"{run.directory} is a model {kind}; allowed: a model that was trained here, into "
            "one language. gin_configs/runs/finetune.gin trains any model on another corpus"
        )
    if corpus.reverse or corpus.target != manifest.target:
        raise ValueError(
            f"the corpus {corpus.name} has the target {corpus.target}; the model {run.directory} "
            f"translates into {manifest.target}"
        )
    existing = [code for code in corpus.languages if code in manifest.languages]
    if existing:
        new = [code for code in corpus.languages if code not in existing]
        named = ", ".join(f"{code} ({languages.name_of(code)})" for code in existing[:5])
        rest = f" and {len(existing) - 5} more" if existing[5:] else ""
        raise ValueError(
            f"{run.directory} has {named}{rest} already; new in the corpus {corpus.name}: "
            f"{', '.join(new) or 'none'}. --languages names those to add"
        )
    for code in corpus.languages:
        if not corpus.count(code, "train"):
            raise ValueError(f"corpus {corpus.name} has no training pairs of {code}")


def extend(
    run: Run,
    corpus: Corpus,
    out: str | Path,
    *,
    old: Cache,
    options: Extension = Extension(),
) -> ExtendedModel:
    """Writes the run directory `out`: a model with more pieces, its configuration, and its data.

    The configuration is the run's with `gin_configs/runs/extend.gin`: it trains another run
    directory from this one.

    Args:
        run: the run directory of the trained model. Its best checkpoint is used.
        corpus: clean text of the new languages (`Corpus.only`, `prepare.cleaned`).
        out: a new directory.
        old: the cache that the run was trained on.
        options: number of pieces, rate of rehearsal.

    Raises:
        ValueError: see `check`; the vocabulary is not BPE, the cache has another vocabulary than
            the run, or `out` exists. No partial output is left.
    """
    check(run, corpus, out)
    before = read_manifest(run.manifest)
    if old.manifest.vocabulary_hash != before.vocabulary_hash:
        raise ValueError(f"the cache {old.directory} has another vocabulary than {run.directory}")
    files, c = run.vocabularies(), run.model().config
    vocabulary = Vocabulary.load(files["source"])
    try:
        first = pieces.next_rank(vocabulary)
    except ValueError as error:
        raise ValueError(f"{files['source']}: {error}; allowed: BPE, as trained here") from error
    data = MergedCache(old, _trained(run, before), corpus)
    with staged(Path(out)) as temporary:
        new_run = Run(temporary)
        new = pieces.learn(
            vocabulary, data.new_texts(), data.old_texts(),
            most=options.pieces, overlap=options.overlap,
        )  # fmt: skip
        names = dict(zip(SIDES, (new_run.vocabulary(s, shared=False) for s in SIDES), strict=True))
        names["source"].write_bytes(
            pieces.extended(files["source"].read_bytes(), new, first)
        )
        shutil.copyfile(files["target"], names["target"])
        manifest = data.build(new_run.cache, names)
        manifest.write(temporary)
        steps = _steps(run)
        bindings = _bindings(run, c, manifest, vocabulary.size + len(new), Path(out))
        bindings += _training(corpus, steps, options.rehearsal)
        new_run.config.write_text(derived.gin_text(run, bindings, out, CONFIG), encoding="utf-8")
        if run.environment.is_file():
            shutil.copyfile(run.environment, new_run.environment)
        flat = derived.parameters(run)
        _add_rows(flat, c, vocabulary, new)
        _add_routes(flat, c, before, manifest)
        derived.write_parameters(temporary, flat)
    pairs = sum(old.manifest.counts["train"].get(code, 0) for code in data.languages)
    return ExtendedModel(corpus.languages, tuple(new), vocabulary.size, data.changed, pairs, steps)


def _trained(run: Run, manifest: Manifest) -> list[str]:
    """Returns the languages of pairs that the run was trained on."""
    counts = manifest.counts["train"]
    with config.isolated(run.config):
        mixture = config.configured(Mixing)()
    chosen = mixture.choose([code for code in manifest.translated if counts.get(code)])
    new = {resolve(name, chosen) for name in mixture.new_languages}  # `at_least` spares them
    return [code for code in chosen if code in new or counts[code] >= mixture.at_least]


def _steps(run: Run) -> int:
    """Returns a part of the run's steps; as many as a run that is an extension itself."""
    with config.isolated(run.config):
        steps, again = config.macro("TRAIN_STEPS"), config.macro("NEW_LANGUAGES")
    steps = steps if isinstance(steps, int) else run.last_step()
    return steps if again else max(round(STEPS * steps), 1)


def _bindings(run: Run, c: Config, manifest: Manifest, size: int, out: Path) -> list[str]:
    """Returns the bindings of the model and of its data."""
    bindings = [
        f"transformer.Config.vocab_size = {max(size, c.vocab_size)}",
        f"transformer.Config.target_vocab_size = {c.target_vocabulary}",
        f"INITIAL_MODEL_DIR = {str(out)!r}",
        f"CACHE_DIR = {str(Run(out).cache)!r}",
        f"MIXTURE_OR_TASK_NAME = {manifest.name!r}",
        "MIXTURE_OR_TASK_MODULE = ''",
        "CORPUS = ''",
    ]
    if c.languages:
        bindings.append(f"transformer.Config.languages = {len(manifest.languages)}")
    return bindings


def _training(corpus: Corpus, steps: int, rehearsal: float) -> list[str]:
    """Returns the bindings of the training. A quarter of the steps lies between validations."""
    return [
        f"NEW_LANGUAGES = {list(corpus.languages)!r}",
        f"REHEARSAL = {rehearsal}",
        f"TRAIN_STEPS = {steps}",
        f"WARMUP_STEPS = {steps // 10}",
        f"CHECKPOINT_PERIOD = {-(-steps // 4)}",
        f"EVAL_PERIOD = {-(-steps // 4)}",
    ]


def _add_rows(
    flat: dict[str, np.ndarray], c: Config, vocabulary: Vocabulary, new: Sequence[str]
) -> None:
    """Adds the embeddings of new pieces; if both sides share a table, the target gets a copy."""
    table = flat["source_embed/embedding"]
    if not c.target_vocab_size:
        flat["target_embed/embedding"] = table
    old_ids = [vocabulary.encode(piece.replace("\u2581", " ")) for piece in new]
    rows = [table[ids].mean(axis=0) for ids in old_ids]
    spare = table[vocabulary.size + len(new) :]  # embeddings without a piece
    parts = [table[: vocabulary.size], *([np.stack(rows)] if rows else []), spare]
    flat["source_embed/embedding"] = np.concatenate(parts).astype(table.dtype)


def _add_routes(flat: dict[str, np.ndarray], c: Config, before: Manifest, after: Manifest) -> None:
    """Gives each language its row of the routers by language; a new one that of the nearest."""
    rows = [
        before.languages.index(code if code in before.languages else _nearest(code, before))
        for code in after.languages
    ]
    for name, table in flat.items():
        if name.endswith("/mlp/router") and c.routing_table(name.partition("/")[0]):
            flat[name] = table[rows]


def _nearest(code: str, manifest: Manifest) -> str:
    nearest = languages.nearest(languages.find(code), manifest.translated, 1)
    return nearest[0].code if nearest else manifest.translated[0]
