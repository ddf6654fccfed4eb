"""
Classifying short documents
===========================

Two classes of documents of 20 words, each class with its own distribution over 2000 words. Most words occur in few of
the documents, and most pairs of documents share no word. How many training documents does a kernel need?
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
# Four kernels. The first three see a document as a distribution over words, the cosine sees it as a vector. Naive Bayes
# is the classical generative classifier: one model per class instead of one per document.

kernels = {
    "JensenShannon, inverse": mc.JensenShannon(mc.Multinomial(), form="inverse"),
    "ProbabilityProduct, rho = 1/2": mc.ProbabilityProduct(mc.Multinomial(), rho=0.5),
    "MeanMap": mc.MeanMap(mc.Multinomial(), gamma=1.0),
    "Linear (cosine)": mc.Linear(),
}
classifiers = {name: make_pipeline(kernel, SVC(kernel="precomputed", C=10.0)) for name, kernel in kernels.items()}
classifiers["naive Bayes"] = MultinomialNB()

# %%
# Train on n documents and test on 200 others, six times. Pairs that one draw has evaluated, the next finds in the memo.
#
# Once the words of a document are independent, as a multinomial has it. Once they come in bursts: with probability 0.6
# a word repeats the one before it, as words in real texts tend to do.

sizes = (20, 40, 80, 160, 320)
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", sharey=True)
for axis, noise in zip(axes, (0.0, 0.6), strict=True):
    counts, labels = make_documents(600, n_words=2000, length=20, noise=noise, random_state=0)
    print(f"noise {noise}: {counts.nnz / counts.shape[0]:.1f} different words a document")
    for (name, classifier), marker in zip(classifiers.items(), "osD^x", strict=True):
        draws = [ShuffleSplit(6, train_size=n, test_size=200, random_state=0) for n in sizes]
        error = 1 - np.array([cross_val_score(classifier, counts, labels, cv=cv) for cv in draws])
        spread = error.std(axis=1) / np.sqrt(error.shape[1])
        axis.errorbar(sizes, error.mean(axis=1), spread, marker=marker, label=name, capsize=2)
        print(f"  {name:32} error with {sizes[-1]} training documents: {error[-1].mean():.3f}")
    axis.set(xscale="log", xlabel="training documents", title="independent words" if noise == 0 else "words in bursts")
    axis.set_xticks(sizes, labels=sizes)
    axis.set_xticks([], minor=True)
axes[0].set_ylabel("test error")
axes[1].legend(frameon=False, loc="lower left", fontsize=9)
plt.show()

# %%
# On the left naive Bayes knows the law that made the documents, and nothing beats it. On the right its assumption is
# wrong: it counts every repetition as news. With enough documents the two kernels that damp large counts, by a square
# root or by a divergence, are ahead of it and of the kernels that are linear in the counts.
#
# All of these kernels are positive semi-definite on word frequencies, and say why.

for name, kernel in kernels.items():
    verdict = kernel.fit(counts).psd
    print(f"{name:32} {verdict}: {verdict.reason}")
