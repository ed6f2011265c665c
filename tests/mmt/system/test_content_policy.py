"""The policy of a page allows its own scripts and styles only."""

import base64
import hashlib

from mmt.system.content_policy import HEADERS, content_policy

PAGE = """<style>a { b: c }</style><script>one()</script><p onclick="x()">
<script type="application/json">{"data": 1}</script><script>two()
</script>"""


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_it_names_what_the_page_holds():
    rules = dict(rule.strip().split(" ", 1) for rule in content_policy(PAGE).split(";"))
    assert rules["default-src"] == "'none'" and "unsafe" not in content_policy(PAGE)
    assert rules["style-src"] == f"'sha256-{digest('a { b: c }')}'"
    scripts = [f"'sha256-{digest(text)}'" for text in ("one()", "two()\n")]
    assert rules["script-src"].split() == scripts  # data is no script
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
