"""Tables in Markdown, and failed cases on a line each."""

from eval.behave import difference, text
from eval.behave.suite import JudgedCase
from eval.records.behaviour import BehaviourShares

KEY = {"system": "a", "target": "eng_Latn", "checkpoint": "a/1", "decode": "beam:1",
       "config": "c", "origin": "CLDR", "suite": "s"}  # fmt: skip
ROWS = [
    BehaviourShares(**KEY, source="deu_Latn", passed={"tiny": 4, "links": 1},
                    cases={"tiny": 4, "links": 4}, needed={"tiny": 0.8, "links": 0.9}),
    BehaviourShares(**KEY, source="cbk_Latn", passed={"links": 3}, cases={"links": 4},
                    needed={"links": 0.9}),
]  # fmt: skip


def test_the_table_has_percentages_and_means():
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in text.table(ROWS).splitlines()]  # fmt: skip
    assert lines[0] == ["language", "tiny", "links", "mean"] and len(set(map(len, lines))) == 1
    assert lines[2:] == [
        ["deu_Latn", "100", "25", "62"], ["cbk_Latn", "–", "75", "75"],
        ["mean", "100", "50", "75"], ["needed", "80", "90", ""],
    ]  # fmt: skip
    assert len(set(map(len, text.table(ROWS).splitlines()))) == 1


def test_a_failed_case_is_one_line():
    passed = JudgedCase("deu_Latn", "tiny", "", "", "")
    failed = JudgedCase("deu_Latn", "breaks", "a\n\nb", "x\ty", "1 lines of 3")
    line = "deu_Latn\tbreaks\t1 lines of 3\ta\\n\\nb\tx\\ty"
    assert text.failures([passed, failed]) == line


def test_differences_name_both_systems():
    first = [JudgedCase("deu_Latn", "tiny", str(n), "", "x") for n in range(10)]
    other = [JudgedCase("deu_Latn", "tiny", str(n), "", "") for n in range(10)]
    written = text.differences("old", "new", difference.compare(first, other))
    row = "| deu_Latn |    10 |   0 | 100 |        0 |       10 | 0.0020 | 0.0020 |  ▲ |"
    assert row in written.splitlines()
    assert written.splitlines()[-1].startswith("new is better ▲")


def test_cases_that_only_one_system_has_are_counted():
    cases = [JudgedCase("deu_Latn", "tiny", str(n), "", "") for n in range(3)]
    written = text.differences("old", "new", difference.compare(cases, cases[:1]))
    assert "not compared: 2 cases that only one of them has" in written.splitlines()
    assert "not compared" not in text.differences("a", "b", difference.compare(cases, cases))
    nothing = text.differences("a", "b", difference.compare(cases[:1], cases[1:]))
    assert nothing == "a and b have no case in common, so they are not compared"
