"""Inline markup: what belongs to a sentence."""

from mmt.documents.html import read


def segments(page: str) -> list[tuple[str, list[tuple[int, str]]]]:
    return [
        (segment.source.text, [(tag.position, tag.kind) for tag in segment.source.tags])
        for segment in read("a.html", page.encode()).segments
    ]


def test_markup_around_a_segment_is_no_part_of_it():
    assert segments("<p> <b><i>eins</i></b> <p><b>zwei</b> drei<img>") == [
        ("eins", []), ("zwei drei", [(0, "start"), (4, "end")]),
    ]  # fmt: skip


def test_crossing_tags_stand_alone():
    assert segments("<b>eins <i>zwei</b> drei</i> vier") == [
        ("eins zwei drei vier", [(0, "start"), (5, "alone"), (9, "end"), (14, "alone")])
    ]


def test_white_space_is_one_space_also_across_tags():
    assert segments("eins <b> zwei </b>\n <!-- x --> drei") == [
        ("eins zwei drei", [(5, "start"), (10, "end"), (10, "alone")])
    ]
