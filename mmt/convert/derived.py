"""A run directory made from another one: its configuration and its parameters."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mmt import checkpoint, config
from mmt.convert.hf import staged
from mmt.data.cache.manifest import Manifest
from mmt.model import parameter_names
from mmt.model.transformer import Transformer, parameter_shapes
from mmt.run import Run


def gin_text(run: Run, bindings: Sequence[str], out: str | Path, file: str = "") -> str:
    """Returns the configuration of `run` for the run directory `out`, with some other bindings.

    file: a gin file whose bindings are loaded before `bindings`.
    """
    with config.isolated(run.config):
        model_dir_lines = [f"MODEL_DIR = {str(out)!r}"] if config.macro("MODEL_DIR") else []
        with config.changed([*bindings, *model_dir_lines], file):
            config.configured(Transformer)()
            return config.complete()


def write_run(
    run: Run, out: str | Path, bindings: Sequence[str], manifest: Manifest,
    flat: Mapping[str, np.ndarray],
) -> None:  # fmt: skip
    """Writes the run directory `out` with the vocabularies of `run`.

    Args:
        run: the run whose configuration and files it gets.
        out: a new directory; no partial output is left.
        bindings: changes of the configuration.
        manifest: its languages.
        flat: its parameters by flat name.

    Raises:
        ValueError: `out` exists, or the parameters are not those of the new model.
    """
    with staged(Path(out)) as temporary:
        new_run = Run(temporary)
        new_run.config.write_text(gin_text(run, bindings, out), encoding="utf-8")
        manifest.write(temporary)
        for file in {*run.vocabularies().values(), run.environment, run.identifier}:
            if file.is_file():
                shutil.copyfile(file, temporary / file.name)
        write_parameters(temporary, flat)


def parameters(run: Run) -> dict[str, np.ndarray]:
    """Returns the parameters of a run's best checkpoint by flat name."""
    model = run.model()
    params = checkpoint.restore_params(run.directory, parameter_shapes(model))
    flat = parameter_names.to_flat(params, model.config)
    return {name: np.asarray(leaf) for name, leaf in flat.items()}


def write_parameters(directory: Path, flat: Mapping[str, np.ndarray]) -> None:
    """Writes parameters, by flat name, as the checkpoint of a directory with a configuration.

    Raises ValueError if they are not those of its model.
    """
    model = Run(directory).model()
    parameter_names.check({name: leaf.shape for name, leaf in flat.items()}, model)
    checkpoint.write_params(
        directory,
        parameter_shapes(model),
        lambda path, shape: parameter_names.stack(path, shape, model.config, flat.__getitem__),
    )
