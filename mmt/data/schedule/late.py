"""Late entry: a language enters a run late, so that it is repeated at most a number of times."""

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
    active = {name: weight for name, weight in weights.items() if weight}
    needed = {name: epochs * pairs[name] for name in active if name in candidates}
    examples_after = 0.0  # examples after the entries found so far
    while needed and len(active) > 1:
        total_weight = sum(active.values())
        duration, name = min(
            (remaining * total_weight / active[name], name) for name, remaining in needed.items()
        )
        if examples_after + duration >= examples:
            break
        examples_after += duration
        late[name] = examples_after
        needed = {
            waiting: remaining - duration * active[waiting] / total_weight
            for waiting, remaining in needed.items()
            if waiting != name
        }
        del active[name]
    return late
