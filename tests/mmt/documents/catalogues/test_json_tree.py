"""JSON with places: broken and nested texts are refused."""

import pytest

from mmt.documents.catalogues import json_tree
from mmt.documents.document import DEPTH


def test_values_and_keys_have_their_places():
    text = '{"a": [1, "b\\u00e4"],  "c" : {"d": null}}'
    tree = json_tree.parse("a.json", text)
    (_, array), (key, inner) = tree.value
    assert text[array.start : array.end] == '[1, "b\\u00e4"]' and array.value[1][1].value == "bä"
    assert key == "c" and text[inner.key_start :].startswith('"c" : ')
    assert array.value[0][1].key_start == -1 and tree.key_start == -1
    assert tree.member("c", "d") and not tree.member("c", "e")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":\n}', r"a\.json:2: no JSON: Expecting value"),
        (b'{"a": "b",\n "c": [{}],\n "a": "c"}', r"a\.json:3: the key 'a' is repeated"),
        (b"[" * 9 * DEPTH + b"]" * 9 * DEPTH, r"a\.json: "),
        (b"", r"a\.json:1: no JSON"),
    ],
)
def test_broken_json_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        json_tree.parse("a.json", content.decode())
