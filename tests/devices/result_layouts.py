"""How results are cut where nobody says it: what both JAX and Tetrax are asked.

`result_layouts.json` holds the answers of JAX. To write it anew:
`python -m tests.devices.result_layouts`.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ORACLE = Path(__file__).with_name("result_layouts.json")
SHAPES = {"x": (8, 16), "y": (8, 16), "w": (16, 24), "b": (16,), "t": (8, 16, 4)}

# Functions, and the specifications of their operands; the mesh is 8 devices along "x", or 2 by 4
# along "x" and "y" where a specification says "y".
QUESTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("lambda x: np.sin(x)", "lambda x: x * 2 + 1", "lambda x: x.astype(int) > 0"),
            *("lambda x: x.T", "lambda x: x.T + 1", "lambda x: x.sum(0)", "lambda x: x.sum(1)"),
            *(
                "lambda x: x.sum()",
                "lambda x: x.mean(0)",
                "lambda x: x.max(1)",
                "lambda x: x[None]",
            ),
            *("lambda x: x.sum(0, keepdims=True)", "lambda x: np.broadcast_to(x, (3, 8, 16))"),
            *("lambda x: x - x.mean(1, keepdims=True)", "lambda x: x - x.max(0)", "lambda x: x"),
            *("lambda x: np.where(x > 0, x, 0)", "lambda x: x @ x.T", "lambda x: x.T @ x"),
            *("lambda x: np.concatenate([x, x], 0)", "lambda x: np.cumsum(x, 0)"),
            *("lambda x: np.sort(x, 1)", "lambda x: x.argmax(1)", "lambda x: np.pad(x, 1)"),
            *("lambda x: x[:, 3:5]", "lambda x: np.einsum('ij,ij->i', x, x)"),
            *(
                "lambda x: x.reshape(8, 4, 4)",
                "lambda x: x.reshape(128)",
                "lambda x: x.reshape(2, 4, 16)",
            ),
            *(
                "lambda x: np.flip(x, 1)",
                "lambda x: np.roll(x, 1, 0)",
                "lambda x: np.tile(x, (2, 1))",
            ),
            *("lambda x: np.stack([x, x])", "lambda x: np.split(x, 2, 1)[0]", "lambda x: x[::2]"),
            *("lambda x: np.repeat(x, 2, axis=1)", "lambda x: x[2]", "lambda x: np.diff(x)"),
            *("lambda x: np.take(x, np.array([0, 5]), 0)", "lambda x: x[np.arange(8), 0]"),
            *("lambda x: np.fft.fft(x)", "lambda x: np.linalg.norm(x, axis=1)"),
            *("lambda x: lax.scan(lambda c, v: (c + v, c * v), x[0], x)[1]",),
            *("lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, np.zeros((8, 16)))",),
            *("lambda x: lax.cond(x.sum() > 0, lambda v: v, lambda v: -v, x)",),
            *("lambda x: lax.map(lambda v: v * 2, x)", "lambda x: lax.top_k(x, 3)[0]"),
            *(
                "lambda x: lax.dynamic_slice(x, (0, 1), (8, 4))",
                "lambda x: np.zeros_like(x) + x.sum()",
            ),
            *("lambda x: grad(lambda x: (x @ x.T).sum())(x)", "lambda x: vmap(np.sum)(x)"),
            *("lambda x: grad(lambda x: (x.mean(0) ** 2).sum())(x)", "lambda x: x.at[1].set(0.0)"),
            *(
                "lambda x: np.arange(16.0) + x",
                "lambda x: np.roll(x, 3, 1) + 1",
                "lambda x: np.ravel(x) * 2",
            ),
            *(
                "lambda x: x.reshape(4, 2, 16).sum(1)",
                "lambda x: x.reshape(8, 2, 8).transpose(1, 0, 2)",
            ),
            *("lambda x: x[:, np.array([1, 2, 3])]", "lambda x: x.at[:, 2].add(1.0)"),
        ),
        ("P('x')", "P(None, 'x')", "P('x', 'y')", "P('y', 'x')", "P('y')", "P()"),
    ),
    **dict.fromkeys(
        ("lambda x, y: x + y", "lambda x, y: x * np.sin(y)"),
        ("P('x'), P('x')", "P('x'), P()", "P(), P(None, 'x')", "P('x'), P('x', 'y')"),
    ),
    "lambda x, w: x @ w": (
        *("P('x'), P()", "P(), P(None, 'x')", "P(None, 'x'), P('x')", "P('x'), P(None, 'y')"),
        *("P('x', 'y'), P('y')", "P(), P()"),
    ),
    **dict.fromkeys(
        (
            "lambda x, w: grad(lambda w: ((x @ w) ** 2).sum())(w)",
            "lambda x, w: w - grad(lambda w: ((x @ w) ** 2).sum())(w)",
        ),
        ("P('x'), P()", "P('x'), P('x')", "P(), P(None, 'x')", "P('x'), P(None, 'y')"),
    ),
    "lambda x, b: x + b": ("P('x'), P()", "P(), P('x')", "P('x', 'y'), P('y')"),
    "lambda x, w, b: np.tanh(x @ w[:, :16] + b) @ w": ("P('x'), P(), P()",),
    "lambda t: t.transpose(2, 0, 1)": ("P('x')", "P(None, 'x')", "P('x', None, 'y')"),
    "lambda t: t.sum((0, 2))": ("P('x')", "P(None, 'x')", "P('x', 'y')"),
    "lambda t: np.einsum('ijk,ilk->ijl', t, t)": ("P('x')", "P(None, None, 'y')"),
}


def answers(library: str) -> Iterator[tuple[str, str]]:
    """Every question, with the part of the result that each device has."""
    root = importlib.import_module(library)
    numpy = importlib.import_module(f"{library}.numpy")
    scope = {"np": numpy, "P": root.sharding.PartitionSpec, "lax": root.lax}
    scope |= {"grad": root.grad, "vmap": root.vmap}
    grid = np.array(root.devices(), object)
    line = root.sharding.Mesh(grid, ("x",))
    square = root.sharding.Mesh(grid.reshape(2, 4), ("x", "y"))
    for function, layouts in QUESTIONS.items():
        run = eval(function, scope)
        names = function.split(":")[0].removeprefix("lambda ").split(", ")
        for layout in layouts:
            mesh = square if "y" in layout else line
            specs = eval(f"({layout},)", scope)
            args = [
                root.device_put(
                    np.ones(SHAPES[name], np.float32), root.sharding.NamedSharding(mesh, spec)
                )
                for name, spec in zip(names, specs, strict=True)
            ]
            yield f"{function} of {layout}", _parts(root.jit(run)(*args))


def _parts(found: Any) -> str:
    places = found.sharding.devices_indices_map(found.shape)
    return " ".join(
        ",".join("all" if s.start is None else f"{s.start}:{s.stop}" for s in places[device])
        for device in sorted(places, key=lambda device: device.id)
    )


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    ORACLE.write_text(json.dumps(dict(answers("jax")), indent=0) + "\n")
