"""
Regression on sequences
=======================

Predict a number from a sequence: a kernel, ``mc.KernelRidge``, and baselines that it
has to beat.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc

# %%
# 150 strings of DNA of 40 to 120 letters. Each has its own habit of repeating the
# previous letter, and the target depends on it: a melting point above 60 degrees. The
# lengths do not matter, and letter frequencies little.

rng = np.random.default_rng(0)
habit = rng.uniform(0.1, 0.9, size=150)


def string_of(s: float) -> str:
    """Draw a string that repeats letters with probability s."""
    letters = rng.integers(4, size=rng.integers(40, 120))
    for i in range(1, len(letters)):
        if rng.random() < s:
            letters[i] = letters[i - 1]
    return "".join("ACGT"[letter] for letter in letters)


X = [string_of(s) for s in habit]
y = 60 + 10 * habit**2 + rng.normal(scale=0.5, size=len(X))

# %%
# The regression has an intercept and chooses its regularization by leave-one-out, so
# nothing has to be centered or searched. The baselines see only the mean, only the
# lengths, or only the letter frequencies.

letters = mc.Features(mc.Spectrum(1))
models = {
    "mean": DummyRegressor(),
    "length": make_pipeline(mc.Lengths(), StandardScaler(), RidgeCV()),
    "letters, linear": make_pipeline(letters, RidgeCV()),
    "Spectrum(2)": make_pipeline(mc.Spectrum(2), mc.KernelRidge()),
    "Fisher(MarkovChain)": make_pipeline(mc.Fisher(mc.MarkovChain()), mc.KernelRidge()),
}
folds = KFold(5, shuffle=True, random_state=0)
for name, model in models.items():
    scores = cross_val_score(
        model, np.zeros((len(X), 1)) if name == "mean" else X, y, cv=folds
    )
    print(f"{name:20s} R2 {scores.mean():6.2f} +- {scores.std():.2f}")

# %%
# Predictions of the test folds, and what they are made of: the features have names.

predicted = cross_val_predict(models["Spectrum(2)"], X, y, cv=folds)
words = make_pipeline(mc.Features(mc.Spectrum(2)), RidgeCV(np.logspace(-4, 2, 13)))
words.fit(X, y)
names, weights = words[0].get_feature_names_out(), words[-1].coef_
order = np.argsort(weights)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(y, predicted, "o", markersize=4)
left.axline((60, 60), slope=1, color="gray", linewidth=1)
left.set(xlabel="measured", ylabel="predicted without the sample's fold")
right.barh(names[order], weights[order])
right.set(xlabel="weight of the word")
left.set_title("predictions over measurements")
right.set_title("weights of words of two letters")
plt.show()
