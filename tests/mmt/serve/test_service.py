"""What all requests share: keys and the queue."""

import hashlib
import time

from mmt.serve.limits import ApiKeys
from tests.helpers.serving import Echo, request, together, translate


def test_keys_and_their_limits(serve_echo):
    keys = ApiKeys({hashlib.sha256(b"secret").hexdigest(): 2})
    with serve_echo(keys=keys) as (port, _):
        assert translate(port, "ein").status == 403
        assert translate(port, "ein", api_key="secre").status == 403
        assert translate(port, "ein", api_key="secret").status == 200
        body = {"q": "ein", "source": "de", "target": "en"}
        bearer = "Bearer secret"
        assert request(port, "POST", "/translate", body, Authorization=bearer).status == 200
        slow = translate(port, "ein", api_key="secret")
        assert slow.status == 429 and int(slow.headers["retry-after"]) >= 1
        assert slow.json["error"].startswith("Slowdown")
        for path in ("/languages", "/health", "/frontend/settings", "/"):
            assert request(port, "GET", path).status == 200
        assert request(port, "GET", "/metrics").status == 403
        assert request(port, "GET", "/metrics", Authorization=bearer).status == 200


def test_too_much_is_refused_and_every_client_is_answered(serve_echo):
    with serve_echo(queue_tokens=64) as (port, _):
        Echo.seconds = 0.2
        answers = together(40, lambda i: translate(port, f"ein kleiner Satz {i}"))
        statuses = {answer.status for answer in answers}
        assert statuses == {200, 503}
        refused = next(answer for answer in answers if answer.status == 503)
        assert int(refused.headers["retry-after"]) >= 1 and "Slowdown" in refused.json["error"]
        Echo.seconds = 0.0
        time.sleep(1)
        assert translate(port, "danach").status == 200
