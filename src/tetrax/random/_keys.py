"""Random keys: making, splitting, and telling typed keys from raw uint32 words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from tetrax import dtypes, lax
from tetrax.config import config
from tetrax.ops.random_bits import (
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split,
    random_unwrap_p,
    random_wrap_p,
)
from tetrax.runtime.array import as_value, make_array
from tetrax.tracing.value import Value, get_aval

IMPLEMENTATIONS = ("threefry2x32",)
_PLANNED = ("rbg", "unsafe_rbg")
_KEY_SHAPE = (2,)


def resolve_implementation(spec: Any = None) -> str:
    """The name of a generator from a name, a key dtype, or None for the configured one."""
    if spec is None:
        spec = config.default_prng_impl
    if isinstance(spec, dtypes.KeyDType):
        return spec.impl_name
    if not isinstance(spec, str):
        raise TypeError(f"unrecognized type {type(spec)} for specifying PRNG implementation.")
    if spec in IMPLEMENTATIONS:
        return spec
    if spec in _PLANNED:
        raise NotImplementedError(
            f'the PRNG implementation "{spec}" is not available: use "threefry2x32"'
        )
    listed = ", ".join(f'"{name}"' for name in IMPLEMENTATIONS)
    raise ValueError(f'unrecognized PRNG implementation "{spec}". Did you mean one of: {listed}?')


def is_typed(key: Any) -> bool:
    """Whether `key` is an array of typed keys."""
    return isinstance(key, Value) and isinstance(key.dtype, dtypes.KeyDType)


def check_key(name: str, key: Any, allow_batched: bool = False) -> tuple[Any, bool]:
    """`key` as a typed key, and whether it came as raw words.

    Raises TypeError for what is no key, ValueError for an array of keys where one is needed.
    """
    if is_typed(key):
        typed, raw = key, False
    elif isinstance(key, Value | np.ndarray):
        _note_raw_key()
        typed, raw = wrap_words(key, resolve_implementation()), True
    else:
        raise TypeError(
            f"unexpected PRNG key type {type(key)}: {name} takes a key made by random.key or "
            "random.PRNGKey"
        )
    if typed.ndim and not allow_batched:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {key.shape} != (). "
            "Use tetrax.vmap for batching."
        )
    return typed, raw


def _note_raw_key() -> None:
    if config.legacy_prng_key == "allow":
        return
    message = (
        "Legacy uint32 key array passed as key to a random function. Make keys with random.key(), "
        'or set legacy_prng_key="allow".'
    )
    if config.legacy_prng_key == "error":
        raise ValueError(message)
    warnings.warn(message, stacklevel=4)


def wrap_words(words: Any, impl: str) -> Any:
    """Raw words as typed keys. Raises TypeError unless `words` is uint32[..., 2]."""
    aval = get_aval(words)
    prefix = "JAX encountered invalid PRNG key data: expected key_data"
    if aval.ndim < 1:
        raise TypeError(f"{prefix}.ndim >= 1; got ndim={aval.ndim}")
    if aval.shape[-1:] != _KEY_SHAPE:
        raise TypeError(f"{prefix}.shape to end with {_KEY_SHAPE}; got shape={aval.shape}")
    if aval.dtype != np.uint32:
        raise TypeError(f"{prefix}.dtype = uint32; got dtype={aval.dtype.name}")
    return random_wrap_p.bind(words, impl=impl)


def in_form(key: Any, raw: bool) -> Any:
    """A typed key, as raw words if the caller works with those."""
    return random_unwrap_p.bind(key) if raw else key


def _seeded(name: str, seed: Any, spec: Any) -> Any:
    impl = resolve_implementation(spec)
    if is_typed(seed):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if isinstance(seed, int) and not isinstance(seed, bool):
        # Seeds that need 64 bits keep their lower 32 where 64-bit integers are off.
        seed = make_array(np.int64(seed))
    seed = as_value(seed)
    if seed.ndim:
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {seed.shape} != (). "
            "Use tetrax.vmap for batching"
        )
    if config.random_seed_offset:
        seed = lax.add(seed, config.random_seed_offset)
    return random_seed_p.bind(seed, impl=impl)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A typed random key from an integer seed.

    `impl` or `dtype` names the generator. Raises TypeError unless the seed is a scalar integer.

    >>> key(0).dtype
    key<fry>
    """
    if dtype is not None:
        if impl is not None:
            raise ValueError("Cannot specify both `impl` and `dtype` arguments to random.key")
        impl = dtype
    return _seeded("key", seed, impl)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A random key as raw uint32 words; `key` is preferred.

    >>> PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    return random_unwrap_p.bind(_seeded("PRNGKey", seed, impl))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer, a different one for each 32-bit `data`."""
    typed, raw = check_key("fold_in", key)
    data = as_value(data) if not isinstance(data, int) else make_array(np.uint32(data % 2**32))
    if data.ndim:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {data.shape} != (). "
            "Use tetrax.vmap for batching."
        )
    return in_form(random_fold_in_p.bind(typed, lax.convert_element_type(data, np.uint32)), raw)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """`num` new keys from one, along a leading axis (or axes, for a tuple).

    >>> split(PRNGKey(0), 3).shape
    (3, 2)
    """
    typed, raw = check_key("split", key)
    return in_form(random_split(typed, _split_shape(num)), raw)


def _split_shape(num: Any) -> tuple[int, ...]:
    if isinstance(num, Sequence):
        return tuple(int(n) for n in num)
    return (int(num),)


def subkeys(key: Any, num: int = 2) -> list[Any]:
    """`num` new typed keys from a typed key, one by one."""
    keys = random_split(key, (num,))
    return [lax.index_in_dim(keys, i, keepdims=False) for i in range(num)]


def key_data(keys: Any) -> Any:
    """The uint32 words of keys: shape keys.shape + (2,)."""
    typed, _ = check_key("key_data", keys, allow_batched=True)
    return random_unwrap_p.bind(typed)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Typed keys from the uint32 words that `key_data` gives."""
    if dtype is not None:
        if impl is not None:
            raise ValueError(
                "Cannot specify both `impl` and `dtype` arguments to random.wrap_key_data"
            )
        impl = dtype
    return wrap_words(key_bits_array, resolve_implementation(impl))


def key_impl(keys: Any) -> str:
    """The name of the generator that keys belong to.

    >>> key_impl(key(0))
    'threefry2x32'
    """
    typed, _ = check_key("key_impl", keys, allow_batched=True)
    return typed.dtype.impl_name


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDType:
    """The dtype of keys of a generator.

    >>> key_dtype()
    key<fry>
    """
    return dtypes.KeyDType(resolve_implementation(impl_spec))


def clone(key: Any) -> Any:
    """The same key, for use a second time where key reuse is checked."""
    return random_clone_p.bind(key)
