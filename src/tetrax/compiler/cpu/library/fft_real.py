"""Between the spectrum of n real numbers and that of n / 2 complex ones made of neighbours.

    void tetrax_fft_real_f32(ptr in, ptr twiddles, ptr out, i64 elements, i64 half, i64 first,
                             i64 count)
    void tetrax_fft_unreal_f32(…the same…)

`real` makes `count` numbers, from `first` on, of the half + 1 of the real spectrum of the complex
one; `unreal` goes back, up to a factor of 2, where imaginary parts of the two real frequencies do
not matter. Twiddles are w^k / 2 (`real`) or w^k (`unreal`); `out` is where number `first` goes.
"""

from __future__ import annotations

from tetrax.compiler.cpu.library.fft_text import ComplexFunction, Pair
from tetrax.compiler.cpu.library.gemm_text import Shape


class Real(ComplexFunction):
    """One of the two routines: blocks in lanes, and the rest and frequency 0 one by one."""

    def __init__(self, shape: Shape, back: bool) -> None:
        super().__init__(shape, f"tetrax_fft_{'unreal' if back else 'real'}_{shape.type}")
        self.back = back

    def text(self) -> str:
        width = self.lanes
        stop = self.plus("%first", "%count")
        lone = self.smaller(stop, "1")
        self.loop(lone, 1, self.single, start="%first")
        begin = self.larger("%first", "1")
        end = self.minus(self.smaller(stop, "%half"), width - 1)
        self.loop(end, width, self.block, start=begin)
        left = self.larger(self.minus(self.plus(end, width - 1), begin), "0")
        done = self.plus(begin, self.emit(f"and i64 {left}, {-width}"))
        self.loop(stop, 1, self.single, start=done)
        return self.finished(
            "ptr %in, ptr %twiddles, ptr %out, i64 %elements, i64 %half, i64 %first, i64 %count",
            linkage="",
        )

    def block(self, k: str) -> None:
        width = self.lanes
        a = self.load_elements(self.element("%in", k))
        far = self.element("%in", self.minus(self.minus("%half", k), width - 1))
        reversed_order = [width - 1 - element for element in self.order]
        b = self.taken_apart(self.read(far, 0), self.read(far, 1), reversed_order)
        w = self.load_elements(self.element("%twiddles", k))
        self.store_elements(self.element("%out", self.minus(k, "%first")), self.combined(a, b, w))

    def single(self, k: str) -> None:
        zero = self.test("eq", k, 0)
        other = self.minus("%half", k)
        at = k
        if not self.back:  # the spectrum is periodic
            other = self.chosen(zero, "0", other)
            at = self.chosen(self.test("eq", k, "%half"), "0", k)
        a, b, w = (
            self.number(pointer, place)
            for pointer, place in (("%in", at), ("%in", other), ("%twiddles", k))
        )
        if self.back:
            a, b = (
                Pair(x.re, self.chosen(zero, "zeroinitializer", x.im, self.vector)) for x in (a, b)
            )
        out = self.element("%out", self.minus(k, "%first"))
        result = self.combined(a, b, w)
        for part, text in enumerate((result.re, result.im)):
            first = self.emit(f"extractelement {self.vector} {text}, i64 0")
            self.store(first, self.at(out, part))

    def number(self, pointer: str, place: str) -> Pair:
        return self.load_repeated(self.element(pointer, place))

    def combined(self, a: Pair, b: Pair, w: Pair) -> Pair:
        """Of numbers, those at the opposite frequencies, and twiddles."""
        total = Pair(self.add(a.re, b.re), self.subtract(a.im, b.im))
        rest = Pair(self.subtract(a.re, b.re), self.add(a.im, b.im))
        if self.back:
            turned = Pair(
                self.fma(rest.re, w.re, self.product(rest.im, w.im)),
                self.product_less(rest.im, w.re, self.product(rest.re, w.im)),
            )
            return self.plus_i(total, turned)
        half = self.constant(0.5)
        turned = self.times_pair(rest, w)
        return Pair(
            self.fma(total.re, half, turned.im), self.product_less(total.im, half, turned.re)
        )
