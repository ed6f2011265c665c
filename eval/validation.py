"""Validation by BLEU while training: a hook of the trainer that translates held-out sentences.

Validation by loss needs no search and lives with the trainer, in `mmt.hooks`.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np

from eval import evaluate, testsets
from mmt import distributed, translate
from mmt.data import cache, vocabulary
from mmt.step import Step


@dataclasses.dataclass
class ValidationBleu:
    """Every `period` steps, and at the end, BLEU of the first `sentences` of each language.

    Greedy, on the validation split of the cache; of several processes the first translates, on one
    device, which has to hold all parameters, while the others wait. Writes `bleu` (the mean over
    languages) and `language_bleu`; `hooks.EarlyStop(metric="bleu", larger_is_better=True)` can stop
    by it.
    """

    cache_dir: str
    period: int
    sentences: int = 8

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"EVAL_PERIOD is {self.period}; allowed: 1 or more")

    def __call__(self, now: Step) -> None:
        if now.number % self.period and not now.last:
            return
        params = distributed.whole(now.state.params)
        scores = distributed.from_first(lambda: self._scores(now, params))
        mean = float(np.mean(list(scores.values())))
        now.measured["bleu"] = mean
        now.log.write({"step": now.number, "bleu": mean, "language_bleu": scores})
        now.log.say(f"step {now.number}: greedy BLEU of {self.sentences} a language {mean:.1f}")

    def _scores(self, now: Step, params: Any) -> dict[str, float]:
        translator = translate.Translator(
            now.program.model,
            params,
            vocabularies=self._vocabularies,
            manifest=self._cache.manifest,
            batch_size=128,
        )
        return evaluate.validation_bleu(translator, self._testset)

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
