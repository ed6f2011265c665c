"""Tables of parameter names: which tensors of a Hugging Face file are which of our parameters.

There is one table per format, read in both directions. It knows names, shapes and the order of
axes. `mmt.convert.hf` reads files, `mmt.convert.hf_config` reads config.json.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mmt.model import parameter_names
from mmt.model.transformer import Transformer

Shape = tuple[int, ...]


class NameRule(NamedTuple):
    """A row of a name table. `{stack}` stands for encoder or decoder.

    If `kernel`, our array is [inputs ... outputs] and the tensor is the matrix [outputs inputs];
    otherwise both have one shape.
    """

    ours: str
    theirs: str
    kernel: bool = False


# {layers} is '{stack}.block.{layer}.layer'; {last} is the number of the layer's MLP sublayer.
_MODEL = (
    NameRule("source_embed/embedding", "shared.weight"),
    NameRule("logits/kernel", "lm_head.weight", kernel=True),
    NameRule("{stack}/norm/scale", "{stack}.final_layer_norm.weight"),
    NameRule(
        "{stack}/relative_bias/embedding",
        "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    ),
)
_LAYER = (
    NameRule("relative_bias/embedding", "{layers}.0.SelfAttention.relative_attention_bias.weight"),
    NameRule("self_norm/scale", "{layers}.0.layer_norm.weight"),
    NameRule("self_attention/query", "{layers}.0.SelfAttention.q.weight", kernel=True),
    NameRule("self_attention/key", "{layers}.0.SelfAttention.k.weight", kernel=True),
    NameRule("self_attention/value", "{layers}.0.SelfAttention.v.weight", kernel=True),
    NameRule("self_attention/out", "{layers}.0.SelfAttention.o.weight", kernel=True),
    NameRule("cross_norm/scale", "{layers}.1.layer_norm.weight"),
    NameRule("cross_attention/query", "{layers}.1.EncDecAttention.q.weight", kernel=True),
    NameRule("cross_attention/key", "{layers}.1.EncDecAttention.k.weight", kernel=True),
    NameRule("cross_attention/value", "{layers}.1.EncDecAttention.v.weight", kernel=True),
    NameRule("cross_attention/out", "{layers}.1.EncDecAttention.o.weight", kernel=True),
    NameRule("mlp_norm/scale", "{layers}.{last}.layer_norm.weight"),
)
_PLAIN = (  # T5 1.0: one activation
    NameRule("mlp/wi_0", "{layers}.{last}.DenseReluDense.wi.weight", kernel=True),
    NameRule("mlp/wo", "{layers}.{last}.DenseReluDense.wo.weight", kernel=True),
)
_GATED = (
    NameRule("mlp/wi_0", "{layers}.{last}.DenseReluDense.wi_0.weight", kernel=True),
    NameRule("mlp/wi_1", "{layers}.{last}.DenseReluDense.wi_1.weight", kernel=True),
    NameRule("mlp/wo", "{layers}.{last}.DenseReluDense.wo.weight", kernel=True),
)
_SWITCH = (
    NameRule("mlp/wi_0", "{layers}.{last}.mlp.wi.weight", kernel=True),
    NameRule("mlp/wo", "{layers}.{last}.mlp.wo.weight", kernel=True),
)
_EXPERTS = (  # one tensor per expert; ours are stacked
    NameRule("mlp/router", "{layers}.{last}.mlp.router.classifier.weight", kernel=True),
    NameRule("mlp/wi_0", "{layers}.{last}.mlp.experts.expert_{expert}.wi.weight", kernel=True),
    NameRule("mlp/wo", "{layers}.{last}.mlp.experts.expert_{expert}.wo.weight", kernel=True),
)

# Names under which a file may contain the embedding table again, or only.
EMBEDDING, HEAD = "shared.weight", "lm_head.weight"
EMBEDDING_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# In files of the first T5; no model uses it.
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


@dataclass(frozen=True)
class TensorMapping:
    """A parameter of ours and its tensors: one, or one per expert (our first axis).

    Attributes:
        ours: flat name of our parameter.
        theirs: names of the tensors.
        shape: shape of our parameter.
        kernel: see `NameRule`.
    """

    ours: str
    theirs: tuple[str, ...]
    shape: Shape
    kernel: bool

    @property
    def their_shape(self) -> Shape:
        """Returns the shape of each tensor."""
        shape = self.shape[1:] if "expert_" in self.theirs[0] else self.shape
        if not self.kernel:
            return shape
        inputs = shape[0] if self.ours.rsplit("/", 1)[-1] != "out" else shape[0] * shape[1]
        return int(np.prod(shape)) // inputs, inputs

    def to_ours(self, get: Callable[[str], np.ndarray]) -> np.ndarray:
        """Returns our array, converted from `get(tensor name)`."""
        arrays = [get(name).T if self.kernel else get(name) for name in self.theirs]
        if "expert_" in self.theirs[0]:
            return np.stack(arrays)
        return arrays[0].reshape(self.shape)

    def to_theirs(self, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yields (tensor name, tensor) of our array."""
        for i, name in enumerate(self.theirs):
            part = array[i] if "expert_" in name else array
            yield name, part.reshape(self.their_shape[::-1]).T if self.kernel else part


def table(model: Transformer) -> dict[str, TensorMapping]:
    """Returns the tensor mapping of every parameter of `model`, by flat name.

    Names are those of T5's family with UMT5's per-layer bias, or of Switch Transformers if the
    model has experts.

    Raises:
        ValueError: the model has two vocabularies. `hf_config.from_config` rejects everything else
            that has no equivalent.
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
        rule, values = _find(name, sparse, gated=gated)
        experts = shape[0] if "{expert}" in rule.theirs else 1
        theirs = tuple(rule.theirs.format(**values, expert=i) for i in range(experts))
        entries[name] = TensorMapping(name, theirs, shape, rule.kernel)
    return entries


def check(actual: Mapping[str, Shape], entries: Mapping[str, TensorMapping], where: Any) -> None:
    """Raises ValueError unless `actual` (tensor name -> shape) equals the table.

    The message lists all names that are missing, unknown or of another shape.
    """
    expected = {name: entry.their_shape for entry in entries.values() for name in entry.theirs}
    wrong = [f"{name}: missing" for name in expected if name not in actual]
    wrong += [f"{name}: not in the model" for name in actual if name not in expected]
    wrong += [
        f"{name}: {list(actual[name])} in the file, {list(shape)} by config.json"
        for name, shape in expected.items()
        if name in actual and actual[name] != shape
    ]
    if wrong:
        raise ValueError(f"{where}: the weights are not config.json's model:\n  "
                         + "\n  ".join(wrong))  # fmt: skip


def _find(name: str, sparse: set[str], *, gated: bool) -> tuple[NameRule, dict[str, Any]]:
    """Returns the rule of a flat name, and the values of its fields."""
    stack, _, rest = name.partition("/")
    layer, _, inside = rest.partition("/")
    if not layer.isdigit():
        ours = name if stack not in ("encoder", "decoder") else f"{{stack}}/{rest}"
        return next(rule for rule in _MODEL if rule.ours == ours), {"stack": stack}
    if sparse:
        mlp = _EXPERTS if f"{stack}/{layer}" in sparse else _SWITCH
    else:
        mlp = _GATED if gated else _PLAIN
    rule = next(rule for rule in (*_LAYER, *mlp) if rule.ours == inside)
    last = 2 if stack == "decoder" else 1
    return rule, {"layers": f"{stack}.block.{layer}.layer", "last": last}
