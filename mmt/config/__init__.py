"""gin configuration: files, overrides, the operative config. The only `import gin`.

A config composes objects by gin's dynamic registration: any importable function or class is bound
by its name, without a decorator. No config object travels through the code.
"""

from mmt.config.bindings import bind
from mmt.config.files import changed, complete, isolated, load, statements, unlike
from mmt.config.renamed import with_present_names
from mmt.config.values import binds, bound, configured, flat, macro, value
from mmt.config.written import WrittenBinding, written

__all__ = [
    "WrittenBinding", "bind", "binds", "bound", "changed", "complete", "configured", "flat",
    "isolated", "load", "macro", "statements", "unlike", "value", "with_present_names", "written",
]  # fmt: skip
