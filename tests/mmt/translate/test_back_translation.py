"""Back-translation writes every line once and in order, with its provenance and a tag."""

import json
import types

import pytest

from mmt.cli import main
from mmt.data import corpora
from mmt.decoding import DEFAULT
from mmt.translate import Hypothesis, Translation
from mmt.translate.back_translation import PROVENANCE, BackTranslation

ENGLISH = [f"line {number} of\tnews" if number % 7 else "null" for number in range(1, 31)]


@pytest.fixture
def corpus(tmp_path):
    """Pairs of two languages, and English text."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    (folder / "deu.tsv").write_text("Löwe\tlion\nAffe\tape\n")
    (folder / "swh.tsv").write_text("simba\tlion\n")
    (folder / "news.txt").write_text("".join(f"{line}\n" for line in ENGLISH))
    (folder / "corpus.toml").write_text(
        '[train]\ndeu = { pairs = "deu.tsv", name = "zoo" }\nswh = "swh.tsv"\n'
        '[validation]\ndeu = "deu.tsv"\n[monolingual]\neng = "news.txt"\n'
    )
    return folder


class Reverse:
    """Translates into upper case with the language; dies after a number of lines; 'null' has an
    empty translation.
    """

    steps = (7,)

    def __init__(self, lines=10_000, source="eng_Latn", target=""):
        self.lines, self.asked = lines, []
        written = ("deu_Latn", "swh_Latn", "yor_Latn")
        self.manifest = types.SimpleNamespace(
            source=source, target=target, translated=written, vocabulary_hash={"source": "aa"}
        )

    def translate(self, lines, *, source, target, decoding):
        assert source == "eng_Latn"
        for line in lines:
            if len(self.asked) == self.lines:
                raise KeyboardInterrupt
            self.asked.append((target, line))
            text = "" if line == "null" else f"{target.upper()} {line.replace(chr(9), ' ')}"
            yield Translation(line, (Hypothesis(text, 0.0),))


@pytest.fixture
def write(corpus, tmp_path, as_users_have_it):
    def run(translator, **options):
        BackTranslation("runs/r", str(corpus), str(tmp_path / "bt"), **options).write(
            translator, DEFAULT
        )
        return corpora.load(tmp_path / "bt")

    return run


def test_the_corpus_contains_and_marks_genuine_and_synthetic_pairs(corpus, tmp_path, write):
    written, before = write(Reverse()), corpora.load(corpus)
    assert written.name == "zoo_back_translated" and written.languages == before.languages
    for code in before.languages:
        pairs = list(written.pairs(code, "train"))
        genuine = [pair for pair in pairs if not pair.back_translated]
        assert [pair[:2] for pair in genuine] == [pair[:2] for pair in before.pairs(code, "train")]
        made = [pair for pair in pairs if pair.back_translated]
        assert {pair.corpus for pair in made} == {"back_translated/news.txt"}
        english = [line.replace("\t", " ") for line in ENGLISH if line != "null"]
        assert [pair.target for pair in made] == english
        assert [pair.source for pair in made] == [f"{code.upper()} {line}" for line in english]
        rows = (tmp_path / f"bt/train.{code}.tsv").read_text().splitlines()
        numbers = [int(row.split("\t")[0]) for row in rows]
        assert [ENGLISH[number - 1].replace("\t", " ") for number in numbers] == english
    assert list(written.pairs("deu", "validation"))[0].target == "lion"
    provenance = json.loads((tmp_path / "bt" / PROVENANCE).read_text())
    assert provenance["written"]["deu_Latn"] == {"lines": 26, "empty": 4}
    assert provenance["text"] == ["news.txt"] and provenance["decoding"] == str(DEFAULT)
    assert provenance["corpus"] == before.hash() and len(provenance["model_digest"]) == 16


def test_the_corpus_keeps_documents_licence_and_monolingual_text(corpus, write):
    """What a second training needs: context, and text of other languages."""
    (corpus / "deu.tsv").write_text("Löwe\tlion\nAffe\tape\n\nHund\tdog\nKatze\tcat\n")
    (corpus / "wiki.txt").write_text("ein Text\n")
    description = (corpus / "corpus.toml").read_text()
    description = 'domain = "zoo"\nlicence = "CC BY 4.0"\n' + description.replace(
        '"deu.tsv", name = "zoo"', '"deu.tsv", documents = true'
    ).replace('deu = "deu.tsv"', 'deu = { pairs = "deu.tsv", documents = true }')
    (corpus / "corpus.toml").write_text(description + 'swh = { text = "wiki.txt", name = "w" }\n')
    written, before = write(Reverse()), corpora.load(corpus)
    for split in ("train", "validation"):
        genuine = [pair for pair in written.pairs("deu", split) if not pair.back_translated]
        assert [pair[:4] for pair in genuine] == [pair[:4] for pair in before.pairs("deu", split)]
        assert [pair.follows for pair in genuine] == [False, True, False, True]
    for fact in ("domain", "licence", "monolingual"):
        assert getattr(written, fact) == getattr(before, fact)
    for code in before.monolingual:
        texts = (list(each.pairs(code, "monolingual")) for each in (written, before))
        assert next(texts) == next(texts)


@pytest.mark.parametrize("killed", [3, 29, 30, 31, 59])
def test_a_killed_and_resumed_run_writes_the_same(tmp_path, write, killed):
    whole = {path.name: path.read_bytes() for path in _files(tmp_path, write(Reverse()))}
    for path in (tmp_path / "bt").iterdir():
        path.unlink()
    with pytest.raises(KeyboardInterrupt):
        write(Reverse(killed))
    assert not (tmp_path / "bt/corpus.toml").exists()
    for path in (tmp_path / "bt").glob("*.part"):
        path.write_bytes(path.read_bytes() + b"9\thalf")
    again = Reverse()
    assert {path.name: path.read_bytes() for path in _files(tmp_path, write(again))} == whole
    assert len(again.asked) == 60 - killed
    idle = Reverse(0)
    write(idle)
    assert idle.asked == []


def _files(tmp_path, _):
    return sorted((tmp_path / "bt").iterdir())


def test_a_limit_of_lines_takes_them_evenly_spread(write):
    translator = Reverse()
    written = write(translator, into=["Swahili"], lines=10)
    assert translator.asked == [("swh_Latn", line) for line in ENGLISH[2::3]]
    assert written.languages == ("deu_Latn", "swh_Latn")
    assert not any(pair.back_translated for pair in written.pairs("deu", "train"))


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ({"source": "", "target": "eng_Latn"}, {}, "wrong direction: it translates from German "
         r"\(deu_Latn\), .* into English \(eng_Latn\), .* model from English .*reverse\.gin"),
        ({}, {"into": ["fra"]}, "runs/r does not translate into fra_Latn, but into German"),
        ({}, {"into": ["Germn"]}, "Germn"),
        ({}, {"lines": -1}, "lines is -1; allowed: 0"),
    ],
)  # fmt: skip
def test_impossible_requests_are_errors_before_anything_is_written(
    tmp_path, write, model, options, words
):
    with pytest.raises(ValueError, match=words):
        write(Reverse(**model), **options)
    assert not (tmp_path / "bt").exists()


def test_other_weights_are_another_recipe(corpus, tmp_path, write):
    write(Reverse())
    work = BackTranslation("runs/r", str(corpus), str(tmp_path / "bt"))
    with pytest.raises(ValueError, match="weights: None there, 'int8' requested"):
        work.write(Reverse(0), DEFAULT, weights="int8")
    with pytest.raises(ValueError, match="engine: 'jax' there, 'ctranslate2' requested"):
        work.write(Reverse(0), DEFAULT, engine="ctranslate2")


def test_a_record_of_an_older_version_names_no_weights(corpus, tmp_path, write):
    write(Reverse())
    file = tmp_path / "bt" / PROVENANCE
    record = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in record.items() if k not in ("engine", "weights")}))
    work = BackTranslation("runs/r", str(corpus), str(tmp_path / "bt"))
    work.write(Reverse(0), DEFAULT, weights="int8")


def test_no_text_an_empty_one_and_another_recipe_are_refused(corpus, tmp_path, write):
    write(Reverse())
    with pytest.raises(ValueError, match=r"another recipe \(lines: 0 there, 5 requested"):
        write(Reverse(), lines=5)
    description = (corpus / "corpus.toml").read_text()
    (corpus / "corpus.toml").write_text(description.replace("eng =", "deu ="))
    with pytest.raises(ValueError, match=r"no text of eng_Latn .*\[monolingual\], which has deu"):
        write(Reverse())
    (corpus / "corpus.toml").write_text(description)
    (corpus / "news.txt").write_text("")
    with pytest.raises(ValueError, match=r"news\.txt: no lines"):
        BackTranslation("runs/r", str(corpus), str(tmp_path / "new")).write(Reverse(), DEFAULT)


def test_the_output_may_not_be_the_corpus(corpus, as_users_have_it):
    before = sorted(corpus.iterdir())
    with pytest.raises(ValueError, match="is the folder of the corpus; choose another"):
        BackTranslation("runs/r", str(corpus), str(corpus)).write(Reverse(), DEFAULT)
    assert sorted(corpus.iterdir()) == before


def test_flags_belong_together(tmp_path, capsys):
    (tmp_path / "config.gin").touch()
    for flags in (["--corpus", "x"], ["--out", "x"], ["--corpus", "x", "--out", "y", "--nbest=2"]):
        assert main.main(["translate", "--model", str(tmp_path), *flags]) == 1
        assert "--corpus" in capsys.readouterr().err
