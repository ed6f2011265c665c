"""Older names of classes in configs; the modules keep them, so that gin loads them."""

import re

_RENAMED = {"train.Program": "train.Trainer", "recipe.Recipe": "recipe.CacheConfig"}
_OLD = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, _RENAMED))})\b")


def with_present_names(config: str) -> str:
    """Returns the text of a config with the present names of classes, to compare it with others.

    >>> with_present_names("train.Program.log_every = 10")
    'train.Trainer.log_every = 10'
    """
    return _OLD.sub(lambda match: _RENAMED[match[0]], config)
