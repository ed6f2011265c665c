"""Broken documents: reading and writing end, and errors are ValueErrors that name the file."""

from hypothesis import strategies as st

from mmt import documents
from mmt.documents import Locales
from tests.fuzz.strategies import damage, fuzzed
from tests.helpers.documents import EXAMPLES

DAMAGED = st.sampled_from(sorted(EXAMPLES)).flatmap(
    lambda name: st.tuples(st.just(name), damage(EXAMPLES[name]))
)


@fuzzed(DAMAGED, short=150)
def test_a_damaged_document_is_read_or_refused(example):
    name, content = example
    try:
        document = documents.read(name, content, Locales("deu_Latn", "eng_Latn"))
    except ValueError as error:
        assert str(error).startswith(name), error
        return
    assert document.write([None] * len(document.segments)) == content
    given = [segment.source._replace(text="x", tags=()) for segment in document.segments]
    assert isinstance(document.write(given), bytes)
