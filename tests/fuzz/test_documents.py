"""Broken documents: reading and writing end, and errors are ValueErrors that name the file."""

from hypothesis import strategies as st

from mmt import documents
from tests.fuzz.strategies import damage, fuzzed
from tests.helpers.documents import EXAMPLES

LOCALES = st.sampled_from([("de", "en"), ("de", "ru"), ("ru", "en"), (None, "ar")]).map(
    lambda names: documents.locales(*names)
)
DAMAGED = st.sampled_from(sorted(EXAMPLES)).flatmap(
    lambda name: st.tuples(st.just(name), damage(EXAMPLES[name]), LOCALES)
)


@fuzzed(DAMAGED, short=150)
def test_a_damaged_document_is_read_or_refused(example):
    name, content, locales = example
    try:
        document = documents.read(name, content, locales)
    except ValueError as error:
        assert str(error).startswith(name), error
        return
    assert document.write([None] * len(document.segments)) == content
    given = [segment.source._replace(text="x", tags=()) for segment in document.segments]
    assert isinstance(document.write(given), bytes)
