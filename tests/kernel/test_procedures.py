"""Pieces of a kernel that library routines call: the epilogue of a product."""

from __future__ import annotations

import ctypes

import pytest
from tests.kernel.conftest import call_kernel

import numpy as np
from tetrax.compiler.cpu import schedule as scheduling
from tetrax.compiler.cpu.schedule import schedule
from tetrax.config import config
from tetrax.errors import KernelError
from tetrax.ir import kernel as k
from tetrax.ir.kernel_builder import KernelBuilder
from tetrax.ir.kernel_printer import text


def layer(m, n, depth, batch=None):
    """`y = max(x w + bias * scale, 0)`, and the same plus a residual stored elsewhere."""
    b = KernelBuilder()
    count = batch or 1
    x, w = b.input("x", k.F32, count * m * depth), b.input("w", k.F32, depth * n)
    bias, residual = b.input("bias", k.F32, n), b.input("residual", k.F32, count * m * n)
    y, z = b.output("y", k.F32, count * m * n), b.output("z", k.F32, count * m * n)
    scale = b.scalar("scale", k.F32)
    with b.loop(count, "parallel" if batch else "serial") as at:
        base = k.mul(at, m * n)
        with b.procedure("row0", "rows", "column0", "columns") as finish:
            row0, rows, column0, columns = finish.parameters
            with b.loop(rows) as i, b.loop(columns, "vector") as j:
                column = k.add(column0, j)
                place = k.add(k.add(base, k.mul(k.add(row0, i), n)), column)
                value = k.add(b.load(y, place), k.mul(b.load(bias, column), scale))
                value = k.maximum(value, 0.0)
                b.store(z, place, k.add(value, b.load(residual, place)))
                b.store(y, place, value)  # last: the value reads what is there
        b.call(
            "tetrax_gemm_then_f32",
            b.address(x, k.mul(at, m * depth)),
            b.address(w),
            b.address(y, base),
            *(k.index(size) for size in (m, n, depth, depth, 1, n, 1, n)),
            k.const(0, k.I32),
            finish.made,
        )
    return b.build("layer")


def check_layer(kernel, m, n, depth, batch):
    rng = np.random.default_rng(0)
    x, w, bias, residual = (
        rng.standard_normal(shape).astype("f4")
        for shape in ((batch, m, depth), (depth, n), (n,), (batch, m, n))
    )
    y, z = np.full((batch, m, n), np.nan, "f4"), np.full((batch, m, n), np.nan, "f4")
    call_kernel(kernel, x, w, bias, residual, y, z, scalars=(ctypes.c_float(2.0),))
    expected = np.maximum(x @ w + 2 * bias, 0)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(z, expected + residual, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "n", "depth"), [(1, 37, 9), (30, 40, 50), (200, 133, 310)])
def test_an_epilogue_of_a_product(m, n, depth):
    before = config.num_threads
    try:
        for threads in (1, 3):
            config.update("num_threads", threads)
            check_layer(layer(m, n, depth), m, n, depth, 1)
    finally:
        config.update("num_threads", before)


def test_procedures_inside_tasks(monkeypatch):
    monkeypatch.setattr(scheduling, "LEAST_TIME", 0.0)
    kernel = schedule(layer(30, 40, 50, batch=9))
    assert "tasks loop" in text(kernel)
    check_layer(kernel, 30, 40, 50, 9)


def test_text_and_checks():
    shown = text(layer(3, 4, 5))
    assert "procedure(p" in shown
    assert text(layer(3, 4, 5)) == shown
    assert text(layer(3, 5, 5)) != shown
    b = KernelBuilder()
    y = b.output("y", k.F32, 1)
    with b.procedure("i") as piece:
        with pytest.raises(KernelError, match="after its block"):
            _ = piece.made
        b.store(y, piece.parameters[0], 1.0)
    b.call("routine", b.address(y, piece.parameters[0]), piece.made)
    with pytest.raises(KernelError, match="which no enclosing loop"):
        b.build("out_of_scope")
