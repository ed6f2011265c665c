"""Reads the loaded configuration: macros, bindings, references."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import gin
from gin import config as _gin

T = TypeVar("T")


def configured(function: Callable[..., T]) -> Callable[..., T]:
    """Returns `function` with the parameters that the loaded configuration binds."""
    return gin.get_configurable(function) if function in _gin._INVERSE_REGISTRY else function


def macro(name: str, default: Any = None) -> Any:
    """Returns the value of a macro, or `default` if it is not set or %gin.REQUIRED."""
    macro_value = macros().get(name, default)
    # gin evaluates references in a deep copy.
    return default if is_open(macro_value) else copy.deepcopy(macro_value)


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


def macros() -> dict[str, Any]:
    return {
        scope: parameters["value"]
        for (scope, selector), parameters in _gin._CONFIG.items()
        if selector == "gin.macro" and "value" in parameters
    }


def flat() -> dict[str, Any]:
    """Returns all bindings by their short names: `DROPOUT_RATE`, `scope/Config.emb_dim`."""
    bindings = {}
    for (scope, selector), parameters in _gin._CONFIG.items():
        short = f"{scope}/" * bool(scope) + ".".join(selector.split(".")[-2:])
        for name, value in parameters.items():
            bindings[scope if selector == "gin.macro" else f"{short}.{name}"] = value
    return bindings


def is_open(value: Any) -> bool:
    return repr(value) == "%gin.REQUIRED"


def referred_macros(value: Any) -> set[str]:
    """Returns the names of the macros that a value refers to as %NAME."""
    return {macro.scopes[-1] for macro in references(value) if macro.selector == "gin.macro"}


def references(value: Any) -> list[Any]:
    """Returns all references in a value, @function and %MACRO, at any depth."""
    parts = _gin._iterate_flattened_values(value)
    return [part for part in parts if isinstance(part, _gin.ConfigurableReference)]
