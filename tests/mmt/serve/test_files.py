"""Files: translated, kept for a while, fetched."""

import pytest

from mmt.serve.errors import Refusal
from mmt.serve.files import TranslatedFiles
from mmt.serve.models import Models
from mmt.serve.responses import NDJSON
from tests.helpers.serving import Echo, echo_translator, multipart, request, translate


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "ein Satz\r\n\r\nzwei"), ("Ümläut .HTML", "<p>ein <b>Satz</b></p>")],
)
def test_files_are_translated_and_fetched(name, content, serve_echo):
    with serve_echo() as (port, service):
        body, kind = multipart(name, content.encode(), source="de", target="en")
        answer = request(port, "POST", "/translate_file", body, **kind)
        address = answer.json["translatedFileUrl"]
        assert address.startswith(f"http://127.0.0.1:{port}/download_file/")
        fetched = request(port, "GET", "/" + address.split("/", 3)[3])
        assert fetched.body.decode() == content
        assert fetched.headers["content-disposition"].startswith("attachment")
        assert fetched.headers["content-type"] == "application/octet-stream"
        assert service.translated_files.size == len(content.encode()) and service.memory.used == 0
        lines = request(port, "POST", "/translate_file", body, Accept=NDJSON, **kind).lines
        assert "translatedFileUrl" in lines[-1]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", b"%PDF", "a.pdf: .pdf files cannot be translated"),
        ("noname", b"a", "noname: unknown format ''"),
        ("../of/Ärende <1>.txt", b"\x80a", "Ärende _1_.txt:1"),
        ("a.docx", b"PK", "a.docx: damaged"),
    ],
)
def test_other_files_are_refused(name, content, words, strict_port):
    body, kind = multipart(name, content, source="de", target="en")
    answer = request(strict_port, "POST", "/translate_file", body, **kind)
    assert answer.status == 400 and words in answer.json["error"]


def test_a_glossary_is_that_of_every_sentence(serve_echo, monkeypatch):
    required = []
    search = Echo.search

    def seen(self, sources):
        required.extend(len(source.phrases) for source in sources)
        return search(self, sources)

    monkeypatch.setattr(Echo, "search", seen)
    with serve_echo() as (port, _):
        values = {"source": "de", "target": "en", "glossary": "ein\tSatz\nnein\tkleiner\tsw\n"}
        body, kind = multipart("a.txt", b"Ein Satz. Ein nein!\nnein\n", **values)
        assert "translatedFileUrl" in request(port, "POST", "/translate_file", body, **kind).json
        assert sorted(required) == [0, 1, 1]
        body, kind = multipart("a.txt", b"ein", **values | {"glossary": "ein"})
        answer = request(port, "POST", "/translate_file", body, **kind)
        assert answer.status == 400 and "glossary, line 1: 'ein'" in answer.json["error"]


@pytest.mark.parametrize("source", ["zt", "zh_hant", "Chinese (Traditional)"])
def test_a_source_has_the_names_that_it_has_for_texts(source, serve_echo, tmp_path):
    model = echo_translator(tmp_path / "vocabulary.model", sources=("deu_Latn", "zho_Hant"))
    with serve_echo(model) as (port, _):
        assert translate(port, "ein", source=source).status == 200
        body, kind = multipart("a.txt", b"ein", source=source, target="en")
        answer = request(port, "POST", "/translate_file", body, **kind)
        assert answer.status == 200, answer.json


def test_a_detected_source_is_renamed_and_has_its_plural_forms(serve_echo, monkeypatch):
    monkeypatch.setattr(Models, "identify", lambda models, text: [("deu_Latn", 0.9)])
    header = b'msgid ""\nmsgstr "Language: de\\n"\n'
    entry = b'\nmsgid "ein %d"\nmsgid_plural "zwei %d"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    with serve_echo() as (port, _):
        contents = []
        for source in ("auto", "de"):
            body, kind = multipart("a.po", header + entry, source=source, target="en")
            answer = request(port, "POST", "/translate_file", body, **kind).json
            path = answer["translatedFileUrl"].split("/", 3)[3]
            contents.append(request(port, "GET", f"/{path}").body)
        assert contents[0] == contents[1]
        assert b'Language: en\\n"\n"Plural-Forms: nplurals=2;' in contents[0]
        assert b'msgstr[1] "zwei %d"' in contents[0]


def test_no_name_of_a_client_is_a_path(serve_echo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with serve_echo() as (port, _):
        body, kind = multipart("../../a/b.txt", b"ein", source="de", target="en")
        address = request(port, "POST", "/translate_file", body, **kind).json["translatedFileUrl"]
        assert ".." not in address
        for path in ("..%2f..%2fetc%2fpasswd", "/etc/passwd", "a.txt", "%00"):
            assert request(port, "GET", f"/download_file/{path}").status == 404
    assert list(tmp_path.iterdir()) == []


def test_files_are_kept_for_a_while_and_the_oldest_make_room():
    now = [0.0]
    kept = TranslatedFiles(10, 60.0, clock=lambda: now[0])
    first, second = kept.keep("a.txt", "en", b"1234"), kept.keep("../b.txt", "en", b"123456")
    assert kept.get(first).name == "a.en.txt" and kept.get(second).name == "b.en.txt"
    third = kept.keep("c.txt", "en", b"7")
    with pytest.raises(Refusal):
        kept.get(first)
    now[0] = 61.0
    for name in (second, third):
        with pytest.raises(Refusal):
            kept.get(name)
    assert kept.size == 0
