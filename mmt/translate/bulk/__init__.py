"""Translates many files, shard by shard, so that a killed job loses little and repeats nothing."""

from mmt.translate.bulk.job import SHARD_LINES, BulkFile, BulkJob, Shard, TranslateLines
from mmt.translate.bulk.storage import Storage

__all__ = ["SHARD_LINES", "BulkFile", "BulkJob", "Shard", "Storage", "TranslateLines"]
