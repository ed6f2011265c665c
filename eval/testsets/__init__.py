"""Test sets by one name: published layouts, corpora, sacreBLEU, caches."""

from eval.testsets.testset import (
    Sentences,
    TestSet,
    check_documents,
    check_place,
    for_model,
    from_cache,
    lines,
    load,
)

__all__ = [
    "Sentences",
    "TestSet",
    "check_documents",
    "check_place",
    "for_model",
    "from_cache",
    "lines",
    "load",
]
