"""The headers of a page that is one HTML file: the browser runs only the script that it holds."""

import base64
import hashlib
import re

HEADERS = {  # of every answer
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def content_policy(page: str) -> str:
    """Returns the Content-Security-Policy of a page with inline `<script>` and `<style>`.

    It allows these scripts and styles by their hashes, requests to the page's own host, and no
    other. The attributes `style` and `onclick` are refused, and so is a script of another type.
    """
    hashes = {
        tag: " ".join(map(_hash, re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)))
        for tag in ("script", "style")
    }
    return (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; frame-ancestors 'none'; script-src {hashes['script']}; "
        f"style-src {hashes['style']}"
    )


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
