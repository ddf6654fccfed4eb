"""
Classifying short documents
===========================

Two classes of documents of 20 words, each class with its own distribution over 2000
words. Most words occur in few documents, and most pairs of documents share no word. How
many training documents does a kernel need?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_documents

# %%
# Compare four kernels. The first three treat a document as a distribution over words,
# the cosine treats it as a vector. Naive Bayes is the classical generative classifier:
# one model per class instead of one per document.

kernels = {
    "JensenShannon, inverse": mc.JensenShannon(mc.Multinomial(), form="inverse"),
    "ProbabilityProduct, rho = 1/2": mc.ProbabilityProduct(mc.Multinomial(), rho=0.5),
    "MeanMap": mc.MeanMap(mc.Multinomial(), gamma=1.0),
    "Linear (cosine)": mc.Linear(),
}
classifiers = {
    name: make_pipeline(kernel, SVC(kernel="precomputed", C=10.0))
    for name, kernel in kernels.items()
}
classifiers["naive Bayes"] = MultinomialNB()

# %%
# Train on n documents and test on 200 others, six times. Pairs that were evaluated in
# one split are reused in the next.
#
# On the left, the words of a document are independent, as in a multinomial. On the
# right, they come in bursts: with probability 0.6 a word repeats the previous one, as
# words in real texts tend to do.

sizes = (20, 40, 80, 160, 320)
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", sharey=True)
figure.suptitle("test error over the number of training documents")
for axis, noise in zip(axes, (0.0, 0.6), strict=True):
    counts, labels = make_documents(
        600, n_words=2000, length=20, noise=noise, random_state=0
    )
    different = counts.nnz / counts.shape[0]
    print(f"noise {noise}: {different:.1f} different words per document")
    for (name, classifier), marker in zip(classifiers.items(), "osD^x", strict=True):
        draws = [
            ShuffleSplit(6, train_size=n, test_size=200, random_state=0) for n in sizes
        ]
        error = 1 - np.array(
            [cross_val_score(classifier, counts, labels, cv=cv) for cv in draws]
        )
        spread = error.std(axis=1) / np.sqrt(error.shape[1])
        axis.errorbar(
            sizes, error.mean(axis=1), spread, marker=marker, label=name, capsize=2
        )
        print(f"  {name:32} error with {sizes[-1]} documents: {error[-1].mean():.3f}")
    axis.set(
        xscale="log",
        xlabel="training documents",
        title="independent words" if noise == 0 else "words in bursts",
    )
    axis.set_xticks(sizes, labels=sizes)
    axis.set_xticks([], minor=True)
axes[0].set_ylabel("test error")
axes[1].legend(frameon=False, loc="lower left", fontsize=9)
plt.show()

# %%
# On the left, naive Bayes uses the distribution that generated the documents, and
# nothing beats it. On the right its assumption is wrong: it treats every repetition as
# new evidence. With enough documents, the two kernels that reduce the weight of large
# counts, by a square root or by a divergence, are better than naive Bayes and than the
# kernels that are linear in the counts.
#
# All of these kernels are positive semi-definite on word frequencies, and report why.

for name, kernel in kernels.items():
    verdict = kernel.fit(counts).psd
    print(f"{name}: {verdict}\n    {verdict.reason}")
