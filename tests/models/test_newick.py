"""Trees in Newick notation: what is read, what is refused and where, and that writing is the inverse of reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.models._tree.newick import Tree, layout_of, parse_newick


@pytest.mark.parametrize(
    ("text", "parent", "names", "lengths"),
    [
        ("(A,B);", [-1, 0, 0], ["", "A", "B"], [None, None, None]),
        ("(A:1,(B:2e-1,C:.5)x:0)r:9;", [-1, 0, 0, 2, 2], ["r", "A", "x", "B", "C"], [9, 1, 0, 0.2, 0.5]),
        (
            " ( 'it''s, [one]' : 1 ,\n b_c[a (comment);]:2 ) [end] ;\n",
            [-1, 0, 0],
            ["", "it's, [one]", "b_c"],
            [None, 1, 2],
        ),
        ("(A,B,C,D);", [-1, 0, 0, 0, 0], ["", *"ABCD"], [None] * 5),
        ("(((A)));", [-1, 0, 1, 2], ["", "", "", "A"], [None] * 4),
        ("A:3;", [-1], ["A"], [3]),
        ("(é1.5|x,-);", [-1, 0, 0], ["", "é1.5|x", "-"], [None] * 3),
    ],
)
def test_read(text, parent, names, lengths):
    tree = parse_newick(text)
    assert tree.parent.tolist() == parent
    assert list(tree.names) == names
    np.testing.assert_array_equal(tree.lengths, [np.nan if x is None else x for x in lengths])
    assert tree.leaves == tuple(n for v, n in enumerate(names) if v not in parent)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"expected '\(' or the name of a leaf at position 0, where the text ends"),
        (";", r"expected '\(' or the name of a leaf at position 0, before ';'"),
        ("(A,B", r"expected ',' or '\)' at position 4, where the text ends"),
        ("(A,B)", r"expected ';', which ends the tree at position 5, where the text ends"),
        ("(A,B));", r"expected ';', which ends the tree at position 5, before '\);'"),
        ("(A B);", r"expected ',' or '\)' at position 3, before 'B\);'"),
        ("(A,B);(C,D);", r"expected the end of the text, after the ';' of one tree at position 6, before '\(C,D\);'"),
        ("(A:x,B);", r"expected the length of a branch, a nonnegative number, at position 3, before 'x,B\);'"),
        ("(A:,B);", r"expected the length of a branch, a nonnegative number, at position 3, before ',B\);'"),
        ("(A:inf,B);", r"expected the length of a branch, a nonnegative number, at position 3"),
        ("(A:-0.5,B);", r"expected the length of a branch, a nonnegative number, at position 3"),
        ("(A,,B);", r"expected '\(' or the name of a leaf at position 3, before ',B\);'"),
        ("(Ab,(B,Ab));", r"distinct names; got 'Ab' twice\. Rename one"),
        ("(A[open,B);", r"expected a closing quote \('\) or '\]' at position 2"),
        ("('A,B);", r"expected a closing quote \('\) or '\]' at position 1"),
    ],
)
def test_refused_with_its_position(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_newick(text)


def test_no_string():
    with pytest.raises(TypeError, match=r"tree must be a Newick string, such as .*; got a int"):
        parse_newick(3)


def test_a_single_leaf_has_nothing_hidden():
    with pytest.raises(ValueError, match=r"the single leaf 'A', .* Add one, as in '\(A:1.0\);'"):
        layout_of(parse_newick("A:1;"), ("A",))


def test_thousands_deep():
    depth = 20_000
    text = "(" * depth + "A0" + "".join(f",A{i + 1})" for i in range(depth)) + ";"
    tree = parse_newick(text)
    assert tree.newick() == text
    assert layout_of(tree, tree.leaves).n_internal == depth


labels = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=6)


@st.composite
def trees(draw):
    """Any tree: every new node hangs under an earlier one on the path to the last, which keeps preorder."""
    n = draw(st.integers(1, 25))
    parent, path = [-1], [0]
    for v in range(1, n):
        path = path[: draw(st.integers(1, len(path)))]
        parent.append(path[-1])
        path.append(v)
    names = draw(st.lists(labels, min_size=n, max_size=n, unique=True))
    some = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    childless = [v not in parent for v in range(n)]
    names = [name if leaf or keep else "" for name, leaf, keep in zip(names, childless, some, strict=True)]
    lengths = draw(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=n, max_size=n))
    return Tree(np.array(parent), tuple(names), np.array([np.nan if x is None else x for x in lengths]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(tree=trees())
def test_round_trip(tree):
    again = parse_newick(tree.newick())
    assert again.parent.tolist() == tree.parent.tolist()
    assert again.names == tree.names
    np.testing.assert_array_equal(again.lengths, tree.lengths)


def test_what_files_and_python_add():
    assert parse_newick("\ufeff(A:1,B:2);").leaves == ("A", "B")
    with pytest.raises(ValueError, match="a nonnegative number, at position 3, before '1_0"):
        parse_newick("(A:1_0,B:2);")
