"""Compares a dense run with its CTranslate2 and Hugging Face exports on one test set.

    python -m benchmarks.exports runs/demo/student cldr

All use beam 4 and score / length. CTranslate2 has patience 10, because its default stops at four
hypotheses even if a better one is possible. Of 4,300 lines, 348 then differ, all but one with a
worse score. With patience 3, 13 lines differ, with 10 3. Hugging Face translates every 20th line.
"ties" are lines that differ although their scores are equal within 1e-3. It needs the extra
[parity].
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval import metrics, testsets
from mmt.convert import ctranslate2 as convert
from mmt.convert import hf
from mmt.data.vocabulary import Vocabulary, find_tag
from mmt.decoding import Decoding
from mmt.translate import Translator

PROGRAMS = "ctranslate2", "torch", "transformers"
ALIKE = Decoding(beam=4, alpha=1.0, penalty="length", search_style="hf", early_stopping="never")
Found = tuple[list[str], list[float]]  # texts, scores


def by_ctranslate2(directory: Path, lines: Sequence[str], longest: int, kind: str) -> Found:
    """Returns texts and scores of tagged lines by an exported directory.

    kind: 'float32' or 'int8'.
    """
    import ctranslate2

    vocabulary = Vocabulary.load(directory / "spiece.model")
    pieces = [[vocabulary.piece(i) for i in (*vocabulary.encode(line), vocabulary.eos)]
              for line in lines]  # fmt: skip
    results = ctranslate2.Translator(str(directory), compute_type=kind).translate_batch(
        pieces, beam_size=4, length_penalty=1.0, patience=10, max_decoding_length=longest,
        max_batch_size=64, return_scores=True,
    )  # fmt: skip
    texts = [vocabulary.decode(map(vocabulary.id, result.hypotheses[0])) for result in results]
    return texts, [result.scores[0] for result in results]


def by_transformers(directory: Path, lines: Sequence[str], longest: int) -> Found:
    """Returns texts and scores of tagged lines by Hugging Face's `generate`."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.T5ForConditionalGeneration.from_pretrained(directory).eval()
    texts: list[str] = []
    scores: list[float] = []
    for start in range(0, len(lines), 32):
        inputs = tokenizer(list(lines[start : start + 32]), return_tensors="pt", padding=True)
        with torch.no_grad():
            output = model.generate(
                **inputs, num_beams=4, length_penalty=1.0, early_stopping="never",
                max_new_tokens=longest, output_scores=True, return_dict_in_generate=True,
                suppress_tokens=[model.config.pad_token_id],
            )  # fmt: skip
        texts += tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        scores += output.sequences_scores.tolist()
    return texts, scores


def main(run: str = "runs/demo/student", testset: str = "cldr") -> None:
    """Exports, translates, and prints the table."""
    translator, test = Translator.load(run), testsets.load(testset)
    sources = [line for sentences in test.languages.values() for line in sentences.sources]
    tag = find_tag(translator.vocabularies["source"], test.target)
    tagged, longest = [f"{tag} {line}" for line in sources], 200
    every = slice(None, None, 20)
    table = Table("program", "lines", "equal", "%", "ties", "BLEU", "of ours", "seconds")
    programs = ", ".join(f"{name} {version(name)}" for name in PROGRAMS)
    print(header(), programs, sep="; ")

    def bleu(texts: Sequence[str]) -> float:
        """Returns mean BLEU over languages."""
        left = iter(texts)
        return mean(
            metrics.score([next(left) for _ in sentences.sources], sentences.references).bleu
            for sentences in test.languages.values()
        )

    start = time.perf_counter()
    ours = list(translator.translate(sources, target=test.target, decoding=ALIKE))
    texts_and_scores = (
        [output.text for output in ours],
        [output.hypotheses[0].score for output in ours],
    )
    best, seconds = bleu(texts_and_scores[0]), time.perf_counter() - start
    table.add_row("mmt", str(len(ours)), "", "", "", f"{best:.2f}", "", f"{seconds:.0f}")
    with tempfile.TemporaryDirectory() as folder:
        hf.export_hf(run, Path(folder, "hf"))
        convert.export(run, Path(folder, "ctranslate2"))
        for name in ("CTranslate2 float32", "CTranslate2 int8", "Hugging Face, every 20th line"):
            start = time.perf_counter()
            if name.startswith("Hugging"):
                texts, scores = by_transformers(Path(folder, "hf"), tagged[every], longest)
                expected = texts_and_scores[0][every], texts_and_scores[1][every]
            else:
                kind = name.split()[1]
                texts, scores = by_ctranslate2(Path(folder, "ctranslate2"), tagged, longest, kind)
                expected = texts_and_scores
            seconds = time.perf_counter() - start
            equal = [a.strip() == b for a, b in zip(texts, expected[0], strict=True)]
            ties = sum(not same and abs(a - b) < 1e-3
                       for same, a, b in zip(equal, scores, expected[1], strict=True))  # fmt: skip
            own_bleu = bleu(texts) if len(texts) == len(sources) else None
            table.add_row(
                name, str(len(texts)), str(sum(equal)), f"{100 * mean(equal):.2f}", str(ties),
                "" if own_bleu is None else f"{own_bleu:.2f}",
                "" if own_bleu is None else f"{own_bleu - best:+.2f}", f"{seconds:.0f}",
            )  # fmt: skip
    Console(width=110).print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
