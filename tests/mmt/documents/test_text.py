"""Plain text and subtitles: lines and cues."""

import pytest

from mmt.documents import MarkedText, Tag, locales, text
from tests.helpers.documents import EXAMPLES


def test_lines_keep_their_ends_and_indents():
    document = text.read("a.txt", EXAMPLES["a.txt"])
    assert [s.source.text for s in document.segments] == [
        "Erste Zeile", "Zweite Zeile", "Letzte ohne Ende",
    ]  # fmt: skip
    written = document.write([None, MarkedText("Second"), None])
    assert written == EXAMPLES["a.txt"].replace(b"Zweite Zeile", b"Second")


def test_a_cue_keeps_its_number_of_lines():
    document = text.read_subtitles("a.srt", EXAMPLES["a.srt"])
    cue, yes, no = document.segments
    assert cue.source.text == "Hallo, schöne Welt voller Wörter"
    assert (yes.source.text, no.source.text) == ("Ja.", "Nein!")
    given = cue.source._replace(text="Hello, beautiful world full of words")
    written = document.write([given, MarkedText("Yes."), None]).decode()
    assert "<i>Hello</i>, beautiful\r\nworld full of words\r\n\r\n2" in written
    assert "- Yes.\r\n- Nein!" in written


def test_notes_and_names_of_cues_stay():
    document = text.read_subtitles("a.vtt", EXAMPLES["a.vtt"])
    assert [s.source.text for s in document.segments] == ["Tom & Anna"]
    assert b"Anna &lt; Tom" in document.write([MarkedText("Anna < Tom")])


def test_subtitles_without_times_are_refused():
    with pytest.raises(ValueError, match=r"a\.srt: no cue has a time, as 00:00:01,000"):
        text.read_subtitles("a.srt", b"1\nHallo\n")


def test_the_head_of_webvtt_names_the_new_language():
    captions = b"WEBVTT\r\nKind: captions\r\nLanguage: de\r\n\r\n00:01.000 --> 00:02.000\r\nJa"
    for source, new in ((None, b"Language: en\r\n"), ("fr", b"Language: de\r\n")):
        document = text.read_subtitles("a.vtt", captions, locales(source, "en"))
        assert document.write([None]) == captions
        assert new in document.write([MarkedText("Language: de")])


def test_cues_without_an_empty_line_between_them_are_all_translated():
    times = "00:00:01,000 --> 00:00:02,000\n"
    content = f"1\n{times}Eins\nzwei\n2\n{times}Drei\n3\n{times}1984\n"
    document = text.read_subtitles("a.srt", content.encode())
    assert [segment.source.text for segment in document.segments] == ["Eins zwei", "Drei"]
    written = document.write([MarkedText("One two"), MarkedText("Three")]).decode()
    assert written == f"1\n{times}One\ntwo\n2\n{times}Three\n3\n{times}1984\n"


def test_subtitles_of_another_script_are_not_read_as_western():
    content = "1\n00:00:01,000 --> 00:00:02,500\nПривет\n".encode("cp1251")
    with pytest.raises(ValueError, match=r"a\.srt:3: not utf-8"):
        text.read_subtitles("a.srt", content, locales("ru", "en"))


@pytest.mark.parametrize(
    ("lines", "translation", "expected"),
    [
        (2, "你好，世界上的所有人", "你好，\n世界上的所有人"),
        (2, "啊，我昨天买了一部新的手机", "啊，我昨天买\n了一部新的手机"),
        (3, "我昨天买了一部新的手机你呢", "我昨天买\n了一部新\n的手机你呢"),
        (2, "彼はデータを「保存」した", "彼はデータを\n「保存」した"),
        (2, "今日はニューヨーク", "今日は\nニューヨーク"),
        (2, "これがiPhoneです", "これが\niPhoneです"),
        (2, "ฉันไปทะเล", "ฉันไป\nทะเล"),
        (2, "嗯。 我昨天买了一部新的手机", "嗯。 我昨天买\n了一部新的手机"),
        (2, "Superkalifragilistisch", "Superkalifragilistisch"),
        (2, "don't", "don't"), (2, "好", "好"), (2, "，。", "，。"),
        (3, "Eins zwei", "Eins\nzwei"), (2, "안녕하세요여러분들 네", "안녕하세요여러분들\n네"),
    ],
)  # fmt: skip
def test_lines_without_spaces_are_broken_too(lines, translation, expected):
    cue = "\n".join(["Ein Text"] * lines)
    content = f"1\n00:00:01,000 --> 00:00:02,000\n{cue}\n"
    document = text.read_subtitles("a.srt", content.encode())
    written = document.write([MarkedText(translation)]).decode()
    assert written == content.replace(cue, expected)


def test_tags_behind_a_new_line_break_are_moved():
    content = b"1\n00:00:01,000 --> 00:00:02,000\n<i>Ein</i> <b>Text</b>\n<u>zwei</u>\n"
    document = text.read_subtitles("a.srt", content)
    positions = (0, 3, 3, 3, 3, 6)
    kinds = ("start", "end", "start", "end", "start", "end")
    names = ("<i>", "</i>", "<b>", "</b>", "<u>", "</u>")
    tags = tuple(map(Tag, positions, kinds, names))
    written = document.write([MarkedText("你好吗世界人", tags)]).decode()
    assert written.endswith("<i>你好吗</i>\n<b></b><u>世界人</u>\n")
