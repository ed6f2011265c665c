"""Made-up rows of results and analysis, as plausible as random numbers can be, for the report."""

import numpy as np

from eval import metrics
from eval.records import analysis
from eval.records.results import Row
from mmt import languages

BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
CHRF = "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0"


def made_up(count=12, systems=("dense", "moe", "student"), *, layers=2, experts=4, seed=0):
    """Rows of results, and rows of analysis of every kind, on `count` languages."""
    rng = np.random.default_rng(seed)
    known = [language.code for language in languages.all_languages() if language.code != "eng_Latn"]
    codes = sorted(rng.choice(known, count, replace=False).tolist())
    order = rng.permutation(codes).tolist()
    pairs = {code: max(500, int(30000 * (place + 1) ** -0.9)) for place, code in enumerate(order)}
    hard = {code: rng.normal(0, 4) for code in codes}
    rows, analyses = [], []
    for place, system in enumerate((*systems, "bilingual")):
        kind = "bilingual" if system == "bilingual" else "multilingual"
        for code in codes:
            help_ = (1 + place / 4) * (12 - 2.9 * np.log10(pairs[code])) + rng.normal(0, 1.5)
            bleu = 6 * np.log10(pairs[code]) + hard[code] + (help_ if place < len(systems) else 0)
            where = code if kind == "bilingual" else system
            bleu = round(abs(float(bleu)), 4)
            rows.append(Row(
                system=system, kind=kind, testset="verses", source=code, target="eng_Latn",
                bleu=bleu, bleu_signature=BLEU, chrf=round(bleu * 0.8 + 15, 4), chrf_signature=CHRF,
                sentences=60 if code == codes[0] else 400,
                train_pairs=pairs[code], checkpoint=f"{where}/5000", decode="beam:4|alpha:0.8",
                seconds=round(float(rng.uniform(20, 40)), 3), config=f"{place:012x}",
            ))  # fmt: skip
    baselines = {row.source: row for row in rows if row.kind == "bilingual"}
    for row in rows:
        analyses += _about(row, baselines[row.source], rng)
    for code in codes:
        mark = str(rng.choice(analysis.MARKS, p=(0.7, 0.2, 0.1)))
        reasons = () if mark == "good" else ("3.4 pieces of a word",)
        analyses.append(
            analysis.TestsetQuality(testset="verses", source=code, target="eng_Latn", mark=mark,
                                    reasons=reasons, sentences=400)
        )  # fmt: skip
    for place, system in enumerate(systems):
        analyses += _training(system, place, pairs, rng)
        if place:
            analyses += _routing(system, codes, rng, layers=layers, experts=experts)
    for code in codes:
        same = {"system": "bilingual", "source": code}
        analyses.append(analysis.Cost(
            **same, steps=2000, tokens=4e6, seconds=900.0, devices=1, device="one GPU",
            parameters=4_000_000, active_parameters=4_000_000, device_hours=0.25,
            epochs={code: float(rng.uniform(5, 60))},
        ))  # fmt: skip
        size = "small" if pairs[code] < 3000 else "base"
        analyses.append(analysis.SystemRecipe(
            **same, config="b", text=f"# bilingual\nMODEL_SIZE = '{size}'\nSTEPS = 2000\n", seed=1,
            versions={"jax": "0.10"}, chosen=f"{size}: best on validation of 3 classes",
        ))  # fmt: skip
    return rows, analyses


def _about(row, baseline, rng):
    key = {name: getattr(row, name) for name in analysis.Interval.about}
    width, texts = float(rng.uniform(1, 2.5)), f"{row.system}-{row.source}"
    low, high = max(0.0, row.bleu - width), min(100.0, row.bleu + width)
    bins = tuple(
        analysis.Bin(low=start / 4, high=(start + 1) / 4, sentences=[220, 120, 50, 10][start],
                     bleu=min(100.0, row.bleu * (0.8 + 0.3 * start)))
        for start in range(4)
    )  # fmt: skip
    share = {name: round(float(rng.exponential(0.012)), 4) for name in
             ("copies", "empty", "short", "long", "looping", "not_english", "recited")}  # fmt: skip
    analyses = [
        analysis.Interval(**key, bleu_low=low, bleu_high=high, chrf_low=max(0.0, row.chrf - 1),
                          chrf_high=min(100.0, row.chrf + 1), resamples=1000, seed=12345,
                          hypotheses=texts),
        analysis.OutputChecks(**key, **share, sentences=row.sentences, hypotheses=texts),
        analysis.TrainOverlap(**key, bins=bins, hypotheses=texts),
        analysis.SentenceCounts(**key, packed=metrics.packed(_counts(row)), sentences=row.sentences,
                        hypotheses=texts, references=row.source),
    ]  # fmt: skip
    if row.kind == "multilingual":
        delta = row.bleu - baseline.bleu
        p = 0.001 if abs(delta) > 1.5 else 0.2
        analyses.append(analysis.Paired(
            **key, against=baseline.system, against_checkpoint=baseline.checkpoint,
            delta=delta, delta_low=delta - 1.5, delta_high=delta + 1.5, p_bootstrap=p,
            p_randomization=p, chrf_delta=delta * 0.8, resamples=1000, seed=12345,
            hypotheses=texts, against_hypotheses="b",
        ))  # fmt: skip
    return analyses


def _counts(row):
    """Counts of sentences of 50 words that give a row's BLEU: all precisions are as high."""
    totals = np.tile([50, 49, 48, 47], (row.sentences, 1))
    ends = np.round(np.cumsum(totals, axis=0) * row.bleu / 100)
    matches = np.diff(ends, axis=0, prepend=0)
    return np.concatenate([totals[:, :1], totals[:, :1], matches, totals], axis=1)


def _training(system, place, pairs, rng):
    steps = tuple(range(100, 5001, 100))
    tokens = tuple(step * 20000.0 for step in steps)
    loss = [1.2 - 0.1 * place + 6 * (step / 50) ** -0.5 for step in steps]
    return [
        analysis.Curve(
            system=system, steps=steps, tokens=tokens, seconds=tuple(step * 0.5 for step in steps),
            loss=tuple(value + float(rng.normal(0, 0.03)) for value in loss),
            validation_loss=tuple(v + 0.1 if i % 5 == 4 else None for i, v in enumerate(loss)),
            bleu=tuple(i / 2 if i % 10 == 9 else None for i in range(len(steps))),
        ),
        analysis.Cost(
            system=system, steps=5000, tokens=1e8, seconds=2500.0, devices=1 + place,
            device="one GPU", parameters=20_000_000 * (1 + 4 * place),
            active_parameters=20_000_000, device_hours=0.7 * (1 + place),
            epochs={code: 40.0 * (30000 / count) ** 0.8 / 40 for code, count in pairs.items()},
        ),
        analysis.SystemRecipe(
            system=system, config="c", text=f"# {system}\nTRAIN_STEPS = 5000\nSEED = 0\n", seed=0,
            versions={"jax": "0.10", "mmt": "0.1.0"}, teacher="moe" if system == "student" else "",
        ),
    ]  # fmt: skip


def _routing(system, codes, rng, *, layers, experts):
    families = {code: languages.find(code).family for code in codes}
    taste = {
        (family, layer): rng.normal(0, 1, experts)
        for family in sorted(set(families.values()))
        for layer in range(2 * layers)
    }
    loads = []
    for code in codes:
        for layer in range(2 * layers):
            stack = "encoder" if layer < layers else "decoder"
            logits = taste[families[code], layer] + rng.normal(0, 0.4, experts)
            load = np.exp(logits) / np.exp(logits).sum()
            loads.append(analysis.ExpertLoad(
                system=system, checkpoint=f"{system}/5000", testset="verses", source=code,
                layer=f"{stack}.{layer % layers * 2 + 1}", load=tuple(load.tolist()),
                drop_rate=float(rng.beta(1, 40)), tokens=9000,
                entropy=float(-(load * np.log(load)).sum() / np.log(experts)),
            ))  # fmt: skip
    return loads
