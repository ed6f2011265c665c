"""The sentences of a request on their way."""

from tests.helpers.serving import Echo, together, translate


def test_equal_sentences_are_translated_once(serve_echo):
    with serve_echo() as (port, _):
        assert translate(port, ["ein"] * 20).json["translatedText"] == ["ein"] * 20
        assert Echo.batches == [1]
        translate(port, "ein\nein")
        assert Echo.batches == [1]


def test_clients_share_batches(serve_echo):
    with serve_echo() as (port, _):
        Echo.seconds = 0.3
        answers = together(12, lambda i: translate(port, f"Satz {i}").json["translatedText"])
        assert answers == [f"Satz {i}" for i in range(12)]
        assert len(Echo.batches) <= 6 and max(Echo.batches) > 1


def test_a_failing_model_is_an_error_without_its_message(serve_echo, monkeypatch, capfd):
    def fail(*_):
        raise RuntimeError("geheim at /home/somebody")

    with serve_echo() as (port, _):
        monkeypatch.setattr(Echo, "search", fail)
        answer = translate(port, "geheim")
        assert answer.status == 500 and "model failed" in answer.json["error"]
        monkeypatch.undo()
    logged = capfd.readouterr().err
    assert "RuntimeError" in logged and "geheim" not in logged and "somebody" not in logged
