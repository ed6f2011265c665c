"""Writes the files of a made-up run: many languages, many steps, some of which overfit."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmt import languages
from mmt.run import Run


class MadeUpRun(NamedTuple):
    """The size of a made-up run. Languages are those of the project's table, the first ones.

    period: steps between two training rows. languages_period, validation_period: between two rows
    with a number per language. experts: 0 is a dense model.
    """

    languages: int = 200
    steps: int = 1_000_000
    period: int = 100
    languages_period: int = 100
    validation_period: int = 2_000
    experts: int = 16
    seed: int = 0

    @property
    def codes(self) -> list[str]:
        """The FLORES codes; every seventh language overfits, the last has no validation set."""
        return [language.code for language in languages.all_languages()[: self.languages]]

    def write(self, directory: Path) -> None:
        """Writes all files of the run that `mmt watch` reads."""
        run = Run(directory)
        directory.mkdir(parents=True, exist_ok=True)
        run.config.write_text(f"TRAIN_STEPS = {self.steps}\n", encoding="utf-8")
        self._write_manifest(run)
        self._write_ledger(run)
        if self.experts:
            self._write_expert_load(run)
        with run.metrics.open("w", encoding="utf-8") as file:
            for step in range(self.period, self.steps + 1, self.period):
                file.writelines(self.lines(step))

    @property
    def _pairs(self) -> np.ndarray:
        return np.round(3e6 * np.linspace(1, 0.01, self.languages) ** 4).astype(int) + 500

    @property
    def _shares(self) -> np.ndarray:
        rates = self._pairs ** (1 / 5)
        return rates / rates.sum()

    def lines(self, step: int) -> list[str]:
        """Returns the lines of metrics.jsonl at a step."""
        random = np.random.default_rng((self.seed, step))
        part = step / self.steps
        base = 3.0 + 6.0 * math.exp(-30 * part) - part
        number = np.arange(self.languages)
        easy = 0.8 * np.cos(number)
        noise = random.normal(0, 0.05, self.languages)
        row: dict[str, object] = {
            "step": step, "loss": base + random.normal(0, 0.03), "tokens": 60_000.0,
            "target_tokens": 30_000.0, "nll": base - 0.6, "accuracy": min(0.9, 1 / base),
            "gradient_norm": 0.5 + random.random() / 5, "moe_dropped": 0.02,
            "moe_load_entropy": 0.95, "tokens_per_second": 81_000 + round(random.normal(0, 900)),
            "data_wait": round(abs(random.normal(0, 0.004)), 5), "seconds": 74.1,
        }  # fmt: skip
        if step % self.languages_period == 0:
            tokens = np.round(3e6 * self._shares * self.languages_period / 100)
            row["language_tokens"] = self._by_code(tokens)
            row["language_loss"] = self._by_code(base + easy + noise)
        rows = [row]
        if step % self.validation_period == 0:
            rows += self._validation(step, base + easy, random)
        return [json.dumps(row) + "\n" for row in rows]

    def _validation(
        self, step: int, losses: np.ndarray, random: np.random.Generator
    ) -> list[dict[str, object]]:
        part = step / self.steps
        over = np.where(np.arange(self.languages) % 7 == 3, np.maximum(0, part - 0.4) * 2.5, 0)
        held_out = self._by_code(losses + 0.2 + over + random.normal(0, 0.01, self.languages))
        held_out.pop(self.codes[-1])
        bleu = {code: round(max(0.0, 45 - 8 * loss), 2) for code, loss in held_out.items()}
        texts = {
            code: [[f"{code} {step}", f"translation {number}", f"reference {number}"]]
            for number, code in enumerate(held_out)
        }
        rows: list[dict[str, object]] = [
            {"step": step, "validation_loss": float(np.mean(list(held_out.values()))),
             "language_validation_loss": held_out, "validation_tokens": 9_000,
             "language_examples": self._by_code(np.round(1000 * step * self._shares))},
            {"step": step, "language_bleu": bleu, "bleu": float(np.mean(list(bleu.values()))),
             "samples": texts},
        ]  # fmt: skip
        if step == self.steps // 2 // self.validation_period * self.validation_period:
            rows.append({"step": step, "decisions": [{
                "step": step, "rule": "lower", "name": self.codes[3], "languages": [self.codes[3]],
                "before": 0.04, "after": 0.02, "text": "a rate is lowered",
            }]})  # fmt: skip
        return rows

    def _write_expert_load(self, run: Run) -> None:
        load = np.random.default_rng(self.seed).integers(20, 400, (self.languages, self.experts))
        load[:, -1] = 0  # an expert that died
        by_code = dict(zip(self.codes, load.tolist(), strict=True))
        content = {"step": self.steps, "layers": {"encoder.2": by_code}}
        run.expert_load.write_text(json.dumps(content), encoding="utf-8")

    def _by_code(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.codes, values.tolist(), strict=True))

    def _write_manifest(self, run: Run) -> None:
        pairs = dict(zip(self.codes, self._pairs.tolist(), strict=True))
        held_out = dict.fromkeys(self.codes[:-1], 100)
        content = {
            "name": "made_up", "target": "eng_Latn", "languages": self.codes,
            "counts": {"train": pairs, "validation": held_out}, "corpus_hash": "0",
            "vocabulary_hash": {"source": "0", "target": "0"},
            "vocabulary_size": {"source": 64_000, "target": 64_000}, "version": 1,
            "corpora": {"train": {code: [["news", n // 2], ["web", n - n // 2]]
                                  for code, n in pairs.items()}},
        }  # fmt: skip
        run.manifest.write_text(json.dumps(content), encoding="utf-8")

    def _write_ledger(self, run: Run) -> None:
        total = self.steps * 1000
        random = np.random.default_rng(self.seed)
        rows = []
        for number, (code, share) in enumerate(zip(self.codes, self._shares, strict=True)):
            seen, pairs = int(total * share * random.uniform(0.97, 1.03)), int(self._pairs[number])
            read = [seen, 0] if number == 1 else [seen // 2, seen - seen // 2]
            corpora = {
                name: {"examples": count, "source_tokens": 30 * count, "target_tokens": 30 * count,
                       "modified": 0, "too_long": 0}
                for name, count in zip(("news", "web"), read, strict=True)
            }  # fmt: skip
            rows.append({
                "language": code, "pairs": pairs, "examples": seen, "source_tokens": 30 * seen,
                "target_tokens": 30 * seen, "modified": 0, "too_long": 0, "tokens": 60 * seen,
                "share": seen / total, "epochs": seen / pairs, "foreseen": total * float(share),
                "corpora": corpora,
            })  # fmt: skip
        content = {"step": self.steps, "examples": total, "rows": rows,
                   "position": {"settings": "made up", "lanes": 1, "lane": {}}}  # fmt: skip
        run.ledger.write_text(json.dumps(content), encoding="utf-8")
