"""The behaviour suite: translates the cases of all languages, judges them, writes texts and rows.

The lines of all languages are one stream for the translator. A language is judged and written after
its last line, so an interruption loses no finished language.
"""

import dataclasses
import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.behave import cases as behaviours
from eval.behave.cases import BEHAVIOURS, Case
from eval.behave.material import Material
from eval.records import analysis, results
from eval.records.behaviour import BehaviourShares
from eval.systems import System
from mmt import checked, languages, suggest
from mmt.checked import within
from mmt.decoding import Decoding
from mmt.system import json_objects
from mmt.system.progress import SENTENCES, progress_bar, track
from mmt.translate import Translation, Translator, source_language

ENGLISH = "eng_Latn"
FOLDER = "behaviour"  # of the texts, beside the results


@dataclasses.dataclass(frozen=True)
class Suite:
    """The tested behaviours, and the pass rates that a release needs.

    Attributes:
        cases: number of cases of a behaviour in a language; `long` has at most 3.
        behaviours: names of the behaviours; by default all.
        corpus: source of the sentences, a folder or 'cldr'; '' is the corpus of the run.
        threshold: share of passed cases that each behaviour needs, on average over languages.
        thresholds: shares for single behaviours, by name, which override `threshold`.
        language_threshold: share that each language needs, on average over behaviours.
    """

    cases: int = dataclasses.field(default=10, metadata=within(1, 1000))
    behaviours: Sequence[str] = tuple(BEHAVIOURS)
    corpus: str = ""
    threshold: float = dataclasses.field(default=0.8, metadata=within(0, 1))
    thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict, metadata=within(0, 1))
    language_threshold: float = dataclasses.field(default=0.5, metadata=within(0, 1))

    def __post_init__(self) -> None:
        checked.check(self)
        for field, names in (("behaviours", self.behaviours), ("thresholds", self.thresholds)):
            for name in names:
                checked.one_of(self, field, name, tuple(BEHAVIOURS))
        if not self.behaviours:
            raise ValueError("Suite.behaviours: []; expected a behaviour or more")
        if unknown := [name for name in self.thresholds if name not in self.behaviours]:
            hint = suggest.choices(unknown[0], self.behaviours)
            raise ValueError(
                f"Suite.thresholds: {unknown[0]!r} is not among the behaviours; {hint}"
            )

    @property
    def needed(self) -> dict[str, float]:
        """Returns the share that each behaviour needs, in the order of the suite."""
        chosen = [name for name in BEHAVIOURS if name in self.behaviours]
        return {name: float(self.thresholds.get(name, self.threshold)) for name in chosen}

    def missed(self, rows: Sequence[BehaviourShares]) -> list[str]:
        """Returns a text for each threshold that these rows of one system miss."""
        faults = []
        for name, threshold in self.needed.items():
            shares = [row.shares[name] for row in rows if name in row.shares]
            if not shares:
                faults.append(f"{name}: no language has a case")
            elif _is_below(mean := sum(shares) / len(shares), threshold):
                faults.append(f"{name}: {mean:.1%} passed, needed {threshold:.1%}")
        for row in rows:
            mean = sum(row.shares.values()) / len(row.shares)
            if _is_below(mean, self.language_threshold):
                faults.append(
                    f"{row.source}: {mean:.1%} passed, needed {self.language_threshold:.1%}"
                )
        return faults


def _is_below(mean: float, threshold: float) -> bool:
    """Compares a mean of fractions; a rounding error is no difference."""
    return mean < threshold - 1e-9


@dataclasses.dataclass(frozen=True)
class JudgedCase:
    """A case with its translation. fault: the reason why it fails, or ''."""

    language: str
    behaviour: str
    source: str
    output: str
    fault: str


@dataclasses.dataclass(frozen=True)
class BehaviourResult:
    """The rows of a system, by language, and all its judged cases."""

    rows: tuple[BehaviourShares, ...]
    judged: tuple[JudgedCase, ...]


def languages_of(translator: Translator, names: Sequence[str] | None) -> list[str]:
    """Returns the FLORES codes of the languages to test; by default all that a model has.

    Raises ValueError for a language that the model does not have, and for a model that does not
    translate into English. Also if `names` is None and the model's languages are not known.
    """
    manifest = translator.manifest
    if manifest.source or manifest.target not in ("", ENGLISH):
        targets = manifest.target or f"{len(manifest.translated)} languages"
        raise ValueError(
            f"the model translates into {targets}; the suite is for models into English"
        )
    if names is None and not translator.sources:
        raise ValueError(
            "the manifest of the model has no languages; name those to test: --languages deu,swh"
        )
    if names is None:
        return list(translator.sources)
    requested = [languages.find(name) for name in names]
    for language in requested:
        source_language.check_trained(language, translator.sources, "source")
    return list(dict.fromkeys(language.code for language in requested))


def run(
    translator: Translator,
    materials: Sequence[Material],
    suite: Suite,
    *,
    system: System,
    out: Path,
    decoding: Decoding,
    decode: str,
) -> BehaviourResult:
    """Translates and judges the cases of all languages; adds rows to the analysis beside `out`.

    The judged texts are written to `behaviour/<system>/<language>.jsonl` in the folder of `out`.
    Texts of the same checkpoint, weights, decoding and configuration are reused. Progress is shown
    on stderr.

    Args:
        translator: the model.
        materials: the languages.
        suite: the tested behaviours.
        system: the name, checkpoint and configuration of the model.
        out: a file of results; it need not exist.
        decoding: options of the search.
        decode: text by which rows record the decoding.

    Raises:
        ValueError: no language has a case, or the analysis file is broken.
        OSError: a file cannot be written.
    """
    results.check_system(system.name)
    file = analysis.path_for(out)
    analysis.add(file, [])
    folder = out.parent / FOLDER / system.name
    folder.mkdir(parents=True, exist_ok=True)
    names = {"checkpoint": system.checkpoint, "decode": decode, "config": system.config}
    provenance = names | {"weights": system.weights}
    languages_to_test = [
        _Language(material, cases, folder, provenance)
        for material, cases in _cases(materials, suite)
    ]
    missing_lines = [line for language in languages_to_test for line in language.missing_lines]
    translated = _translated(translator, missing_lines, decoding)
    rows, judged = [], list[JudgedCase]()
    with progress_bar(*SENTENCES) as bar:
        task = bar.add_task(system.name, total=len(missing_lines))
        for language in languages_to_test:
            bar.update(task, description=f"{system.name} {language.code}")
            for text in language.missing:
                outputs = list(itertools.islice(translated, text.count("\n") + 1))
                language.outputs[text] = "\n".join(
                    translation.hypotheses[0].text for translation in outputs
                )
                bar.advance(task, len(outputs))
            of_language = language.judged()
            row = language.row(of_language, system, decode, suite.needed)
            language.write(of_language)
            analysis.add(file, [row])
            rows.append(row)
            judged += of_language
    return BehaviourResult(tuple(rows), tuple(judged))


def _translated(
    translator: Translator, lines: Sequence[tuple[str, str]], decoding: Decoding
) -> Iterator[Translation]:
    """Yields the translation of each line; `lines` are pairs of language and line."""
    return translator.translate(
        (line for _, line in lines),
        sources=(code for code, _ in lines),
        target=ENGLISH if translator.tagged else None,
        decoding=decoding,
    )


def _cases(
    materials: Sequence[Material], suite: Suite
) -> list[tuple[Material, Mapping[str, Sequence[Case]]]]:
    """Returns the cases of each language; languages without any are named on stderr."""
    names = list(suite.needed)
    by_language = [
        (material, behaviours.make(material, suite.cases, names))
        for material in track(materials, "making cases", disable=None, transient=True)
    ]
    untested = ", ".join(material.code for material, cases in by_language if not cases)
    if untested:
        print(f"not tested: no cases of {', '.join(names)} in {untested}", file=sys.stderr)
    if not any(cases for _, cases in by_language):
        raise ValueError(f"no cases of {', '.join(names)} in any of the languages")
    return [(material, cases) for material, cases in by_language if cases]


class _Language:
    """The cases of one language, and their translations, of which some may be missing."""

    def __init__(
        self,
        material: Material,
        cases: Mapping[str, Sequence[Case]],
        folder: Path,
        provenance: Mapping[str, str],
    ) -> None:
        self.code, self._origin, self._cases = material.code, material.origin, cases
        self._file, self._provenance = folder / f"{material.code}.jsonl", provenance
        self.outputs = self._load_outputs()
        of_cases = (case for cases in self._cases.values() for case in cases)
        texts = dict.fromkeys(
            text for case in of_cases for text in (case.source, *filter(None, [case.plain]))
        )
        self.missing = [text for text in texts if text not in self.outputs]

    @property
    def missing_lines(self) -> list[tuple[str, str]]:
        """Returns the lines of the texts without a translation, each with its language."""
        return [(self.code, line) for text in self.missing for line in text.split("\n")]

    def judged(self) -> list[JudgedCase]:
        return [
            JudgedCase(self.code, name, case.source, output, BEHAVIOURS[name].fault(
                case, output, self.outputs.get(case.plain, "")
            ))
            for name, cases in self._cases.items()
            for case in cases
            for output in [self.outputs[case.source]]
        ]  # fmt: skip

    def row(
        self, judged: Sequence[JudgedCase], system: System, decode: str,
        needed: Mapping[str, float],
    ) -> BehaviourShares:  # fmt: skip
        def count(name: str) -> int:
            return sum(case.behaviour == name and not case.fault for case in judged)

        content = json.dumps({name: list(cases) for name, cases in self._cases.items()})
        return BehaviourShares(
            system=system.name, source=self.code, target=ENGLISH, checkpoint=system.checkpoint,
            decode=decode, config=system.config, origin=self._origin,
            suite=hashlib.blake2b(content.encode(), digest_size=6).hexdigest(),
            passed={name: count(name) for name in self._cases},
            cases={name: len(cases) for name, cases in self._cases.items()},
            needed={name: needed[name] for name in self._cases},
        )  # fmt: skip

    def write(self, judged: Sequence[JudgedCase]) -> None:
        """Writes the provenance of the translations, each judged case, and the plain texts."""
        texts = {case.source for case in judged}
        rows: list[Mapping[str, Any]] = [self._provenance, *map(dataclasses.asdict, judged)]
        rows += [{"source": text, "output": output} for text, output in self.outputs.items()
                 if text not in texts]  # fmt: skip
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        results.write_atomically(self._file, "".join(lines).encode())

    def _load_outputs(self) -> dict[str, str]:
        """Returns the stored translations if they are of the same model and options, else {}."""
        if not self._file.is_file():
            return {}
        raw = self._file.read_bytes().split(b"\n")
        try:
            provenance, *rows = map(json_objects.parse, filter(None, raw))
            if provenance != self._provenance:
                return {}
            outputs = {row["source"]: row["output"] for row in rows}
            if not all(isinstance(text, str) for pair in outputs.items() for text in pair):
                raise ValueError("a source or output is no text")
            return outputs
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._file}: damaged ({error}); remove it") from error
