"""The format of all files of rows; results.py and analysis.py have their own tests."""

import dataclasses
from collections.abc import Mapping

import pytest

from eval.records import rows


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int


@dataclasses.dataclass(frozen=True)
class Made(rows.Checked):
    name: str
    parts: tuple[Inner, ...] = ()
    numbers: tuple[float | None, ...] = ()
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def key(self):
        return (self.name,)


def parse(values):
    return rows.make(Made, values)


def test_nested_values_round_trip(tmp_path):
    path = tmp_path / "rows.jsonl"
    made = [Made("a", (Inner(1), Inner(2)), (1.5, None), {"x": 0.5}), Made("b")]
    rows.add(path, made, parse)
    assert [row for row, _ in rows.read(path, parse)] == made
    newer = Made("a", numbers=(2.0,))
    rows.add(path, [newer], parse)
    assert [row for row, _ in rows.read(path, parse)] == [made[1], newer]


def test_outdated_rows_are_removed_but_not_new_ones(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows.add(path, [Made("a"), Made("b"), Made("c")], parse)
    rows.add(path, [Made("d")], parse, outdated=lambda row: row.name in "bd")
    assert [row.name for row, _ in rows.read(path, parse)] == ["a", "c", "d"]


def test_a_row_is_parsed_once_while_rows_are_added(tmp_path):
    """An evaluation adds to a study's file of 40,000 rows after each language."""
    path, parsed = tmp_path / "rows.jsonl", []

    def counted(values):
        parsed.append(values["name"])
        return parse(values)

    for name in "abcab":
        rows.add(path, [Made(name, numbers=(float(len(parsed)),))], counted)
        rows.read(path, counted)
    assert parsed == list("abcab")
    assert [row.name for row, _ in rows.read(path, counted)] == ["c", "a", "b"]
    path.write_bytes(path.read_bytes().replace(b'"c"', b'"d"'))  # by another program
    assert [row.name for row, _ in rows.read(path, counted)] == ["d", "a", "b"]


def test_the_rows_of_a_few_files_are_remembered(tmp_path):
    for number in range(9):
        path = tmp_path / f"{number}.jsonl"
        rows.add(path, [Made("a")], parse)
        rows.read(path, parse)
    assert len(rows._parsed) == rows._MAX_PARSED


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"name": "a", "part": []}', "unknown key 'part'; nearest: 'parts'"),
        ('{"parts": []}', "missing key 'name'"),
        ('{"name": "a", "parts": [{"sise": 1}]}', "'sise'; nearest: 'size'"),
        ('{"name": "a", "numbers": [1, true]}', "each item a number or null"),
        ('{"name": "a", "shares": {"x": "y"}}', "an object, each value a number"),
        ('{"name": "a", "shares": 3}', "expected an object"),
        ('{"name": "a", "name": "b"}', "key 'name' is given twice"),
        (r'{"name": "a\ud800"}', r"no text: \ud800, half of a character"),
        ('{"name": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_rows_name_file_line_and_what_is_expected(tmp_path, line, message):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"name": "whole"}\n' + line + "\n")
    with pytest.raises(ValueError) as error:
        rows.read(path, parse)
    assert str(error.value).startswith(f"{path}:2: ") and message in str(error.value)


def test_text_about_an_escape_is_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(r'{"name": "a \\ud800 in a regex, and \u00e9"}' + "\n")
    assert [row.name for row, _ in rows.read(path, parse)] == [r"a \ud800 in a regex, and é"]


def test_what_json_cannot_hold_is_not_written(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows.add(path, [Made("a")], parse)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        rows.add(path, [Made("b", numbers=(float("nan"),))], parse)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_text_is_on_one_line():
    @dataclasses.dataclass
    class Named(rows.Checked):
        name: str
        text: str = ""
        size: int = 3

    Named("تراکتور\N{ZERO WIDTH NON-JOINER}ها\N{NO-BREAK SPACE}x")
    Named("a", "b\nc")
    for value in ("a\nb", "\x00", "a\u2028b", "\ud800", "a\rb"):
        with pytest.raises(ValueError, match="name is .*; expected text on one line"):
            Named(value)


@dataclasses.dataclass(frozen=True)
class Some(rows.Checked):
    """A field with a range, one with the allowed values, and one with neither."""

    load: tuple[float, ...] = dataclasses.field(metadata=rows.SHARE)
    source: str = ""
    height: float = -5.0

    def _check(self) -> None:
        if self.height > 100:
            raise ValueError("too high")


def test_an_error_of_a_field_states_its_range():
    assert Some((0.0, 1.0), "deu_Latn").height == -5
    with pytest.raises(ValueError, match=r"load is 1.5; allowed: 0.0 to 1.0"):
        Some((0.5, 1.5))
    with pytest.raises(ValueError, match="source is 'deu'; expected 'deu_Latn'"):
        Some((0.5,), "deu")


def test_types_are_checked_first_and_relations_between_fields_last():
    with pytest.raises(ValueError, match="load is 'much'; expected a list"):
        Some("much", "deu", 200.0)
    with pytest.raises(ValueError, match="expected 'deu_Latn'"):
        Some((), "deu", 200.0)
    with pytest.raises(ValueError, match="too high"):
        Some((), "deu_Latn", 200.0)
