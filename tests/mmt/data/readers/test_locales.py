"""Folders of locales: each layout, and the corpora that they are."""

import gzip
import json
import warnings

import pytest

from mmt.data import corpora
from mmt.data.readers import locales

STRINGS = '<resources><string name="a">{}</string></resources>'
PO = 'msgid ""\nmsgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"\n'
LAYOUTS = {
    "plain": ("de.json", '{"a": "Haus"}', "en.json", '{"a": "house"}'),
    "folders": ("de/main.json", '{"a": "Haus"}', "en/main.json", '{"a": "house"}'),
    "android": ("values-de/strings.xml", STRINGS.format("Haus"), "values/strings.xml",
                STRINGS.format("house")),
    "region": ("values-de-rAT/strings.xml", STRINGS.format("Haus"), "values-en/strings.xml",
               STRINGS.format("house")),
    "apple": ("de.lproj/a.strings", '"a" = "Haus";', "Base.lproj/a.strings", '"a" = "house";'),
    "flutter": ("app_de.arb", '{"a": "Haus"}', "app_en.arb", '{"a": "house"}'),
    "java": ("messages_de.properties", "a=Haus", "messages.properties", "a=house"),
    "rails": ("devise.de.yml", "de: {a: Haus}", "devise.en.yml", "en: {a: house}"),
    "gettext": ("de/LC_MESSAGES/a.po", f'{PO}\nmsgid "house"\nmsgstr "Haus"\n', "x.txt", ""),
    "gettext, flat": ("de.po", f'{PO}\nmsgid "house"\nmsgstr "Haus"\n', "x.txt", ""),
    "apple catalog": ("a.xcstrings", json.dumps({"sourceLanguage": "en", "strings": {"house": {
        "localizations": {"de": {"stringUnit": {"value": "Haus"}}}}}}), "x.txt", ""),
}  # fmt: skip


def write(folder, *files: str) -> None:
    for name, content in zip(files[::2], files[1::2], strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_of_locales_is_a_corpus(layout, tmp_path):
    write(tmp_path / "app", *LAYOUTS[layout])
    write(tmp_path, "corpus.toml", '[train]\n"*" = { locales = "app" }\n')
    corpus = corpora.load(tmp_path)
    assert corpus.languages == ("deu_Latn",)
    assert [pair[:2] for pair in corpus.pairs("de", "train")] == [("Haus", "house")]
    assert locales.languages(tmp_path / "app", "eng_Latn") == ["deu_Latn"]


def test_a_string_catalog_is_read_for_the_languages_that_it_has(tmp_path):
    def catalog(*names):
        unit = {"stringUnit": {"value": "Haus"}}
        strings = {"house": {"localizations": dict.fromkeys(names, unit)}}
        return json.dumps({"sourceLanguage": "en", "strings": strings})

    write(tmp_path, "app/a.xcstrings", catalog("de", "fr"), "app/b.xcstrings", catalog("de"))
    write(tmp_path, "corpus.toml", '[train]\n"*" = { locales = "app" }\n')
    corpus = corpora.load(tmp_path)
    corpus.validate()
    assert corpus.entries("de", "train") == ("app/a.xcstrings", "app/b.xcstrings")
    assert corpus.entries("fr", "train") == ("app/a.xcstrings",)


def test_markup_is_removed_from_files_with_both_languages_too(tmp_path):
    po = f'{PO}\nmsgid "a <b>house</b>"\nmsgstr "ein <b>Haus</b>"\n'
    po += '\nmsgid "<br/>"\nmsgstr "<hr/>"\n'
    xliff = (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        "<trans-unit><source>a &lt;i>dog</source><target>ein &lt;i>Hund</target></trans-unit>"
        "</body></file></xliff>"
    )
    write(tmp_path, "app/de.po", po, "app/de.xlf", xliff)
    write(tmp_path, "corpus.toml", '[train]\n"*" = { locales = "app", markup = "strip" }\n')
    corpus = corpora.load(tmp_path)
    assert [pair[:2] for pair in corpus.pairs("de", "train")] == [
        ("ein Haus", "a house"), ("ein Hund", "a dog"),
    ]  # fmt: skip
    assert corpus.count("de", "train") == 2


def test_each_language_of_a_folder_comes_once(tmp_path):
    write(tmp_path, "app/fr.json", '{"a": "maison"}', "own.tsv", "Haus\thouse\n")
    write(tmp_path / "app", *LAYOUTS["plain"])
    write(tmp_path, "corpus.toml", '[train]\nde = "own.tsv"\n"*" = { locales = "app" }\n')
    corpus = corpora.load(tmp_path)
    assert corpus.languages == ("deu_Latn", "fra_Latn")
    assert corpus.entries("de", "train") == ("own.tsv",)
    assert corpus.entries("fr", "train") == ("app/fr.json",)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folders_of_sources_are_no_locales(layout, tmp_path):
    """Their names are codes of languages: `src` is Sardinian, `mac` Macedonian."""
    for folder in ("src/main/res", "mac", "ext/new/bin"):
        write(tmp_path / "app" / folder, *LAYOUTS[layout])
    assert locales.languages(tmp_path / "app", "eng_Latn") == ["deu_Latn"]
    assert len(locales.pairs(tmp_path / "app", "deu_Latn", "eng_Latn")) == 3


def test_the_innermost_folder_with_a_code_counts(tmp_path):
    write(tmp_path, "run/de/a.json", '{"a": "Haus"}', "run/en/a.json", '{"a": "house"}')
    assert locales.languages(tmp_path, "eng_Latn") == ["deu_Latn"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('es = { locales = "app" }', "no catalogues of spa_Latn and eng_Latn; it has: deu_Latn"),
        ('es = { locales = "none" }', "no folder"),
        ('"*" = "app"', r'"\*" is \'app\'; expected { locales = "folder" }'),
        ('"*" = { locales = "app", markup = "x" }', "markup is 'x'; allowed: keep, strip"),
        ('de = { pairs = "app/de.json", markup = "strip" }', r"app/de\.json: it is no catalogue"),
        ('de = { locales = "app", pairs = "x" }', "pairs cannot be combined with `locales`"),
    ],
)
def test_faults_of_a_description_are_named(line, message, tmp_path):
    write(tmp_path / "app", *LAYOUTS["plain"])
    write(tmp_path, "corpus.toml", f"[train]\n{line}\n")
    with pytest.raises(ValueError, match=message):
        corpora.load(tmp_path)


def test_two_files_of_a_language_are_refused(tmp_path):
    write(tmp_path, "de.json", "{}", "deu.json", "{}")
    with pytest.raises(ValueError, match="are both of deu_Latn"):
        locales.pairs(tmp_path, "deu_Latn", "eng_Latn")


@pytest.mark.parametrize(
    ("source", "others", "german", "english"),
    [
        ("values", [], "values-de", "values"),
        ("values", ["values-en-rGB"], "values-de", "values"),
        ("values", ["values-en-rUS", "values-en-rGB"], "values-de", "values-en-rUS"),
        ("values", ["values-en", "values-en-rUS"], "values-de", "values-en"),
        ("values", ["values-de-rAT", "values-de-rDE"], "values-de", "values"),
    ],
)
def test_of_several_files_of_a_language_one_is_read(source, others, german, english, tmp_path):
    for name in ("values-de", source, *others):
        write(tmp_path, f"{name}/strings.xml", STRINGS.format("x"))
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        pairs = locales.pairs(tmp_path, "deu_Latn", "eng_Latn")
    assert pairs == [(tmp_path / german / "strings.xml", tmp_path / english / "strings.xml")]
    assert len(messages) == bool(others)
    not_read = {"values-de", source, *others} - {german, english}
    assert all(f"{name}/strings.xml" in str(messages[0].message) for name in not_read)


def test_without_its_main_region_a_language_has_the_first_by_name(tmp_path):
    write(tmp_path, "de-CH.json", "{}", "de-AT.json", "{}", "en.json", "{}")
    with pytest.warns(UserWarning, match=r"de-AT.json is read for deu_Latn; not read: .*de-CH.js"):
        ((german, _),) = locales.pairs(tmp_path, "deu_Latn", "eng_Latn")
    assert german.name == "de-AT.json"


def test_compressed_and_hidden_files_of_a_folder(tmp_path):
    po = f'{PO}\nmsgid "house"\nmsgstr "Haus"\n'.encode()
    write(tmp_path, "app/en/b.json", '{"a": "dog"}', "app/.git/fr/b.json", '{"a": "chien"}')
    write(tmp_path, "corpus.toml", '[train]\n"*" = { locales = "app" }\n')
    (tmp_path / "app/de/LC_MESSAGES").mkdir(parents=True)
    (tmp_path / "app/de/LC_MESSAGES/a.po.gz").write_bytes(gzip.compress(po))
    (tmp_path / "app/de/b.json.gz").write_bytes(gzip.compress(b'{"a": "Hund"}'))
    corpus = corpora.load(tmp_path)
    assert corpus.languages == ("deu_Latn",)
    read = sorted(pair[:2] for pair in corpus.pairs("de", "train"))
    assert read == [("Haus", "house"), ("Hund", "dog")]


def test_forms_of_a_string_catalog_are_no_languages(tmp_path):
    """Plural forms and devices have codes of languages: `one` is Oneida, `mac` Macedonian."""
    forms = {form: {"stringUnit": {"value": "Haus"}} for form in ("one", "other", "mac")}
    variations = {"variations": {"plural": forms, "device": forms}}
    strings = {"house": {"localizations": {"de": variations}}, "tree": {}}
    catalog = json.dumps({"sourceLanguage": "fr", "strings": strings})
    write(tmp_path, "app/a.xcstrings", catalog)
    assert locales.languages(tmp_path / "app", "eng_Latn") == ["deu_Latn", "fra_Latn"]
    for broken in ("[]", '{"strings": {"house": 1}}', "{"):
        write(tmp_path, "app/a.xcstrings", broken)
        with pytest.raises(ValueError, match=r"app/a\.xcstrings: no String Catalog"):
            locales.languages(tmp_path / "app", "eng_Latn")


def po(language: str, *translations: str) -> str:
    units = (f'msgid "house {i}"\nmsgstr "{text}"\n' for i, text in enumerate(translations))
    return "\n".join([PO.replace("de", language), *units])


def test_a_catalogue_without_translations_is_left_out_with_a_warning(tmp_path):
    write(tmp_path / "app", "main/de.po", po("de", "Haus", ""), "second/de.po", po("de", "", ""))
    write(tmp_path, "corpus.toml", '[train]\nde = { locales = "app" }\n')
    with pytest.warns(UserWarning, match=r"second/de\.po: left out, since no entry is translated"):
        corpus = corpora.load(tmp_path)
    assert corpus.entries("de", "train") == ("app/main/de.po",)
    assert [pair[:2] for pair in corpus.pairs("de", "train")] == [("Haus", "house 0")]


def test_a_language_without_translations_is_left_out_of_all_with_a_warning(tmp_path):
    write(tmp_path / "app", "de.po", po("de", "Haus"), "fr.po", po("fr", ""))
    write(tmp_path, "corpus.toml", '[train]\n"*" = { locales = "app" }\n')
    with pytest.warns(UserWarning, match=r"fra_Latn is left out: .*fr\.po: no translated entry"):
        assert corpora.load(tmp_path).languages == ("deu_Latn",)


def test_a_named_language_without_translations_is_an_error(tmp_path):
    write(tmp_path / "app", "de.po", po("de", "Haus"), "fr.po", po("fr", ""))
    write(tmp_path, "corpus.toml", '[train]\nde = { locales = "app" }\nfr = { locales = "app" }\n')
    with pytest.raises(ValueError, match=r"corpus\.toml:3: .*fr\.po: no translated entry"):
        corpora.load(tmp_path)
