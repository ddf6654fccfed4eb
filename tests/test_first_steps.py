"""What a newcomer does wrong first, and the sentence that says so."""

import io
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from typer.testing import CliRunner

import mercer as mc
from mercer.cli import _own_data
from mercer.cli._app import app
from mercer.cli._data_options import Reading

DNA = "ACGTTGCAACGTACGTAGCT"
RNG = np.random.default_rng(1)
SERIES = [np.cumsum(np.ones((n, 2)), axis=0) * s for n, s in ((5, 1.0), (6, -1.0), (7, 2.0), (5, 0.5))]


class TestPlainStringsOfDNA:
    @pytest.mark.parametrize(
        ("strings", "letter", "name"),
        [
            ([DNA, DNA + "N"], "N", "dna"),
            ([DNA.lower(), "acgtr"], "R", "dna"),
            ([DNA, DNA.lower()], "a", "dna"),
            (["ACGT", "ACGNNNNN"], "N", "dna"),
            (["acgtnnacgt", "ACGTACGT"], "N", "dna"),
            ([DNA + "n" * 100], "N", "dna"),
            ([DNA.replace("T", "U") + "N"], "N", "rna"),
        ],
    )
    def test_codes_and_case_are_told(self, strings, letter, name):
        for read in (mc.Sequences, mc.data.Alphabet.find):
            with pytest.warns(UserWarning, match=f"look like {name.upper()}, but '{letter}' .*alphabet='{name}'") as w:
                read(strings)
            assert len(w) == 1

    @pytest.mark.parametrize(
        "strings",
        [[DNA], [DNA.lower()], ["aaaaccccccccaaaaaaab"], [DNA + "E"], [DNA + "-"], [DNA + "U"]],
    )
    def test_all_else_is_not(self, strings):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mc.Sequences(strings)

    def test_nor_with_an_alphabet(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mc.Sequences([DNA + "n"], alphabet="dna")


class TestDiagnosis:
    def test_all_alike(self):
        K = np.full((30, 30), 0.997)
        np.fill_diagonal(K, 1.0)
        scale = np.linspace(1, 9, 30)
        for matrix in (K, K * scale * scale[:, None]):
            assert mc.gram.diagnose(matrix).advice.startswith("All objects look alike")

    def test_two_tight_clusters_are_not(self):
        one = (np.arange(30) < 25).astype(float)
        K = 0.999 * (np.outer(one, one) + np.outer(1 - one, 1 - one)) + 0.001 * np.eye(30)
        assert mc.gram.diagnose(K).off_diagonal[0.5] > 0.99
        assert mc.gram.diagnose(K).advice.startswith("No problem found")


def test_gamma_is_a_number():
    with pytest.raises(ValueError, match=r"gamma must be .*; got 'scale'\. .*number of channels\) after mc.PerStep"):
        mc.MeanMap(mc.Gaussian("diagonal"), gamma="scale")(SERIES)


class TestConfoundedThroughTransformers:
    X = mc.Confounded(SERIES, [20.0, 30.0, 50.0, 70.0])

    @pytest.mark.parametrize("step", [mc.PerStep(StandardScaler()), mc.Derivatives(), mc.Windows(3), mc.Lengths()])
    def test_confounds_stay_beside(self, step):
        out = step.fit_transform(self.X)
        np.testing.assert_array_equal(out.confounds, self.X.confounds)
        bare = step.fit_transform(SERIES)
        if isinstance(bare, np.ndarray):
            np.testing.assert_array_equal(out.objects, bare)
        else:
            np.testing.assert_array_equal(out.objects.values, bare.values)

    def test_a_pipeline_to_residualized(self):
        kernel = mc.EmpiricalMeanMap(gamma=0.1)
        K = make_pipeline(mc.PerStep(StandardScaler()), mc.Residualized(kernel)).fit_transform(self.X)
        scaled = mc.PerStep(StandardScaler()).fit_transform(SERIES)
        np.testing.assert_allclose(K, mc.Residualized(kernel).fit_transform(scaled, confounds=self.X.confounds))

    def test_as_many_objects(self):
        with pytest.raises(ValueError, match="1 objects for the confounds of 4"):
            self.X.with_objects(SERIES[:1])

    def test_plain_kernels_name_the_cure(self):
        plain = mc.EmpiricalMeanMap(gamma=0.1)
        for kernel in (plain, mc.Centered(plain), plain + mc.Residualized(plain)):
            with pytest.raises(TypeError, match=r"confounds.*Wrap the kernel in mc.Residualized"):
                kernel.fit(self.X)
        for other in (None, self.X[:2]):
            with pytest.raises(TypeError, match=r"Wrap the kernel in mc.Residualized"):
                plain(self.X, other)
        assert mc.kernels.Normalized(mc.Residualized(plain)).fit_transform(self.X).shape == (4, 4)


class TestOneSeries:
    x = np.random.default_rng(0).normal(size=(200, 2))

    def test_a_matrix_that_looks_like_one_series(self):
        with pytest.warns(UserWarning, match=r"200 series of 2 values.* as \[x\]"):
            mc.HMM(2, n_iter=2, tol=0, n_init=1).fit(self.x)
        for read in (mc.Sequences, mc.Standardize().fit, mc.EmpiricalMeanMap(gamma=1.0).fit):
            with pytest.warns(UserWarning, match=r"200 series of 2 values.* as \[x\]"):
                read(self.x)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            mc.HMM(2).accept([self.x])
            mc.HMM(2).accept(self.x.T)
            mc.HMM(2).accept(self.x[:, :, None])

    def test_the_width_is_the_dimension(self):
        model = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0, 0.0]]], [[[1.0, 1.0]]]))
        with pytest.raises(ValueError, match=r"must have 2 coordinates.*; got 1\..* as \[x\]"):
            model.viterbi(self.x)
        with pytest.raises(ValueError, match=r"must have 2 coordinates.*; got 1\.$"):
            model.viterbi(self.x[:, :1])
        with pytest.raises(ValueError, match=r"must have 2 coordinates.*; got 1\..* as \[x\]"):
            mc.Fisher(model).fit(self.x)

    def test_one_series_for_what_was_fitted_to_several(self):
        y, X = [0, 1] * 3, [self.x[i : i + 30] for i in range(6)]
        estimator, states = SVC(kernel="precomputed"), mc.HMM(2, tol=0.1)
        pipelines = [
            make_pipeline(*steps, estimator) for steps in ((mc.Fisher(states),), (mc.data.Clock(), mc.Fisher(states)))
        ]
        for fitted in (*(p.fit(X, y).predict for p in pipelines), states.fit(X).predict, states.score):
            with pytest.raises(ValueError, match=r"must have 2 coordinates.*; got 1\..* as \[x\]"):
                fitted(self.x[:12])
        for kernel in (mc.EmpiricalMeanMap(gamma=1.0), mc.FisherEnsemble((2,), windows=(), n_iter=2)):
            with pytest.raises(ValueError, match=r"must have 2 coordinates.*; got 1\..* as \[x\]"):
                kernel.fit(X).transform(self.x[:12])
        for fitted in (pipelines[1].predict, mc.Standardize().fit(X).transform):
            with pytest.raises(ValueError, match=r"^X is empty; pass at least one sequence"):
                fitted([])


class TestKinds:
    symbols = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.25] * 4]], "dna"))
    numbers = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1.0]]))

    def test_codes_that_were_drawn(self):
        codes = self.symbols.sample(5, 3, random_state=0)[0]
        with pytest.raises(TypeError, match=r"integers.*mc.Sequences.from_codes\(codes, alphabet\)"):
            self.symbols.log_prob(codes)
        assert self.symbols.log_prob(mc.Sequences.from_codes(codes, "dna")).shape == (1, 3)

    def test_vectors_for_a_model_of_symbols(self):
        for X in (SERIES, mc.Sequences(SERIES)):
            with pytest.raises(TypeError, match=r"emits ACGT \(dna\), requires symbols; got 2-dimensional vectors"):
                self.symbols.log_prob(X)

    def test_text_for_a_model_of_numbers(self):
        for ask in (self.numbers.log_prob, mc.HMM(2, emission=mc.Gaussian()).fit):
            with pytest.raises(TypeError, match=r"vectors; got symbols.*[Uu]se "):
                ask(["ab"])

    def test_integers_are_numbers_for_a_family_of_numbers(self):
        counts = [RNG.poisson(3, size=n) for n in (20, 25, 30)]
        floats = [x.astype(float) for x in counts]
        for emission in (mc.Poisson(), mc.Gaussian()):
            model = mc.HMM(2, emission, n_iter=5, tol=0.01).fit(counts)
            assert model.score(counts) == model.score(floats) == float(model.model_.log_prob(counts).mean())
            np.testing.assert_array_equal(model.predict(counts)[0], model.predict(floats)[0])
        assert mc.HMM(2).fit(counts).context_.alphabet is not None  # without a family, integers are symbols
        assert mc.LDS(1, n_iter=2, tol=0).fit(counts).context_.dimension == 1

    def test_a_column_of_integers_is_symbols_for_a_family_of_symbols(self):
        columns = [RNG.integers(3, size=(n, 1)) for n in (20, 25, 30)]
        rows = [x[:, 0] for x in columns]
        for model in (mc.HMM(2, mc.Categorical(), n_iter=5, tol=0.01), mc.MarkovChain()):
            model.fit(columns)
            assert model.score(columns) == model.score(rows)
        assert mc.HMM(2, mc.Categorical(), n_iter=5, tol=0.01).fit(np.stack([x[:20] for x in columns]))
        with pytest.raises(TypeError, match="requires symbols; got 1-dimensional vectors"):
            mc.HMM(2, mc.Categorical()).fit([x.astype(float) for x in columns])


def test_empirical_map_of_a_spectrum():
    strings = ["abab", "aabb", "bbbb", "abba", "cccc"]
    plain = mc.Spectrum(2)(strings)
    logs = np.log(np.where(plain > 0, plain, 1.0)) + np.where(plain > 0, 0.0, -700.0)
    features = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    norm = np.linalg.norm(features, axis=1)
    for normalize in (True, False):
        K = mc.EmpiricalKernelMap(mc.Spectrum(2, normalize=normalize)).fit_transform(strings)
        np.testing.assert_allclose(K, features @ features.T / norm / norm[:, None], atol=1e-12)


class TestCompare:
    FASTA = "".join(f">s{i}|{'abcd'[i % 4]}|g{i // 4}\nACGTAC{'ACGT'[i % 4]}\n" for i in range(60))

    @pytest.mark.parametrize(
        ("name", "arguments", "sentence"),
        [
            ("x.txt", ("--labels", "1"), r"x.txt looks like FASTA.*; rename it to end in .fasta"),
            ("x.txt", (), "rename it to end in .fasta"),
            ("x.seq", ("--labels", "1"), "rename it to end in .fasta"),
            ("x.fa", ("--labels", "0"), "60 samples has a different class; check that --label"),
            ("x.fa", ("--labels", "1", "--limit", "10"), r"too few for 5 outer, 3 inner folds; increase --limit"),
        ],
    )
    def test_cures(self, tmp_path, name, arguments, sentence):
        path = tmp_path / name
        path.write_text(self.FASTA)
        result = CliRunner().invoke(app, ["compare", str(path), *arguments])
        assert result.exit_code == 2
        assert re.search(sentence, re.sub(r"\s+", " ", result.output))

    def test_an_unknown_ending_comes_before_its_options(self, tmp_path):
        path = tmp_path / "x.doc"
        path.write_text("1\t2\n")
        with pytest.raises(ValueError, match=r"got '.doc'"):
            _own_data.read(path, Reading(label="1"))

    def test_the_program_reads_groups(self, tmp_path):
        path = tmp_path / "x.fa"
        path.write_text(self.FASTA)
        task = _own_data.task_of(path, Reading(label="1", group="2"), limit=300, folds=2, seed=0)
        names: dict = {"mc": mc}
        exec(task.reading, names)
        assert "groups=2" in task.reading
        np.testing.assert_array_equal(names["groups"], task.groups)
        np.testing.assert_array_equal(names["y"], task.y)


class TestScalersBeforeKernels:
    def test_vectors_of_one_length(self):
        with pytest.raises(
            TypeError, match=r"^Sequences cannot be converted to an array; .*mc.PerStep\(StandardScaler\(\)\)"
        ):
            StandardScaler().fit(mc.Sequences(np.zeros((3, 4, 2))))

    def test_strings(self):
        with pytest.raises(TypeError, match="different lengths") as error:
            np.asarray(mc.Sequences(["ab", "a"]))
        assert "PerStep" not in str(error.value)


class TestRecords:
    def test_a_pair_in_one_line(self):
        read = mc.read_fasta(io.StringIO(">s1|a\nACGT\n>s2|b\nACG\n"), labels=1, groups=0)
        assert read[0] is read.X
        assert read[1] is read.y
        assert repr(read) == (
            "Records(Sequences(2 sequences of symbols from ACGT (dna), lengths 3 to 4), y: 2 different, "
            "groups: 2 different)"
        )
        with pytest.raises(IndexError):
            read[2]


@pytest.mark.slow
def test_datasets_come_when_asked_for():
    program = (
        "import sys, mercer as mc; assert 'mercer.datasets' not in sys.modules; assert mc.datasets.make_dna; "
        "assert not hasattr(mc, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_help_of_hmm_points_to_decoding():
    assert "HMMs :" in (mc.HMM.__doc__ or "")
    assert ".model_.viterbi(" in (mc.HMM.__doc__ or "")
