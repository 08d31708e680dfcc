"""Checks of a caller's arguments. Each message names the argument, the rule and the value received, in one line."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any


def whole_number(scope: str, name: str, value: Any, least: int) -> int:
    """Raises ValueError unless the value is a whole number, at least `least` and below 2^63."""
    whole = not isinstance(value, bool) and hasattr(type(value), "__index__")
    if not whole or not least <= operator.index(value) < 2**63:
        raise ValueError(f"{scope} needs {name} as a whole number >= {least}, received {shown(value)}")
    return operator.index(value)


def one_of(scope: str, name: str, value: Any, known: tuple[str, ...]) -> None:
    """Raises ValueError unless the value is one of `known`."""
    if value not in known:
        raise ValueError(f"{scope} needs {name} as one of {', '.join(known)}, received {shown(value)}")


def rates_of(
    scope: str, kind: str, decay: float | None, alpha: float | None, gamma: float | None
) -> tuple[float, float, float]:
    """Returns decay (for ema), alpha (for pma-ema) and gamma (for power); None means 0.9, 0.2 and 1.

    Raises TypeError for a value that is no number. Raises ValueError for a value out of range and for a value that
    another kind needs.
    """
    require_kind_of(scope, kind, "ema", {"decay": decay})
    require_kind_of(scope, kind, "pma-ema", {"alpha": alpha})
    require_kind_of(scope, kind, "power", {"gamma": gamma})
    rates = 0.9 if decay is None else decay, 0.2 if alpha is None else alpha, 1.0 if gamma is None else gamma
    for name, value in zip(("decay", "alpha", "gamma"), rates, strict=True):
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{scope} needs {name} as a number, received {shown(value)}")
    if not 0 < rates[0] < 1 or not 0 < rates[1] <= 1 or not 0 <= rates[2] <= 1000:
        raise ValueError(
            f"{scope} needs decay in (0, 1), alpha in (0, 1] and gamma in [0, 1000], received {rates[0]}, {rates[1]} "
            f"and {rates[2]}"
        )
    return rates


def require_kind_of(scope: str, kind: str, needed: str, arguments: Mapping[str, Any]) -> None:
    """Raises ValueError if one of the arguments is given (not None) but `kind` is not `needed`."""
    for name, value in arguments.items():
        if value is not None and kind != needed:
            raise ValueError(f"{scope} {name} has no effect: it needs kind {needed!r}, received {kind!r}")


def require_switch(scope: str, name: str, value: Any) -> None:
    """Raises TypeError unless the value is True or False; any other value would silently count as one of the two."""
    if not isinstance(value, bool):
        raise TypeError(f"{scope} needs {name} as True or False, received {shown(value)}")


def require_function(scope: str, name: str, value: Callable[..., Any] | None) -> None:
    """Raises TypeError unless the value is a function or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{scope} needs {name} as a function, received {shown(value)}")


def local_path(scope: str, name: str, value: str | os.PathLike[str]) -> Path:
    """Returns the value as a Path.

    Raises TypeError for a value that is no path. Raises ValueError for an empty path and for a URL, which would
    otherwise be taken for a folder.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{scope} needs {name} as a path, received {shown(value)}")
    if not text or "\0" in text:
        raise ValueError(f"{scope} needs {name} as a path, received {text!r}")
    if "://" in text:
        raise ValueError(
            f"{scope} needs {name} on this machine, received {shown(text)}; the command dimred accepts URLs as paths, "
            "and dimred store get and put copy files"
        )
    return Path(text)


def shown(value: Any) -> str:
    """Returns the value as a text that fits into a line, or else the value's type."""
    text = repr(value)
    return text if len(text) <= 60 and text.isprintable() else f"a value of type {type(value).__name__}"
