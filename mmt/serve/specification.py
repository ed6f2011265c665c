"""The API in OpenAPI's form, for `/spec`."""

from importlib.metadata import version
from typing import Any

from mmt.translate.risk import FLAGS

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_TEXTS: dict[str, Any] = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_SOURCE = _TEXT | {"description": "A code or name of /languages, or 'auto'."}
_TARGET = _TEXT | {"description": "A code or name of /languages."}
_KEY = _TEXT | {"description": "Needed if /frontend/settings says keyRequired."}


def specification() -> dict[str, Any]:
    """Returns the description of all paths."""
    translate = {
        "q": _TEXTS, "source": _SOURCE, "target": _TARGET,
        "format": {"type": "string", "enum": ["text", "html"], "default": "text"},
        "alternatives": {"type": "integer", "minimum": 0, "default": 0},
        "glossary": _TEXT | {"description": "Lines of source, tab, target."}, "api_key": _KEY,
        "risk": {
            "type": "boolean", "default": False,
            "description": "Adds the risk of each sentence; see risk in /languages.",
        },
        "context": {
            "type": "integer", "minimum": 0, "default": 0,
            "description": "The maximum number of previous sentences with which a sentence is "
            "translated; see context in /languages. Not with glossary or risk.",
        },
    }  # fmt: skip
    detected = _object({"confidence": _NUMBER, "language": _TEXT})
    risk = _object({
        "start": _INTEGER, "end": _INTEGER, "confidence": _NUMBER,
        "flags": _array(_TEXT | {"enum": list(FLAGS)}),
    })  # fmt: skip
    answer = _object({
        "translatedText": _TEXTS, "detectedLanguage": detected, "alternatives": _array(_TEXTS),
        "risk": {"description": "The translated sentences of a text; a list for a list of texts.",
                 "oneOf": [_array(risk), _array(_array(risk))]},
    })  # fmt: skip
    file = {"file": _TEXT | {"format": "binary"}, "source": _SOURCE, "target": _TARGET}
    optional = {name: translate[name] for name in ("glossary", "context", "api_key")}
    language = _object(
        {
            "code": _TEXT, "name": _TEXT, "targets": _array(_TEXT), "risk": _array(_TEXT),
            "context": {"type": "object", "additionalProperties": _INTEGER},
        }
    )  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "mmt: LibreTranslate's API", "version": version("mmt")},
        "paths": {
            "/translate": _post(
                "Translates a text or a list of texts. With Accept: application/x-ndjson, each "
                "sentence is a line as soon as it is translated.",
                translate, answer, required=["q", "source", "target"],
            ),
            "/detect": _post(
                "Identifies the language of a text.", {"q": _TEXT, "api_key": _KEY},
                _array(detected), required=["q"],
            ),
            "/translate_file": _post(
                "Translates a file.", file | optional,
                _object({"translatedFileUrl": _TEXT}), required=list(file),
                kinds=("multipart/form-data",),
            ),
            "/languages": _get("Lists the languages.", _array(language)),
            "/frontend/settings": _get("Returns limits and defaults.", {"type": "object"}),
            "/health": _get("Tells whether the server works.", _object({"status": _TEXT})),
            "/metrics": {"get": {"summary": "Metrics in Prometheus' text format.",
                                 "responses": {"200": {"description": "Metrics"}}}},
        },
    }  # fmt: skip


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _get(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": _responses(schema)}}


def _post(
    summary: str,
    properties: dict[str, Any],
    schema: dict[str, Any],
    *,
    required: list[str],
    kinds: tuple[str, ...] = ("application/json", "application/x-www-form-urlencoded"),
) -> dict[str, Any]:
    body = {"schema": _object(properties) | {"required": required}}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"content": dict.fromkeys(kinds, body)},
            "responses": _responses(schema),
        }
    }


def _responses(schema: dict[str, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": _object({"error": _TEXT})}}
    refused = {
        "400": "Invalid request", "403": "Invalid API key", "413": "Too large",
        "429": "Too many requests of a key", "503": "Too much to do; see Retry-After",
    }  # fmt: skip
    return {
        "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
        **{status: {"description": text, "content": error} for status, text in refused.items()},
    }
