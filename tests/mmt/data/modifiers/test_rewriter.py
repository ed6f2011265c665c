"""The tag stays, rates hold, and only seed and draw decide which examples change, and how."""

import json
from collections import Counter

import numpy as np
import pytest

from mmt.data import cache, ledger, modifiers, pipeline, virtual_shards
from mmt.data import vocabulary as vocab
from mmt.data.cache import alignments
from mmt.data.mixing import Mixing
from mmt.data.stages import Stage
from tests.helpers.streams import DOCUMENT, part, texts_of, write_cache, write_text_cache

COUNTS = {"deu_Latn": 60, "swh_Latn": 20}
LENGTHS = {"inputs": 64, "targets": 64}
LONG = {"inputs": 200, "targets": 200}
OTHERS = {"bpe_dropout", "context", "romanised"}
ALL = dict.fromkeys({*modifiers.KINDS} - {"romanised"}, 0.1)  # the texts are Latin


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    return write_text_cache(tmp_path_factory.mktemp("data"), COUNTS)


@pytest.fixture(scope="module")
def vocabulary(cached):
    return vocab.Vocabulary.load(cached[0] / "vocabulary.model")


def stream(cached, modifier, **options):
    options = {"feature_lengths": LENGTHS, "batch_size": 8, "virtual_shards": 4} | options
    return pipeline.train_batches(cached[0], stages=[Stage(modifiers=modifier)], **options)


def shown(cached, vocabulary, modifier, count=40, **options):
    batches = stream(cached, modifier, packing=False, **options)
    examples = [example for _ in range(count) for example in texts_of(next(batches), vocabulary)]
    batches.close()
    return examples


@pytest.mark.parametrize("kind", sorted({*modifiers.KINDS} - OTHERS))
def test_modifiers_apply_at_their_rate_and_keep_the_tag(cached, vocabulary, kind):
    plain = shown(cached, vocabulary, None)
    made = shown(cached, vocabulary, {kind: {"Swahili": 0.5}})
    assert all(source.startswith("<2eng> ") for _, source, _ in made)
    for before, after in zip(plain, made, strict=True):
        assert before[0] == after[0]
        assert before == after or before[0] == 1
    swahili = [(before, after) for before, after in zip(plain, made, strict=True) if before[0] == 1]
    rate = np.mean([before != after for before, after in swahili])
    assert rate == pytest.approx(0.5, abs=4 * 0.5 / len(swahili) ** 0.5)
    if kind == "merged":
        _, pairs = cached
        for (_, source, target), (_, joined, both) in swahili:
            if source != joined:
                appended = joined.removeprefix(f"{source} "), both.removeprefix(f"{target} ")
                assert appended in pairs["swh_Latn"]


@pytest.mark.parametrize(
    ("odds", "changed"),
    [
        ({"web": 1.0}, {("deu_Latn", "web"), ("swh_Latn", "web")}),
        ({"Swahili": 1.0, "web": 0.0}, {("swh_Latn", "books")}),
        ({"web": 0.0, "deu": 1.0, "books": 1.0}, {("deu_Latn", "books"), ("swh_Latn", "books")}),
    ],
)
def test_an_entry_has_a_probability_of_its_own(tmp_path, odds, changed):
    """It wins over that of the language; draws stay, and the ledger counts the same changes."""
    cached = write_text_cache(tmp_path, COUNTS, entries=("books", "web"))
    vocabulary = vocab.Vocabulary.load(tmp_path / "cache/vocabulary.model")
    entry_of = {
        f"<2eng> {source}": (code, ("books", "web")[2 * index // len(pairs)])
        for code, pairs in cached[1].items()
        for index, (source, _) in enumerate(pairs)
    }
    options = {"feature_lengths": LONG}
    before, after = (
        shown(cached, vocabulary, each, **options) for each in (None, {"upper_case": odds})
    )
    found = {entry_of[plain[1]]: set() for plain in before}
    for plain, made in zip(before, after, strict=True):
        found[entry_of[plain[1]]].add(plain != made)
    assert len(found) == 4
    assert found == {entry: {entry in changed} for entry in found}
    batches = stream(cached, {"upper_case": odds}, **options)
    for _ in range(4):
        next(batches)
    counts = batches.ledger().count(None, batches.get_state(), 0, 1)
    batches.close()
    table = cache.open_cache(cached[0]).manifest.corpus_table
    assert {entry for entry, row in zip(table, counts, strict=True) if row[3]} == changed


def test_context_is_the_lines_before_in_the_document(cached, vocabulary):
    _, pairs = cached
    numbers = {f"<2eng> {source}": i for i, (source, _) in enumerate(pairs["deu_Latn"])}
    stage = Stage(mixing=Mixing(languages=["deu"]), modifiers={"context": 0.7}, context_lines=2)
    options = {"batch_size": 8, "virtual_shards": 4, "packing": False}
    lengths = {"inputs": 300, "targets": 300}
    plain = pipeline.train_batches(
        cached[0], feature_lengths=lengths, **options, mixing=stage.mixing
    )
    batches = pipeline.train_batches(cached[0], feature_lengths=lengths, **options, stages=[stage])
    counts = Counter()
    for _ in range(40):
        both = zip(texts_of(next(plain), vocabulary), texts_of(next(batches), vocabulary),
                   strict=True)  # fmt: skip
        for (_, line, _), (_, source, target) in both:
            number = numbers[line]
            lines = source.count(" ||| ")
            assert lines <= number % DOCUMENT  # never across documents
            texts = pairs["deu_Latn"][number - lines : number + 1]
            sources, targets = zip(*texts, strict=True)
            assert source == f"<2eng> {' ||| '.join(sources)}"
            assert target == " ||| ".join(targets)
            counts[min(number % DOCUMENT, 2), lines] += 1
    plain.close()
    batches.close()
    middle = [counts[2, lines] for lines in range(3)]
    share = np.array(middle) / sum(middle)
    np.testing.assert_allclose(share, [0.3, 0.35, 0.35], atol=4 * 0.5 / sum(middle) ** 0.5)
    assert counts[1, 1] and set(counts) == {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}


@pytest.mark.filterwarnings("ignore:.*do not fit")
def test_context_that_would_not_fit_is_left_out(cached, vocabulary):
    short = {"inputs": 36, "targets": 36}
    made = shown(cached, vocabulary, {"context": 1.0}, feature_lengths=short)
    joined = fitting = 0
    for (language, plain, _), (_, *sides) in zip(
        shown(cached, vocabulary, None, feature_lengths=short), made, strict=True
    ):
        pairs = cached[1][list(COUNTS)[language]]
        number = [f"<2eng> {source}" for source, _ in pairs].index(plain)
        both = zip(pairs[number - 1], pairs[number], strict=True)
        with_context = [" ||| ".join(each) for each in both]
        with_context[0] = f"<2eng> {with_context[0]}"
        fits = all(len(vocabulary.encode(text)) < 36 for text in with_context)
        assert (sides == with_context) == (number % DOCUMENT > 0 and fits)
        joined += sides == with_context
        fitting += fits
    assert 0 < joined < fitting < len(made)


def test_context_needs_documents(cached, tmp_path):
    pairs = {"inputs": 24, "targets": 20}
    without = write_cache(tmp_path, {"deu_Latn": 8})
    options = {"feature_lengths": pairs, "batch_size": 4}
    for odds in (0.5, {"deu": 0.5}):
        with pytest.raises(ValueError, match="'context' needs documents, .* of deu_Latn in .*true"):
            pipeline.train_batches(without, stages=[Stage(modifiers={"context": odds})], **options)
    with pytest.raises(ValueError, match="context_lines = 2; allowed: 1 or more, with the modifi"):
        pipeline.train_batches(without, stages=[Stage(context_lines=2)], **options)
    damaged = cached[0] / "train/swh_Latn.follows.npy"
    whole = damaged.read_bytes()
    np.save(damaged, np.ones(3, bool))
    with pytest.raises(ValueError, match=r"follows.npy is damaged: it has bool \(3,\)"):
        stream(cached, {"context": 1.0})
    damaged.write_bytes(whole)


def test_bpe_dropout_changes_pieces_and_keeps_texts(cached, vocabulary):
    plain = shown(cached, vocabulary, None, feature_lengths=LONG)
    divided = {"bpe_dropout": {"Swahili": 1.0}}
    assert shown(cached, vocabulary, divided, feature_lengths=LONG) == plain
    before, after = (
        stream(cached, modifier, feature_lengths=LONG).order.examples(range(200))
        for modifier in (None, divided)
    )
    pairs = list(zip(before, after, strict=True))
    changed = Counter((b.language, a.changed is not None) for b, a in pairs)
    assert changed[0, True] == 0 and changed[1, True] > 4 * changed[1, False]
    grown = [a.source - b.source for b, a in pairs if a.changed]
    assert min(grown) >= -3 and np.mean(grown) > 0.5


def test_bpe_dropout_also_divides_what_other_modifiers_made(cached, vocabulary):
    upper = shown(cached, vocabulary, {"upper_case": 1.0}, feature_lengths=LONG)
    both = {"upper_case": 1.0, "bpe_dropout": 1.0}
    assert shown(cached, vocabulary, both, feature_lengths=LONG) == upper


def test_examples_that_would_not_fit_are_unchanged(cached, vocabulary):
    short = {"inputs": 28, "targets": 28}
    with pytest.warns(UserWarning, match="do not fit"):
        plain = shown(cached, vocabulary, None, feature_lengths=short)
        made = shown(cached, vocabulary, {"merged": 1.0}, feature_lengths=short)
        draws = stream(cached, {"merged": 1.0}, feature_lengths=short).order
    changes = draws.changes(np.arange(len(plain)))
    assert len(changes) == len(plain)
    unchanged = [before == after for before, after in zip(plain, made, strict=True)]
    assert 0 < sum(unchanged) < len(unchanged)
    assert sum(not change.fits for change in changes) == sum(unchanged)


def test_only_seed_and_draw_decide(cached):
    """Other virtual shards, batch sizes, processes, restarts; another seed is another text."""
    batches = stream(cached, ALL)
    draws = batches.order
    together = draws.examples(range(300))
    assert any(example.changed for example in together)
    fresh = stream(cached, ALL).order
    assert [fresh.examples([i])[0] for i in range(0, 300, 7)] == together[::7]
    other = stream(cached, ALL, seed=1).order
    assert other.examples(range(300)) != together
    for _ in range(5):
        next(batches)
    state = json.loads(json.dumps(batches.get_state()))
    expected = [next(batches) for _ in range(10)]
    halves = [stream(cached, ALL, batch_size=16) for _ in range(2)]
    for process, half in enumerate(halves):
        half.share(part(process, 2))
        half.set_state(state)
    of_halves = [[next(half) for _ in range(5)] for half in halves]
    rows = [Counter(row.tobytes() for batch in taken for row in batch["encoder_input_tokens"])
            for taken in (expected, of_halves[0] + of_halves[1])]  # fmt: skip
    assert rows[0] == rows[1]
    with pytest.raises(ValueError, match="state has stages"):
        stream(cached, ALL | {"typos": 0.3}).set_state(state)


@pytest.mark.slow
def test_a_stage_in_steps_foresees_what_modifiers_do_to_lengths(cached):
    """Sentences twice as long, half as many per row: about 60 steps, as without modifiers."""
    merged = Stage({"steps": 60}, Mixing(languages=["deu"]), {"merged": 1.0})
    batches = pipeline.train_batches(
        cached[0], stages=[merged, Stage(mixing=Mixing(languages=["swh"]))],
        feature_lengths=LONG, batch_size=16, virtual_shards=8,
    )  # fmt: skip
    swahili = [bool((next(batches)["decoder_language_ids"] == 1).any()) for _ in range(80)]
    batches.close()
    assert abs(swahili.index(True) - 60) <= 8  # by what rows are open


def test_the_ledger_counts_modified_tokens(cached, tmp_path):
    batches = stream(cached, ALL, feature_lengths={"inputs": 40, "targets": 64})
    tokens = Counter()
    for step in range(20):
        batch = next(batches)
        for side in ("encoder", "decoder"):
            tokens[side] += int((batch[f"{side}_segment_ids"] > 0).sum())
        if step in (3, 7, 19):
            consumed = batches.ledger()
            former, state = consumed.read(tmp_path), batches.get_state()
            counted = [consumed.count(former, state, process, 3) for process in range(3)]
            consumed.write(tmp_path, former, state, counted, step)
            rows = ledger.load(tmp_path)["rows"]
            assert sum(row["source_tokens"] for row in rows) == tokens["encoder"]
            assert sum(row["target_tokens"] for row in rows) == tokens["decoder"]
    assert min(row["modified"] for row in rows) > 0
    assert sum(row["too_long"] for row in rows) > 0
    batches.close()


def test_the_ledger_changes_no_example_that_workers_have_changed(cached, monkeypatch):
    """Each example would be decoded, changed and encoded again while training waits."""
    options = {"modifier": ALL, "feature_lengths": {"inputs": 40, "targets": 64}}
    alone, shared = (stream(cached, workers=workers, **options) for workers in (0, 2))
    counted = []
    for batches in (alone, shared):
        for _ in range(6):
            next(batches)
        if batches is shared:
            monkeypatch.delattr(virtual_shards.SampleOrder, "_rewrite")
        counted.append(batches.ledger().count(None, batches.get_state(), 0, 1))
        batches.close()
    assert counted[0] == counted[1]
    assert sum(row[3] for row in counted[0]) > 0  # modified


@pytest.mark.parametrize(
    ("modifier", "message"),
    [
        ({"uper_case": 0.1}, "no modifier 'uper_case'; nearest: upper_case; allowed: context, "),
        ([1], r"modifiers = \[1\]; allowed: {NAME: PROBABILITY, ...}, the names context, "),
        ({"typos": 1.1}, "'typos' has the probability 1.1; allowed: 0 ... 1"),
        ({"typos": {"Swahilli": 0.1}}, "'Swahilli' is not among .*nearest.*, nor an entry of"),
        ({"typos": {"toi": 0.1}}, "'toi' is not .*, nor an entry of the corpus; nearest: toy"),
        ({"typos": {"swh": -0.1}}, "probability -0.1"),
        ({"upper_case": "x"}, "'upper_case' has the probability 'x'; allowed: 0 ... 1"),
        ({"typos": True}, "'typos' has the probability True"),
        ({"typos": {"deu": 0.1, "German": 0.2}}, "'typos' names a language twice: {'deu': 0.1, 'G"),
    ],
)
def test_unknown_modifiers_are_errors(cached, modifier, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        stream(cached, modifier)


def test_changed_examples_have_no_alignment(cached, vocabulary):
    opened = cache.open_cache(cached[0])
    for code in COUNTS:
        targets = opened.lengths(code, "train")[:, 1].sum()
        alignments.write(alignments.path_of(opened, code), np.full(targets, 2, np.uint16))
    batches = stream(cached, {"upper_case": 0.5}, packing=False, alignment=True)
    seen = Counter()
    for batch in (next(batches) for _ in range(10)):
        examples = texts_of(batch, vocabulary)
        aligned = zip(batch["decoder_alignment"], batch["decoder_target_tokens"], strict=True)
        for (_, _, target), (positions, tokens) in zip(examples, aligned, strict=True):
            changed = target.isupper()
            expected = np.where((tokens > vocab.EOS) & (not changed), 1, -1)
            np.testing.assert_array_equal(positions, expected)
            seen[changed] += 1
    batches.close()
    assert min(seen.values()) > 20


def test_a_stage_has_its_own_modifiers(cached, vocabulary):
    planned = [Stage({"examples": 64}, Mixing(1.0), {"upper_case": 1.0}), Stage()]
    batches = pipeline.train_batches(
        cached[0],
        stages=planned,
        feature_lengths=LONG,
        batch_size=16,
        virtual_shards=8,
        packing=False,
    )
    steps = [texts_of(next(batches), vocabulary) for _ in range(8)]
    batches.close()
    for number, examples in enumerate(steps):
        assert all(target.isupper() == (number < 4) for _, _, target in examples)
    assert isinstance(batches.order, virtual_shards.SampleOrder)
