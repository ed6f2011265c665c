"""A made-up cache whose examples encode their language and index, for tests of the data pipeline.
"""

import contextlib
import functools

import numpy as np

from mmt import languages
from mmt.data import cache, pipeline
from mmt.data import vocabulary as vocab
from mmt.data.forecast import forecast

LENGTHS = {"inputs": 24, "targets": 20}
DOCUMENT = 4


def example(language: int, index: int) -> tuple[list[int], list[int]]:
    """Returns tokens that encode language and index, with various lengths up to the longest that
    fits.
    """
    identity = [3 + language, 10 + index % 100, 200 + index // 100]
    return identity + [400] * (index * 7 % 21), identity + [500] * (index * 5 % 17)


def write_cache(folder, counts, *, corpora=("toy",)):
    """Builds a cache with `counts` training examples per language and a validation split of five
    and more. Training examples come in runs of about equal length of the `corpora`.
    """
    texts = [language.name for language in languages.all_languages()]
    vocab.train(texts, folder / "vocabulary.model", size=600, tags=["<2eng>"])

    def made(number, size):
        for index in range(size):
            yield *example(number, index), corpora[index * len(corpora) // size]

    examples = {}
    for number, (code, count) in enumerate(counts.items()):
        for split, size in (("train", count), ("validation", 5 + number)):
            examples[split, code] = functools.partial(made, number, size)
    cache.build(
        folder / "cache", examples, name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), folder / "vocabulary.model"),
    )  # fmt: skip
    return folder / "cache"


@contextlib.contextmanager
def batches_of(directory):
    """Yields a function that makes TrainBatches, of 8 rows by default; closes them in the end."""
    made = []

    def make(*, process=0, processes=1, **options):
        options = {"feature_lengths": LENGTHS, "batch_size": 8} | options
        made.append(pipeline.train_batches(directory, **options))
        if processes > 1:
            made[-1].share(part(process, processes))
        return made[-1]

    yield make
    for batches in made:
        batches.close()


def maker(directory, batch):
    """Makes the batches of a mixture, of which none is read: what a forecast asks."""
    opened = forecast.open_source(str(directory))

    def made(mixture, **options):
        options = {"feature_lengths": LENGTHS, "batch_size": batch} | options
        batches = pipeline.train_batches(opened, mixing=mixture, **options)
        batches.close()
        return batches

    return made


def write_text_cache(folder, counts, entries=("toy",)):
    """The cache of made-up sentences, which are pairs of texts in `pairs` by language and index.

    Every DOCUMENT sentences are a document. The entries have equal parts of a language, in order.
    """
    random = np.random.default_rng(0)
    words = [language.name.lower() for language in languages.all_languages()]

    def sentence(language, size):
        chosen = random.choice(words, size)
        number = str(random.integers(100, 3000))
        return f"{language}{' '.join(chosen)}, {number}.", f"{' '.join(chosen[::-1])}: {number}!"

    pairs = {
        code: [sentence(number, random.integers(1, 5)) for _ in range(count)]
        for number, (code, count) in enumerate(counts.items())
    }
    texts = [side for chosen in pairs.values() for pair in chosen for side in pair]
    vocab.train(texts, folder / "vocabulary.model", size=700, tags=["<2eng>"])
    vocabulary = vocab.Vocabulary.load(folder / "vocabulary.model")

    def made(code):
        for index, (source, target) in enumerate(pairs[code]):
            ids = vocabulary.encode(f"<2eng> {source}"), vocabulary.encode(target)
            entry = entries[index * len(entries) // counts[code]]
            yield *ids, entry, index % DOCUMENT > 0

    cache.build(
        folder / "cache", {("train", code): functools.partial(made, code) for code in counts},
        name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), folder / "vocabulary.model"),
    )  # fmt: skip
    return folder / "cache", pairs


def texts_of(batch, vocabulary):
    """(language, source with its tag, target) of every example of a batch."""
    texts = []
    for row in range(len(batch["encoder_input_tokens"])):
        arrays = {name: array[row] for name, array in batch.items()}
        for segment in range(1, arrays["encoder_segment_ids"].max() + 1):
            inputs = arrays["encoder_input_tokens"][arrays["encoder_segment_ids"] == segment]
            in_segment = arrays["decoder_segment_ids"] == segment
            language = int(arrays["decoder_language_ids"][in_segment][0])
            sides = (inputs.tolist(), arrays["decoder_target_tokens"][in_segment].tolist())
            texts.append((language, *map(vocabulary.decode, sides)))
    return texts


def part(process, processes):
    """Returns the rows of a process among `processes`, as `Layout.rows` does."""
    return lambda size: [range(process * size // processes, (process + 1) * size // processes)]


def examples_of(batch):
    """(language, index) of every example of a batch, row by row; checks that each is whole."""
    examples = []
    for row in range(len(batch["encoder_input_tokens"])):
        arrays = {name: array[row] for name, array in batch.items()}
        for segment in range(1, arrays["encoder_segment_ids"].max() + 1):
            inputs = arrays["encoder_input_tokens"][arrays["encoder_segment_ids"] == segment]
            targets = arrays["decoder_target_tokens"][arrays["decoder_segment_ids"] == segment]
            language, index = int(inputs[0] - 3), int(inputs[1] - 10 + 100 * (inputs[2] - 200))
            assert (inputs.tolist(), targets.tolist()) == tuple(
                [*text, vocab.EOS] for text in example(language, index)
            )
            ids = arrays["decoder_language_ids"][arrays["decoder_segment_ids"] == segment]
            assert set(ids.tolist()) == {language}
            examples.append((language, index))
    return examples


def rows_of(stream):
    """The rows of batches, hashable."""
    return [
        tuple(batch[name][row].tobytes() for name in sorted(batch))
        for batch in stream
        for row in range(len(batch["encoder_input_tokens"]))
    ]
