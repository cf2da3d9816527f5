"""Looking at values inside transformed functions, and at where arrays lie."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tetrax.higher_order.callbacks import debug_callback as callback
from tetrax.higher_order.callbacks import debug_print as print
from tetrax.runtime.sharding_picture import ColorMap, picture_of_sharding
from tetrax.runtime.shardings import Sharding
from tetrax.tracing.trace import Tracer

__all__ = [
    "callback",
    "inspect_array_sharding",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]

# Not the function's: this module has a `callback` of its own.
_debug_callback = callback


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Print which device holds which part of arrays of that shape; colours only on terminals.

    Raises ValueError for other than one or two dimensions.
    """
    picture = picture_of_sharding(
        shape,
        sharding,
        use_color=use_color and sys.stdout.isatty(),
        scale=scale,
        min_width=min_width,
        max_width=max_width,
        color_map=color_map,
    )
    builtins.print(picture)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which device holds which part of an array; takes what `visualize_sharding` does.

    Inside transformed functions it is printed when they run.
    """
    inspect_array_sharding(
        arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding, **kwargs)
    )


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Call `callback(sharding)` with where an array lies.

    Inside transformed functions it is called when they run. Inside `jit` that does not yet say how
    the compiler cut the value: it comes to the callback in one piece, on one device.
    """
    if isinstance(value, Tracer):
        _debug_callback(lambda x: callback(x.sharding), value)
    else:
        callback(value.sharding)
