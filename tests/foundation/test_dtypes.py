"""Dtypes: promotion and dtype queries agree with real jax; errors and warnings say what to do."""

from __future__ import annotations

import itertools
import pickle
import warnings

import jax
import pytest
from jax import numpy as jnp

import numpy as np
from tetrax import dtypes
from tetrax.config import enable_x64, explicit_x64_dtypes, numpy_dtype_promotion
from tetrax.errors import TypePromotionError

SCALARS = (True, 1, 1.5, 1j)
JAX_DTYPES = [dtype for dtype in dtypes.ALL_DTYPES if dtype.name not in ("int1", "uint1")]


class Aval:
    def __init__(self, dtype, weak_type):
        self.dtype = dtype
        self.weak_type = weak_type


class Stand:
    """What promotion looks at in an array: its abstract value."""

    def __init__(self, dtype, weak_type):
        self.aval = Aval(np.dtype(dtype), weak_type)
        self.dtype = self.aval.dtype
        self.weak_type = weak_type


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    with enable_x64(request.param), jax.enable_x64(request.param), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield request.param


@pytest.fixture(params=["standard", "strict"])
def rules(request):
    with numpy_dtype_promotion(request.param), jax.numpy_dtype_promotion(request.param):
        yield request.param


def outcome(function, *args, **kwargs):
    """Return the result, or the class of the error."""
    try:
        return function(*args, **kwargs)
    except (ValueError, TypeError) as error:
        return "TypeError" if isinstance(error, TypeError) else "ValueError"


def jax_operand(dtype, weak_type):
    """Make the thing that jax's promotion sees as an array of this type, without allocating it."""
    return jax.core.ShapedArray((), dtype, weak_type=weak_type)


def jax_result_type(*types):
    """Ask jax for the promotion of (dtype, weak) pairs by way of abstract arrays."""

    def tracer_types(*operands):
        found.append(jax.dtypes.result_type(*operands, return_weak_type_flag=True))
        return 0

    found = []
    jax.eval_shape(tracer_types, *[jax_operand(*kind) for kind in types])
    return found[0]


def arrays_that_jax_can_have(x64):
    narrow = [dtype for dtype in JAX_DTYPES if x64 or dtypes.narrowed_to_32_bits(dtype) == dtype]
    weak = [dtype for dtype in narrow if dtype.kind in "biufc" and dtype != np.float16]
    return [(dtype, False) for dtype in narrow] + [(dtype, True) for dtype in weak]


def test_result_type_of_every_pair_of_arrays(x64, rules):
    kinds = arrays_that_jax_can_have(x64)

    def expected_of_all(*operands):
        return {
            (a, b): outcome(
                jax.dtypes.result_type, operands[a], operands[b], return_weak_type_flag=True
            )
            for a, b in itertools.product(range(len(kinds)), repeat=2)
        }

    table = {}
    jax.eval_shape(
        lambda *operands: table.update(expected_of_all(*operands)) or 0,
        *[jax_operand(*kind) for kind in kinds],
    )
    ours = [Stand(*kind) for kind in kinds]
    for (a, b), expected in table.items():
        got = outcome(dtypes.result_type, ours[a], ours[b], return_weak_type_flag=True)
        assert got == expected, (kinds[a], kinds[b])


def test_result_type_of_arrays_with_python_scalars(x64, rules):
    for kind in arrays_that_jax_can_have(x64):
        for scalar in SCALARS:
            expected = []
            jax.eval_shape(
                lambda x, scalar=scalar, expected=expected: (
                    expected.append(
                        outcome(jax.dtypes.result_type, x, scalar, return_weak_type_flag=True)
                    )
                    or 0
                ),
                jax_operand(*kind),
            )
            got = outcome(dtypes.result_type, Stand(*kind), scalar, return_weak_type_flag=True)
            assert got == expected[0], (kind, scalar)


def test_result_type_of_scalars_types_and_numpy_values(x64):
    atoms = [*SCALARS, int, float, complex, bool, None, np.float64(1), np.int64(1), np.float32]
    atoms += ["int16", "float64", np.dtype("uint32"), np.ones(2), np.arange(3), jnp.bfloat16]
    for pair in itertools.product(atoms, repeat=2):
        expected = outcome(jax.dtypes.result_type, *pair, return_weak_type_flag=True)
        assert outcome(dtypes.result_type, *pair, return_weak_type_flag=True) == expected, pair


def test_result_type_of_three_does_not_depend_on_order(x64):
    kinds = [np.uint32, np.int32, np.float16, dtypes.bfloat16, np.int8, np.complex64]
    for triple in itertools.combinations(kinds, 3):
        expected = jnp.result_type(*triple)
        for order in itertools.permutations(triple):
            assert dtypes.result_type(*order) == expected


def test_promote_types(x64, rules):
    for a, b in itertools.product([*JAX_DTYPES, int, float, complex], repeat=2):
        assert outcome(dtypes.promote_types, a, b) == outcome(jnp.promote_types, a, b), (a, b)


def test_strict_promotion_names_the_setting():
    with numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError, match="strict"):
        dtypes.promote_types("int32", "float32")


def test_narrow_dtypes_name_the_conversion():
    with pytest.raises(TypePromotionError, match=r"float8_e5m2.*astype\('float32'\)"):
        dtypes.promote_types("float32", dtypes.float8_e5m2)


def test_issubdtype():
    classes = [np.generic, np.number, np.inexact, np.integer, np.signedinteger]
    classes += [np.unsignedinteger, np.floating, np.complexfloating, np.bool_, int, float, "i4"]
    for a, b in itertools.product([*JAX_DTYPES, int, float, np.floating], [*classes, *JAX_DTYPES]):
        assert dtypes.issubdtype(a, b) == jnp.issubdtype(a, b), (a, b)


def test_isdtype():
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating"]
    kinds += ["complex floating", "numeric", np.int32, ("bool", "real floating")]
    for dtype, kind in itertools.product(JAX_DTYPES, kinds):
        assert dtypes.isdtype(dtype, kind) == jnp.isdtype(dtype, kind), (dtype, kind)
    with pytest.raises(ValueError, match="real floating"):
        dtypes.isdtype("float32", "floating")


def test_key_dtypes():
    key = dtypes.KeyDType("threefry2x32")
    assert str(key) == "key<fry>" and key.name == str(jax.random.key(0).dtype)
    assert dtypes.issubdtype(key, dtypes.prng_key) and dtypes.issubdtype(key, dtypes.extended)
    assert not dtypes.issubdtype(key, np.number) and not dtypes.issubdtype(
        np.int32, dtypes.extended
    )
    assert pickle.loads(pickle.dumps(key)) is key
    assert key.itemsize == 8 and key.storage == np.uint64
    stand = Stand.__new__(Stand)
    stand.aval = Aval(key, False)
    assert dtypes.result_type(stand, stand) is key
    with pytest.raises(ValueError, match="key<fry>"):
        dtypes.result_type(stand, 1)


def test_dtype_of_values(x64):
    values = [*SCALARS, int, float, np.float32(1), np.int64(3), np.ones(2, np.float64), np.uint8]
    values += ["float16", np.dtype("int64"), [1, 2], (1.0, 2)]
    for value in values:
        expected = outcome(jax._src.dtypes.dtype, value)
        assert outcome(dtypes.dtype, value) == expected, value
    for value in ("U3", None, object(), np.array(["a"])):
        expected = outcome(jax._src.dtypes.dtype, value)
        assert outcome(dtypes.dtype, value) == expected, value


def test_related_dtypes():
    for dtype in JAX_DTYPES:
        if dtype.name in ("int2", "uint2", "float4_e2m1fn"):
            continue  # jax's table has no entry for the integers; finfo of float4 is its own
        assert dtypes.to_inexact_dtype(dtype) == jax._src.dtypes.to_inexact_dtype(dtype)
        assert dtypes.to_complex_dtype(dtype) == jax._src.dtypes.to_complex_dtype(dtype)
        assert dtypes.scalar_type_of(np.zeros((), dtype)) is jax.dtypes.scalar_type_of(
            np.zeros((), dtype)
        )
    assert dtypes.to_floating_dtype("complex64") == np.float32
    assert dtypes.tangent_dtype(np.dtype("int32")) == dtypes.float0
    assert dtypes.float0 == jax.dtypes.float0


def test_itemsize_bits():
    for dtype in JAX_DTYPES:
        assert dtypes.itemsize_bits(dtype) == jax.dtypes.itemsize_bits(dtype)


def test_supports_inf():
    for dtype in dtypes.FLOATS:
        with np.errstate(all="ignore"):
            held = np.isinf(np.array(np.inf, np.float64).astype(dtype).astype(np.float64))
        assert dtypes.supports_inf(dtype) == bool(held), dtype


def test_explicit_64_bits_warns_and_canonicalisation_does_not():
    with pytest.warns(UserWarning, match=r"Explicitly requested dtype float64.*jax_enable_x64"):
        assert dtypes.check_and_canonicalize_user_dtype("float64", "zeros") == np.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dtypes.canonicalize_dtype(np.float64) == np.float32
        assert dtypes.check_and_canonicalize_user_dtype(float) == np.float32
        assert dtypes.dtype(np.ones(2)) == np.float32
        with enable_x64():
            assert dtypes.check_and_canonicalize_user_dtype("float64") == np.float64
        with explicit_x64_dtypes("allow"):
            assert dtypes.check_and_canonicalize_user_dtype("float64") == np.float64
    with explicit_x64_dtypes("error"), pytest.raises(ValueError, match="enable_x64"):
        dtypes.check_user_dtype_supported("int64", "zeros")
    with pytest.raises(TypeError, match="numbers and booleans"):
        dtypes.check_user_dtype_supported("U4")


def test_large_python_ints_are_refused():
    with pytest.raises(OverflowError, match="2147483648"):
        dtypes.coerce_to_array(2**31)
    with enable_x64():
        assert dtypes.coerce_to_array(2**31).dtype == np.int64


def test_short_names():
    names = {"float32": "f32", "bfloat16": "bf16", "uint4": "u4", "bool": "bool", "int64": "i64"}
    names |= {"complex64": "c64", "float8_e5m2": "f8_e5m2"}
    for name, short in names.items():
        assert dtypes.short_name(np.dtype(name)) == short
