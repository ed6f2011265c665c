"""Compares the decoding of `mmt`, CTranslate2 and Transformers on the same random weights.

    python -m benchmarks.translate.decoding [--lines 256] [--peers ctranslate2,transformers]
    python -m benchmarks.translate.decoding --model DIR --text FILE [--reference FILE] [--lines 256]

By default the model has d_model 512, 8 + 8 layers and 32,000 pieces. Every source and translation
has 24 tokens; the end token is not allowed earlier. Systems are timed alternately, best of
`--repeats`, with the same cores. A time of one line is that of a call, after the first. It needs
the extra [parity].

With a dense model into English and a text, `mmt` (with both engines) and CTranslate2 translate the
first lines of the text: translations end where the model ends them. CTranslate2 has its own search
and does not score again. The chrF of the translations is shown too, against the lines of the
reference, else against mmt's translations in float32. It needs the extra [ctranslate2].
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt.convert import ctranslate2 as ctranslate2_export
from mmt.convert import hf
from mmt.data.vocabulary import tag
from mmt.decoding import Decoding
from mmt.model.inference import WEIGHTS
from mmt.system import environment
from mmt.translate import Translator

PIECES, LENGTH, ROWS = 32_000, 24, 32
SIDES = ("source", "target")
SMALL = "float32, small batches"
SIZES: dict[str, Any] = {
    "vocab_size": PIECES, "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8,
    "num_decoder_layers": 8, "num_heads": 8, "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False, "decoder_start_token_id": 0,
}  # fmt: skip
Translate = Callable[[Sequence[str], int], Any]  # lines, beam


def make_model(directory: Path) -> None:
    """Writes a random T5 as `hf`, as the run `run`, and for CTranslate2 as `ct2`."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**SIZES))
    model.save_pretrained(directory / "hf")
    (directory / "hf/spiece.model").write_bytes(vocabulary())
    hf.import_hf(directory / "hf", directory / "run")
    ctranslate2_export.export(directory / "run", directory / "ct2")


def vocabulary() -> bytes:
    """Returns a SentencePiece model whose pieces are the words w0, w1, ..."""
    from sentencepiece import sentencepiece_model_pb2

    messages: Any = sentencepiece_model_pb2
    model = messages.ModelProto()
    words = (f"\u2581w{i}" for i in range(PIECES - 3))
    for number, text in enumerate(("<pad>", "</s>", "<unk>", *words)):
        kinds = {0: 3, 1: 3, 2: 2}  # control, control, unknown; words are normal
        model.pieces.add(piece=text, score=-float(number), type=kinds.get(number, 1))
    settings = model.trainer_spec
    settings.model_type, settings.vocab_size = 1, PIECES
    settings.pad_id, settings.eos_id, settings.unk_id, settings.bos_id = 0, 1, 2, -1
    model.normalizer_spec.name = "identity"
    return model.SerializeToString()


def ours(run: Path, weights: str, fixed: bool | None = None) -> Translate:
    """Returns `mmt` with weights of a type; `fixed`: whether small batches are filled up."""
    translator = Translator.load(run, weights=weights, fixed_batch_size=fixed, batch_size=ROWS)

    def translate(lines: Sequence[str], beam: int) -> Any:
        decoding = Decoding(beam=beam, min_length_ratio=1.0, max_length_ratio=1.0)
        return list(translator.translate(lines, decoding=decoding))

    return translate


def by_ctranslate2(directory: Path, kind: str) -> Translate:
    """Returns CTranslate2 with a compute type."""
    import ctranslate2

    model = ctranslate2.Translator(
        str(directory), compute_type=kind, intra_threads=environment.cores()
    )

    def translate(lines: Sequence[str], beam: int) -> Any:
        pieces = [[*(f"\u2581{word}" for word in line.split()), "</s>"] for line in lines]
        return model.translate_batch(
            pieces, beam_size=beam, min_decoding_length=LENGTH, max_decoding_length=LENGTH,
            max_batch_size=ROWS,
        )  # fmt: skip

    return translate


def by_transformers(directory: Path) -> Translate:
    """Returns Transformers in float32."""
    import torch
    import transformers

    model = transformers.T5ForConditionalGeneration.from_pretrained(directory).eval()

    def translate(lines: Sequence[str], beam: int) -> Any:
        with torch.no_grad():
            for start in range(0, len(lines), ROWS):
                rows = [
                    [*(int(word[1:]) + 3 for word in line.split()), 1]
                    for line in lines[start : start + ROWS]
                ]
                model.generate(
                    torch.tensor(rows), num_beams=beam, min_new_tokens=LENGTH,
                    max_new_tokens=LENGTH, do_sample=False,
                )  # fmt: skip

    return translate


def library(translator: Translator) -> Translate:
    """Returns CTranslate2 without `mmt`'s search and scores, but with the tokens of the model."""
    model, source, target = translator.ctranslate2, *map(translator.vocabularies.get, SIDES)
    assert model is not None and source is not None and target is not None
    start = f"{tag('eng_Latn')} " if translator.tagged else ""

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        tokens = [[*ids, model.eos] for ids in source.encode_all([start + line for line in lines])]
        results = model.library.translate_batch(
            [[model.source[token] for token in row] for row in tokens],
            beam_size=beam, length_penalty=Decoding().alpha, max_batch_size=ROWS,
        )  # fmt: skip
        pieces = (result.hypotheses[0] for result in results)
        return [target.decode([model.target_ids[piece] for piece in row]) for row in pieces]

    return translate


def by_mmt(translator: Translator) -> Translate:
    """Returns `mmt` with the engine of a translator."""

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        decoding = Decoding(beam=beam, search_style="hf")
        return [line.text for line in translator.translate(lines, decoding=decoding)]

    return translate


def first_lines(file: str, count: int) -> list[str]:
    """Returns at most `count` lines of a file, without white space at their ends."""
    with open(file, encoding="utf-8") as stream:
        return [line.strip() for line in itertools.islice(stream, count)]


def natural_lengths(options: argparse.Namespace) -> None:
    """Times all systems on the lines of a text, and prints the table."""
    lines = first_lines(options.text, options.lines)
    reference = first_lines(options.reference, options.lines) if options.reference else None
    against = "chrF" if reference else "chrF to float32"
    systems = {}
    for engine, kinds in (("jax", WEIGHTS), ("ctranslate2", ("float32", "int8"))):
        for weights in kinds:
            translator = Translator.load(options.model, engine=engine, weights=weights)
            systems[f"{engine}, {weights}"] = by_mmt(translator)
            if engine == "ctranslate2":
                systems[f"CTranslate2, {weights}"] = library(translator)
    translator = Translator.load(options.model, weights="float32", fixed_batch_size=False)
    systems[f"jax, {SMALL}"] = by_mmt(translator)
    table = Table(title=f"seconds, {len(lines)} lines of natural lengths; {header()}")
    for column in ("system", "greedy", against, "beam 4", against):
        table.add_column(column, justify="right")
    cells: dict[str, list[str]] = {name: [] for name in systems}
    for beam in (1, 4):
        best, texts = dict.fromkeys(systems, float("inf")), {}
        for repeat in range(options.repeats + 1):
            for name, translate in systems.items():
                begin = time.perf_counter()
                found = translate(lines, beam)
                if repeat:  # the first compiles
                    best[name] = min(best[name], time.perf_counter() - begin)
                texts[name] = found
        for name in systems:
            right = reference or texts["jax, float32"]
            score = sacrebleu.corpus_chrf(texts[name], [right]).score
            cells[name] += [f"{best[name]:.2f}", f"{score:.1f}"]
    for name, row in cells.items():
        table.add_row(name, *row)
    Console(width=120).print(table)


def main() -> None:
    """Makes the model in a temporary directory, times all systems, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--peers", default="ctranslate2,transformers", help="comma-separated")
    parser.add_argument("--model", help="run directory of a dense model")
    parser.add_argument("--text", help="file with a line per sentence")
    parser.add_argument("--reference", help="file with the right translation of each line")
    options = parser.parse_args()
    if bool(options.model) != bool(options.text):
        parser.error("--model and --text belong together")
    if options.model:
        return natural_lengths(options)
    peers = options.peers.split(",")
    random = np.random.default_rng(0)
    lines = [
        " ".join(f"w{i}" for i in row)
        for row in random.integers(0, PIECES - 3, (options.lines, LENGTH - 1))
    ]
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        run, exported = Path(folder) / "run", Path(folder) / "ct2"
        systems = {f"mmt, {kind}": ours(run, kind) for kind in WEIGHTS}
        systems[f"mmt, {SMALL}"] = ours(run, "float32", fixed=False)
        if "ctranslate2" in peers:
            for kind in ("float32", "int8"):
                systems[f"CTranslate2, {kind}"] = by_ctranslate2(exported, kind)
        if "transformers" in peers:
            systems["Transformers, float32"] = by_transformers(Path(folder) / "hf")
        table = Table("system", title=f"seconds, {LENGTH} tokens a line; {header()}")
        columns = [(beam, count) for beam in (1, 4) for count in (options.lines, 1)]
        for beam, count in columns:
            table.add_column(f"beam {beam}, {count} lines", justify="right")
        best = {name: dict.fromkeys(columns, float("inf")) for name in systems}
        for column in columns:
            beam, count = column
            for repeat in range(options.repeats + 1):
                for name, translate in systems.items():
                    begin = time.perf_counter()
                    translate(lines[:count], beam)
                    if repeat:  # the first compiles
                        seconds = time.perf_counter() - begin
                        best[name][column] = min(best[name][column], seconds)
        for name, seconds_of in best.items():
            table.add_row(name, *(f"{seconds:.3f}" for seconds in seconds_of.values()))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
