"""Pictures of explanations: tracks, logos, heat maps, alignments, and what is refused."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from mercer import plot
from mercer.models._pairs.matches import Matches
from mercer.plot.style import COLORS

BLUE, VERMILION = COLORS[0].lower(), COLORS[5].lower()


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def found():
    X = mc.Sequences(["ACGTAC", "AGGTAA", "TTTTAC", "TTATTG"], alphabet="dna", ids=["a", "b", "c", "d"])
    pipeline = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed")).fit(X, [0, 0, 1, 2])
    return mc.explain(pipeline, X)


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(int(rng.integers(6, 12)), 2)) * [1, 100] + [i % 3, 0] for i in range(30)]
    X[0][2] = np.nan
    X = mc.Sequences(X, channels=["small", "large"], ids=[f"s{i}" for i in range(30)])
    pipeline = make_pipeline(mc.Fisher(mc.Gaussian("diagonal")), SVC(kernel="precomputed"))
    return mc.explain(pipeline.fit(X, np.array(["a", "b", "c"])[np.arange(30) % 3]), X), X


def colors(ax):
    return {to_hex(bar.get_facecolor()) for bar in ax.patches if bar.get_height()}


class TestTrack:
    def test_bars_have_the_color_of_their_sign(self):
        ax = plot.track([0.5, -0.2, 0.0])
        heights = {(round(b.get_x() + b.get_width() / 2), b.get_height()) for b in ax.patches if b.get_height()}
        assert heights == {(0, 0.5), (1, -0.2)}
        assert colors(ax) == {BLUE, VERMILION}

    def test_symbols_are_under_one_sample(self, found):
        ax = plot.track(found, "b", output=1)
        assert [t.get_text() for t in ax.get_xticklabels()] == list("AGGTAA")
        assert ax.get_ylabel() == "contribution to 1"

    def test_several_samples_are_rows(self, found):
        ax = plot.track(found, [0, "c"], output=0)
        assert ax.images[0].get_array().shape == (2, 6)
        assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "c"]
        low, high = ax.images[0].get_clim()
        assert low == -high

    def test_the_predicted_class_is_the_default(self, found):
        ax = plot.track(found)
        assert [t.get_text() for t in ax.get_yticklabels()] == [
            f"{name}: predicted {label}" for name, label in zip("abcd", found.predicted, strict=True)
        ]
        expected = [found.of_output(label).contributions[i] for i, label in enumerate(found.predicted)]
        np.testing.assert_array_equal(ax.images[0].get_array(), expected)

    def test_positions_counted_from_one(self, found):
        one = found.of_output(1).counted_from(1)
        ax = plot.track(one, "b", regions={"box": (6, 7)})
        assert ax.get_xlim() == (0.5, 6.5)
        assert ax.get_xticks().tolist() == [1, 2, 3, 4, 5, 6]
        assert plot.track(one).images[0].get_extent()[:2] == [0.5, 6.5]
        assert plot.logo(one, "b").get_xlim() == (0.5, 6.5)
        with pytest.raises(ValueError, match=r"'box'.*1 to 7; got \(0, 2\)"):
            plot.track(one, "b", regions={"box": (0, 2)})

    def test_shorter_samples_end(self):
        image = plot.track([[1.0, 2.0], [3.0]]).images[0].get_array()
        assert image.mask.tolist() == [[False, False], [False, True]]

    def test_long_and_many(self):
        assert len(plot.track(np.sin(np.arange(500.0))).patches) == 0
        assert len(plot.track([np.ones(3)] * 100).get_yticklabels()) <= 24

    def test_regions(self):
        for contributions in ([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]] * 2):
            assert [t.get_text() for t in plot.track(contributions, regions={"box": (1, 3)}).texts] == ["box"]
        with pytest.raises(ValueError, match=r"'box'.*0 to 3; got \(2, 5\)"):
            plot.track([1.0, 2.0, 3.0], regions={"box": (2, 5)})
        with pytest.raises(ValueError, match="two whole numbers; got 'b'"):
            plot.track([1.0, 2.0, 3.0], regions={"box": "b"})
        with pytest.raises(TypeError, match=r"must be a dict.*got \[\(1, 2\)\]"):
            plot.track([1.0, 2.0, 3.0], regions=[(1, 2)])

    def test_channels_are_summed(self):
        values, names = np.arange(10.0).reshape(5, 2) - 4, [tuple("01234")]
        series = mc.kernels.Explanation(
            [values], np.ones(1), np.zeros(1), names, ("s",), ("y",), "marginal", False, ("x0", "x1"), kind="series"
        )
        ax = plot.track(series)
        assert sum(b.get_height() for b in ax.patches) == pytest.approx(values.sum())
        assert ax.get_xlabel() == "time step"
        assert plot.heatmap(series).images[0].get_array().shape == (2, 5)
        with pytest.raises(ValueError, match=r"series. Use mc\.plot\.heatmap"):
            plot.logo(series)
        with pytest.raises(ValueError, match=r"columns. Use mc\.plot\.track"):
            plot.logo(replace(series, kind="columns"))

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ({"output": "x"}, "one of 0, 1, 2; got 'x'"),
            ({"output": 0, "samples": "e"}, "from 0 to 3; got 'e'"),
        ],
    )
    def test_messages(self, found, arguments, match):
        with pytest.raises(ValueError, match=match):
            plot.track(found, **arguments)
        with pytest.raises(ValueError, match="an Explanation, or the contributions"):
            plot.track(np.zeros((2, 2)))

    def test_an_output_that_was_not_explained_is_not_drawn(self, found):
        one = found.of_output(1)
        plot.track(one, output=1)
        assert one.of_output() is one
        with pytest.raises(ValueError, match="got 5"):
            plot.track(one, output=5)


class TestLogo:
    def test_letters_are_as_tall_as_their_contributions(self):
        ax = plot.logo([0.2, 0.9, -0.4], "TAI")
        boxes = {p.get_gid(): p.get_path().get_extents() for p in ax.patches}
        assert {letter: (round(box.y0, 9), round(box.y1, 9)) for letter, box in boxes.items()} == {
            "T": (0, 0.2),
            "A": (0, 0.9),
            "I": (-0.4, 0),
        }
        assert boxes["I"].width < boxes["A"].width == pytest.approx(0.9)
        assert [round((box.x0 + box.x1) / 2, 9) for box in boxes.values()] == [0, 1, 2]

    def test_several_sequences_have_mean_letters_in_stacks(self):
        ax = plot.logo([[1.0, 2.0], [3.0, 1.0]], ["AC", "CC"])
        boxes = [
            (p.get_gid(), round(p.get_path().get_extents().y0, 9), p.get_path().get_extents().y1) for p in ax.patches
        ]
        assert boxes == [("A", 0, 0.5), ("C", 0.5, pytest.approx(2.0)), ("C", 0, pytest.approx(1.5))]

    def test_of_an_explanation(self, found):
        ax = plot.logo(found, "d", output=2)
        assert {p.get_gid() for p in ax.patches} <= set("TAG")
        assert len(plot.logo(found, output=2).patches) > 6

    def test_a_new_figure_is_as_wide_as_its_letters_need(self, monkeypatch):
        for length in (3, 86):
            assert plot.logo(np.ones(length), "A" * length).figure.get_figwidth() > 0.2 * length, "inches"
        monkeypatch.setattr("mercer.plot.explanations.WIDEST", 8.0)
        assert plot.logo(np.ones(50), "A" * 50).figure.get_figwidth() == 8  # a file of any width cannot be written

    def test_letters_of_a_profile_share_its_information(self):
        """Their sum at a node is the relative entropy to the background; the most probable one is on top."""
        estimator = mc.ProfileHMM(alphabet="dna").fit(["ACGT", "ACGA", "ACTA"])
        profile = estimator.model_
        p, b = profile.nodes(0)[0], profile.background[0]
        bits = (p * np.log2(p / b)).sum(axis=1)
        for given in (estimator, profile, profile[0]):
            ax = plot.logo(given)
            tops = [[], [], [], []]
            for patch in ax.patches:
                box = patch.get_path().get_extents()
                tops[round((box.x0 + box.x1) / 2) - 1].append((box.y1, patch.get_gid()))
            np.testing.assert_allclose([max(stack)[0] for stack in tops], bits, rtol=1e-6)
            assert [max(stack)[1] for stack in tops] == ["ACGT"[k] for k in p.argmax(axis=1)]
            assert ax.get_xlim() == (0.5, 4.5)
        for wrong in (mc.models.ProfileHMMs.concat([profile, profile]), mc.Poissons([[1.0]])):
            with pytest.raises(TypeError, match="of one profile"):
                plot.logo(wrong)
        with pytest.raises(NotFittedError):
            plot.logo(mc.ProfileHMM())

    def test_axes_that_are_given_keep_their_size(self):
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(figsize=(4, 2))
        plot.logo(np.ones(40), "A" * 40, ax=ax)
        assert figure.get_size_inches().tolist() == [4, 2]

    def test_symbols_of_any_kind(self):
        ax = plot.logo([1.0, 1.0], ["$x", "up"])
        assert [p.get_gid() for p in ax.patches] == ["$x", "up"]
        assert to_hex(plot.logo([1.0], "K").patches[0].get_facecolor()) == BLUE
        assert to_hex(plot.logo([1.0], "A", colors={"A": "red"}).patches[0].get_facecolor()) == "#ff0000"

    @pytest.mark.parametrize(
        ("sequences", "match"),
        [(None, "got None"), ("ACG", r"\[3\] symbols and \[2\]"), ("A", r"\[1\] symbols")],
    )
    def test_messages(self, sequences, match):
        with pytest.raises(ValueError, match=match):
            plot.logo([1.0, 2.0], sequences)
        with pytest.raises(ValueError, match="1 to 2"):
            plot.logo([[1.0], [1.0, 2.0]], ["A", "AC"])


class TestHeatmap:
    def test_time_by_channel(self):
        values = np.arange(6.0).reshape(3, 2)
        ax = plot.heatmap(values)
        np.testing.assert_array_equal(ax.images[0].get_array(), values.T)
        assert [t.get_text() for t in ax.get_yticklabels()] == ["0", "1"]

    def test_messages(self, found):
        with pytest.raises(ValueError, match=r"shape \(3,\)"):
            plot.heatmap(np.zeros(3))
        with pytest.raises(ValueError, match="2 channels"):
            plot.heatmap(np.zeros((3, 2)), channels=["x"])
        with pytest.raises(ValueError, match="Use track"):
            plot.heatmap(found, output=0)


class TestExplainedSeries:
    def test_a_panel_for_each_channel_on_its_own_scale(self, series):
        found, X = series
        panels = plot.explained_series(found, X, ["s0", 4])
        assert panels.shape == (2, 2)
        for row, i in zip(panels, (0, 4), strict=True):
            assert row[0].get_title(loc="left") == f"s{i}: predicted {found.predicted[i]}"
            shares = found.of_output(found.predicted[i]).contributions[i]
            for k, ax in enumerate(row):
                np.testing.assert_array_equal(ax.lines[0].get_ydata(), X[i][:, k])
                np.testing.assert_array_equal(ax.images[0].get_array(), shares[None, :, k])
                assert ax.images[0].get_extent()[:2] == [-0.5, len(shares) - 0.5]
                assert ax.get_ylabel() == ["small", "large"][k]
        most = max(np.abs(found.of_output().contributions[i]).max() for i in (0, 4))
        assert {ax.images[0].get_clim() for ax in panels.ravel()} == {(-most, most)}
        (small, large) = (np.ptp(ax.get_ylim()) for ax in panels[0])
        assert large > 20 * small

    def test_choices(self, series):
        found, X = series
        panels = plot.explained_series(found.counted_from(1), X, 1, channels=["large"], regions={"box": (2, 4)})
        assert panels.shape == (1, 1)
        assert panels[0, 0].get_xlim()[0] == 0.5
        assert [text.get_text() for text in panels[0, 0].texts] == ["box"]
        figure, axes = plt.subplots(2, 1)
        panels = plot.explained_series(found, X, 2, axes, output="a")
        assert (panels[0] == axes).all()
        assert figure.axes[-1].get_ylabel() == "contribution to a"

    @pytest.mark.slow
    def test_twelve_series_are_drawn(self, series):
        assert plot.explained_series(*series).shape == (12, 2)

    def test_shares_of_whole_steps_color_all_channels(self, series):
        found, X = series
        steps = replace(found, contributions=found.per_position(), channels=None)
        for row in plot.explained_series(steps, X, [0, 1], output="b"):
            np.testing.assert_array_equal(row[0].images[0].get_array(), row[1].images[0].get_array())
            assert row[1].get_ylabel() == "large"

    def test_one_channel(self):
        x = np.sin(np.arange(20.0))
        X = mc.Sequences([x, 2 * x, x[5:] + 1])
        pipeline = make_pipeline(mc.Fisher(mc.Gaussian("diagonal")), mc.KernelRidge())
        found = mc.explain(pipeline.fit(X, [0.0, 1.0, 2.0]), X[:1])
        (ax,) = plot.explained_series(found, X[:1])[0]
        assert (ax.get_title(loc="left"), ax.get_ylabel()) == ("0", "")

    def test_messages(self, series, found):
        one, X = series
        with pytest.raises(TypeError, match=r"result of mc\.explain for series; got Explanation"):
            plot.explained_series(found, ["ACGTAC"] * 4)
        with pytest.raises(ValueError, match=r"the 30 series that were explained.* got 2 series"):
            plot.explained_series(one, X[:2])
        with pytest.raises(ValueError, match="names among small, large; got 'none'"):
            plot.explained_series(one, X, 0, channels=["none"])
        with pytest.raises(ValueError, match="each of its 2 channels; got 1 for 1 series"):
            plot.explained_series(one, X, 0, plt.subplots()[1])
        with pytest.raises(ValueError, match="at least one series"):
            plot.explained_series(one, X, [])


class TestAlignments:
    def test_partners_dashes_and_insertions(self):
        W = np.zeros((3, 3))
        W[0, 0], W[2, 2] = 0.9, 0.4
        ax = plot.alignments([Matches("ACG", "ATG", W, -1.0)], names=["near"])
        assert [t.get_text() for t in ax.texts] == ["A", "-", "G", "A", "C", "G"]
        assert ax.images[0].get_array().compressed().tolist() == [0.9, 0.4]
        assert len(ax.lines) == 1  # T is inserted
        assert [t.get_text() for t in ax.get_yticklabels()] == ["", "near"]

    def test_messages(self):
        one, other = (Matches(s, "A", np.ones((1, 1)), -1.0) for s in "AC")
        with pytest.raises(ValueError, match="same first"):
            plot.alignments([one, other])
        with pytest.raises(ValueError, match="1 matches"):
            plot.alignments([one], names=["a", "b"])
        for wrong in ([], ["A"]):
            with pytest.raises(TypeError, match=r"mc\.aligned"):
                plot.alignments(wrong)


@pytest.mark.parametrize("draw", [plot.track, plot.heatmap])
def test_given_axes(draw):
    _, ax = plt.subplots()
    assert draw(np.ones((3, 2)) if draw is plot.heatmap else np.ones(3), ax=ax) is ax


@pytest.mark.parametrize("plot", ["track", "heatmap", "logo", "alignments"])
def test_something_else_is_named(plot):
    with pytest.raises((TypeError, ValueError), match=r"must be"):
        getattr(mc.plot, plot)("x" if plot in ("track", "heatmap") else 3)
