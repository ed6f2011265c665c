"""The experts that a model selects for each language: one `routing` row per layer and language.

It reads sentences of a test set with their references, packed and mixed as in training. No score is
computed.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from eval.records.analysis import ExpertLoad
from eval.testsets import TestSet
from mmt import config
from mmt.data import packing
from mmt.data.cache import records
from mmt.run import Run
from mmt.translate import Translator

FEATURES = (
    "encoder_input_tokens", "decoder_input_tokens", "encoder_segment_ids", "decoder_segment_ids",
)  # fmt: skip
STACKS = {"encoder": "source", "decoder": "target"}


class RoutingCounts(NamedTuple):
    """Counts of one layer: choices [languages, experts]; of languages tokens and dropped tokens.

    gates: sums of the gates of conditional routing; NaN without a gate.
    """

    load: np.ndarray
    tokens: np.ndarray
    dropped: np.ndarray
    gates: np.ndarray


def routing(
    translator: Translator, testset: TestSet, *, system: str, checkpoint: str,
    sentences: int = 100, rows: int = 32, target_length: int = 0,
) -> list[ExpertLoad]:  # fmt: skip
    """Returns a row per MoE layer and language; [] for a dense model.

    The first `sentences` of each language are shuffled and packed into batches of `rows` rows. A
    row has the translator's `max_source_length` and `target_length` tokens (0: the same); the
    values of the run's training are best (`as_trained`). There is no noise. load: share of choices
    by expert. drop_rate: share of tokens that a training batch would drop. entropy: of the load; 1
    if uniform. gate: mean gate of conditional routing.
    """
    if not translator.model.config.moe_period:
        return []
    codes = list(testset.languages)
    totals: dict[str, RoutingCounts] = {}
    lengths = translator.max_source_length, target_length or translator.max_source_length
    for batch, ids in _batches(translator, testset, lengths, sentences=sentences, rows=rows):
        for layer, counts in _count(translator, batch, ids, len(codes)).items():
            before = totals.get(layer)
            summed = map(np.add, before, counts) if before else counts
            totals[layer] = RoutingCounts(*summed)
    return [
        _row(RoutingCounts(*(part[i] for part in counts)), system=system, checkpoint=checkpoint,
             testset=testset.name, layer=layer, source=code)
        for layer, counts in totals.items()
        for i, code in enumerate(codes)
        if counts.tokens[i]
    ]  # fmt: skip


def as_trained(model_dir: Path) -> dict[str, int]:
    """Returns the batch sizes of a run for `routing`, at most 32 rows; {} for an imported model."""
    with config.isolated(Run(model_dir).config):
        lengths, rows = config.macro("TASK_FEATURE_LENGTHS"), config.macro("BATCH_SIZE")
    if lengths is None or rows is None:
        return {}
    return {"rows": min(rows, 32), "target_length": lengths["targets"]}


def _row(counts: RoutingCounts, **about: Any) -> ExpertLoad:
    load = counts.load / counts.load.sum()
    used = load[load > 0]
    entropy = -(used * np.log(used)).sum() / math.log(max(len(load), 2))
    return ExpertLoad(
        **about, load=tuple(round(float(share), 5) for share in load),
        drop_rate=round(float(counts.dropped / counts.tokens), 5),
        entropy=round(float(entropy), 5), tokens=int(counts.tokens),
        gate=None if math.isnan(counts.gates) else round(float(counts.gates / counts.tokens), 5),
    )  # fmt: skip


def _batches(
    translator: Translator, testset: TestSet, lengths: tuple[int, int], *, sentences: int, rows: int
) -> Iterator[tuple[packing.Batch, dict[str, np.ndarray]]]:
    """Yields packed batches, and for each side the language of every token (-1 for padding).

    These are languages of the test set. In the batch, `decoder_language_ids` are the model's.
    """
    sizes = translator.model.config
    prefix = f"{translator.tag(testset.target)} " if translator.tagged else ""
    encode = {side: vocabulary.encode for side, vocabulary in translator.vocabularies.items()}
    model_ids = np.array([
        translator.language_id(code, testset.target) for code in testset.languages
    ] if translator.routes_by_language else [], np.int32)  # fmt: skip
    examples: list[packing.PackedExample] = []
    tokens: list[Any] = []
    for language, lines in enumerate(testset.languages.values()):
        for text, reference in itertools.islice(zip(*lines[:2], strict=True), sentences):
            pair = encode["source"](prefix + text), encode["target"](reference)
            source, target = (len(side) + 1 for side in pair)
            if source <= lengths[0] and target <= lengths[1]:
                examples.append(packing.PackedExample(0, language, len(tokens), source, target))
                tokens.append(pair)
    packer = packing.Packer(*lengths, open_rows=rows)
    order = np.random.default_rng(0).permutation(len(examples))
    closed = [packer.add(examples[i]) for i in order]
    packed_rows = [row for row in closed if row] + packer.open
    for start in range(0, len(packed_rows), rows):
        chunk = packed_rows[start : start + rows]
        chunk += [[]] * (rows - len(chunk))
        batch = packing.assemble(
            chunk, _decoded(chunk, tokens), source=lengths[0], target=lengths[1],
            pad=sizes.pad_id, eos=sizes.eos_id, start=sizes.start_id,
        )  # fmt: skip
        if translator.routes_by_language:
            batch["decoder_language_ids"] = model_ids[batch["decoder_language_ids"]]
        yield batch, {stack: _languages(chunk, batch[f"{stack}_segment_ids"]) for stack in STACKS}


def _decoded(rows: list[packing.Row], tokens: list[Any]) -> records.Decoded:
    flat = [example for row in rows for example in row]

    def side(index: int) -> tuple[np.ndarray, np.ndarray]:
        texts = [np.array(tokens[example.record][index], np.int32) for example in flat]
        return np.concatenate(texts), np.array(list(map(len, texts)), np.int32)

    languages = np.array([example.language for example in flat], np.int32)
    return records.Decoded(*side(0), *side(1), languages)


def _languages(rows: list[packing.Row], segments: np.ndarray) -> np.ndarray:
    """Returns the language of every token, by its segment."""
    max_segments = max(map(len, rows))
    table = np.full((len(rows), max_segments + 1), -1)
    for number, row in enumerate(rows):
        table[number, 1 : len(row) + 1] = [example.language for example in row]
    return np.take_along_axis(table, segments, axis=1)


def _count(
    translator: Translator, batch: packing.Batch, ids: dict[str, np.ndarray], languages: int
) -> dict[str, RoutingCounts]:
    sizes = translator.model.config
    languages_of = ("decoder_language_ids",) if translator.routes_by_language else ()
    features = {name: batch[name] for name in (*FEATURES, *languages_of)}
    routed = _forward(translator.model)(translator.params, features)
    counts = {}
    for stack, of_tokens in ids.items():
        is_token = of_tokens.ravel() >= 0
        language = of_tokens.ravel()[is_token]
        for number, (expert, slot, *gate) in enumerate(zip(*routed.get(stack, ()), strict=True)):
            group, choices = expert.shape[1:]
            capacity = max(1, math.ceil(
                choices * group * sizes.moe.capacity_factor / sizes.moe.num_experts
            ))  # fmt: skip
            flat = expert.reshape(-1, choices)[: is_token.size][is_token]
            dropped = (slot.reshape(-1, choices)[: is_token.size][is_token] >= capacity).all(axis=1)
            load = np.zeros((languages, sizes.moe.num_experts))
            np.add.at(load, (language[:, None], flat), 1)
            count = functools.partial(np.bincount, language, minlength=languages)
            layer = f"{stack}.{(number + 1) * sizes.moe_period}"
            gates = np.ravel(gate[0])[is_token] if gate else np.full(language.shape, np.nan)
            counts[layer] = RoutingCounts(
                load, count(), count(weights=dropped), count(weights=gates)
            )
    return counts


@functools.cache
def _forward(model: Any) -> Any:
    """Returns a function (params, features) -> for each stack (experts, slots), each [layers G S
    k], and the gates [layers B T 1] of conditional routing.
    """

    @jax.jit
    def forward(params: Any, features: Any) -> Any:
        _, collections = model.apply({"params": params}, **features, mutable=["routing"])
        stacks: dict[str, list[Any]] = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(collections["routing"]):
            stack = next(part.key for part in path if getattr(part, "key", "") in STACKS)
            stacks.setdefault(stack, []).append(leaf)
        return stacks

    return forward
