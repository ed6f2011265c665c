"""A job names the entries and their files."""

from mmt.data.cleaning import cascade
from mmt.data.cleaning.job import CleaningJob, EntryWork
from tests.mmt.data.cleaning import prepared_raw


def test_an_entry_has_its_pairs_and_files_of_its_own(few, tmp_path):
    job = CleaningJob(few, cascade.rules_of(few, None), {}, tmp_path)
    names = few.entries("deu_Latn", "train")
    items = [EntryWork("train", "deu_Latn", number) for number in range(len(names))]
    assert tuple(job.name(item) for item in items) == names and len(names) > 1
    assert len({job.file("part", item, ".json") for item in items}) == len(items)
    for item in items:
        assert {pair.corpus for pair in job.pairs(item)} == {job.name(item)}
    pairs = [pair for item in items for pair in job.pairs(item)]
    assert pairs == list(prepared_raw(few, "deu_Latn"))
