"""StableHLO of matrix products, convolutions and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tetrax.compiler.stablehlo.reductions import ElementwiseRules, Outs
from tetrax.ir.stablehlo import Handle, bool_array, enum, i64, i64_array, pairs, record
from tetrax.ops.arithmetic import add, sub
from tetrax.ops.base import dtype_kind, real_dtype
from tetrax.ops.convert import complex, imag, real
from tetrax.ops.convolution import conv_general_dilated_p


def _precision(precision: Any) -> str:
    """One entry per operand; algorithms and None are the default."""
    both = precision if isinstance(precision, tuple) else (precision, precision)
    names = [getattr(p, "name", "DEFAULT") or "DEFAULT" for p in both]
    known = ("DEFAULT", "HIGH", "HIGHEST")
    rows = [enum("precision", n if n in known else "DEFAULT") for n in names]
    return f"[{', '.join(rows)}]"


def _axes_text(spec: Sequence[int], batch: str, feature: str) -> str:
    names = {spec[0]: batch, spec[1]: feature}
    names |= {axis: str(i) for i, axis in enumerate(spec[2:])}
    return "[" + ", ".join(names[axis] for axis in range(len(spec))) + "]"


class ProductRules(ElementwiseRules):
    """Contractions of every kind."""

    def dot_general(
        self,
        operands: Sequence[Handle],
        outs: Outs,
        dimension_numbers: Any,
        precision: Any,
    ) -> Handle:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        return self.op(
            "dot_general",
            self._same_dtype(operands, outs[0].dtype),
            outs,
            dot_dimension_numbers=record(
                "dot",
                lhs_batching_dimensions=lhs_batch,
                rhs_batching_dimensions=rhs_batch,
                lhs_contracting_dimensions=lhs_contract,
                rhs_contracting_dimensions=rhs_contract,
            ),
            precision_config=_precision(precision),
        )

    def _same_dtype(self, operands: Sequence[Handle], dtype: Any) -> list[Handle]:
        """Operands of different dtypes in the result's, equal ones as they are."""
        if operands[0].dtype == operands[1].dtype:
            return list(operands)
        return [self.convert([x], [x.aval.update(dtype=dtype)]) for x in operands]

    def convolution(self, operands: Sequence[Handle], outs: Outs, **params: Any) -> Handle:
        """A complex convolution is three real ones, after Gauss."""
        if dtype_kind(outs[0].dtype) == "c":
            return self._complex_convolution(operands, params)
        specs = params["dimension_numbers"]
        spatial = len(specs.lhs_spec) - 2
        numbers = (
            f"#stablehlo.conv<{_axes_text(specs.lhs_spec, 'b', 'f')}"
            f"x{_axes_text(specs.rhs_spec, 'o', 'i')}->{_axes_text(specs.out_spec, 'b', 'f')}>"
        )
        return self.op(
            "convolution",
            self._same_dtype(operands, outs[0].dtype),
            outs,
            window_strides=i64_array(params["window_strides"]),
            padding=pairs(params["padding"]),
            lhs_dilation=i64_array(params["lhs_dilation"]),
            rhs_dilation=i64_array(params["rhs_dilation"]),
            window_reversal=bool_array((False,) * spatial),
            dimension_numbers=numbers,
            feature_group_count=i64(params["feature_group_count"]),
            batch_group_count=i64(params["batch_group_count"]),
            precision_config=_precision(params["precision"]),
        )

    def _complex_convolution(self, operands: Sequence[Handle], params: dict) -> Handle:
        preferred = params["preferred_element_type"]
        part = None if preferred is None else real_dtype(np.dtype(preferred))
        inner = {**params, "preferred_element_type": part}
        convolve: Callable = lambda x, y: conv_general_dilated_p.bind(x, y, **inner)

        def run(x: Any, y: Any) -> list[Any]:
            a, b, c, d = real(x), imag(x), real(y), imag(y)
            first = convolve(add(a, b), c)
            second, third = convolve(a, sub(d, c)), convolve(b, add(c, d))
            return [complex(sub(first, third), add(first, second))]

        return self.compose(run, *operands)[0]

    def fft(
        self, operands: Sequence[Handle], outs: Outs, kind: str, lengths: Sequence[int]
    ) -> Handle:
        """`kind` is FFT, IFFT, RFFT or IRFFT."""
        return self.op(
            "fft", operands, outs, fft_type=enum("fft_type", kind), fft_length=i64_array(lengths)
        )
