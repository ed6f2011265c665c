"""Which checkpoints a run directory has, and which of them to take. Names and small files alone.

What is in them is `mmt.checkpoint`'s matter, and whether it is whole, `mmt.checkpoint.digests`'s.
"""

import json
import sys
from pathlib import Path


def available_steps(model_dir: str | Path) -> list[int]:
    """The steps of the whole checkpoints of a run directory, in order."""
    directory = Path(model_dir) / "checkpoints"
    return sorted(
        int(path.name)
        for path in (directory.iterdir() if directory.is_dir() else ())
        if path.name.isdigit() and path.is_dir()
    )


def best_step(model_dir: str | Path) -> int:
    """The step of the lowest validation loss where one was measured, else the latest.

    Raises ValueError where the directory holds no checkpoint.
    """
    steps = available_steps(model_dir)
    if not steps:
        raise ValueError(f"no checkpoint in {Path(model_dir) / 'checkpoints'}: is it trained yet?")
    losses = {}
    for step in steps:
        directory = Path(model_dir).absolute() / "checkpoints" / str(step) / "measured"
        try:
            text = (directory / "metadata").read_text("utf-8") if directory.is_dir() else "{}"
            measured = json.loads(text)
        except (ValueError, OSError) as error:
            print(f"{directory} is damaged: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if isinstance(measured, dict) and "validation_loss" in measured:
            losses[step] = measured["validation_loss"]
    return min(losses, key=losses.__getitem__) if losses else steps[-1]


def last_steps(model_dir: str | Path, last: int, *, step: int | None = None) -> list[int]:
    """The steps of the `last` checkpoints, in order; those up to `step` if it is given.

    Raises ValueError where there are fewer.
    """
    if last < 1:
        raise ValueError(f"the last {last} checkpoints; allowed: 1 or more")
    steps = [one for one in available_steps(model_dir) if step is None or one <= step]
    if len(steps) < last or (step is not None and steps[-1] != step):
        there = ", ".join(map(str, available_steps(model_dir))) or "none"
        raise ValueError(
            f"the last {last} checkpoints{'' if step is None else f' up to {step}'}: {model_dir} "
            f"has {there} (a run keeps as many as checkpoint.Policy.keep says)"
        )
    return steps[-last:]
