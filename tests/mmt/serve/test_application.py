"""The routes beside `/translate`."""

from tests.helpers.serving import request


def test_other_paths(serve_echo):
    with serve_echo() as (port, _):
        languages = [
            {"code": code, "name": name, "targets": ["en"], "risk": [], "context": {}}
            for code, name in (
                ("zh", "Chinese (Simplified)"), ("de", "German"), ("sw", "Swahili")
            )
        ]  # fmt: skip
        assert request(port, "GET", "/languages").json == languages
        assert request(port, "GET", "/languages", b"api_key=").json == languages
        assert request(port, "POST", "/languages", b"").json == languages
        settings = request(port, "GET", "/frontend/settings").json
        assert settings["language"] == {
            "source": {"code": "de", "name": "German"}, "target": {"code": "en", "name": "English"},
        }  # fmt: skip
        assert settings["targets"] == [{"code": "en", "name": "English"}]
        assert settings["charLimit"] == 100_000 and settings["keyRequired"] is False
        assert request(port, "GET", "/health").json == {"status": "ok"}
        assert request(port, "POST", "/suggest", {"q": "a"}).status == 403
        assert request(port, "POST", "/detect", {"q": "ein"}).status == 400
        paths = request(port, "GET", "/spec").json["paths"]
        assert {"/translate", "/detect", "/languages"} <= paths.keys()
        missing = request(port, "GET", "/etc/passwd")
        assert missing.status == 404 and "error" in missing.json
        wrong = request(port, "GET", "/translate")
        assert wrong.status == 405 and "error" in wrong.json
