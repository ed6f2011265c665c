"""A local page that follows training runs per language, from their files alone.

`mmt.watch.server.watch` serves it; that module needs the extra [serve].
"""

from mmt.watch.export import export
from mmt.watch.run_files import named
from mmt.watch.watched_run import WatchedRun, open_runs

__all__ = ["WatchedRun", "export", "named", "open_runs"]
