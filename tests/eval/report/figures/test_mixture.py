"""Every language has its bars, also without room for its label."""

import pytest

from eval.report.figures import drawing, mixture
from mmt.data.forecast.forecast import Forecast


def made_up(count):
    rows = [
        {
            "language": f"l{i:02}_Latn", "name": f"Language {i}", "pairs": 1000 // (i + 1) + 1,
            "share": 1 / count, "epochs": i * 0.5 + 0.1,
        }
        for i in range(count)
    ]  # fmt: skip
    return Forecast(rows, 300, 64, 4.0)


@pytest.mark.parametrize("count", [1, 12, 110])
def test_every_language_is_drawn(count):
    text = drawing.svg(mixture.draw(made_up(count)))
    for row in made_up(count).rows:
        assert text.count(f"<title>{row['name']}: ") == 2
        assert (f">{row['language']}<" in text) == (count <= 45)
    assert f"{count} languages in 300 steps" in text
    assert "mathdefault" not in text


def test_saved_as_the_name_says(tmp_path):
    mixture.save(made_up(3), tmp_path / "new" / "a.svg")
    assert "<svg" in (tmp_path / "new" / "a.svg").read_text()
    with pytest.raises(ValueError, match="ends with .png or .svg"):
        mixture.save(made_up(3), tmp_path / "a.jpeg")
