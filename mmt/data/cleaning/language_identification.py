"""Language identification of lines, by py3langid or a fastText model."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmt import languages


class Identifier:
    """A language identifier; `rank(line)` returns labels with probabilities."""

    def __init__(self, rank: Callable[[str], list[tuple[str, float]]]) -> None:
        self._rank = rank
        self._known = {iso for label, _ in rank("a word") if (iso := _iso3(label))}

    def knows(self, code: str) -> bool:
        """Returns whether the identifier knows the language of a FLORES code, in any script."""
        return code[:3] in self._known

    def judge(self, line: str, code: str) -> tuple[float, str]:
        """Returns the probability (0 to 1) that a line is in a language, and the best language."""
        ranking = self._rank(line)
        probabilities = (probability for label, probability in ranking if _iso3(label) == code[:3])
        best = max(ranking, key=lambda ranked: ranked[1])[0] if ranking else "unknown"
        return min(sum(probabilities), 1.0), best


@functools.cache
def identifier(model: str = "") -> Identifier:
    """Returns py3langid (97 languages), or a fastText model: a file such as `lid.176.ftz`.

    Raises:
      ValueError: no such file, no fastText model, or fasttext is not installed.
    """
    if not model:
        return Identifier(py3langid().rank)
    if not Path(model).is_file():
        raise ValueError(f"no language identification model {model!r}: expected a fastText file")
    try:
        import fasttext
    except ImportError as error:
        raise ValueError(f"{model}: needs `pip install fasttext-predict`: {error}") from error
    try:
        loaded = fasttext.load_model(model)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{model}: no fastText model: {error}") from error

    def rank(line: str) -> list[tuple[str, float]]:
        labels, probabilities = loaded.predict(line.replace("\n", " "), k=-1)
        names = (label.removeprefix("__label__") for label in labels)
        return list(zip(names, map(float, probabilities), strict=True))

    return Identifier(rank)


@functools.cache
def py3langid() -> Any:
    """Returns py3langid with probabilities."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@functools.cache
def _iso3(label: str) -> str:
    """Returns the ISO 639-3 code of a label such as `de`, `deu_Latn`, `zh`; '' for other labels."""
    try:
        return languages.find(label).iso3
    except ValueError:
        return ""
