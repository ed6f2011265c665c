"""What a run's configuration says about its context, also in macros and scopes."""

import pytest

from mmt.translate.context import check_trained_lines, trained_lines

HEAD = "from __gin__ import dynamic_registration\nfrom mmt.data import stages\n"
ONE = "stages.Stage.modifiers = {'context': 0.1}"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("stages.Stage.modifiers = None", 0),
        ("stages.Stage.modifiers = {'typos': 0.1, 'context': 0}", 0),
        ("stages.Stage.modifiers = {'context': {'deu': 0.0}}", 0),
        (ONE, 1),
        ("ODDS = {'context': {'deu': 0.1}}\nstages.Stage.modifiers = %ODDS", 1),
        (f"a/{ONE}\nN = 3\na/stages.Stage.context_lines = %N", 3),
        (f"a/{ONE}\nstages.Stage.context_lines = 2", 2),
        (f"a/{ONE}\nb/stages.Stage.context_lines = 4", 1),
    ],
)
def test_the_lines_of_a_run(tmp_path, text, lines):
    (tmp_path / "config.gin").write_text(f"{HEAD}{text}\n")
    assert trained_lines(tmp_path) == lines
    if lines:
        check_trained_lines(tmp_path, lines)
    else:
        with pytest.raises(ValueError, match="--context 1: .* no stage in .*gin has the modifier"):
            check_trained_lines(tmp_path, 1)
    for wrong in {0, lines + 1} if lines else ():
        with pytest.raises(ValueError, match=f"most {lines} previous .*allowed: 1 to {lines}"):
            check_trained_lines(tmp_path, wrong)
