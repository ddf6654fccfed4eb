"""
A Gaussian process on strings
=============================

At what temperature does a strand of DNA melt? How active is a promoter, how fast is a
gait? A Gaussian process predicts a number from a sequence, with an error bar. It
chooses the kernel's parameters by the evidence, without a grid search.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc

# %%
# Strings of 40 to 160 letters. Each string has its own probability s of repeating the
# previous letter. The target is a sine of s plus noise. The letter frequencies do not
# depend on s: only pairs of letters are informative.

rng = np.random.default_rng(0)
habit = rng.uniform(0.1, 0.9, size=120)


def string_of(s: float) -> str:
    """Draw a string that repeats letters with probability s."""
    letters = rng.integers(4, size=rng.integers(40, 160))
    for i in range(1, len(letters)):
        if rng.random() < s:
            letters[i] = letters[i - 1]
    return "".join("ACGT"[letter] for letter in letters)


strings = mc.Sequences([string_of(s) for s in habit], alphabet="dna")
y = np.sin(6 * habit) + rng.normal(scale=0.1, size=len(habit))
train, test = np.arange(80), np.arange(80, 120)

# %%
# Use one Markov chain per string, and a kernel between the chains. The process fits
# both to the training strings, and chooses rho, variance and noise by the evidence.

kernel = mc.ProbabilityProduct(mc.MarkovChain(prior="pooled"), rho=0.5, length=10)
process = mc.GaussianProcess(kernel).fit(strings[train], y[train])
print(
    f"rho {process.kernel_.rho:.2f}, standard deviation of the noise "
    f"{process.noise_**0.5:.2f}"
)

# %%
# Predictions for the test strings, with two standard deviations. About 95 % of the
# measurements should be inside.

mean, std = process.predict(strings[test], return_std=True)
inside = np.mean(np.abs(mean - y[test]) < 2 * std)
error = np.sqrt(np.mean((mean - y[test]) ** 2))
print(
    f"error {error:.2f} (standard deviation of y: {y.std():.2f}), "
    f"{inside:.0%} inside two standard deviations"
)

figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.errorbar(
    habit[test],
    mean,
    yerr=2 * std,
    fmt="o",
    markersize=4,
    linewidth=1,
    label="predicted",
)
axis.plot(habit[test], y[test], "kx", markersize=5, label="measured")
axis.set(xlabel="probability that a letter is repeated (hidden)", ylabel="y")
axis.set_title("predictions for 40 test strings, with two standard deviations")
axis.legend()
plt.show()

# %%
# The evidence as a function of rho, with all other parameters at their optimum. The
# optimizer uses its derivative; the marker shows where it ended.

fitted = process.process_  # scikit-learn's
found = fitted.kernel_.theta
names = [h.name for h in fitted.kernel_.hyperparameters]
place = names.index("k1__k2__rho")
powers = np.geomspace(0.05, 5, 25)
evidence = []
for rho in powers:
    theta = found.copy()
    theta[place] = np.log(rho)
    evidence.append(fitted.log_marginal_likelihood(theta))
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.semilogx(powers, evidence)
axis.plot(np.exp(found[place]), fitted.log_marginal_likelihood_value_, "o")
axis.set(xlabel="rho", ylabel="log evidence", title="evidence over rho")
plt.show()
