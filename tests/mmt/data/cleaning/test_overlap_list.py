"""The list has the pairs that were removed for overlap, and no others."""

from mmt.data.cleaning import overlap_list
from mmt.data.cleaning.rules import Dropped
from mmt.data.pair import Pair
from mmt.system import text_lines
from mmt.system.atomic import packed

PAIR = Pair("eins\tzwei", "one two", "deu_Latn", "web", 7)


def test_a_line_names_the_pair_and_the_test_sets():
    row = overlap_list.row(PAIR, Dropped("overlap: flores + ntrex", "the source is one"))
    cells = dict(zip(overlap_list.COLUMNS, row.split("\t"), strict=True))
    assert cells == {
        "language": "deu_Latn", "corpus": "web", "line": "7", "test sets": "flores + ntrex",
        "overlap": "the source is one", "source": "eins zwei", "target": "one two",
    }  # fmt: skip
    assert overlap_list.row(PAIR, PAIR) == overlap_list.row(PAIR, Dropped("ratio", "")) == ""


def test_parts_are_joined_below_the_names_of_the_columns(tmp_path):
    for name, lines in (("a.zst", ["1", "2"]), ("b.zst", []), ("c.zst", ["3"])):
        with packed(tmp_path / name) as write:
            for line in lines:
                write(line)
    overlap_list.join([tmp_path / f"{name}.zst" for name in "abc"], tmp_path)
    lines = list(text_lines.read(tmp_path / overlap_list.FILE))
    assert lines == ["\t".join(overlap_list.COLUMNS), "1", "2", "3"]
