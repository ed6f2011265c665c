"""The sizes of a corpus for a forecast: pairs and tokens per language.

They come from a token cache, from a corpus whose files are here, or from a description with numbers
in place of files, for a corpus that need not exist:

    source_tokens = 30       # tokens per pair, with EOS; default 30
    target_tokens = 30
    [train]
    deu = 800_000_000        # pairs
    swh = 900_000
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmt import languages, suggest
from mmt.data import mixing
from mmt.data.corpora import EMBEDDED, check_place
from mmt.data.forecast import forecast
from mmt.run import Run
from mmt.system import toml_place

TOKENS = 30.0  # of a side of a pair, where a description with numbers has none
_KEYS = ("name", "target", "source_tokens", "target_tokens", "train")


@dataclass(frozen=True)
class LanguageSize:
    """Pairs of a language, and the mean tokens of a pair, with EOS."""

    pairs: int
    source_tokens: float
    target_tokens: float


@dataclass(frozen=True)
class CorpusSizes:
    """Sizes by the FLORES code of a language; `note` describes their accuracy."""

    sizes: Mapping[str, LanguageSize]
    note: str = ""


@dataclass(frozen=True)
class Exposure:
    """The part of a language in a run.

    Attributes:
        pairs: training pairs of the language.
        share: its share of the examples.
        tokens: source tokens read.
        passes: epochs over its pairs.
    """

    pairs: int
    share: float
    tokens: float
    passes: float


def read(source: str) -> CorpusSizes:
    """Returns the sizes of a corpus.

    Args:
        source: a cache's directory, a corpus (description, its folder, 'cldr'), or a description
            with numbers.

    Raises:
        ValueError: `source` is none of these; a description has no sizes, numbers beside files, an
            unknown key or language, or a number below 1. The message names file and line.
    """
    if source != EMBEDDED and not Run(source).manifest.is_file():
        described = _Description(check_place(source))
        if described.numbers:
            return described.sizes()
    cache = forecast.open_source(source)
    counts = cache.manifest.counts.get("train", {})
    sizes = {}
    for code, count in counts.items():
        if count and not mixing.is_monolingual(code):
            means = np.asarray(cache.lengths(code, "train")).mean(axis=0) + 1  # EOS
            sizes[code] = LanguageSize(count, *means.tolist())
    if not sizes:
        raise ValueError(f"{source}: a corpus without sizes: no language has training pairs")
    is_estimated = isinstance(cache, forecast.Estimated)
    note = (
        f"tokens are estimates ({forecast.BYTES_A_TOKEN:g} bytes per token)" if is_estimated else ""
    )
    return CorpusSizes(sizes, note)


def exposure(sizes: CorpusSizes, mixture: mixing.Mixing, tokens: float) -> dict[str, Exposure]:
    """Returns the exposure of each language that is mixed, in a run of `tokens` source tokens.

    The largest comes first. Rates are those of the mixture; `examples` follows from the tokens, and
    `monolingual` does not apply, since sizes are those of pairs.

    Raises:
        ValueError: the mixture names a language without a size, chooses none, or its cap of passes
            is too low for the run.
    """
    counts = {code: size.pairs for code, size in sizes.sizes.items()}
    pairs_only = replace(mixture, monolingual=None, max_epochs=None, examples=None)

    def examples_of(rates: Mapping[str, float]) -> float:
        return tokens / sum(rate * sizes.sizes[c].source_tokens for c, rate in rates.items())

    rates = pairs_only.rates(counts)
    examples = examples_of(rates)
    if mixture.max_epochs is not None:
        capped = replace(pairs_only, max_epochs=mixture.max_epochs, examples=round(examples))
        rates = capped.rates(counts)
        examples = examples_of(rates)
    exposures = {
        code: Exposure(
            size.pairs, rates[code], examples * rates[code] * size.source_tokens,
            examples * rates[code] / size.pairs,
        )
        for code, size in sizes.sizes.items()
        if code in rates
    }  # fmt: skip
    return dict(sorted(exposures.items(), key=lambda item: (-item[1].tokens, item[0])))


class _Description:
    """A description with numbers in place of files, being checked."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self.text = file.read_text("utf-8")
            self.content: dict[str, Any] = tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file}: {error}") from None
        train = self.content.get("train", {})
        self.train = train if isinstance(train, dict) else {}

    @property
    def numbers(self) -> bool:
        """Whether it gives a number, or nothing, where a corpus has files."""
        return not self.train or any(
            isinstance(value, int | float) for value in self.train.values()
        )

    def sizes(self) -> CorpusSizes:
        """Returns the sizes. Raises ValueError with file and line for what is not allowed."""
        if not self.train:
            raise ValueError(
                f"{self.file}: a corpus without sizes: [train] names no language; expected lines "
                "such as deu = 1_000_000 (pairs), or files"
            )
        for key in self.content:
            if key not in _KEYS:
                raise ValueError(f"{self._location(key)}: unknown key {key!r}; "
                                 f"{suggest.choices(key, _KEYS)}")  # fmt: skip
        tokens = [self._tokens(key) for key in ("source_tokens", "target_tokens")]
        sizes: dict[str, LanguageSize] = {}
        for name, pairs in self.train.items():
            location = self._location(name, "train")
            if isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1:
                raise ValueError(
                    f"{location}: {name} = {pairs!r}; allowed: a number of pairs, 1 or more, since "
                    "other languages have numbers"
                )
            try:
                code = languages.find(name).code
            except ValueError as error:
                raise ValueError(f"{location}: {error}") from None
            if code in sizes:
                raise ValueError(
                    f"{location}: {name} ({code}) is listed already under another name"
                )
            sizes[code] = LanguageSize(pairs, *tokens)
        missing = [key for key in ("source_tokens", "target_tokens") if key not in self.content]
        note = f"{' and '.join(missing)} per pair: {TOKENS:g} is assumed" if missing else ""
        return CorpusSizes(sizes, note)

    def _tokens(self, key: str) -> float:
        value = self.content.get(key, TOKENS)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{self._location(key)}: {key} = {value!r}; allowed: above 0")
        return float(value)

    def _location(self, key: str, table: str = "") -> str:
        return toml_place.located(self.text, self.file, key, table)
