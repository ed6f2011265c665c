"""gin configuration: files, overrides, the operative config. The only `import gin`.

A config composes objects by gin's dynamic registration: any importable function or class is bound
by its name, undecorated. No config object travels through the code.
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
_TOO_DEEP = RecursionError, MemoryError  # of Python's own parser, of brackets within brackets
_hint = functools.partial(suggest.hint, cutoff=0.5)
_hint_by_end = functools.partial(suggest.hint_by_end, cutoff=0.5)
_FAULTS = SyntaxError, AttributeError, ImportError, TypeError, tokenize.TokenError, *_TOO_DEEP


def load(
    files: Sequence[str | Path], bindings: Sequence[str] = (), *, may_leave_open: bool = False
) -> None:
    """Replaces the configuration by `files`, then `bindings` such as `TRAIN_STEPS=100`.

    A file is looked for from the working directory, then among the installed packages, so that
    `gin_configs/examples/demo.gin` is found from anywhere. Raises ValueError that names the file
    or binding at fault, with the nearest valid name; and where a macro is left %gin.REQUIRED,
    unless `may_leave_open`.
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
        raise ValueError(f"the config leaves open: {', '.join(required)}; add {flags}")


def bind(bindings: Sequence[str], doors: Sequence[Callable[..., Any]]) -> None:
    """Replaces the configuration by `bindings` alone, such as `Decoding.top_k=5`.

    doors: what may be bound, each by its qualified name or the end of it, where it has a default.
    Values are literals. Raises ValueError that names the nearest.
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
        full = next((one for one in known if f".{one}".endswith(f".{name}")), None)
        if full is None or "." not in name:
            short = [".".join(one.split(".")[len(known[one].split(".")) :]) for one in known]
            allowed = "; allowed: " + ", ".join(f"{door.__qualname__}.NAME" for door in doors)
            near = _hint_by_end(name, short) or allowed
            raise ValueError(f"--gin.{name}: nothing here has it{near}")
        imports = f"from __gin__ import dynamic_registration\nimport {known[full]}\n"
        statement = _literal(f"{full}={value}")
        try:
            ast.literal_eval(_halves(statement)[1])
        except (SyntaxError, ValueError, *_TOO_DEEP) as error:
            allowed = "a number, text, True, False or None"
            raise ValueError(f"--gin.{binding}: no such value; allowed: {allowed}") from error
        gin.parse_config(imports + statement)


def _public_module(door: Callable[..., Any]) -> str:
    """The outermost package that offers `door` under its name: `mmt.decoding` for `Decoding`."""
    parts, first = door.__module__.split("."), door.__qualname__.split(".")[0]
    offered = vars(sys.modules[door.__module__])[first]
    for end in range(1, len(parts)):
        package = ".".join(parts[:end])
        if getattr(sys.modules.get(package), first, None) is offered:
            return package
    return door.__module__


def configured(function: Callable[..., T]) -> Callable[..., T]:
    """`function` with the parameters that the loaded configuration binds for it."""
    return gin.get_configurable(function) if function in _gin._INVERSE_REGISTRY else function


def macro(name: str, default: Any = None) -> Any:
    """The value of the macro `name`, or `default` where the configuration has none or leaves it
    open.
    """
    found = _macros().get(name, default)
    return default if _is_open(found) else copy.deepcopy(found)  # gin evaluates references so


def binds(function: Callable[..., Any]) -> bool:
    """Whether the loaded configuration binds a parameter of `function`."""
    known = _gin._INVERSE_REGISTRY.get(function)
    return known is not None and any(known.selector == selector for _, selector in _gin._CONFIG)


def bound(function: Callable[..., Any], parameter: str) -> Any:
    """What the loaded configuration binds to a parameter of `function`, unevaluated; else None."""
    known = _gin._INVERSE_REGISTRY.get(function)
    selector = known.selector if known else ""
    return _gin._CONFIG.get(("", selector), {}).get(parameter)


def value(function: Callable[..., Any], parameter: str, default: Any = None) -> Any:
    """The same, evaluated; `default` where it binds nothing."""
    found = bound(function, parameter)
    return default if found is None else copy.deepcopy(found)


def complete() -> str:
    """The configuration as one gin file: every binding, and for what was built so far also the
    defaults in force, so that the same model comes out when a default changes one day.

    What a macro built, gin notes in a scope named after the macro; here it stands without, so that
    a file or flag that comes after this one can override it.
    """
    merged = {key: dict(parameters) for key, parameters in _gin._CONFIG.items()}
    for key in [key for key in merged if key[1].startswith("mmt.distributed.")]:
        del merged[key]  # who runs it, not what is run: another start has other processes
    for (scope, selector), parameters in _gin._OPERATIVE_CONFIG.items():
        if selector.startswith("mmt.distributed."):
            continue
        bound = (scope, selector) in _gin._CONFIG or scope not in _macros()
        known = merged.setdefault((scope if bound else "", selector), {})
        known |= {name: value for name, value in parameters.items() if name not in known}
    return _gin._config_str(merged, max_line_length=100)


def unlike(file: Path) -> list[str]:
    """Bindings that differ from those in `file`, as `DROPOUT_RATE = 0.3, there 0.1`. MODEL_DIR,
    processes, and what only one of both binds are left out.
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
    """Loads `file` for the time of a `with` block and puts the former configuration back.

    A trained model is read this way, also in the middle of another run.
    """
    with _restored():
        load([file])
        yield


@contextlib.contextmanager
def changed(bindings: Sequence[str], file: str = "") -> Iterator[None]:
    """Changes the configuration for the time of a `with` block: by a gin file, then by `bindings`
    such as `DROPOUT_RATE = 0.3`. ValueError where a name is unknown to the configuration.
    """
    with _restored():
        _gin._OPERATIVE_CONFIG.clear()  # what is built from now on is noted with its new values
        try:
            if file:
                _add_file(file)
            _add(bindings)
        except _FAULTS as error:
            raise ValueError(f"gin: {error}") from error
        yield


def statements(file: str) -> list[str]:
    """The bindings that a gin file makes by itself, each as `NAME = VALUE`."""
    with _restored():
        gin.clear_config()
        gin.parse_config_file(str(_path(file)))
        return [f"{name} = {value!r}" for name, value in _flat().items()]


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    names = ("_CONFIG", "_OPERATIVE_CONFIG", "_IMPORTS", "_SINGLETONS")
    saved = {name: getattr(_gin, name).copy() for name in names}
    # A binding goes into the dictionary of its function: copies stand in for those.
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
    """The path of a gin file, which may lie among the installed packages; ValueError for none."""
    for path in (Path(file), _INSTALLED / file):
        if path.is_file():
            return path
    raise ValueError(f"no gin file {str(file)!r}{_hint(str(file), _known_files())}")


def _add_file(file: str) -> None:
    """Adds a file to what is loaded. ValueError for a macro that nothing uses: a misspelled one."""
    known = set(_macros())
    gin.parse_config_file(str(_path(file)))
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    for name in _macros().keys() - known - set().union(*map(_referred, values)):
        raise ValueError(f"{file}: nothing uses {name}{_hint(name, known)}")


def _add(bindings: Sequence[str]) -> None:
    """Adds bindings to what is loaded. ValueError for a name that it has not."""
    known, imports = set(_macros()), _imports()
    for binding in bindings:
        name = _halves(binding)[0]
        if "." not in name and name not in known:
            near = _hint(name, known) or _hint_by_end(name, _parameters())
            raise ValueError(f"--gin.{name}: no gin file has it{near}")
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
    """Every binding by its short name: `DROPOUT_RATE`, `scope/Config.emb_dim`."""
    found = {}
    for (scope, selector), parameters in _gin._CONFIG.items():
        short = f"{scope}/" * bool(scope) + ".".join(selector.split(".")[-2:])
        for name, value in parameters.items():
            found[scope if selector == "gin.macro" else f"{short}.{name}"] = value
    return found


def _is_open(value: Any) -> bool:
    return repr(value) == "%gin.REQUIRED"


def _imports() -> str:
    """The imports of the files read so far: an override may name all that they name."""
    lines = {statement.format() for statement in _gin._IMPORTS}
    first = "from __gin__ import dynamic_registration"
    return "\n".join([first, *sorted(lines - {first})]) + "\n"


def _halves(binding: str) -> tuple[str, str]:
    """'a.b = 3' -> ('a.b', '3'). On one line: of a second one gin would make a second binding."""
    name, equals, value = (part.strip() for part in binding.partition("="))
    if not equals:
        raise ValueError(f"--gin.{binding}: expected --gin.NAME=VALUE")
    if len(binding.splitlines()) > 1:
        raise ValueError(f"--gin.{name}: {value!r}; expected a value on one line")
    return name, value


def _parse(imports: str, name: str, binding: str) -> None:
    """Adds a binding; an unknown name of it is an error with the nearest of those bound."""
    try:
        gin.parse_config(imports + _literal(binding))
    except _TOO_DEEP:
        raise ValueError(f"--gin.{name}: its value is nested too deeply") from None
    except NameError as error:
        near = _hint_by_end(name, _parameters()) if f"'{name.split('.')[0]}'" in str(error) else ""
        raise ValueError(f"--gin.{binding}: {str(error).splitlines()[0]}{near}") from error


def _parameters() -> list[str]:
    """'transformer.Config.emb_dim', ...: whatever can be bound of what the configuration names."""
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    named = {selector for _, selector in _gin._CONFIG}
    named |= {one.configurable.selector for one in _references(values)}
    return [
        f"{'.'.join(selector.split('.')[-2:])}.{name}"
        for selector in named - {"gin.macro"}
        for name in inspect.signature(_gin._REGISTRY[selector].wrapped).parameters
    ]


def _check_macros() -> None:
    """ValueError for a macro that nothing defines, which gin finds when it is used, and for macros
    that refer to each other in a circle, which gin follows for ever.
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
            new = set().union(*(refers.get(one, set()) for one in new)) - reached
        if name in reached:
            raise ValueError(f"the macro {name} is made of itself: {name} = {known[name]!r}")


def _check_scopes(bindings: Sequence[str]) -> None:
    """ValueError for a binding of a scope in which nothing is built: it would do nothing."""
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    known = {scope for one in _references(values) for scope in one.scopes}
    for binding in bindings:
        name = _halves(binding)[0]
        for scope in name.split("/")[:-1]:
            if scope not in known:
                near = _hint(scope, known - _macros().keys())
                raise ValueError(f"--gin.{name}: nothing is built in a scope {scope!r}{near}")


def _check_types(bindings: Sequence[str]) -> None:
    """Raises ValueError for a macro of `bindings` whose value is not of its parameter's type."""
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
    """The macros that a value refers to, NAME as %NAME."""
    return {one.scopes[-1] for one in _references(value) if one.selector == "gin.macro"}


def _references(value: Any) -> list[Any]:
    """What a value refers to, at any depth: @function and %MACRO."""
    found = _gin._iterate_flattened_values(value)
    return [one for one in found if isinstance(one, _gin.ConfigurableReference)]


def _literal(binding: str) -> str:
    """A value that is no gin literal is taken as text: MODEL_DIR=runs/a is MODEL_DIR='runs/a'."""
    name, value = _halves(binding)
    plain = re.fullmatch(r"[\w./~:+-]+", value) and not re.fullmatch(
        r"True|False|None|[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?", value
    )
    return f"{name} = {value!r}" if plain else f"{name} = {value}"


def _hint_of_parameter(message: str) -> str:
    """For gin's "Configurable 'a.b' doesn't have a parameter named 'c'": what c may have meant."""
    found = re.search(r"onfigurable '(.+?)' doesn't have a parameter named '(\w+)'", message)
    if not found:
        return ""
    names = [
        name
        for function in _gin._INVERSE_REGISTRY
        if function.__qualname__ == found[1].rsplit(".", 1)[-1]
        for name in inspect.signature(function).parameters
    ]
    return _hint(found[2], names)


def _known_files() -> list[str]:
    return [str(path.relative_to(_INSTALLED)) for path in _INSTALLED.glob("gin_configs/**/*.gin")]
