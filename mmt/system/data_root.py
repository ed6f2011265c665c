"""The folder of everything that is made on first use: corpora, vocabularies, caches."""

import os
from pathlib import Path


def data_root() -> Path:
    """Returns $MMT_DATA, or ~/.cache/mmt where it is not set."""
    return Path(os.environ.get("MMT_DATA") or "~/.cache/mmt").expanduser()
