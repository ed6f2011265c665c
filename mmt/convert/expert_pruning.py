"""Keeps the experts that some languages use most, and leaves out the others (expert pruning).

The experts of a layer are ordered by the gates that tokens of the languages give them. NLLB-200
keeps its quality with a fifth of its experts, chosen in this way without further training
(Koishekenov et al. 2023, https://arxiv.org/abs/2212.09811). The router loses the columns of the
others, so that its softmax, and GShard's sum of two gates, are over the kept ones as in training.

The gates of Switch do not sum to 1, and a softmax over fewer experts makes them larger. Therefore
the output weights of a kept expert are multiplied by the mean gate that its tokens had before,
relative to the one that they have now. For GShard this factor is 1.
"""

import functools
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mmt import checked, config, suggest
from mmt.checked import within
from mmt.convert import derived
from mmt.convert.extract import codes_of, merge, output_scale, pad
from mmt.convert.hf import check_new
from mmt.data import corpora
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.corpora import Corpus
from mmt.data.vocabulary import Vocabulary, source_prefix
from mmt.model import parameter_names
from mmt.model.balance import NAME as BIAS
from mmt.model.config import Config
from mmt.model.expert_load import STACKS, GateMass, gate_mass
from mmt.model.transformer import Transformer
from mmt.run import Run

RECOVERY = "gin_configs/runs/recover.gin"
RECOVERY_STEPS = 0.1  # of the run's
MERGES = ("none", "average", "sum")
_ROWS = 32  # sentences of a batch
_Masses = dict[str, GateMass]  # by layer ('encoder/1/mlp'), as arrays of NumPy


@dataclass(frozen=True)
class Pruning:
    """Options of the choice of experts. Raises ValueError for a value that is not allowed.

    Attributes:
      lines: the most lines of each language that the load is measured on, a random sample.
      seed: of this sample.
      merge: what becomes of several kept experts. With `none` they stay a mixture. `average` makes
        a dense model of their mean weights, and `sum` one of their MLPs side by side, wider; both
        weigh an expert by its mean gate. One kept expert is a dense model in any case.
    """

    lines: int = field(default=500, metadata=within(1))
    seed: int = field(default=0, metadata=within(0))
    merge: str = "none"

    def __post_init__(self) -> None:
        checked.check(self)
        checked.one_of(self, "merge", self.merge, MERGES)


@dataclass(frozen=True)
class PrunedModel:
    """What an extraction has kept.

    Attributes:
      languages: FLORES codes.
      lines, tokens: what the load was measured on; tokens of both sides.
      experts: number of experts of a layer before.
      kept: the numbers of the kept experts by layer ('encoder/1/mlp').
      mass: the share of the gates that these had in the whole model, by layer.
    """

    languages: tuple[str, ...]
    lines: int
    tokens: int
    experts: int
    kept: Mapping[str, tuple[int, ...]]
    mass: Mapping[str, float]

    def table(self) -> str:
        """Returns a text table with a row per layer."""
        rows = ["layer\texperts\tshare of the gates"]
        for mlp, kept in self.kept.items():
            stack, number, _ = mlp.split("/")
            numbers = " ".join(map(str, kept))
            rows.append(f"{stack}.{int(number) + 1}\t{numbers}\t{self.mass[mlp]:.1%}")
        return "\n".join(rows)


def prune(
    model_dir: str | Path, names: Sequence[str], experts: int, out: str | Path,
    *, corpus: Corpus, options: Pruning = Pruning(),
) -> PrunedModel:  # fmt: skip
    """Writes the run directory `out` with the experts that some languages use most in each layer.

    Every language weighs the same. The load is measured without dropout on validation pairs, or on
    training pairs where there are none, with references as targets. Longer pairs than in training
    are left out. A layer with one expert becomes a dense layer with the same output, unless
    conditional routing mixes it with a shared MLP. A model that routes by language keeps the
    routes of these languages.

    Args:
        model_dir: a run directory whose model has experts. Its best checkpoint is used.
        names: codes or names of languages.
        experts: number of experts of a layer that are kept.
        out: a new directory.
        corpus: text of the languages.
        options: size of the sample; how experts are merged.

    Raises:
        ValueError: the model has no experts or fewer of them, the gates of conditional routing
            would have to be merged, a language is not in the model or has no text in the corpus, or
            `out` exists.
    """
    run = Run(model_dir)
    codes = check(run, names, experts, options)
    check_new(Path(out))
    model, manifest = run.model(), read_manifest(run.manifest)
    measured = _Measured(run, model, manifest, options)
    batches = {code: list(measured.batches(corpus, code)) for code in codes}
    flat = derived.parameters(run)
    params = parameter_names.from_flat(flat, model)
    every = {mlp: np.ones(model.config.moe.num_experts, bool) for mlp in _layers(flat)}
    all_masses = [measured.masses(params, of_language, every) for of_language in batches.values()]
    shares = {mlp: _mean(masses[mlp].mass / masses[mlp].mass.sum() for masses in all_masses)
              for mlp in every}  # fmt: skip
    kept = {mlp: np.sort(np.argsort(-share, kind="stable")[:experts])
            for mlp, share in shares.items()}  # fmt: skip
    only = {mlp: np.isin(np.arange(len(every[mlp])), chosen) for mlp, chosen in kept.items()}
    pruned_masses = [measured.masses(params, of_language, only) for of_language in batches.values()]
    for mlp, chosen in kept.items():
        _cut(flat, mlp, chosen, _scale([masses[mlp] for masses in pruned_masses])[chosen])
        if model.config.routing_table(mlp.partition("/")[0]):
            rows = [manifest.languages.index(code) for code in codes]
            flat[f"{mlp}/router"] = flat[f"{mlp}/router"][rows]
    dense = options.merge != "none" or (experts == 1 and not model.config.moe.gate_budget)
    if dense:
        for mlp in kept:
            gates = _mean(masses[mlp].mass / masses[mlp].total for masses in pruned_masses)
            _merge(flat, mlp, gates[kept[mlp]], model.config, options.merge)
    bindings = _bindings(model.config, experts, len(codes), pad(flat) if dense else 0)
    derived.write_run(run, out, bindings, manifest.only(codes), flat)
    return PrunedModel(
        tuple(codes), sum(measured.lines.values()), measured.tokens, model.config.moe.num_experts,
        {mlp: tuple(map(int, chosen)) for mlp, chosen in kept.items()},
        {mlp: float(share[kept[mlp]].sum()) for mlp, share in shares.items()},
    )  # fmt: skip


def corpus_of(run: Run) -> str:
    """Returns the corpus that a run's configuration names. Raises ValueError without one."""
    with config.isolated(run.config):
        name = config.macro("CORPUS")
    if not (isinstance(name, str) and name):
        raise ValueError(
            f"{run.config} names no corpus (CORPUS), on which the load of the experts could be "
            "measured: name one (--corpus)"
        )
    return name


def corpus_that_is_here(run: Run) -> str | None:
    """Returns the corpus that a run's configuration names; None if it names none, or it is gone."""
    try:
        name = corpus_of(run)
        corpora.load(name)
    except (ValueError, OSError):
        return None
    return name


def check(run: Run, names: Sequence[str], experts: int, options: Pruning = Pruning()) -> list[str]:
    """Returns the codes of languages, in the order of the run's manifest.

    Raises ValueError unless `experts` experts of a layer can be taken out of its model for them.
    """
    c = run.model().config
    if not c.moe_period:
        raise ValueError(
            f"{run.directory} is a dense model: there are no experts that could be taken out "
            "(Config.moe_period = 0)"
        )
    if not 1 <= experts <= c.moe.num_experts:
        raise ValueError(
            f"{experts} experts (--experts): a layer of {run.directory} has {c.moe.num_experts}; "
            f"allowed: 1 to {c.moe.num_experts}"
        )
    if c.moe.gate_budget and options.merge != "none":
        raise ValueError(
            f"Pruning.merge = {options.merge}: {run.directory} mixes experts and a shared MLP by a "
            f"gate of each token (MoeConfig.gate_budget = {c.moe.gate_budget}), which no dense "
            "layer can do; allowed: none"
        )
    return codes_of(names, read_manifest(run.manifest))


def recovery_command(run: Run, out: str | Path, codes: Sequence[str]) -> str:
    """Returns the command that trains the extracted model in `out` on its languages.

    It learns from the outputs of `run`, for a tenth of the steps.
    """
    with config.isolated(run.config):
        steps = config.macro("TRAIN_STEPS")
    steps = steps if isinstance(steps, int) else run.last_step()
    flags = {
        "INITIAL_MODEL_DIR": str(out), "TEACHER_DIR": str(run.directory),
        "LANGUAGES": json.dumps(list(codes)), "MODEL_DIR": f"{out}-recovered",
        "TRAIN_STEPS": str(max(round(RECOVERY_STEPS * steps), 1)),
    }  # fmt: skip
    files = f"--gin_file={Run(out).config} --gin_file={RECOVERY}"
    return " ".join(
        ["mmt distill", files, *(shlex.quote(f"--gin.{k}={v}") for k, v in flags.items())]
    )


class _Measured:
    """Measures the gates of a run's model on the text of its languages."""

    def __init__(self, run: Run, model: Transformer, manifest: Manifest, options: Pruning) -> None:
        self._model, self._manifest, self._options = model, manifest, options
        self._vocabularies = {
            side: Vocabulary.load(file) for side, file in run.vocabularies().items()
        }
        with config.isolated(run.config):
            lengths = config.macro("TASK_FEATURE_LENGTHS") or {}
        self._longest = {side: lengths.get(side, 256) for side in ("inputs", "targets")}
        self.lines: dict[str, int] = {}  # by language
        self.tokens = 0

    def batches(self, corpus: Corpus, code: str) -> Iterator[dict[str, np.ndarray]]:
        """Yields the model's inputs for a sample of a language's pairs."""
        encoded = self._encoded(corpus, code)
        self.lines[code] = len(encoded)
        for start in range(0, len(encoded), _ROWS):
            yield self._batch(encoded[start : start + _ROWS], code)

    def masses(
        self, params: object, batches: Iterable[Mapping[str, np.ndarray]],
        kept: Mapping[str, np.ndarray],
    ) -> _Masses:  # fmt: skip
        """Returns the sums over batches, with the router's choice among the `kept` experts."""
        total: _Masses | None = None
        for batch in batches:
            new = jax.tree.map(np.asarray, _masses(self._model)(params, batch, kept))
            total = new if total is None else jax.tree.map(np.add, total, new)
        assert total is not None
        return total

    def _encoded(self, corpus: Corpus, code: str) -> list[tuple[list[int], list[int]]]:
        """Returns the ids of source and target of sampled pairs, by length."""
        manifest, vocabularies = self._manifest, self._vocabularies
        target = code if manifest.source else manifest.target
        prefix = source_prefix(vocabularies["source"], target)
        pairs = []
        for source, reference in self._sample(corpus, code):
            ids = [*vocabularies["source"].encode(prefix + source), self._model.config.eos_id]
            pair = ids, vocabularies["target"].encode(reference)
            if len(pair[0]) <= self._longest["inputs"] and len(pair[1]) < self._longest["targets"]:
                pairs.append(pair)
        if not pairs:
            raise ValueError(
                f"corpus {corpus.name}: all sampled lines of {code} are longer than the "
                f"{self._longest} tokens of the training (TASK_FEATURE_LENGTHS)"
            )
        return sorted(pairs, key=lambda pair: max(map(len, pair)))

    def _sample(self, corpus: Corpus, code: str) -> Iterator[tuple[str, str]]:
        if self._manifest.source:
            corpus = corpus.reversed()
        ours = self._manifest.source or self._manifest.target
        if corpus.target != ours:
            raise ValueError(
                f"corpus {corpus.name} has the target {corpus.target}; the model translates "
                f"{'from' if self._manifest.source else 'into'} {ours}"
            )
        split = next((s for s in ("validation", "train") if corpus.count(code, s)), "")
        if not split:
            having = [other for other in corpus.languages if corpus.count(other, "train")
                      or corpus.count(other, "validation")]  # fmt: skip
            raise ValueError(
                f"corpus {corpus.name} has no lines of {code} to measure the load of the experts "
                f"on{suggest.hint(code, having, 3, cutoff=0.0)}"
            )
        count, most = corpus.count(code, split), self._options.lines
        random = np.random.default_rng(self._options.seed)
        chosen = set(random.choice(count, min(count, most), replace=False).tolist())
        for number, pair in enumerate(corpus.pairs(code, split)):
            if number in chosen:
                yield pair.source, pair.target

    def _batch(
        self, pairs: Sequence[tuple[list[int], list[int]]], code: str
    ) -> dict[str, np.ndarray]:
        """Returns a batch of `_ROWS` rows; lengths are powers of two, so few programs compile."""
        c = self._model.config
        longest = max(len(side) + 1 for pair in pairs for side in pair)
        shape = _ROWS, 1 << max(4, (longest - 1).bit_length())
        batch = {f"{stack}_input_tokens": np.full(shape, c.pad_id, np.int32) for stack in STACKS}
        batch |= {f"{stack}_segment_ids": np.zeros(shape, np.int32) for stack in STACKS}
        for row, (source, target) in enumerate(pairs):
            for stack, ids in zip(STACKS, (source, [c.start_id, *target]), strict=True):
                batch[f"{stack}_input_tokens"][row, : len(ids)] = ids
                batch[f"{stack}_segment_ids"][row, : len(ids)] = 1
                self.tokens += len(ids)
        if c.languages:
            number = self._manifest.languages.index(code)
            batch["decoder_language_ids"] = np.full(shape, number, np.int32)
        return batch


@functools.cache
def _masses(model: Transformer) -> Callable[..., _Masses]:
    return jax.jit(functools.partial(gate_mass, model))


def _mean(arrays: Iterable[Any]) -> np.ndarray:
    return np.mean(list(arrays), axis=0)


def _layers(flat: Iterable[str]) -> list[str]:
    """Returns the layers with experts ('encoder/1/mlp'), in the order of the model."""
    mlps = [name.removesuffix("/router") for name in flat if name.endswith("/mlp/router")]
    return sorted(mlps, key=lambda mlp: (STACKS.index(mlp.split("/")[0]), int(mlp.split("/")[1])))


def _scale(masses: Sequence[GateMass]) -> np.ndarray:
    """Returns the factor of each kept expert's output: its tokens' mean gate before and now."""
    before, now = (sum(getattr(m, name) / m.total for m in masses) for name in ("replaced", "mass"))
    scale = np.divide(before, now, out=np.ones_like(now), where=now > 0)
    return np.where(np.isclose(scale, 1.0, atol=1e-4), 1.0, scale).astype(np.float32)


def _cut(flat: dict[str, np.ndarray], mlp: str, kept: np.ndarray, scale: np.ndarray) -> None:
    """Leaves the kept experts and their columns of the router in a layer."""
    for name in [name for name in flat if name.startswith(f"{mlp}/w")]:
        flat[name] = flat[name][kept]
    flat[f"{mlp}/wo"] = flat[f"{mlp}/wo"] * scale[:, None, None]
    for name in (f"{mlp}/router", f"{mlp}/{BIAS}"):
        if name in flat:
            flat[name] = flat[name][..., kept]


def _merge(flat: dict[str, np.ndarray], mlp: str, gates: np.ndarray, c: Config, how: str) -> None:
    """Makes one MLP of a layer's experts, by their mean gates."""
    if how == "average":
        weights = gates / gates.sum()
        for name in [name for name in flat if name.startswith(f"{mlp}/w")]:
            flat[name] = np.tensordot(weights, flat[name], axes=1)[None].astype(np.float32)
        gates = gates.sum(keepdims=True)
    merge(flat, mlp, (gates * output_scale(c)).astype(np.float32), c)


def _bindings(c: Config, experts: int, codes: int, width: int) -> list[str]:
    """Returns the bindings of the sizes of the new model. width: of dense MLPs; 0: a mixture."""
    if width:
        routing = [f"transformer.Config.{stack}_routing = 'token'" for stack in STACKS]
        return [
            f"transformer.Config.mlp_dim = {width}", "transformer.Config.moe_period = 0",
            "transformer.Config.languages = 0", *routing,
        ]  # fmt: skip
    by_language = [f"transformer.Config.languages = {codes}"] if c.languages else []
    return [f"moe.MoeConfig.num_experts = {experts}", *by_language]
