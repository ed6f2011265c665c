"""Where the parameters of a model that translates lie: on one device, or by a layout."""

from pathlib import Path

import jax

from mmt import config, sharding
from mmt.run import Run


def layout_of(model_dir: str | Path) -> sharding.Layout | None:
    """Returns the layout that the loaded configuration binds, else that of the run.

    It is None for one device without such a binding, and for a directory without a configuration.
    """
    run = Run(model_dir)
    if config.binds(sharding.Layout) or config.binds(sharding.device_mesh):
        return _configured()
    if jax.device_count() == 1 or not run.config.is_file():
        return None
    with config.isolated(run.config):
        return _configured()


def _configured() -> sharding.Layout:
    mesh = config.configured(sharding.device_mesh)()
    return config.configured(sharding.Layout)(mesh=mesh)
