"""What `/metrics` shows."""

from tests.helpers.serving import request, translate


def test_metrics_hold_no_text_and_no_address(serve_echo):
    with serve_echo() as (port, _):
        translate(port, "geheim geheim")
        translate(port, "geheim geheim")
        request(port, "GET", "/geheim")
        text = request(port, "GET", "/metrics").body.decode()
    assert "geheim" not in text and "127.0.0.1" not in text
    assert 'mmt_requests_total{path="/translate",status="200"} 2.0' in text
    assert 'mmt_requests_total{path="other",status="404"} 1.0' in text
    assert 'mmt_sentences_total{origin="cache"} 1.0' in text
