"""Late entry: when a language enters a run, so that it is repeated at most so often."""

from collections.abc import Mapping, Set


def entries(
    weights: Mapping[str, float],
    pairs: Mapping[str, int],
    candidates: Set[str],
    examples: float,
    epochs: float,
) -> dict[str, float]:
    """Returns for how many of the last examples each late language takes part in the mixture.

    Found from the end of the run backwards: before the entry of a language the others share its
    rate. A language that may be drawn from the start has no entry.

    Args:
      weights: the rates in proportion, of languages that share `examples`.
      pairs: training pairs of each.
      candidates: the languages that may enter late; the others are there from the start.
      examples: of the rest of the run.
      epochs: how often a late language is shown after its entry.

    >>> entries({"deu": 3, "swh": 1}, {"deu": 90, "swh": 1}, {"deu", "swh"}, 100.0, 10.0)
    {'swh': 40.0}
    """
    late: dict[str, float] = {}
    present = {name: weight for name, weight in weights.items() if weight}
    needed = {name: epochs * pairs[name] for name in present if name in candidates}
    left = 0.0  # examples after the entries found so far
    while needed and len(present) > 1:
        whole = sum(present.values())
        time, name = min((need * whole / present[name], name) for name, need in needed.items())
        if left + time >= examples:
            break
        left += time
        late[name] = left
        needed = {
            other: need - time * present[other] / whole
            for other, need in needed.items()
            if other != name
        }
        del present[name]
    return late
