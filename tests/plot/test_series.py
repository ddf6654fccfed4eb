"""Pictures of one series: lines, gaps, bands, backgrounds; and what is refused."""

import pickle

import matplotlib
import numpy as np
import pytest

import mercer as mc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from mercer import plot


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def spiral(d=2):
    """Return a known system of two states that turn."""
    turn = 0.98 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    noise = 0.05 * np.eye(d) + 0.03
    return mc.LDSs([turn], [np.eye(2)[:d]], [0.02 * np.eye(2)], [noise], [[1.0, 0.0]], [np.eye(2)])


def series(model, length=30):
    return np.array(model.sample(length, random_state=0)[0, 0])


def lines(ax, kind):
    return [line for line in ax.lines if line.get_gid() == kind]


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def heights(band):
    """Return the lower and upper ends of a band at its points."""
    points = band.get_paths()[0].vertices
    return {
        t: (points[points[:, 0] == t, 1].min(), points[points[:, 0] == t, 1].max()) for t in np.unique(points[:, 0])
    }


def test_titles_are_above_the_legend_which_is_above_the_axes():
    model, switch = spiral(), switching()
    x = series(model)
    _, given = plt.subplots(figsize=(5, 4))
    given.set_title("before")
    shown = [plot.forecast(model, x, ax=given), plot.states(model, x), plot.regimes(switch, x)]
    for ax in shown:
        ax.set_title("two\nlines", loc="left")
        figure = pickle.loads(pickle.dumps(ax.figure))
        for drawn in (ax.figure, figure):
            drawn.canvas.draw()
            ax = drawn.axes[0]
            legend, box = ax.get_legend().get_window_extent(), ax.get_window_extent()
            assert box.ymax <= legend.ymin
            assert legend.xmax < drawn.bbox.width
            assert ax._left_title.get_window_extent().ymin >= legend.ymax


class TestForecast:
    def test_means_and_bands_are_those_of_the_model(self):
        model = spiral()
        x = series(model)
        ax = plot.forecast(model, x, steps=4, level=0.5)
        means, covariances = model.forecast([x], 4)
        for c, (seen, ahead) in enumerate(zip(lines(ax, "observed"), lines(ax, "forecast"), strict=True)):
            np.testing.assert_array_equal(seen.get_ydata(), x[:, c])
            np.testing.assert_allclose(ahead.get_ydata(), [x[-1, c], *means[0, :, c]])  # from the last value on
            assert ahead.get_xdata().tolist() == [29, 30, 31, 32, 33]
            half = 0.67449 * np.sqrt(covariances[0, -1, c, c])
            found = heights(ax.collections[c])
            np.testing.assert_allclose(found[33], means[0, -1, c] + half * np.array([-1, 1]), rtol=1e-4)
            np.testing.assert_allclose(found[29], x[-1, c])
        assert texts(ax) == ["observed", "forecast", "50% interval", "channel 0", "channel 1"]
        assert lines(ax, "observed")[0].get_color() != lines(ax, "observed")[1].get_color()

    def test_gaps_have_the_conditional_deviation(self):
        model = spiral()
        x = series(model, 6)
        x[2, 0] = np.nan
        x[4:] = np.nan  # the series ends in a gap
        ax = plot.forecast(model, x, steps=2, channels=[0])
        filled = model.impute([x])[0]
        assert len(lines(ax, "imputed")) == 2
        np.testing.assert_allclose(lines(ax, "imputed")[0].get_ydata(), filled[1:4, 0])
        assert texts(ax) == ["observed", "imputed", "forecast", "90% interval", "channel 0"]
        # The joint Gaussian of all values tells the variance of the missing ones.
        joint = joint_covariance(model, 6)
        seen = np.isfinite(x).ravel()
        lost = joint[np.ix_(~seen, ~seen)] - joint[np.ix_(~seen, seen)] @ np.linalg.solve(
            joint[np.ix_(seen, seen)], joint[np.ix_(seen, ~seen)]
        )
        deviation = np.full(12, np.nan)
        deviation[~seen] = np.sqrt(np.diag(lost))
        low, high = heights(ax.collections[0])[2]
        assert (high - low) / 2 == pytest.approx(1.6448536 * deviation.reshape(6, 2)[2, 0])
        low, high = heights(ax.collections[1])[5]
        assert (high - low) / 2 == pytest.approx(1.6448536 * deviation.reshape(6, 2)[5, 0])

    def test_a_fitted_estimator_in_given_axes(self):
        x = series(spiral(1))
        _, ax = plt.subplots()
        assert plot.forecast(mc.LDS(1, n_iter=3, tol=0).fit([x]), x[:, 0], ax=ax) is ax
        assert texts(ax) == ["observed", "forecast", "90% interval"]

    def test_a_switching_system_leaves_gaps(self):
        model = switching()
        x = np.array(model.sample(8, random_state=0)[0, 0])
        x[3] = np.nan
        ax = plot.forecast(model, x, steps=3)
        assert not lines(ax, "imputed")
        np.testing.assert_allclose(lines(ax, "forecast")[1].get_ydata()[1:], model.forecast([x], 3)[0][0, :, 1])

    def test_refused(self):
        model, x = spiral(), series(spiral())
        with pytest.raises(TypeError, match=r"or a fitted LDS or SwitchingLDS; got LDS"):
            plot.forecast(mc.LDS(2), x)
        with pytest.raises(ValueError, match=r"got shape \(2,\). Use models\[3:4\]"):
            plot.forecast(mc.LDSs.concat([model, model]), x)
        with pytest.raises(ValueError, match=r"one series; got 2. Pass one of them, such as X\[3\]"):
            plot.forecast(model, mc.Sequences([x, x]))
        with pytest.raises(ValueError, match="level must be a probability between 0 and 1; got 90"):
            plot.forecast(model, x, level=90)
        for wrong in ([2], [-1], "a"):
            with pytest.raises(ValueError, match="channels must be whole numbers from 0 to 1; got"):
                plot.forecast(model, x, channels=wrong)
        with pytest.raises(ValueError, match="the list is empty"):
            plot.forecast(model, x, channels=[])
        with pytest.raises(ValueError, match=r"steps must be a whole number .* got 0"):
            plot.forecast(model, x, steps=0)
        assert not plt.get_fignums()  # nothing is left open


def joint_covariance(model, length):
    """Covariance of all observations, from the definition."""
    a, c = model.transition[0], model.emission[0]
    states = [[model.initial_covariance[0]]]
    for _ in range(length - 1):
        states.append([a @ states[-1][-1] @ a.T + model.process_covariance[0]])
    blocks = [[None] * length for _ in range(length)]
    for s in range(length):
        moved = states[s][0]
        for t in range(s, length):
            blocks[t][s] = c @ moved @ c.T + (s == t) * model.observation_covariance[0]
            blocks[s][t] = blocks[t][s].T
            moved = a @ moved
    return np.block(blocks)


class TestStates:
    def test_smoothed_means_and_bands(self):
        model = spiral()
        x = series(model)
        x[10:14] = np.nan
        ax = plot.states(model, x)
        means, covariances = model.posterior([x]).of(0)
        for k, line in enumerate(ax.lines):
            np.testing.assert_array_equal(line.get_ydata(), means[:, k])
            low, high = heights(ax.collections[k])[12]
            assert (high - low) / 2 == pytest.approx(1.6448536 * np.sqrt(covariances[12, k, k]))
        assert texts(ax) == ["state 0", "state 1"]

    def test_a_hidden_markov_model_has_regimes(self):
        with pytest.raises(TypeError, match="for a hidden Markov model use regimes; got HMM"):
            plot.states(mc.HMM(2), [0.0, 1.0])
        with pytest.raises(TypeError, match="got LDSs, whose states are vectors: use states"):
            plot.regimes(spiral(), series(spiral()))


def switching():
    """Return a known system of two regimes that turn at different speeds."""
    turns = [[[np.cos(w), -np.sin(w)], [np.sin(w), np.cos(w)]] for w in (0.2, 1.2)]
    fixed = [np.repeat(np.asarray(part, dtype=float)[None, None], 2, axis=1) for part in (
        np.eye(2), 0.01 * np.eye(2), 0.01 * np.eye(2), [1.0, 0.0], 0.1 * np.eye(2))]  # fmt: skip
    systems = mc.LDSs(np.array([turns]), *fixed)
    return mc.models.SwitchingLDSs([[0.5, 0.5]], [[[0.95, 0.05], [0.05, 0.95]]], systems)


class TestRegimes:
    def test_background_is_divided_by_probability(self):
        emission = mc.Gaussians([[[0.0], [3.0]]], np.ones((1, 2, 1, 1)))
        model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        x = np.array([0.0, 0.5, 2.5, 3.0])
        ax = plot.regimes(model, x, names=["low", "high"])
        found = model.posterior([x])[0]
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), x)
        first, second = ax.collections
        points = first.get_paths()[0].vertices
        for t in range(4):
            inside = np.isclose(np.abs(points[:, 0] - t), 0.5)
            assert np.isclose(points[inside, 1], found[t, 0]).any()
        assert second.get_paths()[0].vertices[:, 1].max() == pytest.approx(1.0)
        assert ax.get_xlim() == (-0.5, 3.5)
        assert ax.get_ylim()[1] > 3.0  # the scale is that of the series
        assert ax.get_ylim()[1] < 4.0
        assert texts(ax) == ["low", "high"]

    def test_symbols_switching_systems_and_probabilities(self):
        emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        ax = plot.regimes(mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission), "aabb")
        assert not ax.lines
        assert texts(ax) == ["state 0", "state 1"]
        model = switching()
        x = model.sample(8, random_state=0)[0, 0]
        p = model.regime_probabilities([x])[0]
        for given in (model, p, p.tolist()):
            ax = plot.regimes(given, x)
            assert texts(ax) == ["regime 0", "regime 1"]
            assert len(ax.lines) == 2
            assert ax.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(p[:, 0].max())

    def test_refused(self):
        with pytest.raises(ValueError, match="one row per time step, 3; got 2 rows"):
            plot.regimes(np.eye(2), [0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match=r"sum to 1; row 1 is \[0.5, 0.6\]"):
            plot.regimes([[1.0, 0.0], [0.5, 0.6]], [0.0, 1.0])
        with pytest.raises(ValueError, match="for each of the 2 regimes; got 'ab'"):
            plot.regimes(np.eye(2), [0.0, 1.0], names="ab")
        with pytest.raises(TypeError, match=r"must be HMMs or SwitchingLDSs .* got RBF"):
            plot.regimes(mc.RBF(), [0.0, 1.0])
        assert not plt.get_fignums()


class TestTransitions:
    def test_numbers_and_names(self):
        model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.2, 0.8]]], mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], "ab"))
        ax = plot.transitions(model, names=["rest", "move"])
        assert [text.get_text() for text in ax.texts] == ["0.90", "0.10", "0.20", "0.80"]
        assert [label.get_text() for label in ax.get_xticklabels()] == ["rest", "move"]
        chain = plot.transitions(mc.MarkovChain(1, alphabet="ab").fit(["abab", "aab"]))
        assert [label.get_text() for label in chain.get_yticklabels()] == ["a", "b"]

    @pytest.mark.parametrize(
        ("model", "names", "message"),
        [
            (mc.HMM(2), None, "model must be HMMs.* got HMM. Fit it first"),
            (spiral(), None, "model must be HMMs.* got LDSs"),
            (mc.HMM(1).fit_each(["ab", "ba"]), None, r"shape \(2,\)"),
            (mc.HMM(2).fit(["ab", "ba"]), "ab", "one entry for each of the 2 states; got 'ab'"),
        ],
    )
    def test_what_is_refused(self, model, names, message):
        with pytest.raises((TypeError, ValueError), match=message):
            plot.transitions(model, names=names)


class TestOccupancy:
    def test_points_and_means_of_classes(self):
        strings, y = ["aaabbbbb", "aabbbbaa", "abababab", "bbbbbbbb"], ["slow", "slow", "fast", "slow"]
        model = mc.HMM(2).fit(strings)
        found = model.occupancy(strings)
        for what in ("occupancy", "dwell"):
            values = np.asarray(found[what]).reshape(4, 2)
            ax = plot.occupancy(model, strings, y, what=what, names=["x", "y"])
            points, means = ax.collections[::2], ax.collections[1::2]
            assert texts(ax) == ["fast", "slow"]
            np.testing.assert_array_equal(points[1].get_offsets()[:, 1].reshape(3, 2), values[[0, 1, 3]])
            heights = [segment[0, 1] for segment in means[1].get_segments()]
            np.testing.assert_allclose(heights, np.nanmean(values[[0, 1, 3]], axis=0))
            assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y"]
        assert plot.occupancy(model, strings).get_legend() is None

    def test_refused(self):
        with pytest.raises(TypeError, match="must be an HMM or a SwitchingLDS that was fitted; got LDS"):
            plot.occupancy(mc.LDS(), [[0.0]])
        with pytest.raises(ValueError, match="one class for each of the 2 sequences"):
            plot.occupancy(mc.HMM(2).fit(["ab", "ba"]), ["ab", "ba"], ["x"])
