"""analysis.jsonl follows results.jsonl and the texts beside it."""

import dataclasses
import hashlib
import json
import shutil

import pytest

from eval.analyses import output_checks, significance, update
from eval.analyses.train_overlap import TrainingTargets
from eval.records import analysis, results
from eval.report.comparison import compare
from tests.helpers.translations import row, texts

SOURCES = {"deu_Latn": 1, "swh_Latn": 2}
SYSTEMS = (("dense", "multilingual", 0.2), ("moe", "multilingual", 0.1),
           ("bilingual", "bilingual", 0.4), ("older", "bilingual", 0.5))  # fmt: skip


def write(file, system, kind, noise, *, source="deu_Latn", seed=1, **changes):
    """A row and its texts."""
    hypotheses, references = texts(seed, noise)
    made = row(hypotheses, references, system=system, kind=kind, source=source, **changes)
    results.add_rows(file, [made])
    stem = update.stem(file, made)
    stem.parent.mkdir(parents=True, exist_ok=True)
    sources = [f"Satz {reference}" for reference in references]
    for suffix, lines in (("src", sources), ("hyp", hypotheses),
                          ("ref", references)):  # fmt: skip
        stem.with_name(f"{stem.name}.{suffix}").write_text("".join(f"{x}\n" for x in lines))
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two languages, four systems, refreshed; and how many rows that added."""
    path = tmp_path_factory.mktemp("whole") / "results.jsonl"
    for source, seed in SOURCES.items():
        for system, kind, noise in SYSTEMS:
            write(path, system, kind, noise, source=source, seed=seed)
    return path, update.update([path])


@pytest.fixture
def file(whole, tmp_path):
    """A copy of the evaluated systems, to be changed."""
    shutil.copytree(whole[0].parent, tmp_path / "copy")
    return tmp_path / "copy/results.jsonl"


def found(file, kind):
    return [item for item in analysis.read(analysis.path_for(file)) if item.kind == kind]


def test_each_analysis_of_the_texts_is_added_once(whole):
    file, added = whole
    assert added == len(analysis.read(analysis.path_for(file)))
    rows = results.read_rows(file)
    for kind in ("interval", "guards", "counts"):
        assert {item.key[1:] for item in found(file, kind)} == {item.key for item in rows}
    assert {item.source for item in found(file, "trust")} == set(SOURCES)
    pairs = [(item.system, item.against) for item in found(file, "paired")]
    assert sorted(pairs) == sorted(2 * [("dense", "bilingual"), ("moe", "bilingual"),
                                        ("dense", "moe"), ("moe", "dense")])  # fmt: skip
    assert not found(file, "overlap")
    before = analysis.path_for(file).read_bytes()
    assert update.update([file]) == 0 and analysis.path_for(file).read_bytes() == before
    for entry in compare(rows)[0].entries:  # the baseline that the report compares with
        assert entry.baseline.system == "bilingual"


def test_what_is_up_to_date_is_not_computed(file, monkeypatch):
    monkeypatch.setattr(significance, "interval", None)
    monkeypatch.setattr(significance, "paired", None)
    monkeypatch.setattr(output_checks, "check", None)
    assert update.update([file]) == 0
    update.update_rows(file, results.read_rows(file))


def test_two_starts_write_the_same(file):
    before = analysis.path_for(file).read_bytes()
    analysis.path_for(file).unlink()
    update.update([file])
    assert analysis.path_for(file).read_bytes() == before


def test_only_what_changed_is_computed_again(file):
    before = analysis.read(analysis.path_for(file))
    write(file, "moe", "multilingual", 0.15)
    # interval, counts, guards; against the baseline, and both ways against the dense one
    assert update.update([file]) == 6
    after = analysis.read(analysis.path_for(file))
    assert len(after) == len(before)
    changed = {item.key for item in after if item not in before}
    assert len(changed) == 6 and all("moe" in key and "deu_Latn" in key for key in changed)


def test_the_hash_is_that_of_the_files(file):
    item = found(file, "interval")[0]
    stem = update.stem(file, item)
    whole = b"".join(
        stem.with_name(f"{stem.name}.{suffix}").read_bytes() for suffix in ("src", "hyp", "ref")
    )
    assert item.hypotheses == hashlib.sha256(whole).hexdigest()[:12]


def test_systems_in_several_files_meet(tmp_path):
    first, second = tmp_path / "a/results.jsonl", tmp_path / "b/results.jsonl"
    write(first, "moe", "multilingual", 0.1)
    write(second, "bilingual", "bilingual", 0.4)
    update.update([first, second])
    assert [item.against for item in found(first, "paired")] == ["bilingual"]
    assert not found(second, "paired") and len(found(second, "interval")) == 1


def test_counts_replace_missing_texts(file):
    """Results published without their texts: new systems are compared with them."""
    paired = found(file, "paired")
    shutil.rmtree(file.parent / "hypotheses")
    without_tests = [
        item for item in analysis.read(analysis.path_for(file)) if item.kind != "paired"
    ]
    analysis.path_for(file).unlink()
    analysis.add(analysis.path_for(file), without_tests)
    assert update.update([file]) == len(paired)
    assert sorted(found(file, "paired"), key=lambda item: item.key) == sorted(
        paired, key=lambda item: item.key
    )
    write(file, "new", "multilingual", 0.3)
    update.update([file])
    tests = [item for item in found(file, "paired") if item.system == "new"]
    assert {(item.against, item.source) for item in tests} == {
        ("bilingual", "deu_Latn"), ("dense", "deu_Latn"), ("moe", "deu_Latn")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [({}, "analysis.jsonl: counts of bilingual, .*deu_Latn give .* one of them was changed"),
     ({"references": "others"}, None)],  # fmt: skip
)
def test_counts_of_another_row_are_not_used(file, change, message):
    """Those of another score are named; those of other references left out."""
    shutil.rmtree(file.parent / "hypotheses")
    rows = [item for item in analysis.read(analysis.path_for(file)) if item.kind != "paired"]
    first, second = (item for item in rows if item.kind == "counts" and item.source == "deu_Latn"
                     and item.system in ("dense", "bilingual"))  # fmt: skip
    if not change:
        change = {"packed": first.packed}
    analysis.path_for(file).unlink()
    changed = dataclasses.replace(second, **change)
    analysis.add(analysis.path_for(file), [item for item in rows if item != second] + [changed])
    if message:
        with pytest.raises(ValueError, match=message):
            update.update([file])
        return
    update.update([file])
    tests = [item for item in found(file, "paired") if item.source == "deu_Latn"]
    pairs = {(item.system, item.against) for item in tests}
    assert not any(second.system in pair for pair in pairs) and pairs


def test_counts_replace_texts_of_another_row(file):
    paired = sorted(found(file, "paired"), key=lambda item: item.key)
    stem = file.parent / "hypotheses/moe/made-up/deu_Latn"
    stem.with_suffix(".hyp").write_text("another text\n" * 60)
    rest = [item for item in analysis.read(analysis.path_for(file)) if item.kind != "paired"]
    analysis.path_for(file).unlink()
    analysis.add(analysis.path_for(file), rest)
    assert update.update([file]) == len(paired)
    assert sorted(found(file, "paired"), key=lambda item: item.key) == paired


def test_a_score_that_its_own_counts_contradict_is_named(file):
    """Also if nothing needs a new comparison."""
    shutil.rmtree(file.parent / "hypotheses")
    assert update.update([file]) == 0
    (first, *others) = file.read_text().splitlines(keepends=True)
    changed = json.loads(first)
    changed["bleu"] += 1
    file.write_text("".join([json.dumps(changed) + "\n", *others]))
    with pytest.raises(ValueError, match=f"counts of {changed['system']}, .* one of them was chan"):
        update.update([file])


def test_texts_of_another_checkpoint_or_other_references_are_not_used(tmp_path):
    file = tmp_path / "results.jsonl"
    older = write(file, "moe", "multilingual", 0.3, checkpoint="moe/1")
    newer = write(file, "moe", "multilingual", 0.1, checkpoint="moe/2")
    results.add_rows(file, [dataclasses.replace(newer, system="gone")])  # without texts
    baseline = write(file, "bilingual", "bilingual", 0.4)
    stem = update.stem(file, baseline)
    other = "\n".join(f"{line} indeed" for line in texts(1, 0.4)[1])
    stem.with_name(f"{stem.name}.ref").write_text(other + "\n")
    update.update([file])
    assert [item.key[1:] for item in found(file, "interval")] == [newer.key]
    assert older.key != newer.key and not found(file, "paired")


def test_unequal_numbers_of_lines_name_the_files(file):
    stem = file.parent / "hypotheses/moe/made-up/swh_Latn"
    hyp = stem.with_name("swh_Latn.hyp")
    hyp.write_text(hyp.read_text() + "one more\n")
    with pytest.raises(ValueError) as error:
        update.update([file])
    message = str(error.value)
    assert f"{hyp} has 61 lines" in message
    assert f"{stem.with_name('swh_Latn.ref')} has 60" in message


def test_training_lines_add_overlap_and_memorised_outputs(file):
    _, references = texts(1, 0.1)
    training = TrainingTargets(references[:20])
    added = update.update([file], training=training)
    assert added == 2 * len(results.read_rows(file))
    assert update.update([file], training=training) == 0 == update.update([file])
    assert all(item.recited is not None for item in found(file, "guards"))
    bins = found(file, "overlap")[0].bins
    assert bins[-1].sentences >= 15 and sum(item.sentences for item in bins) == 60
    older = dataclasses.replace(found(file, "overlap")[0], hypotheses="of other texts")
    analysis.add(analysis.path_for(file), [older])
    assert update.update([file]) == 0  # without the training lines it cannot be mended
    assert update.update([file], training=training) == 1 and older not in found(file, "overlap")


def test_other_training_lines_replace_overlap_and_memorised_outputs(file):
    hypotheses, references = texts(1, 0.1)
    update.update([file], training=TrainingTargets(references))
    before = found(file, "overlap")
    training = TrainingTargets([line for line in hypotheses if line not in references])
    update.update([file], training=training)
    assert len(found(file, "overlap")) == len(before) and found(file, "overlap") != before
    moe = [item for item in found(file, "guards") if item.system == "moe"]
    assert any(item.recited for item in moe if item.source == "deu_Latn")
    assert update.update([file], training=training) == 0


def test_ablations_are_compared_among_themselves(tmp_path):
    file = tmp_path / "results.jsonl"
    for system, noise in (("moe", 0.1), ("T:1", 0.2), ("T:5", 0.3)):
        write(file, system, "multilingual", noise)
    update.update([file])
    assert sorted((item.system, item.against) for item in found(file, "paired")) == [
        ("T:1", "T:5"), ("T:5", "T:1"),
    ]  # fmt: skip


def test_a_broken_analysis_file_is_left_as_it_is(file):
    analysis.path_for(file).write_text("{}\n")
    with pytest.raises(ValueError, match=r"analysis.jsonl:1: missing key 'kind'"):
        update.update([file])
    assert analysis.path_for(file).read_text() == "{}\n"
