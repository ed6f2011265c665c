"""Validation by BLEU while training: a hook of the trainer that translates held-out sentences.

Validation by loss needs no search and lives with the trainer, in `mmt.hooks`.
"""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from eval import evaluate, testsets
from mmt import distributed, translate
from mmt.data import cache, vocabulary
from mmt.step import Step

_AT_ONCE = 128  # sentences
_LONGEST = 300  # characters of a logged text


@dataclasses.dataclass
class ValidationBleu:
    """Every `period` steps, and at the end, BLEU of the first `sentences` of each language.

    Greedy, on the validation split of the cache. Of several processes the first translates, on one
    device, which has to hold all parameters, while the others wait.

    Writes `language_bleu`, the languages that were translated, and `bleu`, the mean over all
    languages of the latest score of each, once each has one. `hooks.EarlyStop(metric="bleu",
    larger_is_better=True)` can stop by it; set `budget` to 0 then, so that no clock decides.

    budget: the share of the time since the last validation that this one may take. When it is used
    up, the other languages wait for the next validation, which begins with those that waited
    longest. At the end all are translated. Training and the choice of the best checkpoint do not
    depend on these scores. 0: all languages every time.

    samples: sentences of each language whose texts are logged with the scores, as `samples`:
    language -> [[source, translation, reference], ...]. `mmt watch` shows them.
    """

    cache_dir: str
    period: int
    sentences: int = 8
    budget: float = 0.05
    samples: int = 1

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"EVAL_PERIOD is {self.period}; allowed: 1 or more")
        if not 0 <= self.budget <= 1:
            raise ValueError(f"ValidationBleu.budget is {self.budget}; allowed: 0 to 1")
        if self.sentences < 1:
            raise ValueError(f"ValidationBleu.sentences is {self.sentences}; allowed: 1 or more")
        if self.samples < 0:
            raise ValueError(f"ValidationBleu.samples is {self.samples}; allowed: 0 or more")
        self._since = time.perf_counter()  # the end of the last validation

    def __call__(self, now: Step) -> None:
        if now.number % self.period and not now.last:
            return
        params = distributed.to_first_device(now.state.params)
        languages = self._testset.languages if distributed.is_first() else {}
        with now.long_phase("validating BLEU", len(languages)) as advance:
            alone = jax.process_count() == 1  # of several only the first would ask
            scores, samples = distributed.from_first(
                lambda: self._scores(now, params, functools.partial(advance, ask=alone))
            )
        self._since = time.perf_counter()
        latest, missing = distributed.from_first(lambda: self._latest(now, scores))
        row: dict[str, Any] = {"step": now.number, "language_bleu": scores}
        text = f"{self.sentences} sentences of each of {len(scores)} languages translated"
        if not missing:
            now.measured["bleu"] = row["bleu"] = float(np.mean(list(latest.values())))
            text = f"greedy BLEU {row['bleu']:.1f}, mean of {len(latest)} languages ({text})"
        now.log.write(row | ({"samples": samples} if samples else {}))
        now.log.say(f"step {now.number}: {text}")

    def _scores(
        self, now: Step, params: Any, advance: Callable[[str, int], None]
    ) -> tuple[dict[str, float], dict[str, list[list[str]]]]:
        """BLEU and samples of the languages that the budget allows, those first that waited
        longest.
        """
        translator = translate.Translator(
            now.program.model,
            params,
            vocabularies=self._vocabularies,
            manifest=self._cache.manifest,
            batch_size=_AT_ONCE,
        )
        begun = time.perf_counter()
        allowed = self.budget * (begun - self._since)
        steps = {code: row["step"] for row in self._rows(now) for code in row["language_bleu"]}
        waiting = sorted(self._testset.languages, key=lambda code: steps.get(code, -1))
        scores: dict[str, float] = {}
        samples: dict[str, list[list[str]]] = {}
        while waiting:
            advance(waiting[0], len(scores) + 1)
            count = max(1, _AT_ONCE // self.sentences)
            codes, waiting = waiting[:count], waiting[count:]
            part = dataclasses.replace(
                self._testset,
                languages={code: self._testset.languages[code] for code in codes},
            )
            texts = evaluate.validation_translations(translator, part)
            scores |= evaluate.validation_bleu(part, texts)
            samples |= self._some(part, texts)
            used = time.perf_counter() - begun
            if self.budget and not now.last and used + used * count / len(scores) > allowed:
                break
        ordered = {code: scores[code] for code in self._testset.languages if code in scores}
        return ordered, {code: samples[code] for code in ordered if code in samples}

    def _some(
        self, part: testsets.TestSet, texts: dict[str, list[str]]
    ) -> dict[str, list[list[str]]]:
        """Returns source, translation and reference of the first sentences of each language."""
        if not self.samples:
            return {}
        return {
            code: [
                [text[:_LONGEST] for text in line]
                for line in list(zip(lines.sources, texts[code], lines.references, strict=True))[
                    : self.samples
                ]
            ]
            for code, lines in part.languages.items()
        }

    def _latest(self, now: Step, scores: dict[str, float]) -> tuple[dict[str, float], list[str]]:
        """The latest score of every language, and the languages without one."""
        latest: dict[str, float] = {}
        for row in self._rows(now):
            latest |= row["language_bleu"]
        latest |= scores
        codes = self._testset.languages
        scored = {code: latest[code] for code in codes if code in latest}
        return scored, [code for code in codes if code not in latest]

    def _rows(self, now: Step) -> list[dict[str, Any]]:
        return [row for row in now.log.rows() if "language_bleu" in row]

    @functools.cached_property
    def _cache(self) -> cache.Cache:
        return cache.open_cache(Path(self.cache_dir))

    @functools.cached_property
    def _testset(self) -> testsets.TestSet:
        if self._cache.manifest.source:
            raise ValueError(
                f"validation BLEU is of models into one language, {self.cache_dir} is into many: "
                "--gin_file=gin_configs/runs/reverse.gin, or train.train.hooks without it"
            )
        testset = testsets.from_cache(self._cache, limit=self.sentences)
        if not testset.languages:
            raise ValueError(f"validation BLEU: {self.cache_dir} has no validation examples")
        return testset

    @functools.cached_property
    def _vocabularies(self) -> dict[str, vocabulary.Vocabulary]:
        files = self._cache.vocabulary_files()
        return {side: vocabulary.Vocabulary.load(path) for side, path in files.items()}
