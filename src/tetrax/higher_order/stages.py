"""The stages of a jitted call, each with a readable text: traced, lowered, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tetrax import tree
from tetrax._lazy import lazy_module
from tetrax.compiler.executable import Executable, as_type, take_exception
from tetrax.ir.program import ClosedProgram
from tetrax.ir.types import ShapedArray
from tetrax.runtime.array import as_value
from tetrax.runtime.devices import default_device
from tetrax.runtime.native_call import FAILED, MISMATCH
from tetrax.runtime.shardings import NamedSharding, SingleDeviceSharding

inspect = lazy_module("tetrax.compiler.inspect")
pipeline = lazy_module("tetrax.compiler.pipeline")
sharded = lazy_module("tetrax.compiler.sharded")


class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist."""

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        aval = ShapedArray(tuple(shape), dtype)
        self.shape, self.dtype = aval.shape, aval.dtype
        self.weak_type = weak_type
        self.sharding = sharding

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return ShapedArray(self.shape, self.dtype).size

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        fields.update(sharding=self.sharding)
        fields.update(changes)
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def _key(self) -> tuple:
        return (self.shape, self.dtype, self.weak_type, self.sharding)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """The public description of a type."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


@dataclass(frozen=True)
class Typed:
    """What stands for an array of which only the type is known, and perhaps where it lies."""

    aval: ShapedArray
    sharding: Any


def typed_value(x: Any) -> Any:
    """An argument as a value, or what stands for one that is only described."""
    if isinstance(x, ShapeDtypeStruct):
        return Typed(ShapedArray(x.shape, x.dtype, x.weak_type), x.sharding)
    return as_value(x)


def mesh_sharding(x: Any) -> NamedSharding | None:
    """How an argument is cut over a mesh, if it is."""
    sharding = getattr(x, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


@dataclass
class Traced:
    """A function as a program."""

    fun_name: str
    jaxpr: ClosedProgram
    in_tree: Any
    out_tree: Any
    donated: tuple[bool, ...] = ()
    # Where several devices run it: how each argument is cut over them, or None.
    shardings: tuple[NamedSharding | None, ...] | None = None

    @property
    def donated_places(self) -> tuple[int, ...]:
        """Positions of the arguments that a call uses up."""
        return tuple([i for i, flag in enumerate(self.donated) if flag])

    @property
    def program(self) -> ClosedProgram:
        return self.jaxpr

    @property
    def out_info(self) -> Any:
        return tree.unflatten(self.out_tree, [struct_of(a) for a in self.jaxpr.out_avals])

    @property
    def in_avals(self) -> Any:
        return tree.unflatten(self.in_tree, list(self.jaxpr.in_avals))

    def lower(self, **options: Any) -> Lowered:
        return Lowered(self)


@dataclass
class Lowered:
    """A program on its way to machine code."""

    traced: Traced

    @property
    def out_info(self) -> Any:
        return self.traced.out_info

    @property
    def in_tree(self) -> Any:
        return self.traced.in_tree

    @property
    def out_tree(self) -> Any:
        return self.traced.out_tree

    def text(self, stage: str = "program") -> str:
        """The text of a stage: 'program', 'optimised', 'kernels', 'driver', 'llvm', 'asm' or
        'stablehlo'; where several devices run it, 'partitioned' is the program of one, and so are
        those that follow.
        """
        if stage in ("program", "jaxpr") or self.partitioned is None:
            return inspect.stage_text(self.traced.jaxpr, stage)
        found = self.partitioned
        stage = "program" if stage == "partitioned" else stage
        return inspect.stage_text(found.program, stage, found.axes)

    @cached_property
    def partitioned(self) -> Any:
        """The program of one of several devices, with a report; None where there is one."""
        traced = self.traced
        if traced.shardings is None:
            return None
        return sharded.partitioned(traced.jaxpr, traced.shardings)

    def sharding_report(self) -> Any:
        """The collectives that several devices need for the program: bytes, and why.

        It prints as a text, and counts (`report.count("all_reduce")`, `report.sent`).
        """
        found = self.partitioned
        return sharded.Report() if found is None else found.report

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """JAX's name for `text`; `dialect` may name one of its stages."""
        return self.text(dialect or "program")

    def cost_analysis(self) -> dict[str, float]:
        """Floating-point operations and bytes moved, estimated from the program."""
        found = self.partitioned
        return inspect.cost_analysis(self.traced.jaxpr if found is None else found.program)

    def compile(self, compiler_options: Any = None) -> Compiled:
        traced = self.traced
        places = traced.donated_places
        if traced.shardings is not None:
            executable = sharded.sharded_executable(traced.jaxpr, traced.shardings, places)
            return Compiled(self, executable.executable, places, executable)
        return Compiled(self, pipeline.compile_program(traced.jaxpr, places), places)


@dataclass
class Compiled:
    """Machine code for one set of argument types."""

    lowered: Lowered
    executable: Executable
    # Positions of the arguments, flattened, that a call uses up.
    donated: tuple[int, ...] = ()
    # The same on arrays that are cut over several devices.
    several: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != self.lowered.in_tree:
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree it was called "
                f"with: compiled for {self.lowered.in_tree}, called with {in_tree}"
            )
        if self.several is None:
            outs = self.executable.run(*leaves)
            if outs is not MISMATCH:
                return self._finish(leaves, outs)
        values: list[Any] = [as_value(x) for x in leaves]
        in_avals = self.lowered.traced.jaxpr.in_avals
        for value, aval in zip(values, in_avals, strict=True):
            if not value.aval.same_type(aval):
                raise TypeError(
                    "Argument types differ from the types for which this computation was compiled: "
                    f"got {value.aval.str_short()}, compiled for {aval.str_short()}"
                )
        if self.several is not None:
            return self._finish(values, self.several(values))
        arrays = [as_type(value, aval) for value, aval in zip(values, in_avals, strict=True)]
        return self._finish(arrays, self.executable.run(*arrays))

    def _finish(self, leaves: Sequence[Any], outs: Any) -> Any:
        for place in self.donated:
            leaves[place].delete()
        if outs is FAILED:
            raise take_exception()
        return tree.unflatten(self.lowered.out_tree, outs)

    @property
    def out_info(self) -> Any:
        return self.lowered.out_info

    @property
    def in_tree(self) -> Any:
        return self.lowered.in_tree

    @property
    def out_tree(self) -> Any:
        return self.lowered.out_tree

    def text(self, stage: str = "asm") -> str:
        return self.lowered.text(stage)

    def as_text(self) -> str:
        return self.text("llvm")

    def cost_analysis(self) -> dict[str, float]:
        return self.lowered.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results, temporaries and constants of one call."""
        return inspect.memory_analysis(self.executable)

    @property
    def input_shardings(self) -> Any:
        if self.several is not None:
            return tree.unflatten(self.in_tree, self.several.in_shardings)
        sharding = SingleDeviceSharding(default_device())
        return tree.unflatten(self.in_tree, [sharding] * len(self.executable.in_avals))

    @property
    def output_shardings(self) -> Any:
        if self.several is not None:
            return tree.unflatten(self.out_tree, self.several.out_shardings)
        sharding = SingleDeviceSharding(default_device())
        return tree.unflatten(self.out_tree, [sharding] * len(self.executable.out_avals))

    def runtime_executable(self) -> Executable:
        return self.executable
