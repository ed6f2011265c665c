"""Loads gin files, also inside the configuration of another run, and writes the operative config.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import gin
from gin import config as _gin

from mmt import suggest
from mmt.config.bindings import FAULTS, add, error_message, hint_of_parameter
from mmt.config.values import flat, is_open, macros, referred_macros

_INSTALL_ROOT = Path(__file__).resolve().parent.parent.parent  # holds gin_configs/, also in a wheel

_hint = functools.partial(suggest.hint, cutoff=0.5)


def load(
    files: Sequence[str | Path], bindings: Sequence[str] = (), *, may_leave_open: bool = False
) -> None:
    """Replaces the configuration by `files`, then `bindings` such as `TRAIN_STEPS=100`.

    A relative path such as `gin_configs/examples/demo.gin` is also looked up beside the installed
    package. Raises ValueError with the wrong file or binding and the nearest valid name, and for a
    macro that is left %gin.REQUIRED unless `may_leave_open`.
    """
    gin.clear_config()
    for file in files:
        _find_file(file)
    for file in files:
        with _faults_named(str(file)):
            gin.parse_config_file(str(file))
    add(bindings)
    required = [name for name, value in macros().items() if is_open(value)]
    if required and not may_leave_open:
        flags = " ".join(f"--gin.{name}=…" for name in required)
        raise ValueError(f"the config needs values for: {', '.join(required)}; add {flags}")


def complete() -> str:
    """Returns the configuration as a gin file: bindings, and defaults of all objects built so far.

    The defaults keep the model the same if they change later. gin stores parameters of an object
    that a macro builds in a scope named after the macro; without it, later files can override them.
    """
    merged = {key: dict(parameters) for key, parameters in _gin._CONFIG.items()}
    for key in [key for key in merged if key[1].startswith("mmt.distributed.")]:
        del merged[key]  # processes may differ between starts of one run
    for (scope, selector), parameters in _gin._OPERATIVE_CONFIG.items():
        if selector.startswith("mmt.distributed."):
            continue
        bound = (scope, selector) in _gin._CONFIG or scope not in macros()
        known = merged.setdefault((scope if bound else "", selector), {})
        known |= {name: value for name, value in parameters.items() if name not in known}
    return _gin._config_str(merged, max_line_length=100)


def unlike(file: Path) -> list[str]:
    """Returns the bindings that differ from those in `file`: `DROPOUT_RATE = 0.3, there 0.1`.

    MODEL_DIR, settings of processes, and bindings that only one of both has are omitted.
    """
    current = {name: value for name, value in flat().items() if name != "MODEL_DIR"}
    with isolated(file):
        stored = flat()
    return [
        f"{name} = {value!r}, there {stored[name]!r}"
        for name, value in sorted(current.items())
        if repr(stored.get(name, value)) != repr(value) and not name.startswith("distributed.")
    ]


@contextlib.contextmanager
def isolated(file: str | Path) -> Iterator[None]:
    """Loads `file` inside the `with` statement, also during another run, to read a trained model.
    """
    with _restored():
        load([file])
        yield


@contextlib.contextmanager
def changed(bindings: Sequence[str], file: str = "") -> Iterator[None]:
    """Changes the configuration inside the `with` statement, by a gin file, then by `bindings`.

    A binding is text such as `DROPOUT_RATE = 0.3`. Raises ValueError for an unknown name.
    """
    with _restored():
        _gin._OPERATIVE_CONFIG.clear()  # objects built from now on are recorded with new values
        if file:
            _add_file(file)
        add(bindings)
        yield


def statements(file: str) -> list[str]:
    """Returns the bindings of a gin file and its includes, each as `NAME = VALUE`."""
    with _restored():
        gin.clear_config()
        gin.parse_config_file(str(_find_file(file)))
        return [f"{name} = {value!r}" for name, value in flat().items()]


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    names = ("_CONFIG", "_OPERATIVE_CONFIG", "_IMPORTS", "_SINGLETONS")
    saved = {name: getattr(_gin, name).copy() for name in names}
    # gin changes the dictionaries of functions in place: work on copies.
    _gin._CONFIG.update({key: dict(parameters) for key, parameters in _gin._CONFIG.items()})
    try:
        yield
    finally:
        gin.clear_config()
        for name, value in saved.items():
            current = getattr(_gin, name)
            current.clear()
            current.update(value)


@contextlib.contextmanager
def _faults_named(file: str) -> Iterator[None]:
    """Turns what gin raises inside the `with` statement into a ValueError that names the file."""
    try:
        yield
    except (OSError, *FAULTS) as error:
        message = f"{error_message(error)}{hint_of_parameter(str(error))}"
        raise ValueError(message if file in message else f"{file}: {message}") from error


def _find_file(file: str | Path) -> Path:
    """Returns the path of a gin file, also beside the package. Raises ValueError if there is none.
    """
    for path in (Path(file), _INSTALL_ROOT / file):
        if path.is_file():
            return path
    raise ValueError(f"no gin file {str(file)!r}{_hint(str(file), _known_files())}")


def _add_file(file: str) -> None:
    """Loads a file. Raises ValueError for a new macro that nothing uses, which is misspelled."""
    known, path = set(macros()), _find_file(file)
    with _faults_named(file):
        gin.parse_config_file(str(path))
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    for name in macros().keys() - known - set().union(*map(referred_macros, values)):
        raise ValueError(f"{file}: nothing uses {name}{_hint(name, known)}")


def _known_files() -> list[str]:
    return [
        str(path.relative_to(_INSTALL_ROOT)) for path in _INSTALL_ROOT.glob("gin_configs/**/*.gin")
    ]
