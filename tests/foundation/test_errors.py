"""Errors: the tree they form, the remedies they name, and that they survive pickling."""

from __future__ import annotations

import pickle

import jax
import pytest

from tetrax import errors


class Traced:
    def describe(self):
        return "float32[3] made by `sin` at user.py:12"


REMEDIES = [
    (errors.ConcretizationTypeError, ("static_argnums", "jnp.where", "x.shape")),
    (
        errors.TracerBoolConversionError,
        ("lax.cond", "jnp.where", "lax.while_loop", "static_argnums"),
    ),
    (errors.TracerArrayConversionError, ("jnp", "pure_callback")),
    (errors.TracerIntegerConversionError, ("lax.fori_loop", "static_argnums", "lax.switch")),
    (errors.NonConcreteBooleanIndexError, ("jnp.where", "size=n")),
]


@pytest.mark.parametrize(("kind", "remedies"), REMEDIES)
def test_errors_about_traced_values_describe_them_and_name_remedies(kind, remedies):
    error = kind(Traced())
    assert "float32[3] made by `sin` at user.py:12" in str(error)
    for remedy in remedies:
        assert remedy in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and str(copy) == str(error)


def test_context_is_part_of_the_message():
    assert "the axis argument" in str(errors.ConcretizationTypeError(Traced(), "the axis argument"))


@pytest.mark.parametrize("name", [n for n in dir(jax.errors) if n[0] != "_"])
def test_bases_are_those_of_jax(name):
    theirs, ours = getattr(jax.errors, name), getattr(errors, name)
    builtin = {base for base in theirs.__mro__ if base.__module__ == "builtins"}
    assert builtin <= set(ours.__mro__)
    for other in dir(jax.errors):
        if other[0] != "_" and issubclass(theirs, getattr(jax.errors, other)):
            assert issubclass(ours, getattr(errors, other)), (name, other)


def test_every_error_is_a_tetrax_error_with_a_text_of_its_own():
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, errors.TetraxError)
        # Aliases are in the tree under the class's own name.
        assert kind.__doc__ and (name in errors.__doc__ or kind.__name__ != name)


def test_missing_rule_says_where_to_add_it():
    error = errors.MissingRule("sort", "transpose", "ops/sort.py")
    assert "`sort`" in str(error) and "`transpose`" in str(error) and "ops/sort.py" in str(error)
    assert isinstance(error, NotImplementedError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_in_place_assignment_names_at():
    assert "x.at[index].set(value)" in str(errors.InPlaceAssignmentError())
