"""Tags are found by any name of their language."""

import pytest

from mmt import languages
from mmt.data import vocabulary as vocab
from tests.mmt.data.vocabulary import TEXTS, foreign


def test_tags_by_any_name_of_their_language(madlad, vocabulary):
    assert madlad.tags == {
        "<2en>": "eng_Latn", "<2de>": "deu_Latn", "<2zh>": "zho_Hans", "<2zh_Hant>": "zho_Hant",
        "<2sr>": "srp_Cyrl", "<2ber>": None,
    }  # fmt: skip
    assert vocabulary.tags == {"<2eng>": "eng_Latn", "<2deu>": "deu_Latn"}

    def find(name, of=madlad, **options):
        return vocab.find_tag(of, name, **options)

    assert {find(name) for name in ("en", "eng", "English", "eng_Latn", "en-GB")} == {"<2en>"}
    assert {find(name, vocabulary) for name in ("de", "German", "deu_Latn")} == {"<2deu>"}
    assert (find("zh"), find("zh_TW"), find("zho_Hant")) == ("<2zh>", "<2zh_Hant>", "<2zh_Hant>")
    assert find("ber") == "<2ber>"  # only the file knows it
    assert find("srp_Cyrl") == "<2sr>"
    with pytest.raises(ValueError, match=r"srp_Latn \(Serbian.*translates only into .*srp_Cyrl"):
        find("srp_Latn")  # another script is another language
    with pytest.raises(ValueError, match=r"target language gsw_Latn .* German \(deu_Latn\)"):
        find("gsw")
    with pytest.raises(ValueError, match="unknown language 'Klingonn'"):
        find("Klingonn")


def test_a_tag_may_stand_for_the_script_that_was_trained(tmp_path):
    path = tmp_path / "serbian.model"
    vocab.train(TEXTS, path, size=1500, tags=["<2srp>"])
    vocabulary = vocab.Vocabulary.load(path)
    assert vocab.find_tag(vocabulary, "sr") == "<2srp>"
    assert vocab.find_tag(vocabulary, "sr-Latn", trained="srp_Latn") == "<2srp>"
    with pytest.raises(ValueError, match="srp_Latn"):
        vocab.find_tag(vocabulary, "sr-Cyrl", trained="srp_Latn")


def test_an_unknown_tag_is_an_error_with_the_nearest_languages(tmp_path):
    tags = sorted({f"<2{entry.iso1}>" for entry in languages.all_languages() if entry.iso1})
    path = tmp_path / "many.model"
    path.write_bytes(foreign(*tags))
    with pytest.raises(ValueError) as error:
        vocab.find_tag(vocab.Vocabulary.load(path), "gsw")
    assert "nearest: " in str(error.value) and len(str(error.value)) < 250
