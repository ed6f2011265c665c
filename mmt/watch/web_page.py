"""The page as one HTML text: its style, its scripts and, in an exported file, its data."""

import functools
import json
from pathlib import Path
from typing import Any

from mmt.system.content_policy import content_policy

_FOLDER = Path(__file__).with_name("page")
_SCRIPTS = ("data.js", "chart.js", "heat_map.js", "panels.js", "watch.js")
_POLICY = '<meta name="policy">'
_DATA = '<script type="application/json" id="data"></script>'


@functools.cache
def page() -> str:
    """Returns the page that asks its server for the data."""
    text = (_FOLDER / "index.html").read_text(encoding="utf-8")
    style = (_FOLDER / "watch.css").read_text(encoding="utf-8")
    scripts = [(_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    text = text.replace("<style></style>", f"<style>{style}</style>")
    script = "\n".join(['"use strict";', *scripts])
    return text.replace("<script></script>", f"<script>{script}</script>")


def page_with(content: Any) -> str:
    """Returns the page with the data (JSON) in it, which asks no server and needs no network."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    policy = content_policy(page()).replace("connect-src 'self'", "connect-src 'none'")
    policy = policy.replace("frame-ancestors 'none'; ", "")  # only a header may forbid frames
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    data = _DATA.replace("></script>", f">{safe}</script>")
    return page().replace(_POLICY, meta).replace(_DATA, data)
