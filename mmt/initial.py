"""The initial parameters of a run that starts from a trained model.

A rule gets the shapes of the trained model's parameters by flat names (`mmt.model.parameter_names`)
and the new model. It returns the names of the parameters to copy; all others stay fresh. Any such
function can be bound in gin as `train.Trainer.initial_rule`.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from mmt import checkpoint
from mmt.model import parameter_names
from mmt.model.transformer import Transformer, boxed_shapes
from mmt.run import Run
from mmt.sharding import Layout

Shapes = Mapping[str, tuple[int, ...]]
Rule = Callable[[Shapes, Transformer], set[str]]


def same(parent: Shapes, model: Transformer) -> set[str]:
    """Copies all parameters from a model of the same shape, for fine-tuning."""
    parameter_names.check(parent, model)
    return set(parent)


def upcycled(parent: Shapes, model: Transformer) -> set[str]:
    """Initialises a model with experts from a dense one (Sparse Upcycling, Komatsuzaki et al.
    2022).

    Every expert starts as a copy of the layer's MLP, and so does the shared MLP of conditional
    routing; routers and gates are fresh. The gates of a token must sum to 1, as with `gshard_top2`:
    then the copies together equal the MLP, and the new model has the old one's logits for any
    router, if no token is dropped. In decoding and validation none is; training differs through
    GShard's random dropping and full experts. Raises ValueError for Switch, whose single gate is a
    probability below 1.
    """
    _check_gates(model)
    shapes = parameter_names.shapes(model)
    experts = {name.removesuffix("router") for name in shapes if name.endswith("/mlp/router")}
    if any(f"{mlp}router" in parent for mlp in experts):
        raise ValueError("upcycling makes experts of a dense model; the parent has experts already")
    fresh = ("/mlp/router", "/mlp/router_bias", "/mlp/gate")
    expected = {name: shape for name, shape in shapes.items() if name.endswith(fresh)}
    copied = set(parent)
    for name, shape in parent.items():
        layer, _, leaf = name.rpartition("/")
        becomes_experts = f"{layer}/" in experts
        expected[name] = (model.config.moe.num_experts, *shape) if becomes_experts else shape
        if becomes_experts and model.config.moe.shared_mlp_dim:
            expected[f"{layer}/shared/{leaf}"] = shape
            copied.add(f"{layer}/shared/{leaf}")
    parameter_names.check(expected, model)
    return copied


def shared(parent: Shapes, model: Transformer) -> set[str]:
    """Initialises a student from its teacher's non-expert weights (Switch, Fedus et al. 2021, 4.2).

    Parameters with the same name and shape are copied. The MLPs of layers with experts in the
    teacher stay fresh, and so do embeddings and logits of other vocabularies. Raises ValueError if
    anything else differs.
    """
    shapes = parameter_names.shapes(model)
    copied = {name for name in shapes if parent.get(name) == shapes[name]}
    mismatches = [
        f"{name}: {parent[name]}, in the model {shapes[name]}"
        for name in sorted(shapes.keys() & parent.keys() - copied)
        if name.startswith(("encoder/", "decoder/"))
        and f"{name.rpartition('/')[0]}/router" not in parent
    ]
    if mismatches or not copied:
        raise ValueError(
            "the teacher's weights are not the student's:\n  " + "\n  ".join(mismatches)
        )
    return copied


def check_rule(rule: Rule, model_dir: str | Path, model: Transformer) -> set[str]:
    """Returns the parameters of a run directory's model that `rule` copies; reads no weights.

    Raises ValueError if the directory has no trained model, or if the model does not fit.
    """
    parent = Run(model_dir).model()
    Run(model_dir).best_step()
    try:
        return rule(parameter_names.shapes(parent), model)
    except ValueError as error:
        raise ValueError(f"{model_dir} as initial model: {error}") from error


def check(program: Any, manifest: Any, model_dir: str | Path) -> None:
    """Checks a run before its directory is changed.

    Raises:
      ValueError: a vocabulary has more pieces than the model has embeddings, a model that routes by
        language has other languages, the directory holds another model's checkpoints, the teacher
        has other vocabularies, or `check_parents` fails.
    """
    check_parents(program, model_dir)
    config, pieces = program.model.config, manifest.vocabulary_size
    sizes = {"source": config.vocab_size, "target": config.target_vocabulary}
    for side, size in sizes.items():
        if pieces[side] > size:
            raise ValueError(
                f"the cache's {side} vocabulary has {pieces[side]} pieces, the model only {size} "
                f"embeddings: set VOCAB_SIZE (or TARGET_VOCAB_SIZE) to {pieces[side]} or more"
            )
    if config.languages:
        _check_languages(program, manifest, model_dir)
    entries = _counted_corpora(manifest, model_dir) or manifest.languages
    checkpoint.check_model(model_dir, program.shapes(len(entries)).items())
    if program.teacher is not None:
        program.teacher.check(program.model, manifest)


def add_corpora(batches: Any, model_dir: str | Path) -> tuple[tuple[str, str], ...]:
    """Returns (language, corpus) of each loss that a run logs, and adds corpus ids to the batches.

    Returns () if losses are logged by language.
    """
    corpora = _counted_corpora(batches.manifest, model_dir)
    if corpora:
        batches.add_corpus_ids()
    return corpora


def _counted_corpora(manifest: Any, model_dir: str | Path) -> tuple[tuple[str, str], ...]:
    """Returns (language, corpus) of each loss that a run logs; () if losses are by language.

    They are by language if no language has several corpora, or if the run was started so by an
    earlier version.
    """
    table = manifest.corpus_table
    if len(table) == len({code for code, _ in table}):
        return ()
    stored_size = checkpoint.meter_size(model_dir)
    return table if stored_size in (None, len(table)) else ()


def _check_languages(program: Any, manifest: Any, model_dir: str | Path) -> None:
    """Checks the rows of the routing tables against the languages of the data.

    Raises ValueError if their number differs, or if they are copied from a model with other
    languages.
    """
    config, languages, parent = program.model.config, manifest.languages, program.initial_model_dir
    if config.languages != len(languages):
        raise ValueError(
            f"transformer.Config.languages = {config.languages}, but the cache has "
            f"{len(languages)} languages: a model that routes by language has one row for each; "
            f"allowed: {len(languages)}"
        )
    if parent and not Run(model_dir).checkpoint_steps() and Run(parent).model().config.languages:
        manifest.check_languages_of(Run(parent))


def check_parents(program: Any, model_dir: str | Path) -> None:
    """Checks the initial model and the teacher of a run; needs no data.

    Raises ValueError if one of them is no trained model, if the initial model does not fit, or if
    the run directory is one of theirs.
    """
    teacher = program.teacher.model_dir if program.teacher is not None else ""
    for parent in filter(None, (program.initial_model_dir, teacher)):
        if Path(parent).resolve() == Path(model_dir).resolve():
            raise ValueError(
                f"MODEL_DIR is {parent}, the run's initial model or teacher: name a new directory"
            )
    if teacher:
        Run(teacher).best_step()
    if program.initial_model_dir and not Run(model_dir).checkpoint_steps():
        check_rule(program.initial_rule, program.initial_model_dir, program.model)


def embedding_parent(program: Any, model_dir: str | Path) -> Run | None:
    """Returns the initial model whose embeddings a new run copies.

    Returns None if the rule leaves embeddings fresh (`shared`), or if the run has checkpoints.
    """
    parent, rule = program.initial_model_dir, program.initial_rule
    is_new = not Run(model_dir).checkpoint_steps()
    return Run(parent) if parent and rule in (same, upcycled) and is_new else None


def parameters(
    rule: Rule, model_dir: str | Path, *, fresh: Any, model: Transformer, layout: Layout
) -> Any:
    """Returns the parameters of a new run: `fresh` ones, replaced where `rule` copies trained ones.

    If an expert's weight comes from a dense layer, every expert gets a copy.

    Args:
      rule: selects the parameters to copy.
      model_dir: the run directory of the trained model.
      fresh: initialised parameters of `model`; they are donated.
      model: the new run's model.
      layout: the new run's layout.
    """
    copied = check_rule(rule, model_dir, model)
    parent, old = restore(model_dir, layout)

    def merge(fresh: Any, old: Any) -> Any:
        parent_params = parameter_names.to_flat(old, parent.config)

        def copied_or_fresh(name: str, value: Any) -> Any:
            if name not in copied:
                return value
            old_name = name if name in parent_params else name.replace("/mlp/shared/", "/mlp/")
            return jnp.broadcast_to(parent_params[old_name], value.shape)

        def leaf(path: Any, value: Any) -> Any:
            path = jax.tree_util.keystr(path, simple=True, separator="/")
            names = parameter_names.members(path, model.config)
            if isinstance(names, str):
                return copied_or_fresh(names, value)
            return jnp.stack([copied_or_fresh(name, value[i]) for i, name in enumerate(names)])

        return jax.tree_util.tree_map_with_path(leaf, fresh)

    shardings = jax.tree.map(lambda leaf: leaf.sharding, fresh)
    _report_copied(copied, model, model_dir)
    return jax.jit(merge, out_shardings=shardings, donate_argnums=0)(fresh, old)


def restore(model_dir: str | Path, layout: Layout) -> tuple[Transformer, Any]:
    """Returns the model of a run directory and its best parameters, on the devices of `layout`."""
    model = Run(model_dir).model()
    return model, checkpoint.restore_params(model_dir, layout.shapes(boxed_shapes(model)))


def _check_gates(model: Transformer) -> None:
    """Raises ValueError unless the model has experts and a token's gates sum to 1."""
    if not model.config.moe_period:
        raise ValueError("upcycling needs a model with experts: set Config.moe_period to 1 or more")
    moe = model.config.moe
    logits = jax.random.normal(jax.random.key(0), (1, 8, moe.num_experts))
    routing = moe.router(
        logits, jnp.ones((1, 8), bool),
        capacity_factor=float(moe.num_experts), uniform=jnp.zeros((1, 8)),
    )  # fmt: skip
    if moe.shared_mlp_dim and not moe.gate_budget:
        raise ValueError(
            f"upcycling with MoeConfig.shared_mlp_dim = {moe.shared_mlp_dim} and no gate: two "
            "added copies of the MLP are not the MLP; allowed: a MoeConfig.gate_budget above 0"
        )
    gates = (routing.gate * routing.dispatched).sum(-1)
    if jnp.abs(gates - 1).max() > 1e-5:
        name = getattr(moe.router, "__name__", str(moe.router))
        raise ValueError(
            f"upcycling with the router {name}: a token's gates sum to {gates.min():.2f} to "
            f"{gates.max():.2f}, so that the experts' output is smaller than that of the MLP they "
            "copy; allowed: a router whose gates sum to 1; nearest: gshard_top2"
        )


def _report_copied(copied: set[str], model: Transformer, model_dir: str | Path) -> None:
    shapes = parameter_names.shapes(model)
    fresh = sorted({name.rpartition("/")[0] for name in shapes.keys() - copied})
    fresh_part = f"; fresh: {', '.join(fresh)}" if fresh else ""
    print(
        f"{len(copied)} of {len(shapes)} arrays are from {model_dir}{fresh_part}", file=sys.stderr
    )
