"""Parameters: JSON, form, multipart and query string; broken bodies."""

import pytest

from tests.helpers.serving import form, multipart, request


def test_json_form_multipart_and_query_string_are_alike(serve_echo):
    values = {"q": "ein kleiner Satz & 日本", "source": "de", "target": "en", "api_key": ""}
    with serve_echo() as (port, _):
        body, headers = form(**values)
        many, kind = multipart("x", b"", **values)
        answers = [
            request(port, "POST", "/translate", values),
            request(port, "POST", "/translate", body, **headers),
            request(port, "POST", "/translate", many, **kind),
            request(port, "POST", f"/translate?{body.decode()}"),
            request(port, "POST", f"/translate?{body.decode()}", body, **headers),
            request(port, "POST", "/translate", values | {"source": "German", "target": "eng"}),
            request(port, "POST", "/translate", values | {"source": "deu_Latn"}),
        ]
    assert [answer.status for answer in answers] == [200] * 7
    assert {answer.json["translatedText"] for answer in answers} == {values["q"]}


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"{", "application/json", "the JSON of the body: no JSON: Expecting"),
        (b"[" * 100_000, "application/json", "the JSON of the body: nested too deeply"),
        (b'{"q": "a", "q": "b"}', "application/json", "key 'q' is given twice"),
        (b'{"q": "\\ud800"}', "application/json", "half of a character"),
        (b"\xff", "application/json", "no UTF-8"),
        (b"q=%ff", "application/x-www-form-urlencoded", "not UTF-8"),
        (b"q=a&q=b", "application/x-www-form-urlencoded", "'q' is given twice"),
        (b"--x\r\n", "multipart/form-data", "Missing boundary"),
        (b"q=a", "text/plain", "missing q parameter (in JSON with Content-Type: application/json"),
        (b"x" * 2_000_000, "application/json", "too large; allowed: 1,048,576 bytes"),
    ],
)
def test_a_broken_body_is_named(body, kind, words, strict_port):
    answer = request(strict_port, "POST", "/translate", body, Content_Type=kind)
    assert answer.status == (413 if "too large" in words else 400)
    assert words in answer.json["error"]
