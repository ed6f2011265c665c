"""The aligner finds the words of made-up languages; the command continues where it stopped."""

import functools
import sys
import types

import numpy as np
import pytest

from mmt.cli.main import main
from mmt.data import alignment, cache
from mmt.data import vocabulary as vocab
from mmt.data.cache import alignments

WORDS = 40
FOREIGN, ENGLISH = 10, 100  # the ids of foreign words, which are translated one by one


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.model"
    letters = [chr(code) * 3 for code in range(0x4E00, 0x4E00 + 300)]
    vocab.train([" ".join(letters)] * 4, path, size=600, tags=["<2eng>"])
    return path


def shuffled(seed, count, tag):
    """Pairs with a shuffled order of words, and the true alignments."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        words = random.choice(WORDS, random.integers(2, 7), replace=False)
        order = random.permutation(len(words))
        inputs = [tag, *(FOREIGN + words).tolist()]
        yield inputs, (ENGLISH + words[order]).tolist(), (1 + order).tolist()


@pytest.fixture
def opened(tmp_path, vocabulary):
    """A cache of two languages; the last source of each is a tag alone."""
    tag = vocab.Vocabulary.load(vocabulary).id("<2eng>")

    def pairs(seed, count):
        for inputs, targets, _ in shuffled(seed, count, tag):
            yield inputs, targets, "made up"
        yield [tag], [ENGLISH], "made up"

    examples = {
        ("train", code): functools.partial(pairs, seed, count)
        for seed, (code, count) in enumerate({"deu_Latn": 400, "swh_Latn": 150}.items())
    }
    cache.build(
        tmp_path / "cache", examples, name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), vocabulary),
    )  # fmt: skip
    return cache.open_cache(tmp_path / "cache"), tag


def test_words_are_aligned_with_their_translations(opened):
    pytest.importorskip("systran_align", reason="aligning needs the extra [align]")
    made, tag = opened
    aligner = alignment.Aligner(favor_diagonal=False, processes=1)
    assert aligner(made) == ["deu_Latn", "swh_Latn"]
    for seed, (code, count) in enumerate({"deu_Latn": 400, "swh_Latn": 150}.items()):
        read = alignments.Alignments(made, code)
        right = total = 0
        for record, (_, _, true) in enumerate(shuffled(seed, count, tag)):
            right, total = right + int((read[record] == true).sum()), total + len(true)
        assert right / total > 0.9
        assert read[count].tolist() == [-1]  # a source of a tag alone


def test_the_command_skips_what_is_done(opened, capsys, monkeypatch):
    pytest.importorskip("systran_align", reason="aligning needs the extra [align]")
    monkeypatch.setattr("os.nice", lambda level: level)
    made, _ = opened
    command = ["data", "align", str(made.directory), "--gin.Aligner.processes=1"]
    assert main(command) == 0
    done, again = (alignments.path_of(made, code) for code in ("deu_Latn", "swh_Latn"))
    first, expected = done.stat().st_mtime_ns, np.load(again)
    again.unlink()
    assert main(command) == 0
    assert "languages aligned: 1" in capsys.readouterr().err
    assert done.stat().st_mtime_ns == first
    np.testing.assert_array_equal(np.load(again), expected)


def test_languages_are_not_aligned_with_other_options_than_those_before(opened, monkeypatch):
    class Aligned:
        def align_batch(self, sources, targets):
            return [{"alignments": [(0, 0)]} for _ in sources]

    monkeypatch.setitem(sys.modules, "systran_align", types.ModuleType("systran_align"))
    monkeypatch.setattr(alignment, "_fit_aligner", lambda *arguments: Aligned())
    made, _ = opened
    assert alignment.Aligner(iterations=3, processes=1)(made) == ["deu_Latn", "swh_Latn"]
    files = [alignments.path_of(made, code) for code in ("deu_Latn", "swh_Latn")]
    files[1].unlink()
    with pytest.raises(ValueError, match=r"by Aligner\.iterations = 3, this call has 5: use the"):
        alignment.Aligner(processes=1)(made)
    assert alignment.Aligner(iterations=3, processes=2)(made) == ["swh_Latn"]
    for file in files:
        file.unlink()
    assert alignment.Aligner(processes=1)(made) == ["deu_Latn", "swh_Latn"]


def test_without_the_package_the_extra_is_named(opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "systran_align", None)
    with pytest.raises(ValueError, match=r"pip install 'mmt\[align\]'"):
        alignment.Aligner()(opened[0])


def test_the_command_takes_a_cache_or_a_configuration(capsys):
    assert main(["data", "align"]) == 1
    assert "expected CACHE, or --gin_file FILE" in capsys.readouterr().err


def test_of_several_linked_pieces_the_most_specific_one_is_chosen():
    inputs = np.array([5, 6, 5, 7, 6, 6])  # 5 6 | 5 7 | 6 6
    targets = np.array([30, 31, 30])
    links = np.array([[0, 0], [1, 0], [2, 1], [3, 1], [5, 2], [4, 2]])
    # 6 is always linked to 30, 7 always to 31, and 5 to each of them once.
    np.testing.assert_array_equal(alignment.best_links(links, inputs, targets), [1, 3, 4])
    none = alignment.best_links(np.zeros((0, 2), int), inputs, targets)
    np.testing.assert_array_equal(none, [-1, -1, -1])
