"""Simulated phylogenetic profiles: their form, their tree, and that classes share ancestors."""

import numpy as np
import pytest

from mercer.datasets._make_on_trees import make_profiles
from mercer.kernels.marginalization import Marginalization
from mercer.models._tree.newick import parse_newick
from mercer.models.tree_estimator import HiddenTree


def test_form():
    found = make_profiles(40, 20, n_classes=4, missing=0.3, random_state=1)
    assert found.data.shape == (40, 20)
    assert np.isin(found.data[~np.isnan(found.data)], [0, 1]).all()
    assert abs(np.isnan(found.data).mean() - 0.3) < 0.07
    assert found.target.tolist() == [0, 1, 2, 3] * 10
    assert parse_newick(found.tree).leaves == tuple(found.leaves)
    again = make_profiles(40, 20, n_classes=4, missing=0.3, random_state=1)
    np.testing.assert_array_equal(again.data, found.data)
    assert again.tree == found.tree
    assert make_profiles(40, 20, random_state=2).tree != found.tree


def test_a_random_tree_has_height_one():
    tree = parse_newick(make_profiles(1, 30, n_classes=1, random_state=0).tree)
    depth = np.zeros(len(tree.parent))
    for v in range(1, len(depth)):
        depth[v] = depth[tree.parent[v]] + tree.lengths[v]
    np.testing.assert_allclose(depth[tree.is_leaf], 1.0)
    assert np.bincount(tree.parent[1:]).max() == 2


def test_leaves_change_by_their_branch():
    """Two leaves below a root that all share differ by the law of two branches: 1/2 (1 - exp(-2 rate (a + b)))."""
    found = make_profiles(20_000, tree="(a:0.1,b:0.3);", n_classes=1, rate=1.5, missing=0.0, random_state=0)
    p = 0.5 * (1 - np.exp(-2 * 1.5 * 0.4))
    assert abs((found.data[:, 0] != found.data[:, 1]).mean() - p) < 5 * np.sqrt(p * (1 - p) / 20_000)


def test_rates_of_classes():
    found = make_profiles(4000, tree="(a:0.2,b:0.2);", n_classes=2, rate=[0.1, 5.0], missing=0.0, random_state=0)
    differ = found.data[:, 0] != found.data[:, 1]
    assert differ[found.target == 1].mean() > 0.3 > 0.1 > differ[found.target == 0].mean()


def test_genes_of_a_class_share_their_history():
    found = make_profiles(60, 40, n_classes=3, missing=0.2, random_state=0)
    logs = Marginalization(HiddenTree(found.tree, n_iter=0)).fit(found.data).log(found.data)
    same = found.target[:, None] == found.target
    apart = ~np.eye(len(same), dtype=bool)
    assert logs[same & apart].mean() > logs[~same].mean() + 1
    alone = make_profiles(60, 40, n_classes=3, fidelity=0.0, missing=0.2, rate=20.0, random_state=0)
    logs = Marginalization(HiddenTree(alone.tree, n_iter=0)).fit(alone.data).log(alone.data)
    assert abs(logs[same & apart].mean() - logs[~same].mean()) < 1


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number, 1 or more; got 0"),
        ({"n_leaves": 1}, "n_leaves must be a whole number, 2 or more; got 1"),
        ({"fidelity": 1.5}, r"fidelity must be a number, at least 0 and at most 1; got 1\.5"),
        ({"missing": -1}, "missing must be a number, at least 0 and at most 1; got -1"),
        ({"rate": -1.0}, r"rate must be a finite number above 0, .* got -1\.0"),
        ({"rate": [1.0, 2.0]}, "above 0, or one for each of 6 classes; got"),
        ({"tree": "(a,b);"}, r"must have a length, as in '\(A:0.1,B:0.2\);'"),
        ({"tree": "(a:1,b"}, "tree cannot be parsed: expected"),
    ],
)
def test_refused(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_profiles(**parameters)
