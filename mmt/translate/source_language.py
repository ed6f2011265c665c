"""The source language of lines: checked, detected where it is `auto`, compared with the text."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mmt import languages
from mmt.data.cache.manifest import Manifest
from mmt.identify import NONE, LanguageIdentifier

AUTO = "auto"  # as a source language: detect it
_UNLIKELY, _CERTAIN = 0.01, 0.9  # probabilities
_MIN_LETTERS = 12  # of a line whose language is compared with the given one


class Detected(NamedTuple):
    """The detected language of a line: its FLORES code, or `und`, and the probability."""

    language: str
    probability: float


def require_identifier(identifier: LanguageIdentifier | None) -> LanguageIdentifier:
    """Returns the identifier. Raises ValueError if the run has none."""
    if identifier is None:
        raise ValueError(
            "the run has no language identifier, so it cannot detect languages; train one: "
            "mmt data identify --model RUN --corpus CORPUS"
        )
    return identifier


def check_trained(language: languages.Language, codes: Sequence[str], side: str) -> None:
    """Raises ValueError with the nearest of `codes` for a language that was not trained."""
    if codes and language.code not in codes:
        near = languages.nearest(language, codes)
        hint = ", ".join(f"{candidate.name} ({candidate.code})" for candidate in near)
        raise ValueError(
            f"{side} language {language.code} ({language.name}) is none of the "
            f"{len(codes)} that the model was trained on; nearest: {hint}"
        )


def language_id(manifest: Manifest, source: str | None, target: str | None) -> int:
    """Returns the index of a line's language in the manifest, of the side that has many languages.

    Raises ValueError if it is not there, or is needed and missing.
    """
    side, name = ("target", target or "eng") if manifest.source else ("source", source)
    if name is None:
        codes = manifest.translated
        ellipsis = ", …" if len(codes) > 5 else ""
        raise ValueError(
            "the source language is needed (source=..., --from), because the language chooses the "
            f"experts of this model; allowed: its {len(codes)} languages, "
            f"{', '.join(codes[:5])}{ellipsis}"
        )
    language = languages.find(name)
    check_trained(language, manifest.translated, side)
    return manifest.languages.index(language.code)


def resolve(
    identifier: LanguageIdentifier | None,
    lines: Sequence[str],
    sources: Sequence[str | None],
    codes: Sequence[str],
) -> tuple[list[str | None], list[Detected | None]]:
    """Returns the source of each line, `auto` replaced, and the languages that were detected.

    `auto` becomes the most likely of `codes`, the languages of the model; the detected language may
    be another one, or `und`. Warns if most lines are not in the given language.

    Raises ValueError if a language must be detected and there is no identifier, or it knows none of
    `codes`.
    """
    resolved, detected = list(sources), list[Detected | None]([None] * len(lines))
    if identifier or AUTO in sources:
        identifier = require_identifier(identifier)
        for source in {source for source in sources if source is not None}:
            indices = [i for i, line_source in enumerate(sources) if line_source == source]
            of_source = [lines[i] for i in indices]
            if source != AUTO:
                _warn_if_other(identifier, of_source, languages.find(source).code)
                continue
            probabilities = identifier.probabilities(of_source)
            best = _likeliest(identifier, probabilities, codes)
            for i, row, code in zip(indices, probabilities, best, strict=True):
                first = int(row.argmax())
                detected[i] = Detected(identifier.codes[first], float(row[first]))
                resolved[i] = code
    return resolved, detected


def _likeliest(
    identifier: LanguageIdentifier, probabilities: np.ndarray, codes: Sequence[str]
) -> list[str | None]:
    """Returns the most likely of `codes` for each row of probabilities; None without codes."""
    if not codes:
        return [None] * len(probabilities)
    identifiable = [code for code in codes if code in identifier.codes]
    if not identifiable:
        raise ValueError(
            f"the language identifier knows none of the model's {len(codes)} languages; train "
            "another one: mmt data identify --model RUN --corpus CORPUS"
        )
    columns = [identifier.codes.index(code) for code in identifiable]
    return [identifiable[column] for column in probabilities[:, columns].argmax(1)]


def _warn_if_other(identifier: LanguageIdentifier, lines: Sequence[str], code: str) -> None:
    """Warns if most lines are clearly not in the language `code`.

    A line is clearly in another language if that has a probability above 0.9, and `code` one below
    0.01. Lines of a few letters are ignored. A `code` that the identifier does not know gives no
    warning.
    """
    long = [line for line in lines if sum(map(str.isalpha, line)) >= _MIN_LETTERS]
    if code not in identifier.codes or not long:
        return
    probabilities = identifier.probabilities(long)
    given_probabilities = probabilities[:, identifier.codes.index(code)]
    others = probabilities.argmax(1)[
        (given_probabilities < _UNLIKELY) & (probabilities.max(1) > _CERTAIN)
    ]
    if len(others) * 2 <= len(long):
        return
    other = identifier.codes[np.bincount(others).argmax()]
    name = "no language of the model" if other == NONE else f"{languages.name_of(other)} ({other})"
    warnings.warn(
        f"the source language is {languages.name_of(code)} ({code}), but most of the text looks "
        f"like {name}",
        stacklevel=2,
    )
