"""The page at `/`: one HTML file with its style and script, so that it works without a network."""

import functools
from pathlib import Path

from starlette.responses import HTMLResponse

from mmt.system.content_policy import content_policy

_FILE = Path(__file__).with_name("page") / "index.html"


@functools.cache
def _content() -> tuple[str, dict[str, str]]:
    """Returns the page and its headers, which allow no script and style but its own."""
    text = _FILE.read_text(encoding="utf-8")
    return text, {"Content-Security-Policy": content_policy(text), "Cache-Control": "no-cache"}


def response() -> HTMLResponse:
    """Returns the page."""
    text, headers = _content()
    return HTMLResponse(text, headers=headers)
