"""Shape annotations of all of `mmt` are checked in every test."""

from jaxtyping import install_import_hook

install_import_hook(["mmt"], "beartype.beartype").install()
