"""Passes of any odd number, as LLVM text: for prime factors that have no butterfly of their own."""

from __future__ import annotations

from tetrax.compiler.cpu.library.fft_text import ComplexFunction, Pair
from tetrax.compiler.cpu.library.gemm_text import Shape
from tetrax.ops.fft_plan import MOST_ODD


class OddPass(ComplexFunction):
    """From panel to panel, for any odd number `r` up to `MOST_ODD`; its r roots of unity stand
    before the twiddles. Sums and differences of opposite numbers are kept on the stack.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, "pass_odd")

    def text(self) -> str:
        # one more than there are: steps go two by two
        cell = f"[{(MOST_ODD // 2 + 1) * 2 * self.lanes} x {self.scalar}]"
        self.sums, self.gaps = (self.emit(f"alloca {cell}, align 64") for _ in range(2))
        self.half = self.emit("lshr i64 %r, 1")
        self.gap = self.times(self.times("%m", "%s"), 2 * self.lanes)
        self.step = self.times("%s", 2 * self.lanes)
        twiddles = self.element("%tw", "%r")
        less = self.minus("%r", 1)

        def row(p: str) -> None:
            done = self.times(p, self.step)
            source, target = self.at("%in", done), self.at("%out", self.times(done, "%r"))
            first = self.test("eq", p, 0)
            factors = self.element(twiddles, self.times(self.minus(p, 1), less))
            factors = self.chosen(first, "%tw", factors, "ptr")

            def column(q: str) -> None:
                self.butterflies(self.cell(source, q), self.cell(target, q), first, factors)

            self.loop("%s", 1, column)

        self.loop("%m", 1, row)
        return self.finished(
            "ptr noalias %in, ptr noalias %out, ptr noalias %tw, i64 %m, i64 %s, i64 %r"
        )

    def butterflies(self, source: str, target: str, first: str, factors: str) -> None:
        x, zero = self.load_cell(source), "zeroinitializer"

        def take(j: str, carried: list[str]) -> list[str]:
            after = self.plus(j, 1)
            near = self.load_cell(self.at(source, self.times(self.gap, after)))
            opposite = self.times(self.gap, self.minus("%r", after))
            far = self.load_cell(self.at(source, opposite))
            total = self.plus_pair(near, far)
            self.store_cell(self.cell(self.sums, j), total)
            self.store_cell(self.cell(self.gaps, j), self.minus_pair(near, far))
            whole = self.plus_pair(Pair(*carried), total)
            return [whole.re, whole.im]

        kinds = [(self.vector, x.re), (self.vector, x.im)]
        whole = self.carried_loop(self.half, 1, kinds, take)
        self.store_cell(target, Pair(*whole))
        for place in (self.sums, self.gaps):
            self.store_cell(self.cell(place, self.half), Pair(zero, zero))

        def result(k0: str) -> None:
            k = self.plus(k0, 1)

            def add(j: str, carried: list[str]) -> list[str]:
                power, *texts = carried
                made = []
                for at in range(2):
                    place, term = self.plus(j, at), texts[4 * at : 4 * at + 4]
                    w = self.load_repeated(self.element("%tw", power))
                    s, d = (self.load_cell(self.cell(x, place)) for x in (self.sums, self.gaps))
                    made += [
                        *(self.fma(s.re, w.re, term[0]), self.fma(s.im, w.re, term[1])),
                        *(self.fma(d.re, w.im, term[2]), self.fma(d.im, w.im, term[3])),
                    ]
                    following = self.plus(power, k)
                    past = self.minus(following, "%r")
                    power = self.chosen(self.test("sge", following, "%r"), past, following)
                return [power, *made]

            zeros = [(self.vector, zero)] * 6
            start = [("i64", k), *kinds, *zeros]
            _, *texts = self.carried_loop(self.half, 2, start, add)
            texts = [self.add(a, b) for a, b in zip(texts[:4], texts[4:], strict=True)]
            even, odd = Pair(*texts[:2]), Pair(*texts[2:])
            # roots have negative imaginary parts
            self.finish(k, self.plus_i(even, odd), target, first, factors)
            self.finish(self.minus("%r", k), self.minus_i(even, odd), target, first, factors)

        self.loop(self.half, 1, result)

    def finish(self, k: str, y: Pair, target: str, first: str, factors: str) -> None:
        place = self.at(target, self.times(self.step, k))
        w = self.load_repeated(self.element(factors, self.minus(k, 1)))
        turned = self.times_pair(y, w)
        texts = [
            self.chosen(first, getattr(y, part), getattr(turned, part), self.vector)
            for part in ("re", "im")
        ]
        self.store_cell(place, Pair(*texts))
