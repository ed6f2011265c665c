"""After a kill at any moment the lines are those of an undisturbed run."""

import json

import pytest

from mmt.system import lock
from mmt.translate import output_log


def rows(parts, translated):
    """Yields the lines that the parts lack, and adds each to `translated`."""
    for part in parts:
        for number in range(part.done, part.total):
            translated.append((part.path.name, number))
            yield output_log.row(str(number), f"{part.path.stem} {number}")


@pytest.mark.parametrize("killed", [0, 1, 6, 7, 8, 11])
def test_a_kill_loses_no_line_and_repeats_none(tmp_path, killed):
    def parts():
        return [output_log.OutputFile(tmp_path / name, 7) for name in ("a.tsv", "b.tsv")]

    translated = []

    def dying():
        for place, row in enumerate(rows(parts(), translated)):
            if place == killed:
                raise KeyboardInterrupt
            yield row

    with pytest.raises(KeyboardInterrupt):
        output_log.write(parts(), dying())
    for path in tmp_path.glob("*.part"):
        with path.open("a") as file:
            file.write("3\thalf a li")
    before, translated[:] = len(translated), []
    output_log.write(parts(), rows(parts(), translated))
    assert len(translated) == 14 - min(killed, before)
    for name in ("a", "b"):
        expected = "".join(f"{number}\t{name} {number}\n" for number in range(7))
        assert (tmp_path / f"{name}.tsv").read_text() == expected
    assert len(list(tmp_path.iterdir())) == 2
    output_log.write(parts(), iter(()))  # whole: nothing is asked for


def test_a_folder_has_one_recipe(tmp_path):
    file = tmp_path / "new/recipe.json"
    output_log.begin(file, {"model": "a", "lines": 3})
    output_log.begin(file, {"model": "a", "lines": 3})
    assert json.loads(file.read_text()) == {"model": "a", "lines": 3}
    with pytest.raises(ValueError, match=r"recipe \(lines: 3 there, 4 requested\): remove"):
        output_log.begin(file, {"model": "a", "lines": 4})
    output_log.begin(file, {"model": "a", "lines": 3, "digest": "x"}, added=["digest"])
    with pytest.raises(ValueError, match="digest: None there"):
        output_log.begin(file, {"model": "a", "lines": 3, "digest": "x"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / lock.FILE).touch()
    output_log.begin(tmp_path / "mine/recipe.json", {})
    (tmp_path / "yours").mkdir()
    (tmp_path / "yours/thesis.txt").touch()
    with pytest.raises(ValueError, match="yours holds something else"):
        output_log.begin(tmp_path / "yours/recipe.json", {})


def test_a_row_has_a_fixed_number_of_columns():
    assert output_log.row("1", " a\tb ", "") == "1\ta b\t\n"
