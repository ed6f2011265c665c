"""A run directory made from another one: its configuration and its parameters."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mmt import checkpoint, config
from mmt.model import parameter_names
from mmt.model.transformer import Transformer, parameter_shapes
from mmt.run import Run


def gin_text(run: Run, bindings: Sequence[str], out: str | Path, file: str = "") -> str:
    """Returns the configuration of `run` for the run directory `out`, with some other bindings.

    file: a gin file whose bindings are loaded before `bindings`.
    """
    with config.isolated(run.config):
        more = [f"MODEL_DIR = {str(out)!r}"] if config.macro("MODEL_DIR") else []
        with config.changed([*bindings, *more], file):
            config.configured(Transformer)()
            return config.complete()


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
