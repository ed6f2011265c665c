"""Evaluation: rows and texts as they come, nothing lost, nothing done twice."""

import dataclasses
import itertools
import time
import types
from pathlib import Path

import pytest
import sacrebleu

from eval import evaluate, metrics, systems
from eval.analyses import update
from eval.records import analysis, results
from eval.testsets import Sentences, TestSet
from mmt.decoding import Decoding

LANGUAGES = {
    "deu_Latn": Sentences(
        ("Ende März 2021", "3 Stunden", "Montag, 1. März"),
        ("the end of March 2021", "3 hours", "Monday, March 1"),
    ),
    "swh_Latn": Sentences(("saa tatu na nusu", "Jumatatu"), ("three hours and a half", "Monday")),
    "ita_Latn": Sentences(("tre ore e mezza",), ("three hours and a half",)),
}
TESTSET = TestSet("phrases", "eng_Latn", LANGUAGES)
ANSWERS = {
    source: reference.replace("March", "May")
    for lines in LANGUAGES.values()
    for source, reference in zip(*lines[:2], strict=True)
}
SYSTEM = systems.System(
    "tiny", "multilingual", "tiny/100", "abc123", {"deu_Latn": 500, "swh_Latn": 20}
)


class Dictionary:
    """A translator that reads ahead by `window` lines, and dies after `lives` of them."""

    tagged, routes_by_language = True, False

    def __init__(self, answers=ANSWERS, *, window=2, lives=10**9, seconds=0.0):
        self.answers, self.window, self.lives, self.seconds = answers, window, lives, seconds
        self.seen, self.settings = [], None

    def translate(self, lines, *, target, decoding):
        self.settings = (target, decoding)
        lines = iter(lines)
        while window := list(itertools.islice(lines, self.window)):
            time.sleep(self.seconds)
            for line in window:
                if len(self.seen) == self.lives:
                    raise KeyboardInterrupt
                self.seen.append(line)
                hypothesis = types.SimpleNamespace(text=self.answers[line], score=-1.0)
                yield types.SimpleNamespace(source=line, hypotheses=(hypothesis,))


@pytest.fixture
def run(tmp_path):
    """A function that evaluates into tmp_path/results.jsonl."""

    def evaluation(translator, testset=TESTSET, **changes):
        given = {"system": SYSTEM, "out": tmp_path / "results.jsonl"} | changes
        return evaluate.evaluate(translator, testset, **given)

    return evaluation


def test_a_row_per_language_with_sacrebleu_s_scores(run, tmp_path):
    rows = run(Dictionary())
    assert rows == results.read_rows(tmp_path / "results.jsonl")
    assert [row.source for row in rows] == list(LANGUAGES)
    for row in rows:
        lines = LANGUAGES[row.source]
        hypotheses = [ANSWERS[source] for source in lines.sources]
        assert row.bleu == pytest.approx(
            sacrebleu.corpus_bleu(hypotheses, [lines.references]).score, abs=1e-4
        )
        assert row.sentences == len(lines.sources)
        assert row.train_pairs == SYSTEM.train_pairs.get(row.source, 0)
        assert (row.system, row.kind, row.testset) == ("tiny", "multilingual", "phrases")
        assert (row.checkpoint, row.decode, row.config) == (
            "tiny/100", "beam:4|alpha:0.8|early_stopping:unlikely", "abc123",
        )  # fmt: skip


def test_the_kept_texts_give_the_score_again(run, tmp_path):
    for row in run(Dictionary()):
        stem = tmp_path / "hypotheses" / "tiny" / "phrases" / row.source
        texts = [
            stem.with_suffix(f".{kind}").read_text().split("\n")[:-1]
            for kind in ("src", "hyp", "ref")
        ]
        assert tuple(texts[0]) == LANGUAGES[row.source].sources
        again = metrics.score(*texts[1:])
        assert (again.bleu, again.chrf) == (row.bleu, row.chrf)


def test_line_breaks_in_a_translation_do_not_shift_lines(run, tmp_path):
    answers = ANSWERS | {"3 Stunden": "3\nhours\r now"}
    run(Dictionary(answers))
    hyp = tmp_path / "hypotheses" / "tiny" / "phrases" / "deu_Latn.hyp"
    assert hyp.read_bytes().split(b"\n")[1] == b"3 hours  now"
    assert hyp.read_bytes().count(b"\n") == 3


def test_decoding_reaches_the_translator_and_the_row(run):
    translator = Dictionary()
    decoding = Decoding(beam=2, alpha=0.65, no_repeat_ngram=3)
    rows = run(translator, decoding=decoding)
    assert translator.settings == ("eng_Latn", decoding)
    assert rows[0].decode == "beam:2|alpha:0.65|early_stopping:unlikely|no_repeat_ngram:3"


def test_a_model_without_tags_is_given_the_lines_as_they_are(run):
    translator = Dictionary()
    translator.tagged = False
    rows = run(translator)
    assert translator.settings[0] is None and {row.target for row in rows} == {"eng_Latn"}
    evaluate.validation_translations(translator, TESTSET)
    assert translator.settings[0] is None


def test_all_languages_go_as_one_stream(run):
    translator = Dictionary(window=100)
    run(translator)
    assert translator.seen == [line for lines in LANGUAGES.values() for line in lines.sources]


def test_documents_begin_with_an_empty_line(run, tmp_path):
    german = LANGUAGES["deu_Latn"]._replace(documents=("news", "news", "talk"))
    swahili = LANGUAGES["swh_Latn"]._replace(documents=("talk", "talk"))
    documents = TestSet("phrases", "eng_Latn", {"deu_Latn": german, "swh_Latn": swahili})
    translator = Dictionary(ANSWERS | {"": ""}, window=3)
    rows = run(translator, documents, by_document=True, decode="beam:4|context:1")
    one, two, three = german.sources
    assert translator.seen == ["", one, two, "", three, "", *swahili.sources]
    assert [(row.sentences, row.decode) for row in rows] == [
        (3, "beam:4|context:1"), (2, "beam:4|context:1")
    ]  # fmt: skip
    assert [row.bleu for row in rows] == [row.bleu for row in run(Dictionary())[:2]]
    with pytest.raises(ValueError, match=r"'phrases': the documents of deu_Latn are unknown"):
        run(Dictionary(), by_document=True, decode="other")


def test_a_kill_loses_no_finished_language(run, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(Dictionary(lives=4))  # in the middle of the second language
    assert [row.source for row in results.read_rows(tmp_path / "results.jsonl")] == ["deu_Latn"]
    translator = Dictionary()
    rows = run(translator)
    assert translator.seen == [*LANGUAGES["swh_Latn"].sources, *LANGUAGES["ita_Latn"].sources]
    assert [row.source for row in rows] == list(LANGUAGES)
    assert len(results.read_rows(tmp_path / "results.jsonl")) == 3


def test_new_translations_without_their_row_are_not_taken_for_the_old_ones(run, monkeypatch):
    run(Dictionary())
    other = dataclasses.replace(SYSTEM, config="def456")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(results, "add_rows", full_disk)
        run(Dictionary(dict.fromkeys(ANSWERS, "other")), system=other)
    run(translator := Dictionary())
    assert translator.seen == list(LANGUAGES["deu_Latn"].sources)


def full_disk(_, rows):
    if rows:
        raise OSError("the disk is full")


def test_rows_of_another_model_or_text_are_replaced_with_a_warning(run, capsys):
    run(Dictionary())
    assert "replaced" not in capsys.readouterr().err
    run(Dictionary(), system=dataclasses.replace(SYSTEM, config="def456"))
    message = "are replaced: 3 from a different model with this name (config abc123"
    assert message in capsys.readouterr().err
    german = LANGUAGES["deu_Latn"]
    less = {"deu_Latn": Sentences(german.sources[1:], german.references[1:])}
    run(Dictionary(), dataclasses.replace(TESTSET, languages=less),
        system=dataclasses.replace(SYSTEM, config="def456"))  # fmt: skip
    assert "1 of another version of the test set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"system": dataclasses.replace(SYSTEM, name="baseline")}, "called 'baseline'"),
     ({"out": Path("x/analysis.jsonl")}, "reserved for analysis rows")],
)  # fmt: skip
def test_unreadable_names_are_refused_before_translating(run, changes, message):
    translator = Dictionary()
    with pytest.raises(ValueError, match=message):
        run(translator, **changes)
    assert not translator.seen


def test_a_model_trained_anew_under_its_name_is_translated_again(run, tmp_path, capsys):
    first = dataclasses.replace(SYSTEM, weights="1st")
    run(Dictionary(), system=first)
    run(translator := Dictionary(), system=first)
    assert not translator.seen
    anew = dataclasses.replace(SYSTEM, weights="2nd")
    rows = run(translator := Dictionary(), system=anew)
    assert len(translator.seen) == 6 and {row.weights for row in rows} == {"2nd"}
    assert "3 from a model with this name and other weights" in capsys.readouterr().err
    assert results.read_rows(tmp_path / "results.jsonl") == rows

    older = [dataclasses.replace(row, weights=None) for row in rows]  # rows of earlier versions
    results.add_rows(tmp_path / "results.jsonl", older)
    assert run(translator := Dictionary(), system=anew) == older and not translator.seen


def test_finished_languages_are_not_translated_again(run):
    first = run(Dictionary())
    assert run(translator := Dictionary()) == first and not translator.seen


def test_evaluation_adds_intervals_output_checks_and_testset_quality(run, tmp_path):
    rows = run(Dictionary(ANSWERS | {"tre ore e mezza": "tre ore e mezza"}))
    path = tmp_path / "analysis.jsonl"
    by_kind = {kind: [] for kind in ("interval", "counts", "guards", "trust")}
    for item in analysis.read(path):
        by_kind[item.kind].append(item)
    for kind in ("interval", "counts", "guards"):
        assert [item.key[1:] for item in by_kind[kind]] == [row.key for row in rows]
    assert [item.mark for item in by_kind["trust"]] == ["poor"] * 3  # a few sentences each
    assert [item.copies for item in by_kind["guards"]] == [0, 0, 1]
    assert by_kind["interval"][0].bleu_low <= rows[0].bleu <= by_kind["interval"][0].bleu_high
    before = path.read_bytes()
    run(Dictionary())
    assert path.read_bytes() == before  # what is there for these texts stays
    path.unlink()
    run(translator := Dictionary())
    assert path.read_bytes() == before and not translator.seen
    assert update.update([tmp_path / "results.jsonl"]) == 0


def test_domain_and_licence_of_a_test_set_are_kept_as_they_are_now(run, tmp_path):
    def kept():
        rows = analysis.read(tmp_path / "analysis.jsonl")
        return [(row.domain, row.licence, row.citation) for row in rows if row.kind == "texts"]

    run(Dictionary())
    assert kept() == []
    for about in (("", "", "News, 2019"), ("news", "CC0", ""), ("", "CC BY-SA 4.0", ""), ("",) * 3):
        domain, licence, citation = about
        named = dataclasses.replace(TESTSET, domain=domain, licence=licence, citation=citation)
        run(translator := Dictionary(), testset=named)
        assert kept() == [about] and not translator.seen


def test_other_scores_come_from_the_kept_texts(run):
    first = run(Dictionary())
    rows = run(translator := Dictionary(), scores=metrics.Metrics(ter=True))
    assert not translator.seen
    for old, new in zip(first, rows, strict=True):
        same = {"ter": None, "ter_signature": None}
        assert new.ter is not None and dataclasses.replace(new, **same) == old
    assert run(Dictionary()) == rows  # more than what is asked for is no reason to do it again


def test_texts_of_another_decoding_are_not_scored(run):
    run(Dictionary())
    run(Dictionary(dict.fromkeys(ANSWERS, "no")), decoding=Decoding(beam=1))
    rows = run(translator := Dictionary(), scores=metrics.Metrics(ter=True))
    assert len(translator.seen) == 6 and rows[0].bleu > 0


def test_a_checkpoint_that_is_evaluated_again_counts_again(run, tmp_path):
    """The texts are those of the other checkpoint, and a report uses the last row."""
    first = run(Dictionary())
    other = dataclasses.replace(SYSTEM, checkpoint="tiny/200")
    run(Dictionary(dict.fromkeys(ANSWERS, "no")), system=other)
    again = run(Dictionary())
    assert [(row.key, row.bleu) for row in again] == [(row.key, row.bleu) for row in first]
    assert results.read_rows(tmp_path / "results.jsonl")[-3:] == again
    hyp = tmp_path / "hypotheses" / "tiny" / "phrases" / "ita_Latn.hyp"
    assert hyp.read_text() == ANSWERS["tre ore e mezza"] + "\n"


def test_a_row_has_the_version_of_its_test_set(run):
    rows = run(Dictionary())
    assert [row.testset_version for row in rows] == [TESTSET.version(code) for code in LANGUAGES]


def test_a_broken_analysis_file_is_an_error_before_translating(run, tmp_path):
    (tmp_path / "analysis.jsonl").write_text('{"kind": "guard"}\n')
    translator = Dictionary()
    with pytest.raises(ValueError, match=r"analysis.jsonl:1: kind is 'guard'; .*'guards'"):
        run(translator)
    assert not translator.seen


@pytest.mark.parametrize(
    "change",
    [
        {"system": dataclasses.replace(SYSTEM, config="other")},
        {"system": dataclasses.replace(SYSTEM, checkpoint="tiny/200")},
        {"decoding": Decoding(beam=1)},
    ],
)
def test_another_recipe_is_another_evaluation(run, change):
    run(Dictionary())
    run(translator := Dictionary(), **change)
    assert len(translator.seen) == 6


def test_another_text_under_the_same_name_is_translated_again(run):
    run(Dictionary())
    german = Sentences(LANGUAGES["deu_Latn"].sources, ("another", "reference", "text"))
    changed = dataclasses.replace(TESTSET, languages=LANGUAGES | {"deu_Latn": german})
    rows = run(translator := Dictionary(), changed)
    assert translator.seen == list(german.sources)
    assert rows[0].bleu == 0


def test_seconds_of_the_rows_add_up_to_the_time_spent(run):
    start = time.perf_counter()
    rows = run(Dictionary(window=4, seconds=0.1))
    total = time.perf_counter() - start
    assert 0.19 < sum(row.seconds for row in rows) <= total
    assert all(row.seconds > 0.02 for row in rows)


@pytest.mark.parametrize("content", ['{"system": "tiny"}\n', "not JSON\n"])
def test_a_broken_results_file_is_an_error_before_translating(run, tmp_path, content):
    (tmp_path / "results.jsonl").write_text(content)
    translator = Dictionary()
    with pytest.raises(ValueError, match=r"results.jsonl:1: "):
        run(translator)
    assert not translator.seen and (tmp_path / "results.jsonl").read_text() == content


def test_an_unwritable_folder_is_an_error_before_translating(run, tmp_path):
    (tmp_path / "file").write_text("")
    translator = Dictionary()
    with pytest.raises(OSError, match=r"file/results\.jsonl|/file'"):
        run(translator, out=tmp_path / "file" / "results.jsonl")
    assert not translator.seen


def test_a_system_s_name_cannot_leave_the_folder(run):
    with pytest.raises(ValueError, match="system is '../x'"):
        run(Dictionary(), system=dataclasses.replace(SYSTEM, name="../x"))


def test_validation_bleu_by_language():
    translator = Dictionary({source: ANSWERS[source].replace("May", "March") for source in ANSWERS})
    scores = evaluate.validation_bleu(
        TESTSET, evaluate.validation_translations(translator, TESTSET)
    )
    assert scores == pytest.approx(dict.fromkeys(LANGUAGES, 100.0))
    assert translator.settings[1].beam == 1  # greedy
    worse = evaluate.validation_bleu(
        TESTSET, evaluate.validation_translations(Dictionary(), TESTSET)
    )
    assert worse["deu_Latn"] < 100 == pytest.approx(worse["swh_Latn"])
