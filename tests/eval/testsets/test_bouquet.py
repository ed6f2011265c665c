"""BOUQuET, as Hugging Face has it: made-up sentences in its folders and columns."""

import json

import pytest

from eval import testsets
from tests.eval.testsets import as_parquet

GERMAN, ENGLISH = ("eins", "zwei", "drei"), ("one", "two", "three")


def bouquet(**texts):
    """A file of BOUQuET's sentences each, of which two are a paragraph."""
    return {
        f"data/sentence_level/test/{name}.jsonl": [
            json.dumps({
                "uniq_id": f"P{1 + i // 2:03}-S{1 + i % 2}", "par_id": f"P{1 + i // 2:03}",
                "domain": "how-to" if i < 2 else "narration",
                "src_lang": name, "src_text": text, "tgt_lang": "eng_Latn", "tgt_text": "-",
            })
            for i, text in enumerate(lines)
        ]
        for name, lines in texts.items()
    }  # fmt: skip


def test_bouquet_is_joined_by_id_and_has_documents(write):
    files = bouquet(
        deu_Latn=GERMAN, eng_Latn=ENGLISH, por_Latn_braz1246=GERMAN, zlm_Latn=GERMAN
    )
    files["data/sentence_level/test/deu_Latn.jsonl"].reverse()
    folder = write(files)
    as_parquet(folder)
    with pytest.warns(UserWarning, match="1 languages are unknown and left out: zlm_Latn$"):
        testset = testsets.load(folder)
    assert (testset.name, testset.domain, testset.licence) == (
        "bouquet-test", "how-to, narration", "CC BY-SA 4.0"
    )  # fmt: skip
    expected = (GERMAN, ENGLISH, ("P001", "P001", "P002"))
    assert testset.languages == {"deu_Latn": expected, "por_Latn": expected}
    with pytest.warns(UserWarning, match="zlm_Latn"):
        assert testsets.load(folder / "data/sentence_level/test") == testset


def test_paragraphs_of_bouquet_are_refused(write):
    folder = write(bouquet(deu_Latn=GERMAN, eng_Latn=ENGLISH))
    as_parquet(folder)
    sentences = folder / "data/sentence_level"
    sentences.rename(folder / "data/paragraph_level")
    with pytest.raises(ValueError, match=r"paragraphs of BOUQuET .* folder \S+/sentence_level$"):
        testsets.load(folder / "data/paragraph_level")
