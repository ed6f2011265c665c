"""Files of a test set in many languages: aligned line by line, with one target."""

from pathlib import Path

import pytest

from eval.testsets import multiway

FILE, OTHER = Path("a/deu.txt"), Path("a/eng.txt")


def test_all_languages_to_the_target_in_its_order():
    texts = {
        "eng_Latn": (OTHER, {"b": "two", "a": "one"}),
        "deu_Latn": (FILE, {"a": "eins", "b": "zwei"}),
    }
    documents = {"a": "first", "b": "second"}
    assert multiway.to_target(texts, "eng_Latn", (OTHER, documents)) == {
        "deu_Latn": (("zwei", "eins"), ("two", "one"), ("second", "first"))
    }
    german = multiway.to_target(texts, "deu_Latn", (OTHER, {}))
    assert german == {"eng_Latn": (("one", "two"), ("eins", "zwei"), ())}


@pytest.mark.parametrize(
    ("sources", "documents", "message"),
    [
        ({1: "eins"}, {}, r"a/deu.txt has 1 lines, a/eng.txt has 2: they must be parallel"),
        ({1: "eins", 3: "drei"}, {}, r"a/deu.txt: no 3 in a/eng.txt: they must be parallel"),
        ({1: "eins", 2: "zwei"}, {1: "x"}, r"a/ids has 1 lines, a/eng.txt has 2"),
    ],
)
def test_files_that_are_not_parallel_are_both_named(sources, documents, message):
    texts = {"deu_Latn": (FILE, sources), "eng_Latn": (OTHER, {1: "one", 2: "two"})}
    with pytest.raises(ValueError, match=message):
        multiway.to_target(texts, "eng_Latn", (Path("a/ids"), documents))


def test_an_unknown_target_is_an_error_with_the_nearest_name():
    with pytest.raises(ValueError, match="a: no eng_Latn to translate into; nearest: deu_Latn"):
        multiway.to_target({"deu_Latn": (FILE, {1: "eins"})}, "eng_Latn", (FILE, {}))


def test_the_file_of_a_language():
    portuguese, brazilian = Path("por.txt"), Path("por-BR.txt")
    names = {brazilian: "por-BR", portuguese: "por"}
    assert multiway.by_language(names, varieties=True) == {"por_Latn": portuguese}
    with pytest.raises(ValueError, match="por.txt and por-BR.txt are both por_Latn; remove one"):
        multiway.by_language(names)
    with pytest.raises(ValueError, match="por.txt and por-BR.txt are both x; remove one"):
        multiway.check_unique({portuguese: "x", brazilian: "x"})
    with pytest.raises(ValueError, match="por.txt: unknown language 'poq'; nearest"):
        multiway.by_language({portuguese: "poq"})


def test_lines_are_numbered_and_none_is_empty(tmp_path):
    file = tmp_path / "deu"
    file.write_text("eins\nzwei")
    assert multiway.texts({"deu_Latn": file}) == {"deu_Latn": (file, {1: "eins", 2: "zwei"})}
    file.write_text("eins\n \n")
    with pytest.raises(ValueError, match="deu:2: empty line"):
        multiway.numbered(file)
