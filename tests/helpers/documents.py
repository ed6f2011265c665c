"""A made-up document of every format, for tests of reading and writing."""

import io
import zipfile

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
PARAGRAPH = """<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="a"/>\
<w:r w:rsidR="1"><w:t xml:space="preserve">Das ist </w:t></w:r>\
<w:r><w:rPr><w:lang w:val="de-DE"/></w:rPr><w:t xml:space="preserve">ein </w:t></w:r>\
<w:r><w:rPr><w:b/></w:rPr><w:t>fet</w:t></w:r><w:proofErr w:type="spellEnd"/>\
<w:r><w:rPr><w:b/></w:rPr><w:t>tes</w:t></w:r><w:r><w:t xml:space="preserve"> Wort</w:t><w:tab/>\
<w:t>und </w:t></w:r><w:bookmarkEnd w:id="0"/><w:hyperlink r:id="rId3"><w:r><w:rPr><w:u w:val="x"/>\
</w:rPr><w:t>ein Link</w:t></w:r></w:hyperlink><w:r><w:footnoteReference w:id="1"/>\
<w:t xml:space="preserve"> &amp; Öl.</w:t></w:r></w:p>"""
BOX = """<w:p><w:r><w:pict><v:box xmlns:v="x"><w:txbxContent><w:p><w:r><w:t>Im Kasten</w:t></w:r>\
</w:p></w:txbxContent></v:box></w:pict></w:r><w:r><w:t>Neben dem Kasten</w:t></w:r></w:p>"""


def zipped(**parts: str | bytes) -> bytes:
    """Returns a zip; `__` in a name is `/`, and the first part is stored."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, content) in enumerate(parts.items()):
            info = zipfile.ZipInfo(name.replace("__", "/"), (2026, 1, 2, 3, 4, 6))
            info.compress_type = zipfile.ZIP_DEFLATED if number else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return file.getvalue()


def docx(body: str = PARAGRAPH + "<w:p/>" + BOX) -> bytes:
    """Returns a Word document with a body and a footnote."""
    declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'{declaration}<Types xmlns="{types}"><Override '
        f'PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "word/document.xml": f"{declaration}<w:document {W} {R}><w:body>{body}</w:body>"
        "</w:document>",
        "word/footnotes.xml": f'<w:footnotes {W}><w:footnote w:id="1"><w:p><w:r><w:t>Eine Note'
        "</w:t></w:r></w:p></w:footnote></w:footnotes>",
        "word/media/image1.png": bytes(range(256)),
    }
    return zipped(**parts)


def odt() -> bytes:
    """Returns an OpenDocument text with a heading, a list, a note and a table."""
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table")
    )
    body = """<text:h text:outline-level="1">Die Überschrift</text:h>\
<text:p>Das ist <text:span text:style-name="T1">ein
 fettes</text:span> Wort<text:note text:id="n"><text:note-citation>1</text:note-citation>\
<text:note-body><text:p>Eine Note</text:p></text:note-body></text:note> &amp; Öl<text:line-break/>\
zweite Zeile<text:tab/>nach dem Tab.</text:p><text:list><text:list-item><text:p>Punkt</text:p>\
</text:list-item></text:list><table:table><table:table-row><table:table-cell><text:p>Zelle</text:p>\
</table:table-cell></table:table-row></table:table>"""
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document-content {names}><office:body>'
        f"<office:text>{body}</office:text></office:body></office:document-content>"
    )
    mimetype = "application/vnd.oasis.opendocument.text"
    return zipped(mimetype=mimetype, **{"content.xml": content, "settings.xml": "<a/>"})


TEXT = "Erste Zeile\n\n  Zweite Zeile \r\n12\nLetzte ohne Ende"
SRT = """\ufeff1\r
00:00:01,000 --> 00:00:02,500\r
<i>Hallo</i>, schöne\r
Welt voller Wörter\r
\r
2\r
00:00:03,000 --> 00:00:04,000\r
- Ja.\r
- Nein!"""
VTT = """WEBVTT

NOTE
Das bleibt.

start
00:01.000 --> 00:02.500 align:start
Tom &amp; <v Anna>Anna</v>
"""
HTML = """<!DOCTYPE html>
<html lang="de"><head><meta charset=utf-8><meta name="description" content="Über uns">
<title>Ein &amp; Titel</title><style>p { color: red }</style></head>
<body><!-- <p>nein</p> --><h1 class=a>Große <b>&Uuml;berschrift</b></h1>
<p> Hallo   <i>schöne</i> Welt,<br>wie <a href="x" title="Geht's?">geht <code>es()</code> es</a>
dir?<img alt="ein Bild" src=a.png> </p> <P><B>Fett</P>
<pre>eins
  zwei</pre><p translate=no>so bleiben</p><p>12</p><script>if (a<b) "x"</script>
<table><tr><td>Zelle<td>noch eine</table><ul><li>Punkt <b><i>kreuz</b></i> quer</ul>
</body></html>
"""
MARKDOWN = """---
slug: bleibt
---
Die Überschrift
===============
Ein *Absatz* mit `code()` und [einem **fetten** Link](http://a.example "t"),
der mit 3 * 4 und snake_case weitergeht \u0020
hart &amp; umgebrochen\\
noch \\* einer ![Bild](x.png).

> Ein Zitat
> geht weiter
> - Punkt **a *b** c*

| Kopf eins | Kopf \\| zwei |
|:----------|--------------|
| Zelle     | *noch* Zelle |

    nicht()

```
nicht dies
```
1. Erster Punkt
   zweite Zeile
- [ ] Aufgabe
## Noch eine ##
[ref]: http://a.example
<script>nicht dies</script>
"""
PO = r'''# Kommentar
msgid ""
msgstr ""
"Language: en\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: a.c:3
msgid "Erste\n"
msgstr "First\n"

#, fuzzy
msgid "Zweite"
msgstr "Other"

msgid "Dritte \"Öl\" \\"
msgstr ""

#~ msgid "alt"
#~ msgstr "old"

msgctxt "Datei"
msgid "%d Datei"
msgid_plural "%d "
"Dateien"
msgstr[0] ""
msgstr[1] "%d files"
'''
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="de" target-language="en" datatype="plaintext" original="a"><body>
  <trans-unit id="1">
   <source>Ein <g id="1">großes</g> Haus<x id="2"/> &amp; <ph id="3">%s</ph></source>
  </trans-unit>
  <trans-unit id="2"><source>Zwei</source><target/></trans-unit>
  <trans-unit id="3"><source>Drei</source><target state="translated">Three</target></trans-unit>
  <trans-unit id="4"><source>Vier</source><target state="new">Vier</target>
   <alt-trans><source>Viere</source><target>Fours</target></alt-trans></trans-unit>
  <trans-unit id="5" translate="no"><source>Fünf</source></trans-unit>
 </body></file>
</xliff>
"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0"
 srcLang="de" trgLang="en">
 <file id="f"><unit id="u1"><segment><source>Ein <pc id="1">Haus</pc>.</source></segment>
 <segment state="final"><source>Zwei</source><target>Two</target></segment></unit>
 <unit id="u2" translate="no"><segment><source>Drei</source></segment></unit></file></xliff>
"""
TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de-DE"/><body>
 <tu tuid="1">
  <tuv xml:lang="de-DE"><seg>Ein <hi>Haus</hi></seg></tuv>
 </tu>
 <tu tuid="2"><tuv xml:lang="de"><seg>Zwei</seg></tuv><tuv xml:lang="en"><seg>Two</seg></tuv></tu>
 <tu tuid="3"><tuv xml:lang="fr"><seg>Trois</seg></tuv></tu>
</body></tmx>
"""
QT = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en"><context>
 <name>Fenster</name>
 <message><source>Datei &amp;öffnen</source><translation type="unfinished"></translation></message>
 <message><source>Schließen</source><translation>Close</translation></message>
 <message numerus="yes"><source>%n Datei(en)</source><translation type="unfinished">
  <numerusform></numerusform><numerusform/></translation></message>
 <message><source>Veraltet</source><translation type="vanished">Old</translation></message>
</context></TS>
"""

JSON = """{
  "@metadata": {"authors": ["Anna"]},
  "titel": "Die \u201eÜberschrift\u201c",
  "menü": {"datei": "Datei &ouml;ffnen", "zahl": 3, "leer": "", "liste": ["Erste", "Zweite", null]},
  "datei_one": "{{count}} Datei", "datei_other": "{{count}} Dateien"
}
"""
ARB = r"""{"@@locale": "de", "hallo": "Hallo {name}", "@hallo": {"description": "Greeting"},
 "anzahl": "{n, plural, one{eine Datei} other{{n} Dateien}}"}"""
ASCII_JSON = r"""{"a":"Gr\u00f6\u00dfe \ud83d\ude00"}"""
XCSTRINGS = """{
  "sourceLanguage" : "de",
  "strings" : {
    "Datei öffnen" : {

    },
    "Schließen" : {
      "localizations" : {
        "en" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Close"
          }
        }
      }
    },
    "dateien" : {
      "localizations" : {
        "de" : { "variations" : { "plural" : {
          "one" : { "stringUnit" : { "state" : "translated", "value" : "%lld Datei" } },
          "other" : { "stringUnit" : { "state" : "translated", "value" : "%lld Dateien" } } } } },
        "en" : { "variations" : { "plural" : {
          "one" : { "stringUnit" : { "state" : "new", "value" : "" } },
          "other" : { "stringUnit" : { "state" : "translated", "value" : "%lld files" } } } } }
      }
    },
    "nur" : { "extractionState" : "manual",
      "localizations" : { "de" : { "stringUnit" : { "value" : "Nur hier" } } } },
    "fest" : { "shouldTranslate" : false }
  },
  "version" : "1.0"
}
"""
ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- Titel -->
    <string name="titel">Wie geht\'s,\n  <b>Welt</b>?</string>
    <string name="gruss">  Hallo <xliff:g id="n" example="A">%1$s</xliff:g>
        &amp; willkommen </string>
    <string name="fest" translatable="false">Fest</string>
    <string name="verweis">@string/titel</string>
    <string name="roh"><![CDATA[Ein <b>roher</b> Text]]></string>
    <plurals name="dateien"><item quantity="one">%d Datei</item>
        <item quantity="other">%d Dateien</item></plurals>
    <string-array name="liste"><item>"Erste   Zeile"</item><item>Zweite</item></string-array>
</resources>
"""
PROPERTIES = r"""# Kommentar = nichts
! auch nicht
titel = Die Überschrift
menü\ datei:Datei \
    öffnen
leer=
  zahl 12
ende Letzte Zeile\tmit Tab"""
LATIN_PROPERTIES = "größe=Gr\\u00f6\\u00dfe é\n"
STRINGS = r"""/* Titel */
"titel" = "Die \"Überschrift\"";
// "nein" = "Nein";
NSName = "Ein Name\n";
"zahl"="12";
"""
YAML = """# Kommentar
de:
  titel: Die Überschrift # bleibt
  quote: 'Wie geht''s?'
  doppelt: "Zeile eins\\nZeile zwei"
  block: |
    Erste Zeile
    zweite Zeile
  ja: true
  datei:
    one: "%{count} Datei"
    other: &anker Viele Dateien
  nochmal: *anker
  liste: [eins, zwei drei]
"""
FLUENT = """# Kommentar
titel = Die Überschrift
hallo = Hallo, { $name }!
    .tooltip = Ein Gruß
-marke = Marke
lang =
    Erste Zeile
    zweite Zeile
dateien = { $n ->
    [one] Eine Datei
   *[other] { $n } Dateien in { -marke }
}
"""

EXAMPLES: dict[str, bytes] = {
    "a.txt": TEXT.encode(),
    "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.html": HTML.encode(),
    "latin.html": '<meta charset="iso-8859-1"><p>Große Äpfel'.encode("latin-1"),
    "a.md": MARKDOWN.encode(),
    "a.docx": docx(),
    "a.odt": odt(),
    "a.po": PO.encode(),
    "a.xlf": XLIFF.encode(),
    "utf16.xlf": XLIFF.replace("UTF-8", "UTF-16").encode("utf-16"),
    "b.xliff": XLIFF2.encode(),
    "a.tmx": TMX.encode(),
    "a.ts": QT.encode(),
    "a.json": JSON.encode(),
    "ascii.json": ASCII_JSON.encode(),
    "a.arb": ARB.encode(),
    "a.xcstrings": XCSTRINGS.encode(),
    "strings.xml": ANDROID.encode(),
    "a.properties": PROPERTIES.encode(),
    "latin.properties": LATIN_PROPERTIES.encode("latin-1"),
    "a.strings": STRINGS.encode("utf-16"),
    "a.yml": YAML.encode(),
    "a.ftl": FLUENT.encode(),
}
