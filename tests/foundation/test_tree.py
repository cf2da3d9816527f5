"""Trees: flattening, building, paths and errors agree with real jax's."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pickle
from typing import Any

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tetrax import tree, tree_util
from tetrax.errors import PytreeError

Point = collections.namedtuple("Point", "x y")


def both(decorator_name, cls):
    """Register a class with Tetrax and with jax."""
    getattr(tree_util, decorator_name)(cls)
    return getattr(jax.tree_util, decorator_name)(cls)


@functools.partial(both, "register_pytree_node_class")
class Pair:
    def __init__(self, first, second, label="p"):
        self.first, self.second, self.label = first, second, label

    def __repr__(self):  # names tests, so it must not hold an address
        return f"Pair({self.first!r}, {self.second!r})"

    def tree_flatten(self):
        return (self.first, self.second), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        assert isinstance(children, tuple)
        return cls(*children, label)

    def __eq__(self, other):
        return isinstance(other, Pair) and vars(self) == vars(other)

    __hash__ = None


@functools.partial(both, "register_pytree_with_keys_class")
class Keyed:
    def __init__(self, inside):
        self.inside = inside

    def tree_flatten_with_keys(self):
        return ((tree_util.GetAttrKey("inside"), self.inside),), None

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)


@functools.partial(both, "register_dataclass")
@dataclasses.dataclass
class Model:
    weights: Any
    bias: Any
    name: str = dataclasses.field(default="m", metadata={"static": True})


@functools.partial(both, "register_static")
@dataclasses.dataclass(frozen=True)
class Setting:
    value: int


class SubDict(dict):
    pass


TREES = [
    *(1, None, (), [], {}, (1,), [1, (2, [3])], {"b": 1, "a": (2, None)}, {3: 1, 1: 2}),
    *(Point(1, [2]), [Point(Point(1, 2), 3)], SubDict(a=1), collections.deque([1, 2])),
    *(collections.OrderedDict(b=1, a=2), collections.defaultdict(list, {"q": 1, "p": [2]})),
    *(Pair(1, [2, 3], "label"), Model([1, 2], 3, "n"), {"m": Model(None, Pair(1, 2))}),
    *(Setting(3), [Setting(4), 1], (None, [None, {"x": None}]), "text"),
]


@pytest.mark.parametrize("x", TREES, ids=repr)
def test_flatten_and_unflatten_agree_with_jax(x):
    leaves, treedef = tree.flatten(x)
    jax_leaves, jax_treedef = jax.tree.flatten(x)
    assert leaves == jax_leaves
    assert repr(treedef) == repr(jax_treedef)
    assert treedef.num_leaves == jax_treedef.num_leaves == len(leaves)
    assert treedef.num_nodes == jax_treedef.num_nodes
    assert repr(treedef.children()) == repr(jax_treedef.children())
    assert treedef.node_data() == jax_treedef.node_data()
    doubled = [(leaf, leaf) for leaf in leaves]
    for _ in range(3):  # the third time by the function made for this structure
        assert tree.unflatten(treedef, doubled) == jax.tree.unflatten(jax_treedef, doubled)
        assert type(treedef.unflatten(leaves)) is type(x)
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@pytest.mark.parametrize("x", TREES, ids=repr)
def test_paths_agree_with_jax(x):
    pairs, treedef = tree.flatten_with_path(x)
    expected, _ = jax.tree.flatten_with_path(x)
    assert [leaf for _, leaf in pairs] == [leaf for _, leaf in expected]
    assert treedef == tree.structure(x)
    for (path, _), (jax_path, _) in zip(pairs, expected, strict=True):
        assert tree.keystr(path) == jax.tree_util.keystr(jax_path)
        assert repr(path) == repr(jax_path)
        simple = tree.keystr(path, simple=True, separator="/")
        assert simple == jax.tree_util.keystr(jax_path, simple=True, separator="/")


def test_structures_compare_and_hash_by_content():
    one, other = tree.structure({"a": [1, 2], "b": None}), tree.structure({"b": None, "a": [3, 4]})
    assert one == other and hash(one) == hash(other)
    assert one != tree.structure({"a": (1, 2), "b": None})
    assert one != tree.structure({"a": [1, 2], "c": None})
    assert tree.structure(Pair(1, 2, "x")) != tree.structure(Pair(1, 2, "y"))
    assert one != "text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(tree.structure(Pair(1, 2, ["no hash"])))


def test_dictionaries_are_rebuilt_in_key_order():
    assert list(tree.map(lambda x: x, {"b": 1, "a": 2})) == ["a", "b"]


def test_a_class_may_be_registered_after_it_was_met_as_a_leaf():
    class Late:
        def __init__(self, x):
            self.x = x

    assert len(tree.leaves([Late(1)])) == 1
    assert tree.structure(Late(1)) == tree.structure(0)
    tree_util.register_pytree_node(Late, lambda late: ((late.x,), None), lambda _, xs: Late(*xs))
    assert tree.leaves([Late(1)]) == [1]
    with pytest.raises(ValueError, match="Duplicate"):
        tree_util.register_pytree_node(Late, lambda late: ((), None), lambda _, xs: Late(*xs))


def test_keys_of_a_keyed_class():
    ((path, leaf),) = tree.leaves_with_path({"k": Keyed(5)})
    assert leaf == 5 and tree.keystr(path) == "['k'].inside"
    assert tree_util.flatten_one_level_with_keys(Keyed(5))[0] == [
        (tree_util.GetAttrKey("inside"), 5)
    ]


def test_is_leaf():
    x = {"a": [1, (2, 3)], "b": None}
    assert tree.leaves(x, is_leaf=lambda y: isinstance(y, tuple)) == [1, (2, 3)]
    assert tree.leaves(x, is_leaf=lambda y: y is None) == [1, 2, 3, None]
    short = lambda path, y: len(path) == 1
    pairs = tree.leaves_with_path([1, [2]], is_leaf=short, is_leaf_takes_path=True)
    assert [leaf for _, leaf in pairs] == [1, [2]]


def test_map():
    assert tree.map(lambda x, y: (x, y), [1, {"a": 2}], [(3, 4), {"a": 5}]) == [
        (1, (3, 4)),
        {"a": (2, 5)},
    ]
    assert tree.map(lambda x, y, z: x + y + z, (1,), (2,), (3,)) == (6,)
    assert tree.map_with_path(lambda p, x, y: (tree.keystr(p), x, y), {"a": 1}, {"a": 2}) == {
        "a": ("['a']", 1, 2)
    }
    assert tree.map(lambda x: x, None) is None


MISMATCHES = [
    ([1], (1,), "a list of 1, found a tuple of 1"),
    ([1], [1, 2], "a list of 1, found a list of 2"),
    ({"a": 1}, {"b": 1}, r"keys \('a',\), found a dict with keys \('b',\)"),
    (
        {"a": [1, (2,)]},
        {"a": [1, 2]},
        r"\['a'\]\[1\]: expected a tuple of 1, found a leaf of type int",
    ),
    (None, 1, "expected None, found a leaf of type int"),
    (Point(1, (2,)), Point(1, 2), r"\.y: expected a tuple of 1"),
    (Pair(1, 2, "u"), Pair(1, 2, "v"), "metadata 'u', found a Pair with metadata 'v'"),
]


@pytest.mark.parametrize(("first", "second", "message"), MISMATCHES)
def test_mismatched_trees_name_the_place(first, second, message):
    with pytest.raises(PytreeError, match=message):
        tree.map(lambda x, y: x, first, second)
    with pytest.raises(ValueError):
        jax.tree.map(lambda x, y: x, first, second)


def test_wrong_number_of_leaves():
    treedef = tree.structure((1, [2]))
    for _ in range(3):
        with pytest.raises(ValueError, match="Too few leaves"):
            treedef.unflatten([1])
        with pytest.raises(ValueError, match="Too many leaves"):
            treedef.unflatten([1, 2, 3])
        assert treedef.unflatten(iter([1, 2])) == (1, [2])


def test_unsortable_keys_name_both_types():
    with pytest.raises(PytreeError, match=r"1 \(int\) and 'a' \(str\)"):
        tree.leaves({1: 2, "a": 3})


def test_deep_and_wide_trees():
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    wide = {f"k{i}": i for i in range(5000)}
    for x in (deep, wide):
        leaves, treedef = tree.flatten(x)
        for _ in range(3):
            assert treedef.unflatten(leaves) == x


def test_reductions():
    x = {"b": "c", "a": ["a", "b"]}
    assert tree.reduce(lambda a, b: a + b, x) == "abc"
    assert tree.reduce(lambda a, b: a + b, x, "z") == "zabc"
    for count in range(1, 9):
        letters = list("abcdefgh"[:count])
        pair = lambda a, b: f"({a}{b})"
        assert tree.reduce_associative(pair, letters) == jax.tree.reduce_associative(pair, letters)
    assert tree.reduce_associative(lambda a, b: a, [], identity=7) == 7
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(lambda a, b: a, [])
    with pytest.raises(TypeError):
        tree.reduce(lambda a, b: a, [])
    assert tree.all([1, [True]]) and not tree.all([1, [0]])
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, (2,)])


def test_transpose():
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": (0,)})
    x = [{"a": 1, "b": (2,)}, {"a": 3, "b": (4,)}]
    assert tree.transpose(outer, inner, x) == {"a": [1, 3], "b": ([2, 4],)}
    assert tree.transpose(outer, None, x) == {"a": [1, 3], "b": ([2, 4],)}
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match="transpose"):
            tree.transpose(outer, inner, [x[0], {"a": 1, "b": (2, 3)}])


def test_structures_compose_and_walk():
    treedef = tree.structure((1, [2]))
    assert treedef.compose(tree.structure({"a": 0})) == tree.structure(({"a": 1}, [{"a": 2}]))
    assert tree_util.treedef_tuple(treedef.children()) == treedef
    rebuilt = tree_util.PyTreeDef.from_node_data_and_children(
        tree_util.default_registry, treedef.node_data(), treedef.children()
    )
    assert rebuilt == treedef
    assert treedef.from_iterable_tree([1, (2,)]) == (1, [2])
    assert tree_util.build_tree(treedef, [1, (2,)]) == (1, [2])
    assert treedef.walk(lambda xs, data: sum(xs), lambda x: 2 * x, [1, 2]) == 6
    assert treedef.flatten_up_to(((1, 2), [3])) == [(1, 2), 3]
    assert tree_util.treedef_is_leaf(tree.structure(1))
    assert not tree_util.treedef_is_leaf(treedef)


def test_prefixes():
    full = ("x", ["y", {"z": "w"}])
    assert tree.broadcast((0, 1), full) == (0, [1, {"z": 1}])
    assert tree.broadcast_prefix((0, [1, 2]), full) == [0, 1, 2]
    assert tree.broadcast_prefix((0, None), full, is_leaf=lambda x: x is None) == [0, None, None]
    treedef = tree.structure(full)
    assert tree.flatten_axes("in_axes", treedef, None) == [None] * 3
    assert tree.flatten_axes("in_axes", treedef, (0, [None, 1])) == [0, None, 1]
    assert tree.flatten_axes("in_axes", tree.structure((1, None)), (0, None)) == [0]
    for bad in ((0,), (0, (1, 2)), [0, 1], (0, [1, {"q": 2}]), ((0,), 1)):
        with pytest.raises(PytreeError, match="in_axes must be a prefix"):
            tree.flatten_axes("in_axes", treedef, bad)
    with pytest.raises(PytreeError, match=r"at in_axes\[1\]\[1\]: .*'q'.*'z'"):
        tree.flatten_axes("in_axes", treedef, (0, [1, {"q": 2}]))


def test_where_trees_differ():
    (error,) = tree.prefix_errors([1, (2, 3)], [1, (2,)])
    assert "in_axes[1]: there it has a tuple of 2, and the tree has a tuple of 1" in str(
        error("in_axes")
    )
    assert tree.prefix_errors((1, 2), (1, [2])) == []
    ((path, *_),) = jax._src.tree_util.equality_errors([1, (2, 3)], [1, (2,)])
    ((our_path, mine, theirs, why),) = tree.equality_errors([1, (2, 3)], [1, (2,)])
    assert tree.keystr(our_path) == jax.tree_util.keystr(path)
    assert (mine, theirs, why) == ("a tuple of 2", "a tuple of 1", "the lengths do not match")


def test_partial():
    inner = functools.partial(max, 3)
    partial = tree_util.Partial(inner, 1, key=abs)
    assert tree.leaves(tree_util.Partial(inner, 1)) == [1]
    assert partial(-5) == -5
    assert tree.structure(tree_util.Partial(inner, 1)) == tree.structure(
        tree_util.Partial(inner, 2)
    )
    x = tree_util.Partial(print, 1, a=2)
    assert repr(tree.structure(x)) == repr(jax.tree.structure(jax.tree_util.Partial(print, 1, a=2)))
    doubled = tree.map(lambda v: 2 * v, x)
    assert (doubled.func, doubled.args, doubled.keywords) == (print, (2,), {"a": 4})


def test_dataclass_registration_errors():
    @dataclasses.dataclass
    class Two:
        a: int
        b: int

    with pytest.raises(ValueError, match=r"Missing: \['b'\]"):
        tree_util.register_dataclass(Two, ["a"], [])
    with pytest.raises(ValueError, match=r"Unexpected: \['q'\]"):
        tree_util.register_dataclass(Two, ["a", "b"], ["q"])
    with pytest.raises(TypeError, match="together"):
        tree_util.register_dataclass(Two, ["a"])
    with pytest.raises(TypeError, match="not a data class"):
        tree_util.register_dataclass(int)
    assert tree.static(default=1, metadata={"unit": "m"}).metadata == {"unit": "m", "static": True}


nested = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Point, inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@given(nested)
def test_random_trees(x):
    leaves, treedef = tree.flatten(x)
    jax_leaves, jax_treedef = jax.tree.flatten(x)
    assert leaves == jax_leaves and repr(treedef) == repr(jax_treedef)
    assert tree.unflatten(treedef, leaves) == x
    assert tree.flatten_with_path(x)[1] == treedef
    assert tree.flatten(x, is_leaf=lambda y: False)[1] == treedef
    assert treedef.flatten_up_to(x) == leaves
    assert pickle.loads(pickle.dumps(treedef)) == treedef
