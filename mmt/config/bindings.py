"""Adds bindings such as `TRAIN_STEPS=100` to the configuration, and checks them."""

import ast
import functools
import inspect
import re
import sys
import tokenize
from collections.abc import Callable, Sequence
from typing import Any

import gin
from gin import config as _gin

from mmt import checked, suggest
from mmt.config.values import macros, references, referred_macros

_TOO_DEEP = RecursionError, MemoryError  # from Python's parser, for deeply nested brackets
# What gin raises for a file or a binding with a fault.
FAULTS = (
    SyntaxError, AttributeError, ImportError, NameError, TypeError, ValueError,
    tokenize.TokenError, *_TOO_DEEP,
)  # fmt: skip
_PLAIN_TEXT = re.compile(r"[\w./~:+-]+")
# A path may have spaces and signs. Outside of quotes and references, no literal has a slash.
_PATH = re.compile(r"(?![rRbBuUfF]{0,2}['\"])[\w.~/][^()]*/[^()]*|/[^()]*")
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_hint = functools.partial(suggest.hint, cutoff=0.5)
_hint_by_end = functools.partial(suggest.hint_by_end, cutoff=0.5)


def bind(bindings: Sequence[str], configurables: Sequence[Callable[..., Any]]) -> None:
    """Replaces the configuration by `bindings` alone, such as `Decoding.top_k=5`.

    Args:
        bindings: NAME=VALUE; a name is the qualified name of a parameter or its end, a value is a
            literal.
        configurables: functions and classes whose parameters with defaults may be bound.

    Raises:
        ValueError: a name is unknown, with the nearest one, or a value is no literal.
    """
    gin.clear_config()
    known = {
        f"{_public_module(configurable)}.{configurable.__qualname__}.{name}": _public_module(
            configurable
        )
        for configurable in configurables
        for name, parameter in inspect.signature(configurable).parameters.items()
        if parameter.default is not parameter.empty
    }
    for binding in bindings:
        name, value = _split_binding(binding)
        qualified = next((path for path in known if f".{path}".endswith(f".{name}")), None)
        if qualified is None or "." not in name:
            short = [path.removeprefix(f"{module}.") for path, module in known.items()]
            allowed = "; allowed: " + ", ".join(
                f"{configurable.__qualname__}.NAME" for configurable in configurables
            )
            near = _hint_by_end(name, short) or allowed
            raise ValueError(f"--gin.{name}: no such parameter{near}")
        imports = f"from __gin__ import dynamic_registration\nimport {known[qualified]}\n"
        statement = _quoted(f"{qualified}={value}")
        try:
            ast.literal_eval(_split_binding(statement)[1])
        except (SyntaxError, ValueError, *_TOO_DEEP) as error:
            allowed = "a number, text, True, False or None"
            raise ValueError(f"--gin.{binding}: not a literal; allowed: {allowed}") from error
        gin.parse_config(imports + statement)


def add(bindings: Sequence[str]) -> None:
    """Adds bindings. Raises ValueError for a name that the configuration does not have."""
    known, imports = set(macros()), _imports()
    for binding in bindings:
        name = _split_binding(binding)[0]
        if "." not in name and name not in known:
            near = _hint(name, known) or _hint_by_end(name, _bindable_names())
            raise ValueError(f"--gin.{name}: no gin file defines it{near}")
        _parse(imports, name, binding)
    _check_macros()
    _check_scopes(bindings)
    _check_types(bindings)


def _public_module(configurable: Callable[..., Any]) -> str:
    """Returns the outermost package that exports an object: `mmt.decoding` for `Decoding`."""
    modules, top_name = configurable.__module__.split("."), configurable.__qualname__.split(".")[0]
    exported = vars(sys.modules[configurable.__module__])[top_name]
    for end in range(1, len(modules)):
        package = ".".join(modules[:end])
        if getattr(sys.modules.get(package), top_name, None) is exported:
            return package
    return configurable.__module__


def _imports() -> str:
    """Returns the imports of all loaded files, so that an override may use their names."""
    lines = {statement.format() for statement in _gin._IMPORTS}
    first = "from __gin__ import dynamic_registration"
    return "\n".join([first, *sorted(lines - {first})]) + "\n"


def _split_binding(binding: str) -> tuple[str, str]:
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
        gin.parse_config(imports + _quoted(binding))
    except _TOO_DEEP:
        raise ValueError(f"--gin.{name}: the value is nested too deeply") from None
    except NameError as error:
        near = (
            _hint_by_end(name, _bindable_names()) if f"'{name.split('.')[0]}'" in str(error) else ""
        )
        raise ValueError(f"--gin.{binding}: {str(error).splitlines()[0]}{near}") from error
    except FAULTS as error:
        near = hint_of_parameter(str(error))
        if " " in binding and isinstance(error, ValueError | SyntaxError):
            near += f"; text with spaces needs quotes: \"--gin.{name}='a b'\""
        raise ValueError(
            f"--gin.{binding}: {error_message(error).splitlines()[0]}{near}"
        ) from error


def _bindable_names() -> list[str]:
    """Returns the names that can be bound, such as 'transformer.Config.emb_dim'."""
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    named = {selector for _, selector in _gin._CONFIG}
    named |= {reference.configurable.selector for reference in references(values)}
    return [
        f"{'.'.join(selector.split('.')[-2:])}.{name}"
        for selector in named - {"gin.macro"}
        for name in inspect.signature(_gin._REGISTRY[selector].wrapped).parameters
    ]


def _check_macros() -> None:
    """Raises ValueError for macros that are not defined, or that refer to each other in a circle.

    gin detects the first only on use, and recurses without end on the second.
    """
    known = macros()
    if "MODEL" not in known and any(
        "MODEL" in referred_macros(value)
        for parameters in _gin._CONFIG.values()
        for value in parameters.values()
    ):
        raise ValueError("no MODEL; add a --gin_file of gin_configs/models")
    for (scope, selector), parameters in _gin._CONFIG.items():
        for parameter, value in parameters.items():
            for name in sorted(referred_macros(value) - known.keys()):
                location = scope if selector == "gin.macro" else f"{selector}.{parameter}"
                raise ValueError(
                    f"{location} = {value!r}: there is no macro {name}{_hint(name, known)}"
                )
    macro_references = {name: referred_macros(value) for name, value in known.items()}
    for name in macro_references:
        visited, frontier = set(), macro_references[name]
        while frontier:
            visited |= frontier
            frontier = (
                set().union(
                    *(macro_references.get(visited_name, set()) for visited_name in frontier)
                )
                - visited
            )
        if name in visited:
            raise ValueError(f"the macro {name} refers to itself: {name} = {known[name]!r}")


def _check_scopes(bindings: Sequence[str]) -> None:
    """Raises ValueError for a binding in a scope that builds nothing, since it has no effect."""
    values = [value for parameters in _gin._CONFIG.values() for value in parameters.values()]
    known = {scope for reference in references(values) for scope in reference.scopes}
    for binding in bindings:
        name = _split_binding(binding)[0]
        for scope in name.split("/")[:-1]:
            if scope not in known:
                near = _hint(scope, known - macros().keys())
                raise ValueError(f"--gin.{name}: no object has the scope {scope!r}{near}")


def _check_types(bindings: Sequence[str]) -> None:
    """Raises ValueError for a macro of `bindings` whose value does not fit its parameter's type."""
    defined = macros()
    for name in {_split_binding(binding)[0] for binding in bindings} & defined.keys():
        macro = defined[name]
        for (_, selector), parameters in _gin._CONFIG.items():
            signature = inspect.signature(_gin._REGISTRY[selector].wrapped).parameters
            for key in [key for key, value in parameters.items() if repr(value) == f"%{name}"]:
                signature_parameter = signature.get(key)
                if words := checked.expected_scalar(
                    macro, signature_parameter and signature_parameter.annotation
                ):
                    parameter_name = f"{'.'.join(selector.split('.')[-2:])}.{key}"
                    raise ValueError(f"--gin.{name}={macro!r}: expected {words} ({parameter_name})")


def _quoted(binding: str) -> str:
    """Quotes text and paths without quotes: MODEL_DIR=runs/a becomes MODEL_DIR = 'runs/a'."""
    name, value = _split_binding(binding)
    is_plain_text = (_PLAIN_TEXT.fullmatch(value) or _PATH.fullmatch(value)) and not (
        value in ("True", "False", "None") or _NUMBER.fullmatch(value)
    )
    return f"{name} = {value!r}" if is_plain_text else f"{name} = {value}"


def hint_of_parameter(message: str) -> str:
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


def error_message(error: Exception) -> str:
    """Returns the message of an error, with a line number where Python gives a position.

    gin shows a value that is no literal as '<ast.Name object at 0x7f57eb7c1840>'.
    """
    if isinstance(error, tokenize.TokenError):
        message, (line, _) = error.args
        return f"line {line}: {message}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.object[error.start]:#x} at position {error.start} is not UTF-8"
    no_literal = r"malformed node or string.*: <ast\.\w+ object at \w+>"
    return re.sub(no_literal, "not a literal", str(error))
