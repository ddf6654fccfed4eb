"""
A Gaussian process on strings
=============================

What is the temperature at which a strand of DNA melts, the activity of a promoter, the speed of a gait? A number is
predicted from a sequence, with an error bar. The kernel's parameters are chosen by the evidence, without a grid.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

import mercer as mc

# %%
# Strings of 40 to 160 letters. Each has a habit of its own: with probability s the next letter is the last one again.
# What is measured is a wave of that habit, and noise. No letter is more frequent for any s: only pairs of letters tell.

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
X = mc.objects(strings)  # scikit-learn lets them pass
train, test = np.arange(80), np.arange(80, 120)

# %%
# A Markov chain for every string, a kernel between the chains, and a weight: ``1.0 * kernel`` is how large the function
# is. The chains share a prior that is learned from the training strings, so the kernel is fitted first. ``as_gp`` gives
# it to the process, which searches weight, rho and noise.

product = mc.ProbabilityProduct(mc.MarkovChain(prior="pooled"), rho=0.5, length=10)
kernel = (1.0 * product).fit(strings[train])
process = GaussianProcessRegressor(kernel.as_gp() + WhiteKernel(0.1), normalize_y=True).fit(X[train], y[train])
print(process.kernel_)

# %%
# Predictions of the other strings, and two standard deviations. About 95 % of the measurements should be inside.

mean, std = process.predict(X[test], return_std=True)
inside = np.mean(np.abs(mean - y[test]) < 2 * std)
error = np.sqrt(np.mean((mean - y[test]) ** 2))
print(f"error {error:.2f} (standard deviation of y: {y.std():.2f}), {inside:.0%} inside two standard deviations")

figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.errorbar(habit[test], mean, yerr=2 * std, fmt="o", markersize=4, linewidth=1, label="predicted")
axis.plot(habit[test], y[test], "kx", markersize=5, label="measured")
axis.set(xlabel="probability that a letter is repeated (hidden)", ylabel="y")
axis.legend()
plt.show()

# %%
# The evidence over rho, all else as it was found. Its derivative led the search: the mark is where it ended.

found = process.kernel_.theta
names = [h.name for h in process.kernel_.hyperparameters]
place = names.index("k1__kernel__rho")
powers = np.geomspace(0.05, 5, 25)
evidence = []
for rho in powers:
    theta = found.copy()
    theta[place] = np.log(rho)
    evidence.append(process.log_marginal_likelihood(theta))
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.semilogx(powers, evidence)
axis.plot(np.exp(found[place]), process.log_marginal_likelihood_value_, "o")
axis.set(xlabel="rho", ylabel="log evidence")
plt.show()
