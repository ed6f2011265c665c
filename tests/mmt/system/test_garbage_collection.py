import gc

import pytest

from mmt.system import garbage_collection


def test_full_collections_are_rare_inside_and_as_before_outside():
    before = gc.get_threshold()
    with pytest.raises(KeyError), garbage_collection.rare():
        assert gc.get_threshold()[2] > before[2] and gc.get_threshold()[:2] == before[:2]
        raise KeyError
    assert gc.get_threshold() == before


def test_objects_that_exist_are_exempt_inside():
    before = gc.get_freeze_count()
    with pytest.raises(KeyError), garbage_collection.frozen():
        assert gc.get_freeze_count() > before + 10_000
        raise KeyError
    assert gc.get_freeze_count() == before
