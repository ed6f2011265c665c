"""A line of JSON is an object, or the error names its type."""

import pytest

from mmt.system import json_objects


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON: .* at column 2"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "1" * 5000 + "}", "limit"),
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"a": "\\ud800"}', "half of a character"),
        ("[1]", "expected an object of keys and values"),
        (b'{"a": "\xff"}', "no UTF-8: byte 8 is 0xff"),
    ],
)
def test_a_line_that_is_no_object_is_an_error(line, message):
    with pytest.raises(ValueError, match=message):
        json_objects.parse(line)
    assert json_objects.parse('{"a": [1, null]}') == {"a": [1, None]}
