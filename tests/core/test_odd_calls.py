"""Odd calls end in one sentence that names the parameter or the sample, or in the right value, without a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse.linalg import aslinearoperator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_dna, make_families, make_point_sets

pytestmark = pytest.mark.filterwarnings("error")

SERIES = np.random.default_rng(0).normal(size=(4, 5, 2))
RATES = mc.Poissons([[1.0], [2.0]])
CHAINS = mc.MarkovChains([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], alphabet="ab")
WALK = mc.LDSs(*[[[1.0]]] * 4, [0.0], [[1.0]]).reshape(1, 1)
SWITCHING = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], WALK)
MIXTURE = mc.Mixtures([[0.5, 0.5]], mc.Gaussians([[[0.0], [1.0]]], [[[1.0], [2.0]]]))
STRINGS = mc.Sequences(["ACGT", "GGT"])
AFFINE = mc.AffinePairHMM((2, -3), alphabet="dna", gap_open=9, gap_extend=4, n_iter=0).fit(["ACGT"]).model_


FACTORIAL = mc.FactorialHMM(n_chains=1, n_states=1, n_iter=1).fit(SERIES).model_
EMBEDDED = mc.EmbeddedHMM(n_components=1).fit(SERIES)


class TestRagged:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: mc.Gaussians([[0.0, 1.0], [2.0]], [1.0, 1.0]), r"mean must be .* entry 1 has shape \(1,\)"),
            (lambda: mc.Categoricals([[0.5, 0.5], [1.0]]), "probabilit.* nested lists of different lengths"),
            (lambda: mc.Poissons([[1.0], [1.0, 2.0]]), "rate must be an array of numbers; got nested lists"),
            (lambda: mc.Poissons([[[1.0]], [[1.0], [2.0]]]), "rate must be .* different lengths"),
            (lambda: mc.Gaussian().fit_each([[[1.0, 2.0], [3.0]], [[1.0, 2.0]]]), "sequence 0"),
            (lambda: mc.Gaussian().fit([[[1.0, 2.0], [3.0]], [[1.0, 2.0]]]), "sequence 0"),
        ],
    )
    def test_is_named(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()

    def test_counts_of_several_lengths(self):
        with pytest.raises(TypeError, match=r"Poisson requires vectors; .* Integers are read as symbols; pass floats"):
            mc.ProbabilityProduct(mc.Poisson())([[3, 1, 2], [1, 2]])


class TestLargeNumbers:
    @pytest.mark.parametrize("size", [1e150, 1e200, 1e300, 1.7e308])
    def test_rbf_is_exact(self, size):
        found = mc.RBF(gamma=1.0)([[size], [0.0], [-size], [size]])
        np.testing.assert_array_equal(found, [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]])

    def test_linear_says_so(self):
        with pytest.raises(ValueError, match="self-kernel that is not finite"):
            mc.Linear()([[1e200], [1.0]])
        with pytest.raises(OverflowError, match="Rescale the data, or normalize"):
            mc.Linear(normalize=False)([[1e200], [1.0]])

    def test_divergences(self):
        means = mc.Gaussians([[1e200], [0.0]], [[1.0], [1.0]])
        np.testing.assert_array_equal(mc.SymmetricKL()(means), np.eye(2))

    @pytest.mark.parametrize("model", [mc.Gaussian(), mc.Gaussian("full"), mc.LikelihoodRatio(mc.Gaussian())])
    def test_fits(self, model):
        with pytest.raises(ValueError, match="squares of the data overflow"):
            model.fit(SERIES * 1e300, [0, 1, 0, 1])


class TestSizes:
    @pytest.mark.parametrize("n", [10**6, 10**30])
    def test_states(self, n):
        with pytest.raises(ValueError, match=r"n_states must be a whole number, from 1 to 10000.* n x n transitions"):
            mc.HMM(n).fit(["ACGT", "GGT"])

    @pytest.mark.parametrize("n", [10**5, 10**30])
    def test_orders(self, n):
        with pytest.raises(ValueError, match="must be at most 10000"):
            mc.Derivatives(n).fit_transform(SERIES)

    @pytest.mark.parametrize(
        "call",
        [
            lambda n: RATES.sample(n),
            lambda n: CHAINS.sample(2, size=n),
            lambda n: CHAINS.sample(n),
            lambda n: make_point_sets(n_components=n),
            lambda n: make_dna(length=n),
        ],
    )
    def test_arrays(self, call):
        with pytest.raises(ValueError, match=f"must be at most 1,000,000,000,000; got {10**30}"):
            call(10**30)

    def test_whole_numbers_of_any_size_are_numbers(self):
        whole, real = make_dna(2, concentration=10**30, random_state=0), make_dna(2, concentration=1e30, random_state=0)
        assert whole[0] == real[0]

    def test_a_number_too_large_for_a_float(self):
        with pytest.raises(ValueError, match="gamma must be a number"):
            mc.RBF(gamma=10**400)([[1.0]])

    def test_a_single_number(self):
        with pytest.raises(TypeError, match="list of samples; got a single number"):
            mc.objects(np.array(2.0))

    def test_no_coordinates(self):
        for model in (mc.Gaussian(), mc.KDE(), mc.Mixture()):
            with pytest.raises(ValueError, match="at least one coordinate"):
                model.fit(np.zeros((2, 3, 0)))

    def test_no_samples(self):
        model = mc.AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1)
        with pytest.raises(ValueError, match="X is empty"):
            model.fit(pd.Series([], dtype=object))


class TestWrongParts:
    @pytest.mark.parametrize("kernel", [mc.Fisher, mc.Marginalization])
    @pytest.mark.parametrize("model", [mc.HMM(emission="gaussian"), mc.Mixture("gaussian")])
    def test_a_name_for_a_family(self, kernel, model):
        with pytest.raises(TypeError, match=r"must be an estimator, or None; got 'gaussian'"):
            kernel(model).fit(SERIES)

    def test_no_kernel(self):
        for kernel in (mc.kernels.Normalized(mc.Landmarks(mc.RBF(), 2)), mc.kernels.Scaled(mc.Derivatives())):
            with pytest.raises(TypeError, match="kernel must be a kernel; got "):
                _ = kernel.psd
        with pytest.raises(TypeError, match="kernel must be a kernel"):
            mc.gram.estimate(mc.LikelihoodRatio(mc.Gaussian()), SERIES)
        with pytest.raises(TypeError, match="must be a kernel; got Derivatives"):
            _ = mc.kernels.Sum([mc.Derivatives(), mc.RBF()]).psd

    def test_a_tree_has_no_probability_product(self):
        with pytest.raises(TypeError, match="HiddenTree"):
            mc.ProbabilityProduct(mc.HiddenTree("((a,b),c);"))([[0, 1, 0], [1, 1, 0]])

    @pytest.mark.parametrize("model", [mc.HMM(emission=mc.RBF()), mc.Mixture(mc.RBF())])
    def test_a_kernel_for_a_family(self, model):
        with pytest.raises(TypeError, match=r"must be an estimator, or None; got RBF\(\)"):
            _ = model.takes


class TestArguments:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: mc.Mixture().fit_each(SERIES, return_info=SERIES), "return_info must be True or False; got array"),
            (lambda: mc.Categorical(alphabet=np.array([1.0, 2.0])).fit(["ab"]), "Symbols must be .*1.0"),
            (lambda: mc.Confounded(None, [1.0, 2.0]), "a list of samples; got None"),
            (lambda: STRINGS.name("dna"), "'dna' is not an index of 2 sequences"),
            (lambda: STRINGS.name(2), "2 is not an index of 2 sequences"),
            (lambda: STRINGS.mapped(0.5), "function must be a callable; got 0.5"),
            (lambda: STRINGS.mapped(len), r"each of 7 time steps; got shape \(\)"),
            (lambda: mc.data.Alphabet.from_header(1), "header must be the output of Alphabet.to_header; got 1"),
            (lambda: mc.data.Alphabet.from_header({"a": 1}), "header must be .* got {'a': 1}"),
            (lambda: mc.data.Alphabet.from_header({"symbols": "ab", "ambiguous": 1, "fold_case": 0}), "pairs .* got 1"),
            (lambda: mc.data.Alphabet("ab").union(RATES), r"other must be an Alphabet; got Poissons.*Use Alphabet.of"),
            (lambda: mc.data.Alphabet(np.array(2.0)), r"a string or a list of symbols; got array\(2.\)"),
            (lambda: CHAINS.sequence_scores(["ab"], sparse=np.empty(0)), "sparse must be True, False or 'auto'"),
            (lambda: mc.read_bif("absent.bif"), "The file 'absent.bif' does not exist"),
            (lambda: mc.SwitchingLDS(2, 2).fit(STRINGS), "SwitchingLDS requires vectors.*Use mc.HMM"),
            (lambda: mc.data.Alphabet("ab", ambiguous={"n": 1}), r"ambiguous\['n'\] must be .* got 1"),
            (lambda: MIXTURE.responsibilities([[0.0], [1e300]]), "Point 1 has probability zero.*leave the point out"),
            (lambda: mc.LDSs.from_pykalman(np.array("a")), "models must be KalmanFilter of pykalman; got a ndarray"),
            (
                lambda: mc.data.Alphabet("ab").decode("full"),
                "codes must be whole numbers from 0 to 2; got array.'full'",
            ),
            (lambda: mc.data.Alphabet("ab").decode([3]), r"codes must be whole numbers from 0 to 2; got array\(\[3\]"),
            (lambda: mc.Sequences.from_codes(1.0, "dna"), r"codes must be an array of shape \(N, T\).* got 1.0"),
            (lambda: mc.Sequences.from_aeon(-1), r"X must be an array of shape \(N, d, T\).* got -1"),
            (lambda: mc.Categoricals([[0.5, 0.5]]).fisher_scores(1), r"Codes must have shape \(T,\).* got shape \(\)"),
            (lambda: mc.Categoricals([[0.5, 0.5]]).log_prob([[1, 0], [1]]), "nested lists of different lengths"),
            (
                lambda: mc.KDE().fit_each(SERIES).log_prob("ab"),
                "x must be an array of numbers; got an array of dtype <U2",
            ),
            (lambda: mc.SubspaceAngles(t="dna").psd, "t must be a positive number; got 'dna'"),
            (lambda: mc.kernels.Product(b"ACGT").psd, "kernels must be a list of one or more kernels; got b'ACGT'"),
            (lambda: mc.JensenShannon(check_psd=mc)(RATES), "check_psd must be True or False; got <module"),
            (lambda: mc.MarkovChain(unknown=mc).fit_each(["ab"]), "unknown must be 'raise' or 'missing'; got <module"),
            (lambda: mc.MarkovChain(alphabet=mc).fit_each(["ab"]), "alphabet must be .* got <module"),
            (
                lambda: mc.data.Alphabet("ab").indicators(None),
                "codes must be whole numbers from 0 to 2; got array.None",
            ),
            (lambda: mc.kernels.Scaled(mc.RBF(), ["A", 3]).psd, "weight must be a finite number; got .'A', 3."),
            (lambda: mc.kernels.Scaled(mc.RBF(), ["A", 3]).domain, "weight must be a finite number; got .'A', 3."),
            (lambda: mc.Mixture().fit(SERIES).model_.fisher_scores(SERIES), r"the points of all .* shape \(4, 5, 2\)"),
            (lambda: mc.EmpiricalMeanMap(alphabet=mc)(["ab"]), "alphabet must be .* got <module"),
            (
                lambda: mc.Sequences.from_hmmlearn([[1.0], [1.0, 2.0]]),
                "X must be a 2-D array of stacked sequences; got",
            ),
            (lambda: mc.Sequences.from_hmmlearn([[0], [1]], "ab"), "lengths must be a list of whole numbers; got 'ab'"),
            (
                lambda: mc.HMM(topology=[[1.0, 2.0], [3.0]]).fit(["ab"]),
                "topology must be a boolean mask.* different len",
            ),
            (lambda: mc.HiddenTree([[3, 1], [1]]).fit([[0, 1]]), r"tree must be a Newick .* got \[\[3, 1\], \[1\]\]"),
            (lambda: SWITCHING.log_prob([[1.0]], n_particles=10**30), "n_particles must be at most 1,000,000,000,000"),
            (lambda: STRINGS["x"], "'x' is not an index of 2 sequences"),
            (lambda: STRINGS[[5]], r"\[5\] is not an index of 2 sequences"),
            (lambda: mc.gram.save("k.npz", np.eye(2), rows=np.array("a")), "rows must be a list of ids; got array"),
            (lambda: mc.LDSs(1j, *[[[1.0]]] * 3, [0.0], [[1.0]]), "transition must be an array of numbers; got 1j"),
            (
                lambda: mc.Gaussians([0.0], [[1.0]]).fisher_scores([[np.inf]]),
                "finite coordinates; a point has inf",
            ),
            (lambda: mc.read_ucr(""), "The file '' does not exist"),
            (lambda: mc.read_ucr("."), "'.' is a folder. Pass the path of a"),
            (lambda: mc.LikelihoodRatio(mc.Gaussian()).fit(SERIES, [[1.0, 2.0], [3.0]]), "y must be one class per"),
            (
                lambda: mc.kernels.TargetAligned([mc.RBF()]).fit(SERIES[:, 0], [[1.0, 2.0], [3.0]]),
                "y must be one class or",
            ),
            (lambda: mc.TOP(mc.Gaussian()).fit(SERIES, [0, 1]), r"4 samples, and y of shape \(2,\)"),
            (lambda: mc.kernels.TargetAligned([mc.RBF()]).fit(SERIES[:, 0], 3.0), r"4 samples, and y of shape \(\)"),
            (lambda: mc.PairHMM().fit(["ab", "ba"], [[1.0, 2.0], [3.0]]), "y must be one class per sequence; got"),
            (lambda: mc.PairHMM(n_states=10**30).fit(["ab", "ba"]), "from 1 to 10000; got 10+.* n x n"),
            (lambda: mc.HiddenTree("(a,b);", n_states=10**30).fit([[0, 1]]), "from 1 to 10000; got 10"),
            (lambda: mc.FactorialHMM(n_chains=10**30).fit(SERIES), "from 1 to 10000; got 10"),
            (lambda: mc.SwitchingLDS(n_regimes=10**30).fit(SERIES), "from 1 to 10000; got 10"),
            (lambda: mc.BayesNets(True, nodes={"a": 1}, hidden=np.zeros((2, 2))), "hidden must list names; got"),
            (lambda: EMBEDDED.update("pooled"), "observation must be an array of numbers; got .* <U6"),
            (lambda: EMBEDDED.update([0.0, 0.0], belief="x"), "belief must be an array of numbers; got .* <U1"),
            (lambda: mc.Sequences(["a"], ids=np.array("a")), r"ids must be a list of strings; got array\('a'"),
            (lambda: mc.Sequences.concat(np.array("a")), "got array"),
            (lambda: mc.HiddenTree("(a,b);", leaves=np.array("a")).fit([[0, 1]]), "leaves must be .* got array"),
            (lambda: FACTORIAL.sample(10**30), "length must be at most 1,000,000,000,000"),
            (lambda: FACTORIAL.sample(2, 10**30), "size must be at most 1,000,000,000,000"),
            (lambda: mc.read_fasta(np.array(2.0)), r"path must be .* got array\(2"),
            (lambda: mc.read_table({"a": 1}), "column 'a' must be a list or an array; got 1"),
            (lambda: mc.RBF()(np.array(2.0)), "got scalar"),
            (lambda: mc.MeanMap(mc.Gaussian())(np.array(2.0)), "got scalar"),
            (
                lambda: mc.data.Alphabet("dna", fold_case=np.ones((3, 2))),
                "fold_case must be True or False, or None; got array",
            ),
            (lambda: make_families(4, alphabet=b"xy"), "alphabet must consist of letters.* got 120"),
            (lambda: mc.HMM(1).fit(SERIES).model_.sequence_scores(SERIES, np.zeros((3, 0))), "'weight' .* got array"),
            (lambda: mc.HiddenTree("(a,b);", learn=[np.zeros(2)]).fit([[0, 1]]), "learn must be .* got array"),
        ],
    )
    def test_nonsense(self, call, message):
        with pytest.raises((TypeError, ValueError, IndexError, OSError), match=message):
            call()


@pytest.mark.parametrize("odd", ["large number", pytest.param("no sequence", marks=pytest.mark.slow)])
def test_odd_numbers(odd):
    if odd == "large number":
        sets, _ = make_point_sets(2, n_components=1, elongation=10**30, random_state=0)
        assert np.isfinite(sets[0]).all()
        return
    points = MIXTURE.fisher_scores(np.zeros((0, 1)))
    assert points.shape == (1, 0, MIXTURE.fisher_scores(np.zeros((1, 1))).shape[-1])
    for models, X in ((mc.HMM(1).fit(SERIES).model_, SERIES), (mc.LDS(1, n_iter=1).fit(SERIES).model_, SERIES)):
        assert models.sequence_scores(X[:0]).shape == (1, 0, models.sequence_scores(X[:1]).shape[-1])


@pytest.mark.parametrize("covariance", ["isotropic", "diagonal", "full"])
def test_the_density_at_infinity_is_zero(covariance):
    points = np.array([[np.inf, np.inf], [np.inf, -np.inf], [0.0, -np.inf], [np.inf, np.nan]])
    model = mc.Gaussian(covariance).fit(SERIES).model_
    np.testing.assert_array_equal(model.log_prob(points[:3]), -np.inf)
    np.testing.assert_array_equal(model.log_prob(points), -np.inf)
    assert np.isfinite(model.log_prob([[0.0, 0.0], [np.inf, 0.0]])[0, 0])


class TestBatches:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: RATES.reshape("a"), "whole numbers"),
            (lambda: RATES.reshape(7), r"shape \(2,\) cannot be reshaped to \(7,\)"),
            (lambda: RATES.concat(3), "needs a list of batches; got 3"),
            (lambda: RATES.concat([3]), "needs a list of batches"),
            (lambda: RATES.concat([RATES[0]]), "no axis to concatenate"),
            (lambda: RATES.concat([CHAINS]), "Poissons.concat needs batches of Poissons; got MarkovChains. Use Markov"),
            (lambda: mc.LDSs.concat([CHAINS]), "LDSs.concat needs batches of LDSs; got MarkovChains"),
            (lambda: RATES["x"], r"'x' is not an index of a batch of shape \(2,\)"),
            (lambda: RATES[7], "7 is not an index"),
            (lambda: RATES[[0.5]], "is not an index"),
            (lambda: RATES.sample(size=[]), r"size must be a whole number of points, 0 or more; got \[\]"),
            (lambda: RATES.sample(size=-1), "size must be a whole number"),
            (lambda: RATES.sample(3, random_state="x"), "random_state must be .* got 'x'"),
        ],
    )
    def test_nonsense(self, call, message):
        with pytest.raises((TypeError, ValueError, IndexError), match=message):
            call()


NET = mc.BayesNet({"a": ["x", "y"], "b": ["x", "y"]}, {"b": ["a"]})
UNEVEN = [["x", "y"], ["x"]]
WINDOWS = mc.Windows().fit(SERIES)


class TestForeign:
    """No exception of Python, NumPy or scikit-learn that does not know what was asked."""

    @pytest.mark.parametrize("blank", [b"\x1f", b"\x1c\x1d \n", "\u2003\n".encode()])
    def test_a_file_of_blanks(self, tmp_path, blank):
        (tmp_path / "x.hmm").write_bytes(blank)
        with pytest.raises(ValueError, match=r"x\.hmm is empty; pass a HMMER3 file with at least one profile"):
            mc.models.read_hmmer(tmp_path / "x.hmm")

    def test_no_aligned_sequences(self):
        with pytest.raises(ValueError, match="X is empty; pass at least one sequence"):
            mc.ProfileHMM(alphabet="dna").fit(np.zeros((0, 2)))

    def test_scores_of_no_sequences(self):
        model = mc.FactorialHMM(n_chains=1, n_states=1, n_iter=1).fit(SERIES[:, :, :1]).model_
        assert model.sequence_scores(np.zeros((0, 2))).shape == (1, 0, len(model.score_names()))

    @pytest.mark.parametrize("method", ["log_prob", "point_scores", "fisher_scores"])
    def test_uneven_rows_of_a_network(self, method):
        model = NET.fit([["x", "y"], ["x", "x"], ["y", "y"]]).model_
        with pytest.raises(ValueError, match=r"Points must be rows of 2 states; .* entry 1 has shape \(1,\)"):
            getattr(model, method)(UNEVEN)
        with pytest.raises(ValueError, match="Points must be rows of 2 states"):
            NET.fit(UNEVEN)

    @pytest.mark.parametrize("kernel", ["precomputed", mc.RBF(gamma=1.0)])
    def test_uneven_targets(self, kernel):
        with pytest.raises(ValueError, match=r"y must be one number or row .* entry 1 has shape \(1,\)"):
            mc.KernelRidge(kernel).fit(np.eye(3), [[1, 2], [3], [4]])

    @pytest.mark.parametrize("K", [[10**400], [[10**400]], [[1.0, 10**400], [0.0, 1.0]]])
    def test_whole_numbers_beyond_floats(self, K):
        with pytest.raises(ValueError, match="K must be finite; got a whole number that overflows float64"):
            mc.gram.diagnose(K)

    @pytest.mark.parametrize("names", [1.0, 3, "ab", [["a", "b"]], ["a"], np.eye(2)])
    @pytest.mark.parametrize("transformer", [WINDOWS, mc.PerStep(StandardScaler()).fit(SERIES)])
    def test_names_of_channels(self, names, transformer):
        with pytest.raises(ValueError, match="input_features must be a list of 2 names, one per channel; got"):
            transformer.get_feature_names_out(names)
        assert len(transformer.get_feature_names_out(["a", "b"])) == len(transformer.get_feature_names_out())

    def test_an_array_is_no_output(self):
        model = make_pipeline(mc.RBF(gamma=1.0), SVC(kernel="precomputed")).fit(np.eye(3), [0, 1, 0])
        with pytest.raises(ValueError, match=r"output must be one of .*; got an array of shape \(3, 2\)"):
            mc.explain(model, np.eye(3), output=np.ones((3, 2)))

    @pytest.mark.parametrize("channels", [2, "ab", None])
    def test_channels_in_another_order(self, channels):
        with pytest.raises(TypeError, match="channels must be a list of strings; got"):
            mc.Sequences(SERIES).in_channels(channels)

    @pytest.mark.parametrize("trusted", [np.array("a"), np.array([3]), 3, "a", None])
    def test_trusted_classes(self, tmp_path, trusted):
        mc.save(mc.RBF(), tmp_path / "x")
        with pytest.raises(TypeError, match="trusted must be a list of classes; got"):
            mc.load(tmp_path / "x", trusted=trusted)

    def test_targets_beyond_integers(self):
        y = [1e300, 1e300, -1e300, 2.0]
        found = mc.FisherEnsemble(n_states=(1,)).fit(SERIES, y)
        assert np.isfinite(found.transform(SERIES)).all()

    @pytest.mark.parametrize("n", [2, 3, 12])
    def test_systems_that_are_not_symmetric(self, n):
        K = np.eye(n) * n
        assert_allclose(mc.gram.solve(K.tolist(), np.ones(n), alpha=1.0), np.full(n, 1 / (n + 1)))
        K[0, 1] = 1.0
        for given in (K, K.tolist(), aslinearoperator(K)):
            with pytest.raises(ValueError, match="K must be symmetric; for two random vectors"):
                mc.gram.solve(given, np.ones(n), alpha=1.0)
