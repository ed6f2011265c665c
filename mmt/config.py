"""gin configuration: files, overrides, the operative config. The only `import gin`.

A config composes objects by gin's dynamic registration: any importable function or class is bound
by its name, without a decorator. No config object travels through the code.
"""

import ast
import contextlib
import copy
import functools
import inspect
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import gin
from gin import config as _gin

from mmt import checked, suggest

_INSTALLED = Path(__file__).resolve().parent.parent  # holds gin_configs/, also in a wheel

T = TypeVar("T")
_TOO_DEEP = RecursionError, MemoryError  # from Python's parser, for deeply nested brackets
_hint = functools.partial(suggest.hint, cutoff=0.5)
_hint_by_end = functools.partial(suggest.hint_by_end, cutoff=0.5)
_FAULTS = SyntaxError, AttributeError, ImportError, TypeError, tokenize.TokenError, *_TOO_DEEP


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
        _path(file)
    try:
        gin.parse_config_files_and_bindings(
            [str(file) for file in files], None, finalize_config=False
        )
        _add(bindings)
    except (OSError, NameError, *_FAULTS) as error:
        raise ValueError(f"gin: {error}") from error
    except ValueError as error:
        raise ValueError(f"gin: {error}{_hint_of_parameter(str(error))}") from error
    required = [name for name, value in _macros().items() if _is_open(value)]
    if required and not may_leave_open:
        flags = " ".join(f"--gin.{name}=…" for name in required)
        raise ValueError(f"the config needs values for: {', '.join(required)}; add {flags}")


def bind(bindings: Sequence[str], doors: Sequence[Callable[..., Any]]) -> None:
    """Replaces the configuration by `bindings` alone, such as `Decoding.top_k=5`.

    doors: functions and classes whose parameters with defaults may be bound, by their qualified
        names or the ends of these. Values are literals. Raises ValueError with the nearest valid
        name.
    """
    gin.clear_config()
    known = {
        f"{_public_module(door)}.{door.__qualname__}.{name}": _public_module(door)
        for door in doors
        for name, parameter in inspect.signature(door).parameters.items()
        if parameter.default is not parameter.empty
    }
    for binding in bindings:
        name, value = _halves(binding)
        full = next((path for path in known if f".{path}".endswith(f".{name}")), None)
        if full is None or "." not in name:
            short = [path.removeprefix(f"{module}.") for path, module in known.items()]
            allowed = "; allowed: " + ", ".join(f"{door.__qualname__}.NAME" for door in doors)
            near = _hint_by_end(name, short) or allowed
            raise ValueError(f"--gin.{name}: no such parameter{near}")
        imports = f"from __gin__ import dynamic_registration\nimport {known[full]}\n"
        statement = _literal(f"{full}={value}")
        try:
            ast.literal_eval(_halves(statement)[1])
        except (SyntaxError, ValueError, *_TOO_DEEP) as error:
            allowed = "a number, text, True, False or None"
            raise ValueError(f"--gin.{binding}: not a literal; allowed: {allowed}") from error
        gin.parse_config(imports + statement)


def _public_module(door: Callable[..., Any]) -> str:
    """Returns the outermost package that exports `door`: `mmt.decoding` for `Decoding`."""
    parts, first = door.__module__.split("."), door.__qualname__.split(".")[0]
    offered = vars(sys.modules[door.__module__])[first]
    for end in range(1, len(parts)):
        package = ".".join(parts[:end])
        if getattr(sys.modules.get(package), first, None) is offered:
            return package
    return door.__module__


def configured(function: Callable[..., T]) -> Callable[..., T]:
    """Returns `function` with the parameters that the loaded configuration binds."""
    return gin.get_configurable(function) if function in _gin._INVERSE_REGISTRY else function


def macro(name: str, default: Any = None) -> Any:
    """Returns the value of a macro, or `default` if it is not set or %gin.REQUIRED."""
    macro_value = _macros().get(name, default)
    # gin evaluates references in a deep copy.
    return default if _is_open(macro_value) else copy.deepcopy(macro_value)


def binds(function: Callable[..., Any]) -> bool:
    """Returns whether the loaded configuration binds a parameter of `function`."""
    known = _gin._INVERSE_REGISTRY.get(function)
    return known is not None and any(known.selector == selector for _, selector in _gin._CONFIG)


def bound(function: Callable[..., Any], parameter: str) -> Any:
    """Returns the value that is bound to a parameter of `function`, not evaluated, or None."""
    known = _gin._INVERSE_REGISTRY.get(function)
    selector = known.selector if known else ""
    return _gin._CONFIG.get(("", selector), {}).get(parameter)


def value(function: Callable[..., Any], parameter: str, default: Any = None) -> Any:
    """Returns the evaluated value that is bound to a parameter of `function`, or `default`."""
    reference = bound(function, parameter)
    return default if reference is None else copy.deepcopy(reference)


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
        bound = (scope, selector) in _gin._CONFIG or scope not in _macros()
        known = merged.setdefault((scope if bound else "", selector), {})
        known |= {name: value for name, value in parameters.items() if name not in known}
    return _gin._config_str(merged, max_line_length=100)


def unlike(file: Path) -> list[str]:
    """Returns the bindings that differ from those in `file`: `DROPOUT_RATE = 0.3, there 0.1`.

    MODEL_DIR, settings of processes, and bindings that only one of both has are omitted.
    """
    ours = {name: value for name, value in _flat().items() if name != "MODEL_DIR"}
    with isolated(file):
        theirs = _flat()
    return [
        f"{name} = {value!r}, there {theirs[name]!r}"
        for name, value in sorted(ours.items())
        if repr(theirs.get(name, value)) != repr(value) and not name.startswith("distributed.")
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
        try:
            if file:
                _add_file(file)
            _add(bindings)
        except _FAULTS as error:
            raise ValueError(f"gin: {error}") from error
        yield


def statements(file: str) -> list[str]:
    """Returns the bindings of a gin file and its includes, each as `NAME = VALUE`."""
    with _restored():
        gin.clear_config()
        gin.parse_config_file(str(_path(file)))
        return [f"{name} = {value!r}" for name, value in _flat().items()]


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


def _path(file: str | Path) -> Path:
    """Returns the path of a gin file, also beside the package. Raises ValueError if there is none.
    """
    for path in (Path(file), _INSTALLED / file):
        if path.is_file():
            return path
    raise ValueError(f"no gin file {str(file)!r}{_hint(str(file), _known_files())}")


def _add_file(file: str) -> None:
    """Loads a file. Raises ValueError for a new macro that nothing uses, which is misspelled."""
    known = set(_macros())
    gin.parse_config_file(str(_path(file)))
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    for name in _macros().keys() - known - set().union(*map(_referred, values)):
        raise ValueError(f"{file}: nothing uses {name}{_hint(name, known)}")


def _add(bindings: Sequence[str]) -> None:
    """Adds bindings. Raises ValueError for a name that the configuration does not have."""
    known, imports = set(_macros()), _imports()
    for binding in bindings:
        name = _halves(binding)[0]
        if "." not in name and name not in known:
            near = _hint(name, known) or _hint_by_end(name, _parameters())
            raise ValueError(f"--gin.{name}: no gin file defines it{near}")
        _parse(imports, name, binding)
    _check_macros()
    _check_scopes(bindings)
    _check_types(bindings)


def _macros() -> dict[str, Any]:
    return {
        scope: parameters["value"]
        for (scope, selector), parameters in _gin._CONFIG.items()
        if selector == "gin.macro" and "value" in parameters
    }


def _flat() -> dict[str, Any]:
    """Returns all bindings by their short names: `DROPOUT_RATE`, `scope/Config.emb_dim`."""
    bindings = {}
    for (scope, selector), parameters in _gin._CONFIG.items():
        short = f"{scope}/" * bool(scope) + ".".join(selector.split(".")[-2:])
        for name, value in parameters.items():
            bindings[scope if selector == "gin.macro" else f"{short}.{name}"] = value
    return bindings


def _is_open(value: Any) -> bool:
    return repr(value) == "%gin.REQUIRED"


def _imports() -> str:
    """Returns the imports of all loaded files, so that an override may use their names."""
    lines = {statement.format() for statement in _gin._IMPORTS}
    first = "from __gin__ import dynamic_registration"
    return "\n".join([first, *sorted(lines - {first})]) + "\n"


def _halves(binding: str) -> tuple[str, str]:
    """Splits 'a.b = 3' into ('a.b', '3'). Refuses a second line: gin would read a binding."""
    name, equals, value = (part.strip() for part in binding.partition("="))
    if not equals:
        raise ValueError(f"--gin.{binding}: expected --gin.NAME=VALUE")
    if len(binding.splitlines()) > 1:
        raise ValueError(f"--gin.{name}: {value!r}; expected a value on one line")
    return name, value


def _parse(imports: str, name: str, binding: str) -> None:
    """Adds a binding. The error for an unknown name suggests the nearest bound name."""
    try:
        gin.parse_config(imports + _literal(binding))
    except _TOO_DEEP:
        raise ValueError(f"--gin.{name}: the value is nested too deeply") from None
    except NameError as error:
        near = _hint_by_end(name, _parameters()) if f"'{name.split('.')[0]}'" in str(error) else ""
        raise ValueError(f"--gin.{binding}: {str(error).splitlines()[0]}{near}") from error


def _parameters() -> list[str]:
    """Returns the names that can be bound, such as 'transformer.Config.emb_dim'."""
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    named = {selector for _, selector in _gin._CONFIG}
    named |= {reference.configurable.selector for reference in _references(values)}
    return [
        f"{'.'.join(selector.split('.')[-2:])}.{name}"
        for selector in named - {"gin.macro"}
        for name in inspect.signature(_gin._REGISTRY[selector].wrapped).parameters
    ]


def _check_macros() -> None:
    """Raises ValueError for macros that are not defined, or that refer to each other in a circle.

    gin detects the first only on use, and recurses without end on the second.
    """
    known = _macros()
    if "MODEL" not in known and any(
        "MODEL" in _referred(value)
        for parameters in _gin._CONFIG.values()
        for value in parameters.values()
    ):
        raise ValueError("no MODEL; add a --gin_file of gin_configs/models")
    for (scope, selector), parameters in _gin._CONFIG.items():
        for parameter, value in parameters.items():
            for name in sorted(_referred(value) - known.keys()):
                at = scope if selector == "gin.macro" else f"{selector}.{parameter}"
                raise ValueError(
                    f"{at} = {value!r}: there is no macro {name}{_hint(name, known)}"
                )
    refers = {name: _referred(value) for name, value in known.items()}
    for name in refers:
        reached, new = set(), refers[name]
        while new:
            reached |= new
            new = set().union(*(refers.get(other, set()) for other in new)) - reached
        if name in reached:
            raise ValueError(f"the macro {name} refers to itself: {name} = {known[name]!r}")


def _check_scopes(bindings: Sequence[str]) -> None:
    """Raises ValueError for a binding in a scope that builds nothing, since it has no effect."""
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    known = {scope for reference in _references(values) for scope in reference.scopes}
    for binding in bindings:
        name = _halves(binding)[0]
        for scope in name.split("/")[:-1]:
            if scope not in known:
                near = _hint(scope, known - _macros().keys())
                raise ValueError(f"--gin.{name}: no object has the scope {scope!r}{near}")


def _check_types(bindings: Sequence[str]) -> None:
    """Raises ValueError for a macro of `bindings` whose value does not fit its parameter's type."""
    macros = _macros()
    for name in {_halves(binding)[0] for binding in bindings} & macros.keys():
        for (_, selector), parameters in _gin._CONFIG.items():
            signature = inspect.signature(_gin._REGISTRY[selector].wrapped).parameters
            for key in [key for key, value in parameters.items() if repr(value) == f"%{name}"]:
                known = signature.get(key)
                if words := checked.expected_scalar(macros[name], known and known.annotation):
                    place = f"{'.'.join(selector.split('.')[-2:])}.{key}"
                    raise ValueError(f"--gin.{name}={macros[name]!r}: expected {words} ({place})")


def _referred(value: Any) -> set[str]:
    """Returns the names of the macros that a value refers to as %NAME."""
    return {macro.scopes[-1] for macro in _references(value) if macro.selector == "gin.macro"}


def _references(value: Any) -> list[Any]:
    """Returns all references in a value, @function and %MACRO, at any depth."""
    parts = _gin._iterate_flattened_values(value)
    return [part for part in parts if isinstance(part, _gin.ConfigurableReference)]


def _literal(binding: str) -> str:
    """Quotes a value that is no gin literal: MODEL_DIR=runs/a becomes MODEL_DIR = 'runs/a'."""
    name, value = _halves(binding)
    plain = re.fullmatch(r"[\w./~:+-]+", value) and not re.fullmatch(
        r"True|False|None|[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?", value
    )
    return f"{name} = {value!r}" if plain else f"{name} = {value}"


def _hint_of_parameter(message: str) -> str:
    """Returns the hint for gin's "Configurable 'a.b' doesn't have a parameter named 'c'"."""
    match = re.search(r"onfigurable '(.+?)' doesn't have a parameter named '(\w+)'", message)
    if not match:
        return ""
    names = [
        name
        for function in _gin._INVERSE_REGISTRY
        if function.__qualname__ == match[1].rsplit(".", 1)[-1]
        for name in inspect.signature(function).parameters
    ]
    return _hint(match[2], names)


def _known_files() -> list[str]:
    return [str(path.relative_to(_INSTALLED)) for path in _INSTALLED.glob("gin_configs/**/*.gin")]
