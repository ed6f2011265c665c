"""The tables of names: which tensors of a Hugging Face file are which parameters of ours.

One table per format, read in both directions. It knows names, shapes and the order of axes; files
are `hf`'s part, and what config.json says `hf_config`'s.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mmt.model import parameter_names
from mmt.model.transformer import Transformer

Shape = tuple[int, ...]


class Row(NamedTuple):
    """A line of a table. `{stack}` is encoder or decoder; the rest of a name may be any layer's.

    kernel: ours is [inputs ... outputs], theirs the matrix [outputs inputs]; else they are alike.
    """

    ours: str
    theirs: str
    kernel: bool = False


# Whole models; {layers} is '{stack}.block.{layer}.layer', {last} the number of its MLP sublayer.
_MODEL = (
    Row("source_embed/embedding", "shared.weight"),
    Row("logits/kernel", "lm_head.weight", kernel=True),
    Row("{stack}/norm/scale", "{stack}.final_layer_norm.weight"),
    Row(
        "{stack}/relative_bias/embedding",
        "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    ),
)
_LAYER = (
    Row("relative_bias/embedding", "{layers}.0.SelfAttention.relative_attention_bias.weight"),
    Row("self_norm/scale", "{layers}.0.layer_norm.weight"),
    Row("self_attention/query", "{layers}.0.SelfAttention.q.weight", kernel=True),
    Row("self_attention/key", "{layers}.0.SelfAttention.k.weight", kernel=True),
    Row("self_attention/value", "{layers}.0.SelfAttention.v.weight", kernel=True),
    Row("self_attention/out", "{layers}.0.SelfAttention.o.weight", kernel=True),
    Row("cross_norm/scale", "{layers}.1.layer_norm.weight"),
    Row("cross_attention/query", "{layers}.1.EncDecAttention.q.weight", kernel=True),
    Row("cross_attention/key", "{layers}.1.EncDecAttention.k.weight", kernel=True),
    Row("cross_attention/value", "{layers}.1.EncDecAttention.v.weight", kernel=True),
    Row("cross_attention/out", "{layers}.1.EncDecAttention.o.weight", kernel=True),
    Row("mlp_norm/scale", "{layers}.{last}.layer_norm.weight"),
)
_PLAIN = (  # T5 1.0: one activation
    Row("mlp/wi_0", "{layers}.{last}.DenseReluDense.wi.weight", kernel=True),
    Row("mlp/wo", "{layers}.{last}.DenseReluDense.wo.weight", kernel=True),
)
_GATED = (
    Row("mlp/wi_0", "{layers}.{last}.DenseReluDense.wi_0.weight", kernel=True),
    Row("mlp/wi_1", "{layers}.{last}.DenseReluDense.wi_1.weight", kernel=True),
    Row("mlp/wo", "{layers}.{last}.DenseReluDense.wo.weight", kernel=True),
)
_SWITCH = (
    Row("mlp/wi_0", "{layers}.{last}.mlp.wi.weight", kernel=True),
    Row("mlp/wo", "{layers}.{last}.mlp.wo.weight", kernel=True),
)
_EXPERTS = (  # a tensor for each expert; ours are stacked
    Row("mlp/router", "{layers}.{last}.mlp.router.classifier.weight", kernel=True),
    Row("mlp/wi_0", "{layers}.{last}.mlp.experts.expert_{expert}.wi.weight", kernel=True),
    Row("mlp/wo", "{layers}.{last}.mlp.experts.expert_{expert}.wo.weight", kernel=True),
)

# Names under which a file may hold the table of embeddings once more, or instead.
EMBEDDING, HEAD = "shared.weight", "lm_head.weight"
EMBEDDING_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# In files of the first T5; it is added to no attention of any model.
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


@dataclass(frozen=True)
class Entry:
    """A parameter and its tensors: one, or one for each expert (whose axis is our first)."""

    ours: str
    theirs: tuple[str, ...]
    shape: Shape  # of ours
    kernel: bool

    @property
    def their_shape(self) -> Shape:
        """Of each of their tensors."""
        one = self.shape[1:] if "expert_" in self.theirs[0] else self.shape
        if not self.kernel:
            return one
        inputs = one[0] if self.ours.rsplit("/", 1)[-1] != "out" else one[0] * one[1]
        return int(np.prod(one)) // inputs, inputs

    def to_ours(self, get: Callable[[str], np.ndarray]) -> np.ndarray:
        """Our array, made of `get(their name)`."""
        arrays = [get(name).T if self.kernel else get(name) for name in self.theirs]
        if "expert_" in self.theirs[0]:
            return np.stack(arrays)
        return arrays[0].reshape(self.shape)

    def to_theirs(self, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """(their name, their tensor) of our array."""
        for i, name in enumerate(self.theirs):
            one = array[i] if "expert_" in name else array
            yield name, one.reshape(self.their_shape[::-1]).T if self.kernel else one


def table(model: Transformer) -> dict[str, Entry]:
    """Every parameter of `model` by its flat name, with its tensors' names in a file of T5's
    family, UMT5's per-layer bias among them, or of Switch Transformers where it has experts.

    Raises ValueError for two vocabularies; `hf_config.from_config` for all else they cannot hold.
    """
    if model.config.target_vocab_size:
        raise ValueError(
            f"the model has two vocabularies (TARGET_VOCAB_SIZE = {model.config.target_vocab_size})"
            ", Hugging Face's T5 one table for both sides: train with TARGET_VOCAB_SIZE = 0"
        )
    shapes = parameter_names.shapes(model)
    sparse = {name.rsplit("/", 2)[0] for name in shapes if name.endswith("/mlp/router")}
    gated = len(model.config.mlp_activations) > 1
    entries = {}
    for name, shape in shapes.items():
        row, values = _find(name, sparse, gated=gated)
        experts = shape[0] if "{expert}" in row.theirs else 1
        theirs = tuple(row.theirs.format(**values, expert=i) for i in range(experts))
        entries[name] = Entry(name, theirs, shape, row.kernel)
    return entries


def check(found: Mapping[str, Shape], entries: Mapping[str, Entry], where: Any) -> None:
    """ValueError that lists all of `found` (their name -> shape) which is not as the table has it.
    """
    wanted = {name: entry.their_shape for entry in entries.values() for name in entry.theirs}
    wrong = [f"{name}: missing" for name in wanted if name not in found]
    wrong += [f"{name}: not in the model" for name in found if name not in wanted]
    wrong += [
        f"{name}: {list(found[name])} in the file, {list(shape)} by config.json"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    if wrong:
        raise ValueError(f"{where}: the weights are not config.json's model:\n  "
                         + "\n  ".join(wrong))  # fmt: skip


def _find(name: str, sparse: set[str], *, gated: bool) -> tuple[Row, dict[str, Any]]:
    """The row of one of our flat names, and what stands for the fields in it."""
    stack, _, rest = name.partition("/")
    layer, _, inside = rest.partition("/")
    if not layer.isdigit():
        ours = name if stack not in ("encoder", "decoder") else f"{{stack}}/{rest}"
        return next(row for row in _MODEL if row.ours == ours), {"stack": stack}
    if sparse:
        mlp = _EXPERTS if f"{stack}/{layer}" in sparse else _SWITCH
    else:
        mlp = _GATED if gated else _PLAIN
    row = next(row for row in (*_LAYER, *mlp) if row.ours == inside)
    last = 2 if stack == "decoder" else 1
    return row, {"layers": f"{stack}.block.{layer}.layer", "last": last}
