"""Other right translations pass, and each fault has its reason."""

import pytest

from eval.behave import properties
from eval.behave.cases import Case

DOG = Case("Der Hund schläft im Garten.", "The dog sleeps in the garden.")
URL = "https://example.org/a?b=1"


@pytest.mark.parametrize(
    ("name", "case", "output"),
    [
        ("sentence", DOG, "In the yard, the dog is asleep."),
        ("sentence", Case("Heilig, heilig, heilig, heilig!", "Holy, holy, holy, holy!"),
         "Holy, holy, holy, holy!"),
        ("word", Case("Pazar", "Sunday", keeps=(("Sunday",),)), "the market"),
        ("word", Case("Pazar", "Sunday", keeps=(("Sunday",),)), "on Sunday, then"),
        ("word", Case("vamos", "go"), "let's go now"),
        ("kept", Case("Peru", "Peru", keeps=(("Peru",),)), "Perú."),
        ("kept", Case("Hallo (Москва)", "", keeps=(("Москва", "Moscow"),)), "hi (MOSCOW)"),
        ("kept", Case("Hallo ❤️", "", keeps=(("❤️",),)), "Hello ❤"),
        ("numbers", Case("3 Hunde, 21 Katzen", ""), "Three dogs, twenty-one cats"),
        ("numbers", Case("1.560,50 Euro", ""), "1,560.50 euros"),
        ("numbers", Case("4 203 m", ""), "4203 metres"),
        ("numbers", Case("٢٥ ألف كتاب", ""), "25 thousand books"),
        ("numbers", Case("2. März 2021", ""), "the second of March, 2021"),
        ("numbers", Case("15.03.2021", ""), "2021-3-15"),
        ("date", Case("", "", day=(15, 3, 2021)), "15th of Mar. 2021"),
        ("date", Case("", "", day=(15, 3, 2021)), "03/15/21"),
        ("date", Case("", "", day=(2, 5, 1999)), "the second of May 1999"),
        ("tiny", Case("y", "y"), "And"),
        ("tiny", Case("7", "7"), "seven"),
        ("tiny", Case("…", "…"), "..."),
        ("copied", Case(f"Hier: {URL}", ""), f"Look here: {URL}"),
        ("bounded", Case("nein nein nein", "no no no"), "no, no, no, no"),
        ("lines", Case("eins\n\nzwei", ""), "one\n\ntwo"),
    ],
)
def test_right_translations_pass(name, case, output):
    assert getattr(properties, name)(case, output, "") == ""


@pytest.mark.parametrize(
    ("name", "case", "output", "fault"),
    [
        ("sentence", DOG, "", "empty"),
        ("sentence", DOG, "der Hund schläft im Garten", "copy of the source"),
        ("sentence", DOG, "the dog the dog the dog the dog", "repeats itself"),
        ("sentence", DOG, "the dog sleeps while all children of the village, and all others who "
         "have heard of it, come to see how well it is doing",
         "119 characters; the reference has 29"),
        ("sentence", DOG, "Собака спит в саду.", "not English"),
        ("word", Case("Mai", "May", keeps=(("May",),)), "Frequently Asked Questions",
         "3 words without May"),
        ("word", Case("日曜日", "Sunday"), "日曜", "not in Latin letters"),
        ("word", Case("vogel", "bird"), "vogel", "copy of the source"),
        ("kept", Case("Kuba", "Cuba", keeps=(("Cuba",),)), "Search", "lacks Cuba"),
        ("kept", Case("das ist (NASA)", "", keeps=(("NASA",),)), "das ist (NASA)",
         "copy of the source"),
        ("numbers", Case("89 km", ""), "98 km", "lacks the number 89"),
        ("numbers", Case("4 444 g", ""), "444 grams", "lacks the number 4 444"),
        ("numbers", Case("१२ घंटे", ""), "hours", "lacks the number 12"),
        ("date", Case("", "", day=(15, 3, 2021)), "March 2021", "lacks the day 15"),
        ("date", Case("", "", day=(15, 3, 2021)), "15 May 2021", "lacks the month March"),
        ("date", Case("", "", day=(15, 3, 2021)), "15 March", "lacks the year 2021"),
        ("tiny", Case("  ", "  "), "Yes", "text for an empty line"),
        ("tiny", Case("?", "?"), "What?", "words for a mark"),
        ("tiny", Case("e", "e"), "It is raining.", "long for a letter"),
        ("tiny", Case("7", "7"), "8", "lacks the number 7"),
        ("copied", Case("{name}: ja", ""), "yes", "lacks {name}"),
        ("copied", Case("{0}: ja", ""), "{0}: {0} yes", "adds {0}"),
        ("copied", Case(f"das hier: {URL}", ""), f"das hier: {URL}", "copy of the source"),
        ("bounded", Case("nein", "no"), "no " * 20, "60 characters; the reference has 2"),
        ("lines", Case("eins\n\nzwei", ""), "one\ntwo", "2 lines of 3"),
        ("lines", Case("eins\n\nzwei", ""), "one\nand\ntwo", "line 2 is not empty"),
        ("lines", Case("eins\nzwei", ""), "one\u2028more\ntwo", "3 lines of 2"),
    ],
)  # fmt: skip
def test_faults_have_reasons(name, case, output, fault):
    assert getattr(properties, name)(case, output, "") == fault


def test_capitals_are_compared_with_the_plain_line():
    case = Case("DER HUND SCHLÄFT.", "THE DOG IS ASLEEP.", plain="Der Hund schläft.")
    assert properties.alike(case, "THE DOG IS SLEEPING.", "The dog sleeps.") == ""
    assert "plain line" in properties.alike(case, "UF DER UND", "The dog sleeps.")
    assert properties.alike(case, "DER HUND SCHLÄFT.", "Der Hund schläft.") == "copy of the source"
