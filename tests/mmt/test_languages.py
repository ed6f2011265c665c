"""The table of languages against FLORES-200's list and Babel's CLDR data, and what `find` takes."""

import json
import re
import subprocess
import sys

import pytest
from babel import Locale, localedata
from babel.core import get_global

from mmt import languages
from mmt.languages import find

FLORES_200 = """
ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn als_Latn amh_Ethi apc_Arab
arb_Arab arb_Latn ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn
bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn
bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn
dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn fij_Latn
fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gaz_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr
hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn
isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor
kaz_Cyrl kbp_Latn kea_Latn khk_Cyrl khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kmr_Latn knc_Arab
knc_Latn kon_Latn kor_Hang lao_Laoo lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn
lua_Latn lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Arab min_Latn
mkd_Cyrl mlt_Latn mni_Beng mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn
nus_Latn nya_Latn oci_Latn ory_Orya pag_Latn pan_Guru pap_Latn pbt_Arab pes_Arab plt_Latn pol_Latn
por_Latn prs_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Olck scn_Latn shn_Mymr
sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn srd_Latn srp_Cyrl
ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml taq_Latn taq_Tfng tat_Cyrl tel_Telu tgk_Cyrl
tgl_Latn tha_Thai tir_Ethi tpi_Latn tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng
uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr
yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn
""".split()

LIKELY = get_global("likely_subtags")
# We write Korean's script as FLORES-200 does, and Crimean Tatar in Latin letters by default.
OURS = {("ko", "Kore"): "Hang", ("crh", "Cyrl"): "Latn", ("zh", "Hans"): "Hans"}
ALL = languages.all_languages()


def test_the_table_covers_flores_200_and_is_large():
    codes = [language.code for language in ALL]
    assert len(FLORES_200) == 204
    assert set(FLORES_200) <= set(codes)
    assert codes == sorted(codes)
    assert len({language.iso3 for language in ALL}) >= 250


@pytest.mark.parametrize("column", ["code", "bcp47", "name"])
def test_identifying_columns_are_unique_and_full(column):
    values = [getattr(language, column).casefold() for language in ALL]
    assert len(set(values)) == len(values)
    assert all(values)


def test_codes_agree_with_their_parts():
    scripts: dict[str, str] = {}
    for language in ALL:
        iso3, script = language.code.split("_")
        assert re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", language.code)
        assert iso3 == language.iso3
        assert scripts.setdefault(script, language.script) == language.script
        assert language.native and language.family
        assert all(x == x.strip() for x in (language.name, language.native, *language.aliases))
    assert len(set(scripts.values())) == len(scripts)


def test_script_names_are_cldrs():
    ours = {
        "Beng": "Bengali", "Cans": "Canadian syllabics", "Hang": "Hangul", "Orya": "Odia",
        "Hans": "Han (simplified)", "Hant": "Han (traditional)", "Kana": "Katakana",
        "Mtei": "Meetei Mayek", "Nkoo": "N'Ko", "Olck": "Ol Chiki", "Rohg": "Hanifi Rohingya",
    }  # fmt: skip
    names = {**Locale("en").scripts, **ours}
    assert {x.code: x.script for x in ALL} == {x.code: names[x.code[4:]] for x in ALL}


def test_a_tag_with_its_likely_script_is_the_codes_script():
    for language in ALL:
        base, _, script = language.bcp47.partition("-")
        likely = (LIKELY.get(base) or f"{base}__").split("_")[1]
        likely = OURS.get((base, likely), likely)
        if script or likely:
            assert (script or likely) == language.code[4:], language


def test_iso_639_1_codes_are_babels():
    """CLDR's aliases map ISO 639-3 codes, also of members of a macrolanguage, to two letters."""
    aliases = get_global("language_aliases")
    two_letter = {v for k, v in aliases.items() if len(k) == 3 and len(v) == 2} | {"tl", "tw", "sh"}
    unlike_cldr = {"tgl": "tl", "twi": "tw", "hbs": "sh", "pbt": "ps", "ojb": "oj"}
    for language in ALL:
        if language.iso1:
            assert language.iso1 in two_letter
            expected = unlike_cldr.get(language.iso3) or aliases[language.iso3]
            assert language.iso1 == expected, language
    assert two_letter <= {language.iso1 for language in ALL} | {"no"}


def test_every_babel_locale_is_found_in_its_script():
    named = 0
    for identifier in sorted(localedata.locale_identifiers()):
        locale = Locale.parse(identifier)
        base = locale.language
        if base not in locale.languages:  # a locale without words, such as pi_Latn
            continue
        named += 1
        likely = LIKELY.get(f"{base}_{locale.territory}") or LIKELY.get(base) or f"{base}__"
        script = locale.script or likely.split("_")[1]
        language = find(identifier)
        if script:
            assert language.code[4:] == OURS.get((base, script), script), identifier
        codes = {language.iso1, language.bcp47.partition("-")[0], *language.aliases}
        tags = {base, f"{base}-{script}", f"{base}-{locale.territory}"}
        assert codes & tags, identifier
    assert named > 900


def test_other_codes_of_a_language_are_found():
    """ISO 639-2's bibliographic codes, and CLDR's aliases: old codes, members of macrolanguages."""
    both = "alb arm baq bur chi cze dut fre geo ger gre ice mac mao may per rum slo tib wel".split()
    for code in [*both, "iw", "in", "ji", "jw", "mo", "cmn"]:
        assert find(code) is find(get_global("language_aliases")[code]), code
    for language in ALL:
        for code in set(language.aliases) & set(get_global("language_aliases")):
            by_alias = find(get_global("language_aliases")[code])
            assert by_alias.bcp47.split("-")[0] == language.bcp47.split("-")[0], code


def test_every_field_of_a_row_identifies_its_language():
    for language in ALL:
        script = language.code[4:]
        for text in (language.code, language.bcp47, f"{language.iso3}-{script}"):
            for form in (text, text.upper(), text.replace("-", "_"), f" {text.lower()} "):
                assert find(form) is language
        for alias in (language.name, language.native, *language.aliases):
            for form in (alias, alias.lower(), alias.replace("'", "’")):
                try:
                    match = find(form)
                except ValueError as error:  # several have this name: this one is a candidate
                    assert language.code in str(error)
                else:  # its usual script, or a code of that spelling
                    code_wins = form.islower() and len(form) <= 3
                    assert match.iso3 == language.iso3 or code_wins or form in match.aliases


def test_codes_claimed_by_two_rows_are_scripts_of_one_language():
    claimed: dict[str, str] = {}
    for language in ALL:
        tags = [x for x in language.aliases if re.fullmatch(r"[a-z]{2,3}([_-]\w+)+", x)]
        for tag in {language.code, language.bcp47, *tags}:
            assert claimed.setdefault(tag.lower().replace("_", "-"), language.code) == language.code


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("de deu deu_Latn DE de-DE de_AT de-CH-1996 German german Deutsch ger", "deu_Latn"),
        ("zh zho cmn chi zh-CN zh_Hans zh-Hans-SG Chinese Mandarin 中文 zho_Hans", "zho_Hans"),
        ("zh-TW zh_HK zh-Hant zho_TW cmn_Hant zh-Hant-TW 繁體中文", "zho_Hant"),
        ("no nb nor nob nb_NO Bokmål bokmal", "nob_Latn"),
        ("ar ara arb ar-EG Arabic العربية", "arb_Arab"),
        ("fa fas pes per Farsi Persian fa_IR فارسی", "pes_Arab"),
        ("fa-AF prs Dari", "prs_Arab"),
        ("he iw heb he-IL", "heb_Hebr"),
        ("id in ind id_ID Indonesian", "ind_Latn"),
        ("tl fil tgl fil-PH Filipino Tagalog", "tgl_Latn"),
        ("et est ekk est_Latn ekk_Latn", "est_Latn"),
        ("lv lav lvs", "lvs_Latn"),
        ("sw swa swh sw-KE Kiswahili", "swh_Latn"),
        ("az aze azj aze_Latn Azeri az-Latn-AZ", "azj_Latn"),
        ("sr srp sr-RS српски sr-Cyrl-BA", "srp_Cyrl"),
        ("sr-Latn sr_Latn_RS sr-ME srp_Latn srpski", "srp_Latn"),
        ("uz uzb uzn uzb_Latn uz-UZ", "uzn_Latn"),
        ("pt pt-BR por_Latn-BR Português portugues", "por_Latn"),
        ("ca ca-ES-valencia Valencian", "cat_Latn"),
        ("mi Māori maori", "mri_Latn"),
        ("es es-419 spa_Latn-ref2 Castilian", "spa_Latn"),
        ("ga GA gle", "gle_Latn"),
        ("gaa Gã", "gaa_Latn"),
    ],
)
def test_names_people_use(names, code):
    assert {name: find(name).code for name in names.split()} == dict.fromkeys(names.split(), code)


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("Norwegian", ["nob_Latn", "nno_Latn"]),
        ("kurdish", ["kmr_Latn", "ckb_Arab", "sdh_Arab"]),
        ("Sorbian", ["hsb_Latn", "dsb_Latn"]),
        ("Ga", ["gaa_Latn", "gle_Latn"]),
        ("Mon", ["mnw_Mymr", "khk_Cyrl"]),
    ],
)
def test_an_ambiguous_name_is_an_error_naming_the_candidates(name, candidates):
    with pytest.raises(ValueError, match=re.escape(repr(name))) as error:
        find(name)
    assert all(code in str(error.value) for code in candidates)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Germn", "deu_Latn"),
        ("deu_Ltn", "deu_Latn"),
        ("Swahilli", "swh_Latn"),
        ("frensh", "fra_Latn"),
    ],
)
def test_an_unknown_name_is_an_error_naming_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"unknown language '{name}'.*{nearest}"):
        find(name)


@pytest.mark.parametrize(
    "name", ["", " ", "-", "xx", "de-en", "de-XY", "de_Cyrl", "zh-traditional", "\0", "(", "*"]
)
def test_text_that_is_no_language_is_an_error(name):
    with pytest.raises(ValueError, match="unknown language"):
        find(name)


def test_rows_and_table_hold_every_language():
    assert json.loads(json.dumps(languages.rows()))[0]["code"] == ALL[0].code
    lines = languages.table().split("\n")
    assert [line.split()[0] for line in lines] == ["code", *(language.code for language in ALL)]


def test_the_table_loads_fast_and_alone():
    code = (
        "import sys, time; from mmt import languages; start = time.perf_counter();"
        "languages.find('de'); print(time.perf_counter() - start);"
        "assert not {'jax', 'numpy', 'tensorflow', 'babel'} & set(sys.modules)"
    )
    seconds = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3)]
    assert min(seconds) < 0.1


def test_the_nearest_languages_are_of_the_same_name_script_or_family():
    tibetan = languages.find("bo")
    near = languages.nearest(tibetan, ["oci_Latn", "dzo_Tibt", "mya_Mymr", "deu_Latn"])
    assert [language.code for language in near][:2] == ["dzo_Tibt", "mya_Mymr"]
    serbian = languages.find("srp_Cyrl")
    assert languages.nearest(serbian, ["rus_Cyrl", "srp_Latn"])[0].code == "srp_Latn"
    assert languages.nearest(serbian, ["no such code"]) == []
