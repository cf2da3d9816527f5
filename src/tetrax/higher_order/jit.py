"""`jit`: stage a function once per argument types, compile it, call machine code afterwards."""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from tetrax import tree
from tetrax._lazy import lazy_module
from tetrax.compiler import kept
from tetrax.compiler.collector import with_rare_collections
from tetrax.compiler.eager import executable_of
from tetrax.compiler.executable import take_exception
from tetrax.compiler.meshes import meshes_in
from tetrax.config import Settings, config, settings, settings_now
from tetrax.higher_order.call import call_p, hoist_tracers
from tetrax.higher_order.sharding_constraint import constrained
from tetrax.higher_order.stages import Lowered, Traced, mesh_sharding, typed_value
from tetrax.runtime.array import Array, as_value, borrowed
from tetrax.runtime.native_call import FAILED, MISMATCH, Runner
from tetrax.tracebacks import hide_internals
from tetrax.tracing.staging import evaluate_closed, stage
from tetrax.tracing.trace import EVAL_TRACE, state
from tetrax.transforms.flat import (
    check_argument_leaves,
    debug_info,
    flatten_output,
    function_name,
)

sharded = lazy_module("tetrax.compiler.sharded")


@dataclass(eq=False, slots=True, weakref_slot=True)
class Staged:
    """A function traced at certain types; `hoisted` are outer tracers it closes over."""

    # None once the program was dropped: see `_drop_old_programs`.
    closed: Any
    out_tree: Any
    hoisted: list[Any]
    donated: tuple[int, ...]
    # What was true of the call that it was traced for, but for the types.
    settings: Settings
    static: Any
    structure: Any
    # The result is one array, not a tree.
    single: bool
    # It names a mesh of devices.
    several: bool = False
    # Runs the program on arrays of its types; see `runtime/native_call.py`.
    run: Runner | None = None
    # Takes this out of the cache it is in, unless it is in use.
    forget: Callable[[Staged], bool] | None = None
    kept: kept.Entry | None = None

    @property
    def donated_flags(self) -> tuple[bool, ...]:
        count = len(self.closed.in_avals) - len(self.hoisted)
        return tuple([i in self.donated for i in range(count)])

    def runner(self) -> Runner:
        """`run`, after compiling the program if that was not done yet."""
        if self.run is None:
            executable = executable_of(self.closed, () if self.hoisted else self.donated)
            self.run = executable.run_single if self.single else executable.run
            if self.forget is not None:
                self.kept = kept.keep(executable.nbytes, partial(_release, weakref.ref(self)))
                _drop_old_programs(self)
        return self.run

    def on_devices(self, run: Runner) -> Staged:
        """What calls of arguments that lie as those of the last call need."""
        return replace(self, closed=None, run=run, forget=None, kept=None)

    def __del__(self) -> None:
        if self.kept is not None:
            kept.drop(self.kept)

    def finish(self, leaves: Sequence[Any], outs: Any) -> Any:
        """What the function returns, from what the program gave."""
        for place in self.donated:
            leaves[place].delete()
        if outs is FAILED:
            raise take_exception()
        return outs if self.single else self.out_tree.unflatten(outs)


@dataclass(frozen=True)
class Options:
    """What `jit` was asked for, with argument names and positions settled."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    # Trees of shardings, prefixes of the arguments' and of the result's tree; None says nothing.
    in_shardings: Any = None
    out_shardings: Any = None


_LEAF = tree.structure(0)
_ON_ONE_DEVICE = frozenset([Array])


# What was compiled last, and still has its program; the program of others is traced again in the
# rare case that it is needed after that (the function is differentiated, say).
_with_programs: deque[weakref.ref[Staged]] = deque()
_MOST_PROGRAMS = 128


def _drop_old_programs(latest: Staged) -> None:
    _with_programs.append(weakref.ref(latest))
    while len(_with_programs) > _MOST_PROGRAMS:
        oldest = _with_programs.popleft()()
        if oldest is not None:
            oldest.closed = None


# Arguments of these types need no flattening.
_LEAF_TYPES = frozenset((Array, np.ndarray, np.float32, bool, int, float, complex))


@functools.lru_cache(maxsize=256)
def _plain_tree(count: int) -> Any:
    """The structure of `count` positional arrays and no keywords."""
    return tree.structure((tuple(range(count)), {}))


_all_jitted: weakref.WeakSet[Jitted] = weakref.WeakSet()


def clear_jit_caches() -> None:
    """Forget what every jitted function has traced."""
    for jitted in list(_all_jitted):
        jitted.clear_cache()


class Jitted:
    """A function made by `jit`; call it like the original."""

    def __init__(self, fun: Callable[..., Any], options: Options) -> None:
        _all_jitted.add(self)
        self._fun = fun
        self._options = options
        self._cache: dict[Any, Staged] = {}
        # The program of the last call, and the same if it needs nothing done before and after it.
        self._last: Staged | None = None
        self._last_plain: Staged | None = None
        self._has_static = bool(options.static_argnums or options.static_argnames)
        functools.update_wrapper(self, fun, updated=())
        if not hasattr(self, "__name__"):
            self.__name__ = function_name(fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            last = self._last_plain
            if (
                last is not None
                and last.settings is settings_now[0]
                and not kwargs
                and state.trace is EVAL_TRACE
            ):
                # The runner looks whether the arguments have the types of the last call.
                outs = last.run(*args)  # type: ignore[misc]
                if outs is not MISMATCH:
                    if last.single and outs is not FAILED:
                        return outs
                    return last.finish(args, outs)
            return self._call(args, kwargs)
        except Exception as error:
            hide_internals(error)
            raise

    def _call(self, args: tuple, kwargs: dict) -> Any:
        now = settings()
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        static, leaves, structure = self._flatten(args, kwargs)
        direct = now.direct and state.trace is EVAL_TRACE and not self._options.inline
        if direct:
            last = self._last
            if (
                last is not None
                and last.settings is now
                and last.structure == structure
                and last.static == static
            ):
                outs = last.run(*leaves)  # type: ignore[misc]
                if outs is not MISMATCH:
                    return last.finish(leaves, outs)
        values = self._values(leaves, args, kwargs, borrowed if direct else as_value)
        staged = self._find((now, static, structure), values, args, kwargs)
        if direct and not staged.hoisted and self._is_sharded(staged, values):
            self._restore(staged, args, kwargs, values)
            places = sharded.shardings_of(values)
            executable = sharded.sharded_executable(staged.closed, places, staged.donated)
            outs = executable(values)
            self._last = staged.on_devices(executable.runner(staged.single))
            plain = structure is None and static is None and not staged.donated
            self._last_plain = self._last if plain else None
            return staged.finish(values, outs[0] if staged.single else outs)
        if direct and not staged.hoisted:
            outs = staged.runner()(*values)
            if outs is not MISMATCH:
                self._last = staged
                plain = structure is None and static is None and not staged.donated
                self._last_plain = staged if plain else None
                return staged.finish(values, outs)
        if direct:
            values = self._values(leaves, args, kwargs)
        self._restore(staged, args, kwargs, values)
        outs = self._bind(staged, values)
        return outs[0] if staged.single else tree.unflatten(staged.out_tree, outs)

    def _is_sharded(self, staged: Staged, values: Sequence[Any]) -> bool:
        """Whether several devices run the program."""
        return staged.several or not _ON_ONE_DEVICE.issuperset(map(type, values))

    def _bind(self, staged: Staged, leaves: Sequence[Any]) -> Sequence[Any]:
        """The results of the program as an operation, for whatever trace is current."""
        if self._options.inline:
            return evaluate_closed(staged.closed, *staged.hoisted, *leaves)
        return call_p.bind(
            *staged.hoisted,
            *leaves,
            jaxpr=staged.closed,
            name=self.__name__,
            donated_invars=(False,) * len(staged.hoisted) + staged.donated_flags,
            keep_unused=self._options.keep_unused,
            inline=False,
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jitted function {self.__name__}>"

    # -- stages --------------------------------------------------------------------------------

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The program of this call, without compiling it."""
        static, leaves, structure = self._flatten(args, kwargs)
        leaves = self._values(leaves, args, kwargs, typed_value)
        staged = self._find((settings(), static, structure), leaves, args, kwargs)
        self._restore(staged, args, kwargs, leaves)
        _, in_tree = self._dynamic(args, kwargs)
        places = None
        if self._is_sharded(staged, leaves):
            places = (None,) * len(staged.hoisted) + tuple(map(mesh_sharding, leaves))
        return Traced(
            self.__name__,
            staged.closed,
            in_tree,
            staged.out_tree,
            staged.donated_flags,
            places if staged.several or any(places or ()) else None,
        )

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program of this call, lowered to kernels."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the results, without running anything."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget what was traced; the next call traces again."""
        self._cache.clear()
        self._last = self._last_plain = None

    def _cache_size(self) -> int:
        return len(self._cache)

    # -- tracing -------------------------------------------------------------------------------

    def _dynamic(self, args: tuple, kwargs: dict) -> tuple[list[Any], Any]:
        positions, names = self._static_places(len(args))
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)
        rest = {k: v for k, v in kwargs.items() if k not in names} if names else kwargs
        return tree.flatten((dynamic, rest))

    def _static_places(self, count: int) -> tuple[set[int], set[str]]:
        if not self._has_static:
            return set(), set()
        positions = {n + count if n < 0 else n for n in self._options.static_argnums}
        return {n for n in positions if 0 <= n < count}, set(self._options.static_argnames)

    def _flatten(self, args: tuple, kwargs: dict) -> tuple[Any, list[Any], Any]:
        """Static arguments, leaves of the others, and their structure.

        The structure is None for positional arguments that are leaves: nearly all calls.
        """
        static = None
        if self._has_static:
            positions, names = self._static_places(len(args))
            static = _static_key(self._fun, args, kwargs, positions, names)
            leaves, in_tree = self._dynamic(args, kwargs)
            return static, leaves, in_tree.structure
        if not kwargs and _LEAF_TYPES.issuperset(map(type, args)):
            return None, list(args), None
        leaves, in_tree = tree.flatten((args, kwargs))
        structure = in_tree.structure
        plain = not kwargs and len(leaves) == len(args) and in_tree == _plain_tree(len(args))
        return None, leaves, None if plain else structure

    def _values(
        self,
        leaves: list[Any],
        args: tuple,
        kwargs: dict,
        convert: Callable[[Any], Any] = as_value,
    ) -> list[Any]:
        try:
            return [x if type(x) is Array else convert(x) for x in leaves]
        except (TypeError, OverflowError):
            check_argument_leaves(self._fun, "jit", (args, kwargs))
            raise

    def _find(
        self, call: tuple[Settings, Any, Any], leaves: list[Any], args: tuple, kwargs: dict
    ) -> Staged:
        """The program for a call of these settings, static arguments, structure and leaves."""
        axes = (*state.axis_sizes.items(), state.tracked_axes) if state.axis_sizes else None
        key = (*call, axes, *[x.aval for x in leaves])
        staged = self._cache.get(key)
        if staged is None:
            staged = self._stage(call, args, kwargs, leaves)
            if not staged.hoisted and not config.check_tracer_leaks:
                self._cache[key] = staged
                staged.forget = partial(_forget, weakref.ref(self), key)
        elif staged.kept is not None:
            kept.use(staged.kept)
        return staged

    def _restore(self, staged: Staged, args: tuple, kwargs: dict, leaves: list[Any]) -> None:
        """Trace again where the program has been dropped."""
        if staged.closed is None:
            call = (staged.settings, staged.static, staged.structure)
            staged.closed = self._stage(call, args, kwargs, leaves).closed

    def _stage(
        self, call: tuple[Settings, Any, Any], args: tuple, kwargs: dict, leaves: list[Any]
    ) -> Staged:
        fun, structure = self._fun, call[2]
        in_tree = _plain_tree(len(args)) if structure is None else tree.PyTreeDef(structure)
        positions, names = self._static_places(len(args))

        wanted_in, wanted_out = self._options.in_shardings, self._options.out_shardings
        info = debug_info(
            fun,
            tuple(None if i in positions else x for i, x in enumerate(args)),
            {k: v for k, v in kwargs.items() if k not in names},
        )

        def flat(*values: Any) -> tuple[list[Any], Any]:
            if wanted_in is not None:
                prefix = tuple(wanted_in) if isinstance(wanted_in, list) else wanted_in
                found = tree.flatten_axes("jit in_shardings", in_tree, (prefix, None))
                places = [f"argument {name} of {self.__name__}" for name in info.arg_names]
                values = tuple(constrained(values, found, "jit in_shardings", places))
            dynamic, rest = tree.unflatten(in_tree, values)
            full = _merge(args, dynamic, positions)
            fixed = {k: v for k, v in kwargs.items() if k in names}
            outs, out_tree = flatten_output(fun, fun(*full, **rest, **fixed))
            if wanted_out is not None:
                found = tree.flatten_axes("jit out_shardings", out_tree, wanted_out)
                places = _result_names(out_tree)
                outs = constrained(outs, found, "jit out_shardings", places)
            return outs, out_tree

        with with_rare_collections():
            closed, out_tree = stage(flat, [x.aval for x in leaves], info)
        closed, hoisted = hoist_tracers(closed)
        donated = self._donated(args, kwargs, positions, names)
        if any(donated):
            _warn_unusable([x.aval for x in leaves], donated, closed.out_avals)
        places = tuple([i for i, flag in enumerate(donated) if flag])
        several = bool(meshes_in(closed))
        single = out_tree == _LEAF
        return Staged(closed, out_tree, hoisted, places, *call, single=single, several=several)

    def _donated(
        self, args: tuple, kwargs: dict, positions: set[int], names: set[str]
    ) -> tuple[bool, ...]:
        count = len(args)
        donate = {n % count for n in self._options.donate_argnums if -count <= n < count}
        marks: list[Any] = []
        for i, x in enumerate(args):
            if i not in positions:
                marks.append(tree.map(lambda _, flag=i in donate: flag, x))
        by_name = {
            k: tree.map(lambda _, flag=k in self._options.donate_argnames: flag, v)
            for k, v in kwargs.items()
            if k not in names
        }
        return tuple(tree.leaves((tuple(marks), by_name)))


def _result_names(out_tree: tree.PyTreeDef) -> list[str]:
    """`result['a'][0]` for every leaf."""
    numbered = tree.unflatten(out_tree, range(out_tree.num_leaves))
    return [f"result{tree.keystr(path)}" for path, _ in tree.leaves_with_path(numbered)]


def _release(reference: weakref.ref[Staged]) -> bool:
    staged = reference()
    return staged is None or staged.forget is None or staged.forget(staged)


def _forget(owner: weakref.ref[Jitted], key: Any, staged: Staged) -> bool:
    jitted = owner()
    if jitted is not None:
        if jitted._last is staged:
            return False
        jitted._cache.pop(key, None)
    return True


def _warn_unusable(avals: Sequence[Any], donated: Sequence[bool], out_avals: Sequence[Any]) -> None:
    """Say which donated arguments no result can take the memory of."""
    free = list(out_avals)
    unusable = []
    for aval, flag in zip(avals, donated, strict=True):
        match = next((i for i, out in enumerate(free) if out.same_type(aval)), None)
        if flag and match is None:
            unusable.append(aval.str_short())
        elif flag and match is not None:
            free.pop(match)
    if unusable:
        warnings.warn(
            f"Some donated buffers were not usable: {', '.join(unusable)}. No result has their "
            "shape "
            "and dtype; they are deleted all the same",
            stacklevel=4,
        )


def _merge(args: tuple, dynamic: Sequence[Any], positions: set[int]) -> list[Any]:
    """Positional arguments with the dynamic ones replaced."""
    rest = iter(dynamic)
    return [x if i in positions else next(rest) for i, x in enumerate(args)]


def _static_key(
    fun: Callable[..., Any], args: tuple, kwargs: dict, positions: set[int], names: set[str]
) -> Any:
    """Hashable form of the static arguments. Raises ValueError for an unhashable one."""
    values = [(i, args[i]) for i in sorted(positions)]
    values += [(name, kwargs[name]) for name in sorted(names & set(kwargs))]
    for place, value in values:
        try:
            hash(value)
        except TypeError as error:
            where = f"argument {place}" if isinstance(place, int) else f"argument {place!r}"
            if hasattr(value, "_trace"):
                raise ValueError(
                    f"Non-hashable static arguments are used in a jit-decorated function: "
                    f"{where} of "
                    f"{function_name(fun)} is traced by an outer transformation. Static arguments "
                    "must be known values"
                ) from None
            raise ValueError(
                f"Non-hashable static arguments are used in a jit-decorated function: {where} of "
                f"{function_name(fun)} has type {type(value).__name__}, which does not hash: "
                f"{error}. "
                "Pass it as an ordinary argument, or as a hashable value (a tuple instead of a "
                "list)"
            ) from None
    return tuple((place, type(value), value) for place, value in values)


def _as_tuple(value: Any, kind: type, what: str) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, kind):
        return (value,)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be {kind.__name__} or a sequence of them, got {value!r}")
    return tuple(value)


def _settle(fun: Callable[..., Any], numbers: Any, names: Any, what: str) -> tuple[tuple, tuple]:
    """Positions imply names and names imply positions, as far as the signature tells."""
    numbers = _as_tuple(numbers, int, f"{what}_argnums")
    names = _as_tuple(names, str, f"{what}_argnames")
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        return numbers, names
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in numbers:
        if not variadic and not -len(positional) <= n < len(positional):
            raise ValueError(
                f"jitted function has {what}_argnums={numbers}, but {function_name(fun)} takes "
                "only "
                f"{len(positional)} positional argument(s)"
            )
    known = {p.name for p in parameters}
    for name in names:
        if name not in known and not takes_any_name:
            raise ValueError(
                f"jitted function has invalid argnames {{{name!r}}} in {what}_argnames. "
                f"Function {function_name(fun)} takes: {', '.join(map(str, known))}"
            )
    implied_names = {positional[n] for n in numbers if -len(positional) <= n < len(positional)}
    implied_numbers = {positional.index(name) for name in names if name in positional}
    if numbers and not names:
        return numbers, tuple(sorted(implied_names))
    if names and not numbers:
        return tuple(sorted(implied_numbers)), names
    return numbers, names


def settled_options(
    fun: Callable[..., Any],
    static: int | Sequence[int] | None,
    donated: int | Sequence[int] | None,
) -> Options:
    """Options of a function whose arguments are named by position."""
    static_numbers, static_names = _settle(fun, static, None, "static")
    donate_numbers, donate_names = _settle(fun, donated, None, "donate")
    return Options(static_numbers, static_names, donate_numbers, donate_names)


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """`fun` compiled: traced once per argument types, machine code afterwards.

    Arguments are pytrees of arrays; static ones (by position or name) are part of the cache key and
    must hash. Donated arguments are deleted by the call. Without `fun`, a decorator is returned.
    Raises TypeError for an argument or result that is no array.

    >>> jit(lambda x: x + x)(2.0)
    Array(4., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            inline=inline,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
        )
    if not callable(fun):
        raise TypeError(f"jit takes a function, got {fun!r:.60} of type {type(fun).__name__}")
    static_numbers, static_names = _settle(fun, static_argnums, static_argnames, "static")
    donate_numbers, donate_names = _settle(fun, donate_argnums, donate_argnames, "donate")
    options = Options(
        static_numbers,
        static_names,
        donate_numbers,
        donate_names,
        keep_unused,
        inline,
        in_shardings,
        out_shardings,
    )
    return Jitted(fun, options)
