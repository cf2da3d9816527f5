"""Settings: one `config` object with a typed flag per setting, and context managers by name.

A flag gets its value from, strongest first: an enclosing `with flag(value):` in this thread,
`config.update(name, value)`, the environment (`TETRAX_<NAME>`, then `JAX_<NAME>`), its default.
Every flag that JAX has too answers to JAX's spelling: `config.update("jax_enable_x64", True)`.

    >>> config.enable_x64
    False
    >>> with enable_x64(True):
    ...     config.enable_x64
    True
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from ._lazy import lazy_module
from ._settings_without_effect import WITHOUT_EFFECT

__all__ = [
    "Config",
    "Flag",
    "Scope",
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "auto_pcast",
    "check_tracer_leaks",
    "checking_leaks",
    "config",
    "debug_infs",
    "debug_key_reuse",
    "debug_nans",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "explain_cache_misses",
    "explicit_x64_dtypes",
    "jax2tf_associative_scan_reductions",
    "legacy_prng_key",
    "log_compiles",
    "make_user_context",
    "no_execution",
    "no_tracing",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "remove_size_one_mesh_axis_from_type",
    "softmax_custom_jvp",
    "thread_guard",
    "threefry_partitionable",
    "trace_context",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
]

difflib = lazy_module("difflib")

T = TypeVar("T")

_UNSET: Any = object()


class _ThreadOverrides(threading.local):
    """The values set by the `with` blocks of one thread, and the settings they give."""

    def __init__(self) -> None:
        self.values: dict[Flag[Any], Any] = {}
        self.settings: tuple[int, Settings] | None = None


_overrides = _ThreadOverrides()

# How many `with` blocks are open in any thread: while there are none, reading a flag is one look.
_open_scopes = 0
_scopes_lock = threading.RLock()


def _count_scopes(change: int) -> None:
    global _open_scopes
    with _scopes_lock:
        _open_scopes += change
        settings_now[0] = None if _open_scopes else _global_settings


# --------------------------------------------------------------------------- what a value may be


def _boolean(value: object) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("1", "true", "t", "yes", "y", "on"):
            return True
        if word in ("0", "false", "f", "no", "n", "off", ""):
            return False
        raise ValueError("expected a truth value such as 'true' or '0'")
    return bool(value)


def _integer(value: object) -> int:
    return int(cast(Any, value))


def _seconds(value: object) -> float:
    number = float(cast(Any, value))
    if number < 0:
        raise ValueError("expected a number of seconds, or 0")
    return number


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _anything(value: object) -> Any:
    return value


def _choice(*words: str | None) -> Callable[[object], Any]:
    def parse(value: object) -> str | None:
        # Enumerations of other libraries are taken by the word they stand for.
        word = getattr(value, "value", value)
        if word not in words:
            raise ValueError(f"expected one of {', '.join(repr(w) for w in words)}")
        return cast("str | None", word)

    return parse


_PRECISIONS = (
    *(None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32"),
    *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM"),
    *("ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM"),
    *("F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32"),
    *("BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9"),
    *("TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64"),
)
_GUARD_LEVELS = (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit")


# --------------------------------------------------------------------------- flags


class Flag(property, Generic[T]):
    """One setting: a typed attribute of `config`, and a context manager factory when called.

    A property, because CPython reads those without entering a Python-level `__get__`.

    Args:
        default: the value where nothing else is said.
        parse: turns what the user or the environment gives into a value, or raises `ValueError`.
        doc: one sentence for the user.
        traced: the value changes what tracing a function gives, so it belongs to cache keys.
        jax_name: JAX's spelling; "" where JAX has no such flag; by default "jax_" and the name.
        within: the value that `flag()` without argument sets; flags without one demand an argument.
    """

    def __init__(
        self,
        default: T,
        parse: Callable[[object], T],
        doc: str,
        *,
        traced: bool = False,
        jax_name: str | None = None,
        within: Any = _UNSET,
    ):
        self.default = default
        self.parse = parse
        self.traced = traced
        self.within = within
        self.jax_name = jax_name
        self.name = ""
        self._observers: list[Callable[[T], None]] = []
        # A cell of its own: reading it from the closure is faster than an attribute of the flag.
        self.cell = cell = [default]

        def read(_config: object) -> T:
            if _open_scopes:
                return _overrides.values.get(self, cell[0])
            return cell[0]

        super().__init__(read, lambda _config, value: self.set_global(value), doc=doc)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type) -> Flag[T]: ...
        @overload
        def __get__(self, instance: object, owner: type) -> T: ...
        def __get__(self, instance: Any, owner: type | None = None) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        if self.jax_name is None:
            self.jax_name = name if name.startswith("jax") else "jax_" + name
        given = os.environ.get("TETRAX_" + name.upper())
        if given is None and self.jax_name:
            given = os.environ.get(self.jax_name.upper())
        if given is not None:
            self.cell[0] = self.checked(given)

    @property
    def value(self) -> T:
        """The value in force in this thread."""
        return _overrides.values.get(self, self.cell[0])

    def checked(self, value: object) -> T:
        """Return `value` in the flag's own type, or raise `ValueError` naming the flag."""
        try:
            return self.parse(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The setting {self.name!r} cannot be {value!r}: {error}.") from None

    def set_global(self, value: object) -> None:
        """Set the value that every thread sees outside its `with` blocks."""
        self.cell[0] = self.checked(value)
        self.tell_observers()
        if self in _settings_flags:
            _renew_settings()

    def observe(self, observer: Callable[[T], None]) -> None:
        """Call `observer(value)` whenever the value changes for this thread or for all."""
        self._observers.append(observer)

    def tell_observers(self) -> None:
        """Report the value in force in this thread to those who asked for it."""
        for observer in self._observers:
            observer(self.value)

    def __call__(self, value: object = _UNSET) -> Scope:
        """Return a context manager (or decorator) that sets the flag in this thread."""
        if value is _UNSET:
            value = self.within
        if value is _UNSET:
            raise TypeError(f"`{self.name}` needs the value to set: `with {self.name}(value):`.")
        return Scope(self, self.checked(value))

    def __repr__(self) -> str:
        return f"<flag {self.name} = {self.value!r}>"


class Scope(contextlib.ContextDecorator):
    """Sets a flag inside a `with` block, in the thread that runs it; may be nested and reused."""

    def __init__(self, flag: Flag[Any], value: object):
        self._flag = flag
        self._value = value
        self._outer: list[Any] = []

    def __enter__(self) -> None:
        values = _overrides.values
        self._outer.append(values.get(self._flag, _UNSET))
        values[self._flag] = self._value
        _overrides.settings = None
        _count_scopes(+1)
        self._flag.tell_observers()

    def __exit__(self, *exception: object) -> None:
        outer = self._outer.pop()
        if outer is _UNSET:
            del _overrides.values[self._flag]
        else:
            _overrides.values[self._flag] = outer
        _overrides.settings = None
        _count_scopes(-1)
        self._flag.tell_observers()


def _switch(doc: str, *, default: bool = False, traced: bool = False) -> Flag[bool]:
    """Make a truth-valued flag; `with flag():` turns it on."""
    return Flag(default, _boolean, doc, traced=traced, within=True)


def _own_switch(doc: str, *, traced: bool = False) -> Flag[bool]:
    """Make a truth-valued flag that JAX does not have."""
    return Flag(False, _boolean, doc, traced=traced, jax_name="", within=True)


class Config:
    """Every setting of Tetrax; each flag's `__doc__` says what it does."""

    # Meaning of programs.
    enable_x64 = _switch("Keep 64-bit dtypes; otherwise they become 32-bit ones.", traced=True)
    numpy_dtype_promotion = Flag(
        "standard",
        _choice("standard", "strict"),
        "'strict' refuses to mix dtypes, except Python scalars with arrays.",
        traced=True,
    )
    numpy_rank_promotion = Flag(
        "allow",
        _choice("allow", "warn", "raise"),
        "What broadcasting between different ranks does.",
        traced=True,
    )
    default_matmul_precision: Flag[str | None] = Flag(
        None, _choice(*_PRECISIONS), "Precision of products that name none.", traced=True
    )
    explicit_x64_dtypes = Flag(
        "warn",
        _choice("allow", "warn", "error"),
        "What asking for a 64-bit dtype does while `enable_x64` is off.",
        traced=True,
    )
    default_device: Flag[Any] = Flag(
        None, _anything, "Device for arrays that name none; a device or a platform.", traced=True
    )
    threefry_partitionable = _switch(
        "Random bits do not depend on how an array is cut over devices.", default=True, traced=True
    )
    default_prng_impl = Flag(
        "threefry2x32", _text, "Random number generator of keys that name none.", traced=True
    )
    overlap_collectives = Flag(
        "auto",
        _choice("auto", "always", "never"),
        "Whether sums over devices go on beside the work: 'auto' does it between processes.",
        traced=True,
        jax_name="",
    )
    random_seed_offset = Flag(0, _integer, "Added to every seed.", traced=True)

    # Looking for mistakes.
    debug_nans = _switch("Raise where a NaN first appears.", traced=True)
    debug_infs = _switch("Raise where an infinity first appears.", traced=True)
    disable_jit = _switch("Run jitted functions operation by operation, as plain Python.")
    check_tracer_leaks = _switch("Report traced values that outlive their function.")
    enable_checks = _switch("Check every program between compiler passes.")
    check_bounds = _own_switch("Compiled kernels check each load and store.", traced=True)
    check_index = _own_switch("Raise on an out-of-range index rather than clamp.", traced=True)
    explain_cache_misses = _switch("Say why a jitted function was traced again.")
    log_compiles = _switch("Log each compilation and the time it took.")
    dump = Flag("", _text, "Stages to print: program, kernels, llvm, asm.", jax_name="")
    traceback_filtering = Flag(
        "auto",
        _choice("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"),
        "How frames of the library are hidden from error reports.",
    )

    # The machine.
    num_cpu_devices = Flag(
        -1, _integer, "Devices the CPU is split into; -1: as XLA_FLAGS says, else one."
    )
    num_threads = Flag(
        0, _integer, "Worker threads; 0: as many as this process has cores.", jax_name=""
    )
    process_timeout = Flag(
        0.0,
        _seconds,
        "Seconds that an exchange with other processes may take; 0: any.",
        jax_name="",
    )
    enable_compilation_cache = _switch("Keep compiled code on disk.", default=True)
    cache_dir: Flag[str | None] = Flag(
        None,
        lambda value: None if value is None else _text(value),
        "Folder of compiled code; None means the user's cache folder.",
        jax_name="jax_compilation_cache_dir",
    )
    cache_max_bytes = Flag(
        512 * 2**20,
        _integer,
        "Size that the folder of compiled code is kept under; -1: any.",
        jax_name="jax_compilation_cache_max_size",
    )

    # Accepted so that programs which set them run; each has a context manager in JAX.
    transfer_guard = Flag(None, _choice(*_GUARD_LEVELS), "Without effect: transfers are free.")
    transfer_guard_host_to_device = Flag(None, _choice(*_GUARD_LEVELS), "Without effect.")
    transfer_guard_device_to_device = Flag(None, _choice(*_GUARD_LEVELS), "Without effect.")
    transfer_guard_device_to_host = Flag(None, _choice(*_GUARD_LEVELS), "Without effect.")
    array_garbage_collection_guard = Flag(None, _anything, "Without effect.")
    allow_f16_reductions = _switch("Without effect: sums are in float32.", default=True)
    auto_pcast = _switch("Without effect.", default=True)
    debug_key_reuse = _switch("Raise where a random key is used twice.")
    enable_custom_prng = _switch("Without effect: `random.key` always makes typed keys.")
    legacy_prng_key = Flag("allow", _choice("allow", "warn", "error"), "What raw keys do.")
    jax2tf_associative_scan_reductions = _switch("Without effect.")
    no_execution = _switch("Without effect.")
    no_tracing = _switch("Without effect.")
    remove_size_one_mesh_axis_from_type = _switch("Without effect.")
    softmax_custom_jvp = _switch("Without effect: softmax has its own derivative.")
    thread_guard = _switch("Without effect.")

    def __getattr__(self, name: str) -> Any:
        # Reached only where no flag has this name: JAX's spelling, or a flag without effect.
        if name.startswith("__"):
            raise AttributeError(name)
        flag = _by_jax_name.get(name)
        if flag is not None:
            return flag.value
        if name in _without_effect:
            return _without_effect[name]
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: object) -> None:
        self.update(name, value)

    def update(self, name: str, value: object) -> None:
        """Set a flag for every thread; raises `AttributeError` for unknown names."""
        flag = _by_name.get(name) or _by_jax_name.get(name)
        if flag is not None:
            flag.set_global(value)
        elif name in _without_effect:
            _without_effect[name] = value
        else:
            raise AttributeError(_unknown(name))

    def read(self, name: str) -> Any:
        """Return the value of a flag by its name, in either spelling."""
        return getattr(self, name)

    @property
    def values(self) -> dict[str, Any]:
        """Every setting in force: by JAX's name where JAX has the flag, else by ours."""
        own = {flag.jax_name or flag.name: flag.value for flag in _by_name.values()}
        return {**_without_effect, **own}

    def config_with_absl(self) -> None:
        """Accepted for JAX's sake; settings are not read from absl flags."""

    def parse_flags_with_absl(self) -> None:
        """Accepted for JAX's sake; settings are not read from absl flags."""


_without_effect = dict(WITHOUT_EFFECT)
_by_name: dict[str, Flag[Any]] = {
    name: flag for name, flag in vars(Config).items() if isinstance(flag, Flag)
}
_by_jax_name: dict[str, Flag[Any]] = {
    flag.jax_name: flag for flag in _by_name.values() if flag.jax_name
}


def _unknown(name: str) -> str:
    known = [*_by_name, *_by_jax_name, *_without_effect]
    near = difflib.get_close_matches(name, known, n=3)
    hint = f" Did you mean {' or '.join(repr(word) for word in near)}?" if near else ""
    return f"There is no setting {name!r}.{hint}"


# --------------------------------------------------------------------------- trace context


class Settings:
    """The settings in force during a call: one object per combination, for use as a key."""

    __slots__ = ("context", "direct")

    def __init__(self, context: tuple[Hashable, ...], direct: bool):
        # The values of the flags that change what tracing gives.
        self.context = context
        # Compiled code may be run at once: no flag asks for anything to be watched or left out.
        self.direct = direct


_traced_flags: list[Flag[Any]] = [flag for flag in _by_name.values() if flag.traced]
_watching_flags: list[Flag[Any]] = [
    *(Config.disable_jit, Config.check_tracer_leaks, Config.debug_nans, Config.debug_infs)
]
_settings_flags: set[Flag[Any]] = {*_traced_flags, *_watching_flags}
_known_settings: dict[tuple[Hashable, ...], Settings] = {}
_MOST_KNOWN_SETTINGS = 4096
_generation = 0
_global_settings: Settings

settings_now: list[Settings | None] = [None]
"""Holds what `settings` gives, or None while `with` blocks are open, for calls in a hurry."""


def _settings_of(value_of: Callable[[Flag[Any]], Any]) -> Settings:
    context = tuple([value_of(flag) for flag in _traced_flags])
    watching = tuple([value_of(flag) for flag in _watching_flags])
    found = _known_settings.get((context, watching))
    if found is None:
        if len(_known_settings) >= _MOST_KNOWN_SETTINGS:
            _known_settings.clear()
        made = Settings(context, not any(watching))
        found = _known_settings.setdefault((context, watching), made)
    return found


def _renew_settings() -> None:
    global _global_settings, _generation
    with _scopes_lock:
        _generation += 1
        _global_settings = _settings_of(lambda flag: flag.cell[0])
        settings_now[0] = None if _open_scopes else _global_settings


_renew_settings()


def settings() -> Settings:
    """Return the settings in force in this thread."""
    found = settings_now[0]
    if found is not None:
        return found
    cached, generation = _overrides.settings, _generation
    if cached is None or cached[0] != generation:
        cached = generation, _settings_of(lambda flag: flag.value)
        _overrides.settings = cached
    return cached[1]


def trace_context() -> tuple[Hashable, ...]:
    """Return the values of the flags that change what tracing gives; part of cache keys."""
    return settings().context


def make_user_context(default_value: Hashable = None) -> Flag[Any]:
    """Return a flag of the user's own: `with flag(value):` retraces jitted functions per value."""
    flag: Flag[Any] = Flag(default_value, _anything, "A user's context.", traced=True, jax_name="")
    flag.name = "user_context"
    _traced_flags.append(flag)
    _settings_flags.add(flag)
    _renew_settings()
    return flag


# --------------------------------------------------------------------------- by name

config = Config()

enable_x64 = Config.enable_x64
numpy_dtype_promotion = Config.numpy_dtype_promotion
numpy_rank_promotion = Config.numpy_rank_promotion
default_matmul_precision = Config.default_matmul_precision
default_device = Config.default_device
default_prng_impl = Config.default_prng_impl
threefry_partitionable = Config.threefry_partitionable
debug_nans = Config.debug_nans
debug_infs = Config.debug_infs
check_tracer_leaks = Config.check_tracer_leaks
checking_leaks = Config.check_tracer_leaks
enable_checks = Config.enable_checks
explicit_x64_dtypes = Config.explicit_x64_dtypes
explain_cache_misses = Config.explain_cache_misses
log_compiles = Config.log_compiles

transfer_guard = Config.transfer_guard
transfer_guard_host_to_device = Config.transfer_guard_host_to_device
transfer_guard_device_to_device = Config.transfer_guard_device_to_device
transfer_guard_device_to_host = Config.transfer_guard_device_to_host
array_garbage_collection_guard = Config.array_garbage_collection_guard
allow_f16_reductions = Config.allow_f16_reductions
auto_pcast = Config.auto_pcast
debug_key_reuse = Config.debug_key_reuse
enable_custom_prng = Config.enable_custom_prng
legacy_prng_key = Config.legacy_prng_key
jax2tf_associative_scan_reductions = Config.jax2tf_associative_scan_reductions
no_execution = Config.no_execution
no_tracing = Config.no_tracing
remove_size_one_mesh_axis_from_type = Config.remove_size_one_mesh_axis_from_type
softmax_custom_jvp = Config.softmax_custom_jvp
thread_guard = Config.thread_guard


def disable_jit(disable: bool = True) -> Scope:
    """Run jitted functions operation by operation inside a `with` block, to debug them as Python.

    >>> with disable_jit():
    ...     config.disable_jit
    True
    """
    return Config.disable_jit(disable)
