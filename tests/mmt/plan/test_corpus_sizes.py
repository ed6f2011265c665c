"""Sizes per language: of descriptions with numbers, of corpora, and what a run reads of them."""

import pytest

from mmt.data.mixing import Mixing
from mmt.plan import corpus_sizes

NUMBERS = "source_tokens = 20\ntarget_tokens = 25.0\n[train]\nde = 32_000\nswh = 1000\n"


def described(folder, text: str) -> str:
    (folder / "sizes.toml").write_text(text)
    return str(folder / "sizes.toml")


def test_numbers_in_place_of_files(tmp_path):
    read = corpus_sizes.read(described(tmp_path, NUMBERS))
    assert read.sizes["deu_Latn"] == corpus_sizes.LanguageSize(32_000, 20.0, 25.0)
    assert set(read.sizes) == {"deu_Latn", "swh_Latn"} and read.note == ""
    (tmp_path / "corpus.toml").write_text("[train]\nde = 5\n")
    assert "30 is assumed" in corpus_sizes.read(str(tmp_path)).note


def test_a_corpus_of_files_is_counted(tmp_path):
    (tmp_path / "de.tsv").write_text("Guten Tag\tGood day\n" * 7)
    (tmp_path / "corpus.toml").write_text('[train]\nde = "de.tsv"\n')
    read = corpus_sizes.read(str(tmp_path))
    assert read.sizes["deu_Latn"].pairs == 7 and "estimates" in read.note


def test_exposure_is_the_mixtures(tmp_path):
    """32^(1/5) = 2: German is read twice as much as Swahili; tokens are those of the run."""
    sizes = corpus_sizes.read(described(tmp_path, NUMBERS))
    shown = corpus_sizes.exposure(sizes, Mixing(5.0), 1_200_000.0)
    german, swahili = shown.values()
    assert (german.share, swahili.share) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert german.tokens + swahili.tokens == pytest.approx(1_200_000)
    assert german.passes == pytest.approx(40_000 / 32_000)
    assert swahili.passes == pytest.approx(20_000 / 1000)
    capped = corpus_sizes.exposure(sizes, Mixing(5.0, max_epochs=2.0), 1_200_000.0)
    assert capped["swh_Latn"].passes == pytest.approx(2)
    with pytest.raises(ValueError):
        corpus_sizes.exposure(sizes, Mixing(5.0, max_epochs=0.5), 1_200_000.0)


def test_exposure_is_of_the_languages_that_are_mixed(tmp_path):
    sizes = corpus_sizes.read(described(tmp_path, NUMBERS))
    for mixture in (Mixing(languages=["German"]), Mixing(at_least=2000)):
        (german,) = corpus_sizes.exposure(sizes, mixture, 1_200_000.0).values()
        assert (german.share, german.tokens) == (1, pytest.approx(1_200_000))
    extended = Mixing(5.0, new_languages=["swh"], rehearsal=0.25)
    shares = {code: e.share for code, e in corpus_sizes.exposure(sizes, extended, 1e6).items()}
    assert shares == {"deu_Latn": pytest.approx(0.25), "swh_Latn": pytest.approx(0.75)}
    with pytest.raises(ValueError, match="'Swahli' is not among"):
        corpus_sizes.exposure(sizes, Mixing(languages=["Swahli"]), 1e6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 'x'\n", "corpus without sizes"),
        ("[train]\n", "corpus without sizes"),
        ("[train]\nde = 5\nfr = 'fr.tsv'\n", r"sizes.toml:3: fr = 'fr.tsv'; allowed: a number"),
        ("[train]\nde = 0\n", r"sizes.toml:2: de = 0; allowed: a number of pairs, 1 or more"),
        ("[train]\nde = -4\n", "de = -4"),
        ("[train]\nde = 4\ndeu = 5\n", "listed already"),
        ("[train]\ngermann = 4\n", r"sizes.toml:2: .*German"),
        ("source_token = 3\n[train]\nde = 4\n", r"sizes.toml:1: unknown key.*source_tokens"),
        ("source_tokens = 0\n[train]\nde = 4\n", "source_tokens = 0; allowed: above 0"),
        ("[train\n", "sizes.toml"),
    ],
)
def test_faults_name_file_line_and_what_is_allowed(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        corpus_sizes.read(described(tmp_path, text))


def test_a_missing_corpus_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no corpus at"):
        corpus_sizes.read(str(tmp_path / "none.toml"))
