"""`Partial`: a function with some of its arguments, as a tree whose leaves are those arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._keys import GetAttrKey
from ._registry import register_pytree_with_keys


class _Whole:
    """Keeps `functools.partial` from merging a partial function into the one made of it.

    Merged, the inner arguments would be leaves of the outer one, and part of the function no more.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial):
    """`functools.partial` as a tree: the arguments are its children, the function its metadata.

    >>> add = Partial(lambda x, y: x + y, 1)
    >>> add(2)
    3
    """

    def __new__(cls, func: Callable[..., Any], *args: Any, **kw: Any) -> Partial:
        if isinstance(func, functools.partial):
            func = _Whole(func)
        return super().__new__(cls, func, *args, **kw)


def _flatten(x: Partial) -> tuple[Any, Any]:
    return ((GetAttrKey("args"), x.args), (GetAttrKey("keywords"), x.keywords)), x.func


register_pytree_with_keys(
    Partial,
    _flatten,
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda x: ((x.args, x.keywords), x.func),
)
