"""Every code and name of a language finds it, and a wrong one is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt import languages
from mmt.serve.errors import Refusal
from mmt.serve.language_names import code, find
from tests.helpers.serving import LANGUAGES


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(languages.all_languages()))
def test_every_code_and_name_of_a_served_language_finds_it(language):
    for name in (language.code, language.bcp47, language.name):
        assert find(name, [language.code, "eng_Latn"], "source") == language.code
    assert find(code(language.code), [language.code], "source") == language.code


@pytest.mark.parametrize(("name", "expected"), [("zt", "zho_Hant"), ("zh_hans", "zho_Hans")])
def test_codes_of_other_programs(name, expected):
    assert find(name, ["zho_Hans", "zho_Hant"], "source") == expected


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60))
def test_any_other_name_is_refused_in_few_words(name):
    try:
        find(name, LANGUAGES, "source")
    except Refusal as error:
        assert error.status == 400 and len(error.message) < 300
