"""The rules of cleaning, each by pairs that it must keep, change and drop."""

import unicodedata

import ftfy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data.cleaning import rules
from mmt.data.cleaning.rules import Dropped, RuleContext
from mmt.data.pair import Pair


def judged(rule, source, target, language="deu_Latn", **settings):
    """What a rule makes of a pair: the reason, the changed sides, or None."""
    about = RuleContext(language, "eng_Latn")
    pair = Pair(source, target, language, "made_up", 1)
    result = getattr(rules, rule)(about, **settings)(pair)
    if isinstance(result, Dropped):
        return result.reason
    return None if result == pair else result[:2]


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        ("encoding", "Ã¼ber Nacht", "over night"),
        ("encoding", "über Nacht \ufffd", "over night"),
        ("length", "a" * 1001, "b"),
        ("length", "a", "b " * 251),
        ("script", "где это", "where is it"),
        ("script", "Wo ist es?", "где это USB"),
        ("repeats", "Inhalt .............. 3", "Contents .............. 3"),
        ("repeats", "gut gut gut gut", "good"),
        ("repeats", "ja", "it is it is it is so"),
        ("repeats", "Ha", "hahahahahahahaha"),
        ("copies", "hallo Welt!", "Hallo, Welt"),
        ("tags", "<b>Hallo</b>", "Hello"),
        ("tags", "<p>a</p><br/>", "<p>a</p>"),
        ("urls", "siehe http://a.de/x.", "see http://a.de/y."),
        ("urls", "an a@b.de", "to us"),
        ("urls", "请访问www.example.com查看", "Visit www.example.org for it"),
        ("urls", "请发送邮件至info@example.com联系", "Write to info@example.org now"),
        ("placeholders", "%s Bytes", "%d bytes"),
        ("placeholders", "{name} hat", "{} has"),
        ("placeholders", "%1$s von %2$s", "%1$s of"),
        ("placeholders", "Rabais de 20%d'ici lundi", "20% off until Monday"),
        ("placeholders", "已删除%d个文件", "files deleted"),
        ("placeholders", "%sren fitxategiak", "Files of %d"),
        ("numbers", "um 17 Uhr", "at 71"),
        ("numbers", "1.500 Euro", "15,000 euros"),
    ],
)
def test_each_rule_drops_or_repairs_its_faults(rule, source, target):
    assert judged(rule, source, target)


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        ("encoding", "Ångström déjà vu ñ", "Ångström"),
        ("normalise", "über Nacht", "over night"),
        ("length", "a" * 1000, "b " * 250),
        ("script", "USB", "где"),  # too few letters to tell
        ("script", "12:30 – 45 %", "12:30 – 45 %"),
        ("repeats", "gut gut gut gut", "good good good good"),
        ("repeats", "Donaudampfschifffahrt", "it is what it is, it is"),
        ("copies", "Sven Olson", "Sven Olson"),
        ("copies", "radio", "radio"),
        ("tags", "<a href='x'>da</a> <br>", "<a href='y'>there</a> <br />"),
        ("tags", "3 < 5 und 5 > 3", "3 < 5 and 5 > 3"),
        ("urls", "siehe http://a.de/x.", "(see http://a.de/x)"),
        ("urls", "Mail an jürgen@müller.de.", "Mail jürgen@müller.de"),
        ("urls", "请先访问www.example.com查看常见问题。", "First see www.example.com for help."),
        ("urls", "请发送邮件至info@example.com联系客服。", "Write to info@example.com for help."),
        ("urls", "まずhttps://example.com/をご覧になり", "First see https://example.com/ and"),
        ("urls", "请看https://example.com/a，然后登录", "See https://example.com/a, then log in"),
        ("urls", "info@example.com으로 보내세요", "Send it to info@example.com"),
        ("urls", "ดูที่www.example.comนะ", "See www.example.com"),
        ("placeholders", "50 % der Leute", "50% of people"),
        ("placeholders", "%1$s vor %2$s", "%2$s after %1$s"),
        ("placeholders", "{ name } hat", "{name} has"),
        ("placeholders", "已删除%d个文件", "%d files deleted"),
        ("placeholders", "%s님이 참가했습니다", "%s joined"),
        ("placeholders", "ลบ%dไฟล์", "%d files deleted"),
        ("placeholders", "%sren fitxategiak", "Files of %s"),
        ("placeholders", "100%ig sicher", "100% sure"),
        ("numbers", "1.017,5 und 0", "1,017.5 and 0"),
        ("numbers", "zwei", "2"),
        ("numbers", "am 02.03.2021 um 5", "on 2/3/2021 at 5"),
    ],
)
def test_good_pairs_are_kept(rule, source, target):
    assert judged(rule, source, target) is None


@pytest.mark.parametrize(
    ("code", "sentence", "name"),
    [
        ("mar_Deva", "आज मौसम बहुत अच्छा है", "नरेंद्र मोदी"),
        ("yue_Hant", "今天天氣很好,我們出去玩吧", "諸葛亮"),
        ("yue_Hant", "請插入USB裝置然後重新啟動", "USB"),
        ("yue_Hant", "我們在2024年3月12日出發", "2024年3月12日 10:30 - 12:00"),
        ("tha_Thai", "วันนี้อากาศดีมากเราออกไปเที่ยวกัน", "กรุงเทพ"),
        ("fas_Arab", "امروز هوا بسیار خوب است", "تهران"),
        ("deu_Latn", "heute ist es schön", "Angela Merkel"),
    ],
)
def test_copies_are_dropped_in_every_script_but_names_are_kept(code, sentence, name):
    assert judged("copies", sentence, f"{sentence}!", code) == "copies"
    assert judged("copies", name, name, code) is None


@pytest.mark.parametrize(
    ("code", "native", "other"),
    [
        ("jpn_Jpan", "ここはカフェと学校です", "여기는 학교입니다"),
        ("kor_Hang", "여기는 학교입니다", "ここはカフェです"),
        ("zho_Hant", "這裡是學校", "ここはカフェです"),
        ("hin_Deva", "यह स्कूल है", "یہ اسکول ہے"),
        ("urd_Arab", "یہ اسکول ہے", "यह स्कूल है"),
        ("srp_Cyrl", "то је школа", "to je škola"),
        ("khm_Khmr", "នេះជាសាលារៀន", "นี่คือโรงเรียน"),
    ],
)
def test_every_script_knows_its_own(code, native, other):
    assert judged("script", native, "this is a school", code) is None
    assert judged("script", other, "this is a school", code) == "script"


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60))
def test_normalised_text_is_a_fixed_point(text):
    once = judged("normalise", text, "b") or (text, "b")
    assert judged("normalise", *once) is None
    assert unicodedata.is_normalized("NFC", once[0])
    assert not set(once[0]) & set("\t\r\n\x00\x7f\ufeff")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from("0٠०０๐"))
def test_digits_of_any_script_are_digits(number, zero):
    written = "".join(chr(ord(zero) + int(digit)) for digit in str(number))
    assert judged("numbers", f"{written} x", f"{number:,} y") is None
    assert judged("numbers", f"{written} x", f"{number + 1:,} y") == "numbers"


def test_a_repair_into_another_script_is_none():
    assert ftfy.fix_encoding("Táˆ¡ káˆ¡") != "Táˆ¡ káˆ¡"
    assert judged("encoding", "Táˆ¡ káˆ¡", "a name", "chq_Latn") is None
    assert judged("encoding", "ሀá ˆ¡ áˆ¡", "a name", "amh_Ethi") == ("ሀá ˆ¡ ሡ", "a name")
    assert judged("encoding", "Ð¼Ð¸Ñ€", "world", "rus_Cyrl") == ("мир", "world")


def test_joiners_that_spelling_needs_stay():
    assert judged("normalise", "می\u200cخواهم", "I want", "pes_Arab") is None


@pytest.mark.parametrize(
    ("rule", "settings", "message"),
    [
        ("length", {"characters": (5, 3)}, "characters are 5 to 3"),
        ("script", {"least": 1.5}, "least is 1.5; allowed: 0 to 1"),
        ("normalise", {"form": "NFD"}, "'NFD'"),
        ("repeats", {"characters": 0}, "characters is 0"),
    ],
)
def test_settings_out_of_range_are_errors(rule, settings, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        getattr(rules, rule)(RuleContext("deu_Latn", "eng_Latn"), **settings)


def test_a_line_in_another_language_is_dropped_if_it_can_be_identified():
    english = "He did not see what lay on the way to the house."
    german = "Er sah nicht, was auf dem Weg zum Hause lag."
    assert judged("langid", german, english) is None
    assert judged("langid", english, english) == "langid"
    assert judged("langid", german, german) == "langid"
    assert judged("langid", "Jakob, Isaak", "Jakob, Isaak") is None  # too short
    assert judged("langid", german, english, "bar_Latn") is None  # not known to py3langid
