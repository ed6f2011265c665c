"""What a log says of an error."""

from mmt.serve.errors import place_of


def test_the_place_of_an_error_has_no_message():
    try:
        raise ValueError("secret text")
    except ValueError as error:
        assert place_of(error).startswith("ValueError at test_errors.py:")
    assert place_of(KeyError("secret")) == "KeyError"
