"""Alignments are read back per record; missing, damaged and outdated ones are refused."""

import functools

import numpy as np
import pytest

from mmt.data import cache, pipeline
from mmt.data.cache import alignments
from tests.helpers.streams import LENGTHS, write_cache

COUNTS = {"deu_Latn": 30, "swh_Latn": 12}


@pytest.fixture
def opened(tmp_path):
    return cache.open_cache(write_cache(tmp_path, COUNTS))


def write(opened, code):
    """Writes made-up alignments, and returns them by record."""
    lengths = opened.lengths(code, "train")
    random = np.random.default_rng(len(code))
    made = [random.integers(-1, source, target) for source, target in lengths.tolist()]
    flat = (np.concatenate(made) + 1).astype(np.uint16)
    alignments.write(alignments.path_of(opened, code), flat)
    return made


def test_every_record_has_its_alignment(opened):
    expected = write(opened, "deu_Latn")
    read = alignments.Alignments(opened, "deu_Latn")
    for record in (0, 1, 29, 7):
        np.testing.assert_array_equal(read[record], expected[record])
    assert read[0].dtype == np.int32


def test_a_missing_file_names_the_command(opened):
    write(opened, "deu_Latn")
    make = functools.partial(
        pipeline.train_batches, opened, feature_lengths=LENGTHS, batch_size=4, alignment=True
    )
    with pytest.raises(ValueError, match="alignments of swh_Latn: run `mmt data align /.*cache`"):
        make()
    write(opened, "swh_Latn")
    make().close()


def test_alignments_of_other_tokens_are_refused_and_replaced(opened):
    write(opened, "deu_Latn")
    old = alignments.path_of(opened, "deu_Latn")
    changed = opened.manifest.__class__(**{**vars(opened.manifest), "corpus_hash": "other"})
    other = cache.Cache(opened.directory, changed)
    with pytest.raises(ValueError, match="of deu_Latn for its present text and vocabulary: run"):
        alignments.Alignments(other, "deu_Latn")
    write(other, "deu_Latn")
    alignments.Alignments(other, "deu_Latn")
    assert not old.exists()


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_a_damaged_file_is_refused(opened, content):
    write(opened, "deu_Latn")
    path = alignments.path_of(opened, "deu_Latn")
    if content is None:
        np.save(path, np.load(path)[:-1])
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path.name} is damaged.*delete it, then run"):
        alignments.Alignments(opened, "deu_Latn")
