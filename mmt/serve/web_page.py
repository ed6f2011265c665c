"""The page at `/`: one HTML file with its style and script, so that it works without a network."""

import base64
import functools
import hashlib
import re
from pathlib import Path

from starlette.responses import HTMLResponse

_FILE = Path(__file__).with_name("page") / "index.html"


@functools.cache
def _content() -> tuple[str, dict[str, str]]:
    """Returns the page and its headers, which allow no script and style but its own."""
    text = _FILE.read_text(encoding="utf-8")
    hashes = {
        tag: " ".join(map(_hash, re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)))
        for tag in ("script", "style")
    }
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; frame-ancestors 'none'; script-src {hashes['script']}; "
        f"style-src {hashes['style']}"
    )
    return text, {"Content-Security-Policy": policy, "Cache-Control": "no-cache"}


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def response() -> HTMLResponse:
    """Returns the page."""
    text, headers = _content()
    return HTMLResponse(text, headers=headers)
