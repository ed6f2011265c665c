"""Suggestions for mistyped names in error messages.

All comparisons of spellings are here. `cutoff` is the least similarity, from 0 to 1, of a suggested
name; 0 always suggests.
"""

import difflib
from collections.abc import Callable, Iterable


def closest_names(
    name: str, names: Iterable[str], count: int = 3, *, cutoff: float = 0.6
) -> list[str]:
    """Returns at most `count` of `names` that are spelled like `name`, the closest first."""
    return difflib.get_close_matches(name, list(names), n=count, cutoff=cutoff)


def closest_name(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Returns the name of `names` that is spelled most like `name`, or None."""
    return next(iter(closest_names(name, names, 1, cutoff=cutoff)), None)


def hint(
    name: str,
    names: Iterable[str],
    count: int = 1,
    *,
    cutoff: float = 0.6,
    show: Callable[[str], str] = str,
) -> str:
    """Returns the end of an error message, '; nearest: a, b', or '' where no name is close.

    show: how a name is written in the message.
    """
    close = closest_names(name, names, count, cutoff=cutoff)
    return f"; nearest: {', '.join(map(show, close))}" if close else ""


def hint_by_end(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns the hint for a dotted name that may lack its beginning.

    >>> hint_by_end("emb_dims", ["transformer.Config.emb_dim"])
    '; nearest: transformer.Config.emb_dim'
    """
    parts = name.count(".") + 1
    full_names = {".".join(full.split(".")[-parts:]): full for full in sorted(names)}
    return hint(name, full_names, cutoff=cutoff, show=full_names.__getitem__)


def choices(name: str, allowed: Iterable[str]) -> str:
    """Returns 'nearest: a; allowed: a, b, c', 'nearest' only if one is close."""
    names = list(allowed)
    close = closest_name(name, names)
    return (f"nearest: {close}; " if close else "") + f"allowed: {', '.join(names)}"
