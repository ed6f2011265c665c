"""Folders of published test sets: made-up ones of every layout, all read by `testsets.load`."""

import gzip
import json

import pytest

from eval import testsets
from eval.testsets import layouts
from tests.eval.testsets import as_parquet

GERMAN, ENGLISH, SWAHILI = ("eins", "zwei", "drei"), ("one", "two", "three"), ("moja", "mbili", "")
URLS = ("https://example.org/a", "https://example.org/a", "https://example.org/b")


def flores200(split="devtest", **changes):
    header = "URL\tdomain\ttopic\thas_image\thas_hyperlink"
    rows = [f"{url}\twiki{url[-1]}\thealth\tno\tno" for url in URLS]
    return {
        f"{split}/deu_Latn.{split}": GERMAN,
        f"{split}/eng_Latn.{split}": ENGLISH,
        f"metadata_{split}.tsv": [header, *rows],
        **changes,
    }


def flores_plus(**texts):
    """A devtest file each; an item of `texts` is a text or a whole row."""
    return {
        f"devtest/{name}.jsonl": [
            text if text.startswith("{") else json.dumps(
                {"id": 7 * i, "iso_639_3": name[:3], "text": text, "url": URLS[i], "domain": "wiki"}
            )
            for i, text in enumerate(lines)
        ]
        for name, lines in texts.items()
    }  # fmt: skip


def flores_plus_text(split="devtest", **texts):
    return {f"{split}/{split}.{name}": lines for name, lines in texts.items()}


def ntrex(**texts):
    names = {"eng_src": "src.eng", **{name: f"ref.{name.replace('_', '-')}" for name in texts}}
    texts = {"eng_src": ENGLISH, **texts}
    files = {f"NTREX-128/newstest2019-{names[name]}.txt": lines for name, lines in texts.items()}
    return {
        **files,
        "DOCUMENT_IDS.tsv": ["bbc.1", "bbc.1", "cnn.2"],
        "LANGUAGES.tsv": ["deu German"],
    }


def tico19(pair, rows, split="test"):
    first, _, second = pair.partition("-")
    header = "sourceLang targetLang sourceString targetString stringID url license translator_ID"
    return {
        f"{split}/{split}.{pair}.tsv": [
            "\t".join(header.split(" ")),
            *(f"{first}\t{second}\t{a}\t{b}\t{name}\thttps://x\tCC0\t9" for a, b, name in rows),
        ]
    }


ROWS = [("one", "moja", "CMU_1:1"), ("two", "mbili", "CMU_1:2"), ("three", "", "wiki_2:3")]


def test_flores200(write):
    folder = write(flores200() | flores200("dev", **{"dev/eng_Latn.dev": ("1", "2", "3")}))
    testset = testsets.load(folder)
    assert (testset.name, testset.target) == ("flores200-devtest", "eng_Latn")
    assert testset.languages == {"deu_Latn": (GERMAN, ENGLISH, URLS)}
    assert (testset.domain, testset.licence) == ("wikia, wikib", "CC BY-SA 4.0")
    assert testsets.load(folder / "devtest") == testset
    dev = testsets.load(folder, split="dev")
    assert (dev.name, dev.languages["deu_Latn"].references) == ("flores200-dev", ("1", "2", "3"))
    assert testsets.load(folder / "dev") == dev
    into_german = testsets.load(folder, target="German")
    assert into_german.languages == {"eng_Latn": (ENGLISH, GERMAN, URLS)}


def test_flores101(write):
    languages = ("ful", "lav", "orm", "zho_simpl", "zho_trad")
    files = {f"devtest/{name}.devtest": GERMAN for name in languages}
    rows = ["URL\tdomain", *(f"{url}\twiki" for url in URLS)]
    folder = write(files | {"devtest/eng.devtest": ENGLISH, "metadata_devtest.tsv": rows})
    testset = testsets.load(folder)
    assert (testset.name, testset.target) == ("flores101-devtest", "eng_Latn")
    assert (testset.domain, testset.licence) == ("wiki", "CC BY-SA 4.0")
    assert testset.languages == dict.fromkeys(
        ("fuv_Latn", "gaz_Latn", "lvs_Latn", "zho_Hans", "zho_Hant"), (GERMAN, ENGLISH, URLS)
    )
    assert testsets.load(folder / "devtest") == testset
    traditional = testsets.load(folder, target="zho_Hant").languages
    assert traditional["zho_Hans"] == (GERMAN, GERMAN, URLS)


def test_flores200_without_its_metadata_has_no_documents(write):
    files = flores200()
    del files["metadata_devtest.tsv"]
    testset = testsets.load(write(files))
    assert (testset.languages["deu_Latn"].documents, testset.domain) == ((), "")


def test_flores_plus_is_joined_by_id(write):
    files = flores_plus(deu_Latn=GERMAN, eng_Latn=ENGLISH, cmn_Hans=("一", "二", "三"))
    files["devtest/deu_Latn.jsonl"].reverse()
    testset = testsets.load(write(files))
    assert (testset.name, testset.domain, testset.licence) == (
        "flores_plus-devtest", "wiki", "CC BY-SA 4.0"
    )  # fmt: skip
    assert testset.languages == {
        "deu_Latn": (GERMAN, ENGLISH, URLS),
        "zho_Hans": (("一", "二", "三"), ENGLISH, URLS),
    }


def test_of_several_varieties_a_language_has_its_own_file_or_the_first(write):
    other = ("x", "y", "z")
    files = flores_plus(
        eng_Latn=ENGLISH, nob_Latn_radical=other, nob_Latn=GERMAN,
        twi_Latn_asan1239=other, twi_Latn_akua1239=GERMAN,
    )  # fmt: skip
    by_language = testsets.load(write(files)).languages
    assert by_language == dict.fromkeys(("nob_Latn", "twi_Latn"), (GERMAN, ENGLISH, URLS))


def test_flores_plus_of_plain_files(write):
    other = ("x", "y", "z")
    files = flores_plus_text(eng_Latn=ENGLISH, cmn_Hans=GERMAN, nob_Latn=GERMAN)
    files |= flores_plus_text(apc_Arab_sout3123=other, apc_Arab_nort3139=GERMAN)
    folder = write(files | flores_plus_text("dev", eng_Latn=("1",), brx_Deva=("a",)))
    testset = testsets.load(folder)
    assert testset.name == "flores_plus-devtest"
    assert (testset.domain, testset.licence) == ("", "CC BY-SA 4.0")
    assert testset.languages == dict.fromkeys(
        ("apc_Arab", "nob_Latn", "zho_Hans"), (GERMAN, ENGLISH, ())
    )
    dev = testsets.load(folder / "dev")
    assert (dev.name, list(dev.languages)) == ("flores_plus-dev", ["brx_Deva"])


def test_flores_plus_is_one_version_of_the_text_in_all_its_layouts(write, tmp_path):
    plain = testsets.load(write(flores_plus_text(eng_Latn=ENGLISH, deu_Latn=GERMAN)))
    (tmp_path / "set").rename(tmp_path / "plain")
    folder = write(flores_plus(eng_Latn=ENGLISH, deu_Latn=GERMAN))
    rows = testsets.load(folder)
    assert (plain.name, plain.version("deu_Latn")) == (rows.name, rows.version("deu_Latn"))
    as_parquet(folder)
    assert testsets.load(folder) == rows
    assert rows.languages["deu_Latn"].documents == URLS


def test_a_faulty_row_of_parquet_is_named_by_its_number(write):
    texts = {"eng_Latn": ENGLISH, "deu_Latn": ['{"id": 0, "text": "a"}', '{"id": 1, "text": ""}']}
    folder = write(flores_plus(**texts))
    as_parquet(folder)
    with pytest.raises(ValueError, match=r"deu_Latn.parquet: row 2: text is ''; expected a sent"):
        testsets.load(folder)


def test_ntrex(write):
    files = ntrex(deu=GERMAN, fra_CA=("x", "y", "z"), fra=GERMAN, eng_GB=("x", "y", "z"))
    files |= ntrex(ckb_Arab=GERMAN, zho_TW=GERMAN, azb=GERMAN)
    files["NTREX-128/newstest2019-ref-2.spa.txt"] = GERMAN
    folder = write(files)
    testset = testsets.load(folder)
    assert (testset.name, testset.domain, testset.licence) == ("ntrex128", "news", "CC BY-SA 4.0")
    assert list(testset.languages) == ["azb_Arab", "ckb_Arab", "deu_Latn", "fra_Latn", "zho_Hant"]
    assert set(testset.languages.values()) == {(GERMAN, ENGLISH, ("bbc.1", "bbc.1", "cnn.2"))}
    assert testsets.load(folder / "NTREX-128") == testset
    assert testsets.load(folder, target="de").languages["eng_Latn"].references == GERMAN


def test_tico19(write):
    spanish = [("one", '"uno"', "CMU_1:1"), ("two", "dos", "CMU_1:2")]
    files = tico19("en-sw", ROWS) | tico19("en-es-LA", spanish)
    folder = write(files | tico19("en-sw", ROWS[:1], split="dev"))
    testset = testsets.load(folder)
    assert (testset.name, testset.licence) == ("tico19-test", "CC0 1.0")
    assert "COVID-19" in testset.domain
    assert testset.languages == {  # what was not translated is not there
        "spa_Latn": (('"uno"', "dos"), ("one", "two"), ("CMU_1", "CMU_1")),
        "swh_Latn": (("moja", "mbili"), ("one", "two"), ("CMU_1", "CMU_1")),
    }
    assert testsets.load(folder / "dev").languages["swh_Latn"].sources == ("moja",)
    assert testsets.load(folder, target="sw").languages == {
        "eng_Latn": (("one", "two"), ("moja", "mbili"), ("CMU_1", "CMU_1"))
    }


def test_plain_files_and_tables(write):
    files = {"de.src": ["eins", "zwei"], "de.ref": ["one", "two"], "swh_Latn.tsv": ["moja\tone"]}
    testset = testsets.load(write(files))
    assert (testset.name, testset.domain, testset.licence) == ("set", "", "")
    assert testset.languages == {
        "deu_Latn": (("eins", "zwei"), ("one", "two"), ()),
        "swh_Latn": (("moja",), ("one",), ()),
    }


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("test.de", "test.en"),
        ("test.deu_Latn", "test.eng_Latn"),
        ("newstest2014.de-en.de", "newstest2014.de-en.en"),
        ("all.German", "all.English"),
    ],
)
def test_moses_files(write, german, english):
    folder = write({german: GERMAN, english: ENGLISH, "README.md": ["a"], "scores.json": ["{}"]})
    testset = testsets.load(folder)
    assert (testset.name, testset.target) == ("set", "eng_Latn")
    assert (testset.domain, testset.licence) == ("", "")
    assert testset.languages == {"deu_Latn": (GERMAN, ENGLISH, ())}
    assert testsets.load(folder / german.rpartition(".")[0]).languages == testset.languages


def test_moses_files_of_many_languages(write):
    folder = write({"all.de": GERMAN, "all.en": ENGLISH, "all.sw": ("moja", "mbili", "tatu")})
    with gzip.open(folder / "all.fr.gz", "wt") as file:
        file.write("un\ndeux\ntrois\n")
    testset = testsets.load(folder)
    assert list(testset.languages) == ["deu_Latn", "fra_Latn", "swh_Latn"]
    assert testset.languages["fra_Latn"] == (("un", "deux", "trois"), ENGLISH, ())
    french = testsets.load(folder, target="French").languages
    assert french["swh_Latn"] == (("moja", "mbili", "tatu"), ("un", "deux", "trois"), ())


def test_with_several_stems_a_folder_needs_one_by_name(write):
    folder = write({"dev.de": GERMAN, "dev.en": ENGLISH, "test.de": ["a"], "test.en": ["b"]})
    message = r"set: dev, test are separate test sets; name one, such as .*set/dev"
    with pytest.raises(ValueError, match=message):
        testsets.load(folder)
    testset = testsets.load(folder / "test")
    assert (testset.name, testset.languages) == ("set-test", {"deu_Latn": (("a",), ("b",), ())})
    assert testsets.load(f"{folder}/dev").languages["deu_Latn"].sources == GERMAN
    with pytest.raises(ValueError, match="no 'dev' split; name the stem"):
        testsets.load(folder / "test", split="dev")
    with pytest.raises(ValueError, match="no test set .*set/tes'"):
        testsets.load(folder / "tes")


@pytest.mark.parametrize(
    ("files", "name", "codes"),
    [  # what lies beside a set is no part of it
        (flores200() | {"devtest/fra.devtest": GERMAN}, "flores200-devtest", {"fra_Latn"}),
        (flores_plus(eng_Latn=ENGLISH, deu_Latn=GERMAN) | {"devtest/devtest.txt": ["a"]},
         "flores_plus-devtest", {"deu_Latn"}),
        (flores_plus_text(eng_Latn=ENGLISH, deu_Latn=GERMAN) | {"devtest/devtest.txt": ["a"]},
         "flores_plus-devtest", {"deu_Latn"}),
        ({"de.tsv": ["a\tb"], "hyp.de": GERMAN, "hyp.en": ENGLISH}, "set", {"deu_Latn"}),
        ({"de.src": ["a"], "de.ref": ["b"], "run.sh": ["x"], "run.pl": ["x"]}, "set", {"deu_Latn"}),
        ({"test.de": GERMAN, "test.en": ENGLISH}, "set", {"deu_Latn"}),
    ],
)  # fmt: skip
def test_files_beside_a_set_are_ignored(write, files, name, codes):
    testset = testsets.load(write(files))
    assert testset.name == name and codes <= set(testset.languages)


def test_a_folder_of_one_stem_and_the_stem_are_the_same_set(write):
    folder = write({"dev/dev.deu_Latn": GERMAN, "dev/dev.eng_Latn": ENGLISH})
    testset = testsets.load(folder / "dev")  # no release of FLORES+, which has devtest
    assert (testset.name, testset.licence) == ("dev", "")
    assert testset == testsets.load(folder / "dev/dev")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"readme.txt": ["a"]}, r"no test set; looked for .*toml, .*FLORES-200.*NTREX.*deu.tsv"),
        (flores200() | {"devtest/xxx_Latn.devtest": GERMAN}, r"xxx_Latn.devtest: .*nearest"),
        (flores200() | {"devtest/de.devtest": GERMAN}, r"de.devtest and .*deu_Latn.* are both"),
        ({"dev/eng.dev": ENGLISH, "dev/xxx.dev": ENGLISH}, r"FLORES-101 has no 'devtest' split"),
        ({"devtest/eng.devtest": ENGLISH, "devtest/zzz.devtest": GERMAN}, r"zzz.devtest: unknown"),
        (
            {"devtest/eng.devtest": ENGLISH, "devtest/deu.devtest": GERMAN[:2]},
            r"deu.devtest has 2 lines, .*eng.devtest has 3: they must be parallel",
        ),
        (
            {f"devtest/{name}.devtest": ENGLISH for name in ("eng", "zho", "zho_simpl")},
            r"zho.devtest and .*zho_simpl.devtest are both zho_Hans; remove one",
        ),
        (flores200() | {"devtest/deu_Latn.devtest": GERMAN[:2]}, r"deu_Latn.* 2 lines, .*eng.* 3:"),
        (flores200() | {"devtest/deu_Latn.devtest": SWAHILI}, r"deu_Latn.devtest:3: empty line"),
        (flores200() | {"metadata_devtest.tsv": ["URL\tdomain", "a\tb"]}, r"metadata.* 1 lines"),
        (flores200() | {"metadata_devtest.tsv": ["URL\ttopic", "a\tb"]}, r"tsv:1: no .*'domain'"),
        (flores200() | {"metadata_devtest.tsv": ["URL\tdomain", "a"]}, r"tsv:2: 1 columns, .* 2"),
        (flores200("dev"), r"no 'devtest' split here, only dev"),
        ({"devtest/deu_Latn.devtest": GERMAN}, r"no eng_Latn to translate into; nearest: deu_Latn"),
        ({"devtest/eng_Latn.devtest": GERMAN}, r"no language to translate into eng_Latn"),
        (flores_plus(eng_Latn=ENGLISH, deu_Latn=['{"text": "a"}']), r"deu_Latn.jsonl:1: .* id"),
        (flores_plus(eng_Latn=ENGLISH, deu_Latn=["a", "{]"]), r"deu_Latn.jsonl:2: no JSON"),
        (flores_plus(eng_Latn=['{"id": 1, "text": " "}']), r"eng_Latn.jsonl:1: text is ' '"),
        (flores_plus(eng_Latn=['{"id": 1, "text": 5}']), r"eng_Latn.jsonl:1: text is 5; expected"),
        (flores_plus(eng_Latn=['{"id": [1], "text": "a"}']), r"eng_Latn.jsonl:1: .* has no id"),
        (flores_plus(eng_Latn=['{"id": 1, "text": "a"}'] * 2), r"eng_Latn.jsonl:2: id 1 is dup"),
        (flores_plus(eng_Latn=['{"id": 1, "text": "a", "text": "b"}']), r"jsonl:1: key 'text' is"),
        (flores_plus(eng_Latn=['{"id": 1, "text": "\\ud800"}']), r"jsonl:1: .*half of a character"),
        (flores_plus(eng_Latn=['{"id": 1, "text": "a", "domain": ["b"]}']), r"domain is \['b'\]"),
        (flores_plus(eng_Latn=['{"id": 1, "text": "a", "url": "b\\nc"}']), r"1: url is 'b.nc'"),
        (flores_plus(eng_Latn=ENGLISH[:1], deu_Latn=['{"id": 1, "text": "a"}']), r"deu.*: no 1 in"),
        ({"devtest/deu_Latn.parquet": ["PAR1"]}, r"deu_Latn.parquet: (damaged|reading it needs)"),
        (
            flores_plus(eng_Latn=ENGLISH) | {"devtest/eng_Latn.parquet": ["PAR1"]},
            r"eng_Latn.jsonl and .*eng_Latn.parquet are of two releases",
        ),
        (
            flores_plus(eng_Latn=ENGLISH) | flores_plus_text(deu_Latn=GERMAN),
            r"devtest.deu_Latn and .*eng_Latn.jsonl are of two releases of FLORES\+; remove",
        ),
        (flores_plus_text(eng_Latn=ENGLISH, deu_Latn=GERMAN[:2]), r"st.deu_Latn has 2 lines, .*3:"),
        (flores_plus_text(eng_Latn=ENGLISH, xxx_Latn=GERMAN), r"st.xxx_Latn: unknown language"),
        (flores_plus_text(eng_Latn=ENGLISH, deu_Latn=SWAHILI), r"devtest.deu_Latn:3: empty line"),
        (ntrex(deu=GERMAN, de=GERMAN), r"ref.de.txt and .*ref.deu.txt are both deu_Latn"),
        (
            ntrex(deu=GERMAN) | {"NTREX-128/newstest2019-ref.eng.txt": ENGLISH},
            r"ref.eng.txt and .*src.eng.txt are both eng; remove one",
        ),
        (tico19("en-sw", ROWS) | tico19("sw-en", ROWS), r"en-sw.tsv and .*sw-en.tsv are both sw"),
        (ntrex(deu=SWAHILI), r"ref.deu.txt:3: empty line"),
        (ntrex(deu=GERMAN) | {"DOCUMENT_IDS.tsv": ["a"]}, r"DOCUMENT_IDS.tsv has 1 lines"),
        (tico19("en-xxyy", ROWS), r"test.en-xxyy.tsv: unknown language 'xxyy'"),
        (tico19("fr-sw", ROWS), r"no file has eng_Latn; it has: test.fr-sw.tsv"),
        (tico19("en-sw", ROWS[2:]), r"test.en-sw.tsv: no row with both sides"),
        ({"test/test.en-sw.tsv": ["sourceString", "one"]}, r"en-sw.tsv:1: no .*'targetString'"),
        ({"de.tsv": ["a\tb", "a"]}, r"de.tsv:2: 1 columns; a line is source<TAB>reference"),
        ({"de.tsv": ["a\tb", "a\tb\tc"]}, r"de.tsv:2: 3 columns, line 1 has 2; all lines have"),
        ({"de.tsv": ["a\tb\td", "a\tb\t "]}, r"de.tsv:2: an empty document"),
        ({"de.tsv": ["a\tb", "a\t "]}, r"de.tsv:2: an empty side"),
        ({"de.tsv": ["a\tb"], "deu.src": ["a"], "deu.ref": ["a"]}, r"deu.src .*de.tsv are both"),
        ({"en.tsv": ["a\tb"]}, r"en.tsv: eng_Latn is the target"),
        ({"de.src": ["a", "b", "c"], "de.ref": ["a", "b"]}, r"de.src has 3 lines, .*de.ref has 2"),
        ({"de.src": ["a", " "], "de.ref": ["a", "b"]}, r"de.src:2: empty line"),
        ({"de.src": [], "de.ref": []}, r"de.src: empty file"),
        ({"a.de": GERMAN, "a.en": ENGLISH[:2]}, r"a.de has 3 lines, .*a.en has 2: they must be"),
        ({"a.de": SWAHILI, "a.en": ENGLISH}, r"a.de:3: empty line"),
        ({"a.de": GERMAN, "a.deu": GERMAN, "a.en": ENGLISH}, r"a.de and .*a.deu are both deu_Latn"),
        ({"a.de": GERMAN, "a.fr": GERMAN}, r"no eng_Latn to translate into; nearest: .*deu_Latn"),
        ({"a.de": GERMAN, "a.en": ENGLISH, "a.qqq": GERMAN}, r"a.qqq: unknown language 'qqq'"),
        ({"a.de": GERMAN, "b.en": ENGLISH}, r"no test set; looked for .*test.de and test.en"),
        ({"de.src": ["a"]}, r"de.src: missing .*de.ref"),
        ({"de.ref": ["a"]}, r"de.ref: missing .*de.src"),
        ({"de.src": ["a"], "de.ref": ["a"], "deu.src": ["a"]}, r"de.src and .*deu.src are both"),
    ],
)  # fmt: skip
def test_a_faulty_folder_is_an_error(write, files, message):
    with pytest.raises(ValueError, match=message):
        testsets.load(write(files))


def test_broken_utf8_names_the_line(write):
    folder = write(flores200())
    (folder / "devtest/deu_Latn.devtest").write_bytes(b"eins\nzwei\n\xff\n")
    with pytest.raises(ValueError, match=r"deu_Latn.devtest:3: not UTF-8.* at byte 1"):
        testsets.load(folder)


def test_an_unknown_split_is_an_error_with_the_known_ones(write):
    folder = write(flores200() | flores200("dev"))
    with pytest.raises(ValueError, match="FLORES-200 has no 'test' split here, only devtest, dev"):
        testsets.load(folder, split="test")
    with pytest.raises(ValueError, match="no 'devtest' split here, only dev"):
        testsets.load(folder / "dev", split="devtest")


@pytest.mark.parametrize(
    ("name", "document"),
    [("JHN.4.10", "JHN.4"), ("bbc.381790:1", "bbc.381790"), ("CMU_1:1", "CMU_1"), ("17", "")],
)
def test_the_document_of_an_id(name, document):
    assert layouts.document_of(name) == document
