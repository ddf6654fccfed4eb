"""Networks of edges and a data frame: states that are numbers, booleans or names, found in the data."""

import numpy as np
import pandas as pd
import pytest

import mercer as mc

EDGES = [("smoke", "cough")]


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    smoke = rng.random(n) < 0.3
    cough = rng.random(n) < np.where(smoke, 0.8, 0.1)
    return pd.DataFrame({"smoke": smoke, "cough": cough.astype(int) + 1})


FRAME = frame()


@pytest.mark.parametrize(
    "net",
    [
        mc.BayesNet(EDGES),
        mc.BayesNet(["smoke", "cough"], {"cough": ["smoke"]}),
        mc.BayesNet(["cough", "smoke"], EDGES),
        mc.BayesNet(parents=EDGES),
        mc.BayesNet(parents={"cough": ["smoke"]}),
        mc.BayesNet({"smoke": [False, True], "cough": None}, EDGES),
        mc.BayesNet({"smoke": [False, True], "cough": [1, 2]}, EDGES),
    ],
    ids=lambda net: f"{net.nodes} {net.parents}",
)
def test_tables_are_counts(net):
    net = net.set_params(prior=None).fit(FRAME)
    assert net.nodes_ == {"smoke": [False, True], "cough": [1, 2]}
    counts = pd.crosstab(FRAME["smoke"], FRAME["cough"], normalize="index").to_numpy()
    np.testing.assert_allclose(net.model_.table("cough")[0], counts)
    np.testing.assert_allclose(net.model_.table("smoke")[0], [1 - FRAME["smoke"].mean(), FRAME["smoke"].mean()])
    found = net.predict_proba({"cough": [1, 2]}, "smoke")
    assert found.columns.tolist() == [False, True]
    posterior = pd.crosstab(FRAME["cough"], FRAME["smoke"], normalize="index").to_numpy()  # Bayes' theorem
    np.testing.assert_allclose(found, posterior)
    predicted = net.predict(FRAME[["smoke"]], "cough")
    assert predicted.dtype.kind == "i"
    np.testing.assert_array_equal(predicted, np.where(FRAME["smoke"], 2, 1))
    assert net.predict({"cough": [1, 2]}, "smoke").dtype == bool


def test_samples_have_the_states_of_the_data():
    net = mc.BayesNet(EDGES).fit(FRAME)
    drawn, codes = net.sample(500, random_state=0, as_frame=True), net.sample(500, random_state=0)
    assert drawn.dtypes.to_dict() == FRAME.dtypes.to_dict()
    np.testing.assert_array_equal(drawn["cough"], codes[:, 1] + 1)
    np.testing.assert_array_equal(drawn["smoke"], codes[:, 0] == 1)
    mixed = mc.BayesNet({"s": ["no", "yes"], "x": "gaussian"}, {"x": ["s"]}).fit([["no", 0.5], ["yes", 2.0]])
    drawn = mixed.sample(3, random_state=0, as_frame=True)
    assert set(drawn["s"]) <= {"no", "yes"}
    np.testing.assert_array_equal(drawn["x"], mixed.sample(3, random_state=0)[:, 1])


def test_the_order_of_states():
    """Ascending, or that of categories, also of one that does not occur."""
    X = pd.DataFrame({"a": [3, 1, 2, 1], "b": ["y", "x", None, "x"], "c": pd.Categorical(["lo", "hi", "lo", "lo"])})
    X["c"] = X["c"].cat.set_categories(["lo", "mid", "hi"])
    found = mc.BayesNet().fit(X).nodes_
    assert found == {"a": [1, 2, 3], "b": ["x", "y"], "c": ["lo", "mid", "hi"]}
    assert [type(state) for state in found["a"]] == [int] * 3


@pytest.mark.parametrize("kind", ["boolean", "Int64", "float64", "object"])
def test_missing_values_of_all_kinds(kind):
    X = FRAME.astype({"smoke": kind})
    X.loc[3, "smoke"] = pd.NA if kind in ("boolean", "Int64") else np.nan if kind == "float64" else None
    net = mc.BayesNet(EDGES).fit(X)
    assert net.nodes_["smoke"] == [False, True]
    codes = FRAME.to_numpy(dtype=float) - [0, 1]
    codes[3, 0] = np.nan
    same = mc.BayesNet({"smoke": 2, "cough": 2}, EDGES).fit(codes)
    np.testing.assert_array_equal(net.model_.probability, same.model_.probability)
    assert net.score(X) == same.score(codes)
    assert net.bic(X) == same.bic(codes)


def test_several_tables():
    """Their states are those of all of them, and the cache of fits knows which."""
    tables = [FRAME[:50], FRAME[50:]]
    found = mc.BayesNet(EDGES).fit_each(tables)
    declared = mc.BayesNet({"smoke": [False, True], "cough": [1, 2]}, EDGES)
    assert found.digests() == declared.fit_each(tables).digests()
    assert found.nodes == (("smoke", ("False", "True")), ("cough", ("1", "2")))
    other = mc.BayesNet(EDGES).fit_each([table.assign(cough=table["cough"] * 10) for table in tables])
    assert other.nodes[1] == ("cough", ("10", "20"))
    np.testing.assert_array_equal(other.probability, found.probability)
    fitted = mc.BayesNet(EDGES).fit(FRAME)
    assert fitted.fit_each([FRAME[FRAME["cough"] == 1]]).nodes == found.nodes
    assert mc.Fisher(declared).fit_transform(FRAME).shape == (200, 200)
    with pytest.raises(ValueError, match=r"Declare them in a kernel: nodes=net\.nodes_"):
        mc.Fisher(mc.BayesNet(EDGES)).fit(FRAME)
    np.testing.assert_array_equal(
        mc.ProbabilityProduct(mc.BayesNet(fitted.nodes_, EDGES))(tables), mc.ProbabilityProduct()(found)
    )


def test_hidden_nodes_are_declared():
    nodes = {"cause": 2, "smoke": None, "cough": None}
    net = mc.BayesNet(nodes, [("cause", "smoke"), ("cause", "cough")], ["cause"], n_iter=5, tol=0).fit(FRAME)
    assert net.nodes_["cough"] == [1, 2]
    assert set(net.predict(FRAME)) <= {0, 1}
    with pytest.raises(ValueError, match=r"hidden node 'cause' are not in the data\. Declare their number"):
        net.set_params(nodes=dict.fromkeys(nodes)).fit(FRAME)


def test_files(tmp_path):
    net = mc.BayesNet(EDGES).fit(FRAME)
    mc.save(net, tmp_path / "net.mercer")
    again = mc.load(tmp_path / "net.mercer")
    assert again.nodes_ == net.nodes_
    np.testing.assert_array_equal(again.predict(FRAME, "cough"), net.predict(FRAME, "cough"))


@pytest.mark.parametrize(
    ("net", "X", "message"),
    [
        (mc.BayesNet(EDGES), FRAME.assign(cough=0.5), "has the value 0.5, which is not a state. Declare a Gaussian"),
        (mc.BayesNet(EDGES), FRAME.assign(cough=["a", 1] * 100), "all strings, all whole numbers or all booleans"),
        (
            mc.BayesNet(EDGES),
            FRAME.assign(cough=None),
            "X has no value of 'cough', so its states are not known. Declare them",
        ),
        (mc.BayesNet(EDGES), FRAME[["smoke"]], "X has no value of 'cough'"),
        (mc.BayesNet(EDGES, EDGES), FRAME, "parents must be None if nodes are edges"),
        (mc.BayesNet(["smoke", "smoke"]), FRAME, "once; got 'smoke' twice"),
        (mc.BayesNet(), [[0, 1]], "X must be a data frame"),
        (mc.BayesNet("smoke"), FRAME, "nodes must be a dict of names and states, a list of names"),
        (mc.BayesNet(["smoke", "cough"], [("smoke",)]), FRAME, "parents must be a dict of names"),
        (mc.BayesNet({"smoke": [0, 1], "cough": [1]}, EDGES), FRAME, "has 2 in 'cough', whose states are 1"),
        (mc.BayesNet(EDGES), FRAME.assign(age=1), "'age' is not one"),
    ],
)
def test_bad_calls(net, X, message):
    with pytest.raises(ValueError, match=message):
        net.fit(X)


def test_other_states_at_prediction():
    net = mc.BayesNet(EDGES).fit(FRAME)
    with pytest.raises(ValueError, match="Row 1 has 7 in 'cough', whose states are 1, 2"):
        net.predict({"cough": [1, 7]}, "smoke")


def test_a_frame_with_two_columns_of_one_name_is_refused():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame([["y", "n"], ["n", "n"]], columns=["a", "a"])
    with pytest.raises(ValueError, match="columns must have different names; got 'a' twice"):
        mc.BayesNet().fit(table)
