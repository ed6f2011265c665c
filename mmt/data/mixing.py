"""Mixing: how often each language is drawn.

`mixing_rates` turns counts into probabilities; `mixture_sampler.py` turns these into an order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from mmt import checked, languages, suggest
from mmt.checked import within

_MONOLINGUAL_SUFFIX = ".monolingual"


def monolingual(language: str) -> str:
    """Returns the component name of a language's monolingual text: 'deu_Latn.monolingual'."""
    return language + _MONOLINGUAL_SUFFIX


def is_monolingual(component: str) -> bool:
    """Returns whether a component of a mixture is monolingual text, not pairs."""
    return component.endswith(_MONOLINGUAL_SUFFIX)


def language_of(component: str) -> str:
    """Returns the FLORES code of a component: 'deu_Latn' for 'deu_Latn.monolingual' or 'deu_Latn'.
    """
    return component.removesuffix(_MONOLINGUAL_SUFFIX)


def mixing_rates(
    counts: Mapping[str, int],
    temperature: float = 5.0,
    *,
    max_epochs: float | None = None,
    examples: int | None = None,
) -> dict[str, float]:
    """Returns the rate p_l ∝ n_l^(1/T) of every language l with n_l examples; rates sum to 1.

    T = 1 is proportional, a large T nearly uniform (Arivazhagan et al. 2019, section 3.2). With
    `max_epochs`, no language is shown more often than that in a run of `examples` examples:
    p_l ≤ max_epochs·n_l/examples, and the others share the rest in proportion (UniMax, Chung et al.
    2023, Algorithm 1).

    >>> mixing_rates({"deu": 32, "swh": 1}, 5.0)      # 32^(1/5) = 2
    {'deu': 0.6666666666666666, 'swh': 0.3333333333333333}

    Raises:
      ValueError: an empty mixture, a temperature that is not positive, a budget that is larger than
        all caps together.
    """
    _check(counts, temperature, max_epochs, examples)
    names = [name for name, count in counts.items() if count]
    sizes = np.array([counts[name] for name in names], np.float64)
    weights = (sizes / sizes.max()) ** (1 / temperature)
    if max_epochs is None or examples is None:
        rates = weights / weights.sum()
    else:
        rates = _capped(weights, max_epochs * sizes / examples)
    return dict.fromkeys(counts, 0.0) | dict(zip(names, rates.tolist(), strict=True))


@dataclass(frozen=True)
class Mixing:
    """The mixture of a run, or of a stage.

    Attributes:
      temperature: rates are n^(1/temperature), see `mixing_rates`.
      max_epochs: UniMax's cap of passes over a language; needs `examples`.
      examples: the number of examples of the run.
      languages: the languages, by any name; None is all.
      at_least: languages with fewer examples are omitted.
      monolingual: the fraction of examples from monolingual text. 0: none, 1: only these, None: one
        half, or all if there are no pairs. Pairs and monolingual text are mixed separately.
      new_languages: languages that are mixed separately from the others, at the same temperature,
        without cap and minimum: those that a trained model is extended by.
      rehearsal: the fraction of examples from the other languages, if there are new ones.

    Raises:
      ValueError: a value out of range.
    """

    temperature: float = field(default=5.0, metadata=within(0, above=True))
    max_epochs: float | None = field(default=None, metadata=within(0, above=True))
    examples: int | None = field(default=None, metadata=within(1))
    languages: Sequence[str] | None = None
    at_least: int = field(default=0, metadata=within(0))
    monolingual: float | None = field(default=None, metadata=within(0, 1))
    new_languages: Sequence[str] = ()
    rehearsal: float = field(default=0.5, metadata=within(0, 1, above=True, below=True))

    def __post_init__(self) -> None:
        checked.check(self, max_int=2**63 - 1)

    def choose(self, known: Sequence[str]) -> list[str]:
        """Returns the codes of `known` that `languages` names.

        Raises:
          ValueError: a name that is not among them; the message has the nearest.
        """
        is_pure = self.monolingual in (0, 1)  # only pairs, or only monolingual text
        candidates = [c for c in known if not is_pure or is_monolingual(c) == self.monolingual]
        if known and not candidates:
            kind = "monolingual text" if self.monolingual == 0 else "pairs"
            raise ValueError(
                f"mixing.Mixing.monolingual is {self.monolingual}, but the data has only {kind}"
            )
        if self.languages is None:
            return candidates
        codes = list(dict.fromkeys(map(language_of, candidates)))
        chosen = self._named("languages", codes) | self._named("new_languages", codes)
        return [code for code in candidates if language_of(code) in chosen]

    def rates(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Returns the rate of each chosen language of `counts` (FLORES code -> examples)."""
        if self.new_languages:
            return self._rates_with_new(counts)
        chosen = {c: counts[c] for c in self.choose(list(counts)) if counts[c] >= self.at_least}
        text_codes = [code for code in chosen if is_monolingual(code)]
        if not text_codes or len(text_codes) == len(chosen):
            if self.monolingual and not text_codes:
                raise ValueError(
                    f"mixing.Mixing.monolingual is {self.monolingual}, but the data has no "
                    "monolingual text; a corpus lists it under [monolingual]"
                )
            return self._rates(chosen, 1.0)
        fraction = self.monolingual_fraction(chosen) or 0.0
        pair_counts = {code: count for code, count in chosen.items() if code not in text_codes}
        text_counts = {code: chosen[code] for code in text_codes}
        rates = self._rates(pair_counts, 1 - fraction) | self._rates(text_counts, fraction)
        return {code: rates[code] for code in chosen}

    def monolingual_fraction(self, counts: Mapping[str, int]) -> float | None:
        """Returns the fraction of monolingual text; None if the data has no pairs or no such text.
        """
        is_text = [is_monolingual(code) for code in counts]
        if all(is_text) or not any(is_text):
            return None
        return 0.5 if self.monolingual is None else self.monolingual

    def _named(self, setting: str, known: Sequence[str]) -> set[str]:
        """Returns the codes of `known` that a setting names. An error has the setting's name."""
        try:
            return {resolve(language_of(name), known) for name in getattr(self, setting)}
        except ValueError as error:
            raise ValueError(f"mixing.Mixing.{setting}: {error}") from None

    def _rates_with_new(self, counts: Mapping[str, int]) -> dict[str, float]:
        chosen = self.choose(list(counts))
        codes = list(dict.fromkeys(map(language_of, chosen)))
        new_codes = self._named("new_languages", codes)
        new_counts = {code: counts[code] for code in chosen if language_of(code) in new_codes}
        old_counts = {code: counts[code] for code in chosen if code not in new_counts}
        has_text = any(map(is_monolingual, new_counts))
        new_mixing = Mixing(self.temperature, monolingual=self.monolingual if has_text else 0.0)
        old_examples = self.examples and max(round(self.examples * self.rehearsal), 1)
        old_mixing = replace(self, languages=None, new_languages=(), examples=old_examples)
        old_rates = old_mixing.rates(old_counts)
        rates = {code: rate * self.rehearsal for code, rate in old_rates.items()}
        for code, rate in new_mixing.rates(new_counts).items():
            rates[code] = rate * (1 - self.rehearsal)
        return {code: rates[code] for code in chosen if code in rates}

    def _rates(self, counts: Mapping[str, int], fraction: float) -> dict[str, float]:
        """Returns the rates of languages that together have a fraction of the draws."""
        budget = None if self.examples is None else max(round(self.examples * fraction), 1)
        rates = mixing_rates(counts, self.temperature, max_epochs=self.max_epochs, examples=budget)
        return {code: rate * fraction for code, rate in rates.items()}


def resolve(name: str, known: Sequence[str]) -> str:
    """Returns the code of `known` for any name of the language.

    Raises:
      ValueError: there is no such code; the message has the nearest.
    """
    if name in known:
        return name
    try:
        code = languages.find(name).code
    except ValueError:
        code = name  # may be misspelt: the message has similar codes
    if code in known:
        return code
    near = suggest.hint(code, known, 3, cutoff=0.0) or "; nearest: none"
    raise ValueError(f"language {name!r} is not among the {len(known)} languages of the data{near}")


def _capped(weights: Float[np.ndarray, "n"], cap: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Returns rates in proportion to `weights`, each at most its `cap`, with sum 1."""
    if cap.sum() < 1 - 1e-9:
        raise ValueError(
            f"every language reaches its cap: max_epochs allows only {cap.sum():.1%} of the budget "
            "of examples; raise max_epochs, lower examples, or remove the cap"
        )
    is_capped = np.zeros(len(weights), bool)
    rates = weights / weights.sum()
    while (rates > cap).any() and not is_capped.all():
        is_capped |= rates > cap
        uncapped = np.where(is_capped, 0.0, weights)
        remaining = 1 - cap[is_capped].sum()
        rates = np.where(is_capped, cap, uncapped / max(uncapped.sum(), 1e-300) * remaining)
    return rates / rates.sum()


def _check(
    counts: Mapping[str, int], temperature: float, max_epochs: float | None, examples: int | None
) -> None:
    if not any(counts.values()):
        raise ValueError("the mixture is empty: it has no language with examples")
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name}: the number of examples cannot be negative, got {count}")
    if not temperature > 0:
        raise ValueError(f"temperature must be positive (1 is proportional), got {temperature}")
    if max_epochs is not None and not max_epochs > 0:
        raise ValueError(f"max_epochs must be positive, got {max_epochs}")
    if max_epochs is not None and (examples is None or examples < 1):
        raise ValueError(
            f"max_epochs={max_epochs} needs examples, the number of examples of the whole run, "
            f"got {examples}"
        )
