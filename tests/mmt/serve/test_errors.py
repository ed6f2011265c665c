"""What a log says of an error."""

from mmt.serve.errors import error_location


def test_the_place_of_an_error_has_no_message():
    try:
        raise ValueError("secret text")
    except ValueError as error:
        assert error_location(error).startswith("ValueError at test_errors.py:")
    assert error_location(KeyError("secret")) == "KeyError"
