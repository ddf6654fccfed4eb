"""
Learn a hidden Markov model without EM
======================================

An embedded hidden Markov model is learned by one singular value decomposition: there
are no starts, no iterations and no local minima. Here the true model is known, so that
its predictions can be compared with the exact ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import mercer as mc

# %%
# Three states that follow one another, and two symbols. Two of the states emit the same
# symbol: one symbol does not identify the state.

rng = np.random.default_rng(0)
transition = np.array([[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])
emission = np.array([[0.95, 0.05], [0.95, 0.05], [0.05, 0.95]])


def draw(length):
    """Draw a string of codes."""
    state, codes = 0, []
    for _ in range(length):
        codes.append(rng.choice(2, p=emission[state]))
        state = rng.choice(3, p=transition[state])
    return np.array(codes)


def exact(codes):
    """Return the true probability of the second symbol after every step."""
    state, out = np.full(3, 1 / 3), []
    for code in codes:
        state = state * emission[:, code]
        state = state / state.sum() @ transition
        out.append(state @ emission[:, 1])
    return np.array(out)


train, test = draw(20_000), draw(300)
truth = exact(test)

# %%
# With windows of one symbol, the model can tell only two states apart. Windows of two
# symbols identify all three.

figure, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
ax.plot(truth[:40], "k", linewidth=3, alpha=0.3, label="exact filter")
for window, style in ((1, "s:"), (2, "o-")):
    model = mc.EmbeddedHMM(n_components=window + 1, window=window).fit([train])
    found = model.predict_proba([test])[0][:, 1]
    error = np.abs(found - truth).mean()
    ax.plot(
        found[:40],
        style,
        markersize=4,
        label=f"windows of {window}: mean error {error:.3f}",
    )
ax.set(xlabel="step", ylabel="probability that the next symbol is 1", ylim=(0, 1.35))
ax.set_title("one-step predictions of two models and of the exact filter")
ax.legend(ncols=3, loc="upper center")
plt.show()

# %%
# If you do not know the rank and the window, hold out the later parts of the string.

size = len(train) // 4
search = GridSearchCV(
    mc.EmbeddedHMM(),
    {"n_components": [1, 2, 3], "window": [1, 2]},
    cv=TimeSeriesSplit(3),
).fit([train[i : i + size] for i in range(0, 4 * size, size)])
print(search.best_params_)

# %%
# The error falls about with the square root of the length of the training string. Each
# point is the mean of five training strings.

lengths = np.array([300, 1000, 3000, 10_000])
errors = []
for length in lengths:
    models = [
        mc.EmbeddedHMM(n_components=3, window=2).fit([draw(length)]) for _ in range(5)
    ]
    errors.append(
        np.mean(
            [
                np.abs(model.predict_proba([test])[0][:, 1] - truth).mean()
                for model in models
            ]
        )
    )
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.loglog(lengths, errors, "o-", label="EmbeddedHMM, windows of 2")
ax.loglog(
    lengths,
    errors[-1] * np.sqrt(lengths[-1] / lengths),
    "k--",
    linewidth=1,
    label="slope -1/2",
)
ax.set(xlabel="length of the training string", ylabel="mean error of the probability")
ax.set_title("the error decreases with the square root of the length")
ax.set_xticks(lengths, [f"{length:,}" for length in lengths])
ax.set_yticks([0.01, 0.02, 0.05, 0.1], ["0.01", "0.02", "0.05", "0.1"])
ax.minorticks_off()
ax.legend()
plt.show()
