"""What the modifiers did to the examples that were drawn, kept so that the ledger counts it.

Each example is decoded and encoded again to be modified. So the count of a draw that nobody
remembers costs as much as the example itself.
"""

from collections.abc import Mapping
from typing import NamedTuple

_LIMIT = 1 << 22  # number of remembered draws


class Change(NamedTuple):
    """The change of an example by modifiers. An example that would no longer fit is not changed.

    Attributes:
      language, record: the example.
      source, target: additional tokens of the sides.
      fits: whether the changed example fits.
    """

    language: int
    record: int
    source: int
    target: int
    fits: bool


class Changes:
    """The change of each draw that was modified, here or in a worker process.

    None is the change of an example that the modifiers left as it was. One thread may add changes
    while others read and forget them.

    >>> changes = Changes()
    >>> changes.add({3: None, 7: Change(0, 12, 2, 0, fits=True)})
    >>> changes.get(7, None)
    Change(language=0, record=12, source=2, target=0, fits=True)
    """

    def __init__(self) -> None:
        self._by_draw: dict[int, Change | None] = {}

    def add(self, changes: Mapping[int, Change | None]) -> None:
        """Remembers changes. It forgets the former ones if they are too many."""
        if len(self._by_draw) + len(changes) > _LIMIT:
            self._by_draw.clear()
        self._by_draw.update(changes)

    def get(self, draw: int, default: Change | None) -> Change | None:
        """Returns the change of a draw, `default` if it is not remembered."""
        return self._by_draw.get(draw, default)

    def take(self) -> dict[int, Change | None]:
        """Returns all changes and forgets them."""
        return {draw: self._by_draw.pop(draw) for draw in list(self._by_draw)}

    def forget(self, before: int) -> None:
        """Forgets the changes of all draws before this one."""
        for draw in list(self._by_draw):
            if draw < before:
                self._by_draw.pop(draw, None)
