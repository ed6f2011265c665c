"""Examples have one pronoun, or a name that their context has too, and wrong words in its place."""

import pytest

from eval.contrastive import find
from eval.testsets import Sentences

DOCUMENTS = [
    ("Die Tür ist zu.", "The door is closed."),
    ("Sie klemmt.", "It is stuck."),
    (),
    ("Eva kommt.", "Eva comes."),
    ("Sie hilft.", "Then she helps."),
    ("Er sieht sie.", "He sees her."),  # two pronouns
    ("Er sagt, sie geht.", "He says she goes."),
    (),
    ("Gestern kam Karla Meier.", "Yesterday came Karla Meier."),
    ("Meier, sagt Karla, ist Russin.", "Meier, says Karla, is Russian."),
    ("Russland liebt Karla, und Karla Russland.", "In Russia, Karla loves Karla."),
    (),
    ("Es kam auch Carla.", "There came Carla and Mr. Maier."),
    ("Sogar Maier.", "Even Maier, and in Russia the cook."),
    ("Koch und Maier.", "A Cook, and Maier"),
]


def sentences(*documents):
    """Sentences of documents; an empty row begins the next one."""
    rows, names, number = [], [], 0
    for row in documents:
        if row:
            rows.append(row)
            names.append(f"talk{number}")
        number += not row
    return Sentences(*zip(*rows, strict=True), tuple(names))


def test_pronouns_are_replaced_by_the_others():
    found = find(sentences(*DOCUMENTS), 2)
    stuck, helps, *_ = (each for each in found if each.phenomenon != "name")
    assert (stuck.phenomenon, stuck.wrong) == ("it", ("He is stuck.", "She is stuck."))
    assert stuck.source.joined == "Die Tür ist zu. ||| Sie klemmt."
    assert (helps.phenomenon, helps.wrong) == ("she", ("Then he helps.", "Then it helps."))
    assert helps.target.joined == "Eva comes. ||| Then she helps."  # not of the document before


def test_a_word_in_capitals_is_no_pronoun():
    other = [(), ("Eins.", "One."), ("Zwei.", "Two.")]
    assert not find(sentences(("Da.", "There."), ("Die IT ist da.", "IT is there."), *other), 1)


def test_a_repeated_name_is_replaced_by_the_closest_name_of_another_document():
    names = [each for each in find(sentences(*DOCUMENTS), 1) if each.phenomenon == "name"]
    assert [(each.target.text, each.wrong) for each in names] == [
        # Meier begins its sentence. Karla is there twice in the next line, and Russian in no other.
        ("Meier, says Karla, is Russian.", ("Meier, says Carla, is Russian.",)),
        ("Even Maier, and in Russia the cook.", ("Even Meier, and in Russia the cook.",)),
        # A cook is in lower case elsewhere.
        ("A Cook, and Maier", ("A Cook, and Meier",)),
    ]


def test_the_other_context_is_of_another_document_and_lacks_the_name():
    for lines in (1, 2):
        for each in find(sentences(*DOCUMENTS), lines):
            other_source, other_target = each.other
            assert (other_source.text, other_target.text) == (each.source.text, each.target.text)
            own, other = set(each.source.previous), set(other_source.previous)
            assert len(own) == len(other) == len(other_target.previous) and not own & other
            pairs = {row for row in DOCUMENTS if row}
            assert pairs >= set(zip(other_source.previous, other_target.previous, strict=True))
            if each.phenomenon == "name":
                (name,) = set(each.target.text.split()) - set(each.wrong[0].split())
                assert not any(name.strip(".,") in line for line in other_target.previous)


@pytest.mark.parametrize("documents", [DOCUMENTS[:2], [row for row in DOCUMENTS if row]])
def test_one_document_has_no_other_context(documents):
    assert find(sentences(*documents), 1) == []
