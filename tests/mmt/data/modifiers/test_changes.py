"""The memory of changes: what one thread adds, another takes; it does not grow without end."""

import threading

from mmt.data.modifiers import Change, Changes, changes

CHANGE = Change(0, 12, 2, 0, fits=True)


def test_changes_are_taken_once_and_forgotten_up_to_a_draw():
    memory = Changes()
    memory.add({3: None, 7: CHANGE, 9: CHANGE})
    memory.forget(7)
    assert memory.get(3, CHANGE) is CHANGE
    assert memory.take() == {7: CHANGE, 9: CHANGE}
    assert memory.take() == {}


def test_too_many_changes_replace_the_former_ones(monkeypatch):
    monkeypatch.setattr(changes, "_LIMIT", 4)
    memory = Changes()
    memory.add({1: CHANGE, 2: CHANGE, 3: CHANGE})
    memory.add({4: CHANGE, 5: CHANGE})
    assert memory.take() == {4: CHANGE, 5: CHANGE}


def test_a_thread_may_add_while_another_takes_and_forgets():
    memory = Changes()
    adding = threading.Thread(
        target=lambda: [memory.add({draw: CHANGE}) for draw in range(100_000)]
    )
    adding.start()
    taken = set()
    while adding.is_alive():
        taken |= memory.take().keys()
        memory.forget(0)
    assert taken | memory.take().keys() == set(range(100_000))
