"""A server that speaks LibreTranslate's API and has a web page."""

from mmt.serve.limits import Limits
from mmt.serve.server import serve

__all__ = ["Limits", "serve"]
