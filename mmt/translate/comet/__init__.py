"""Neural scores of translations by COMET, and the choice among n-best translations by them."""

from mmt.translate.comet.model import CometModel
from mmt.translate.comet.rerank import Reranker

__all__ = ["CometModel", "Reranker"]
