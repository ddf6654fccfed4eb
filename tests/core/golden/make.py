"""Write the golden files of the current format: ``python tests/core/golden/make.py``.

Never overwrite those of an old one. The files stay in the repository for good, so that every later version is tested
to read them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.families.lists import batches as declared

import mercer as mc
from mercer._files import FORMAT

FOLDER = Path(__file__).parent / f"v{FORMAT}"


def simplex(rng: np.random.RandomState, *shape: int) -> np.ndarray:
    """Random rows that sum to one."""
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def batches() -> dict[str, Any]:
    """Make one batch of every kind, the same every time."""
    rng = np.random.RandomState(20260101)  # whose stream never changes
    factor = rng.normal(size=(3, 2, 2))
    counts = sparse.csr_array(rng.poisson(0.7, size=(3, 6)) + np.eye(3, 6))
    words = mc.data.Alphabet(["noun", "verb", "other"])
    letters = mc.data.Alphabet("xyz", ambiguous={"?": "xyz", "v": "yz"}, fold_case=True)
    small = mc.HMMs(
        initial=simplex(rng, 2, 2),
        transition=simplex(rng, 2, 2, 2),
        emission=mc.Categoricals(simplex(rng, 2, 2, 4), alphabet="dna"),
    )
    large = mc.HMMs(
        initial=simplex(rng, 2, 3),
        transition=simplex(rng, 2, 3, 3),
        emission=mc.Categoricals(simplex(rng, 2, 3, 4), alphabet="dna"),
    )
    return {
        "gaussians-full": mc.Gaussians(
            mean=rng.normal(size=(3, 2)), covariance=factor @ np.swapaxes(factor, 1, 2) + np.eye(2)
        ),
        "gaussians-diagonal": mc.Gaussians(mean=rng.normal(size=(3, 2)), covariance=rng.uniform(1, 2, size=(3, 2))),
        "gaussians-isotropic": mc.Gaussians(mean=rng.normal(size=(3, 2)), covariance=rng.uniform(1, 2, size=3)),
        "gaussians-float32": mc.Gaussians(
            mean=rng.normal(size=(3, 2)).astype(np.float32), covariance=np.ones(3, dtype=np.float32)
        ),
        "categoricals-dna": mc.Categoricals(simplex(rng, 3, 4), alphabet="dna"),
        "categoricals-words": mc.Categoricals(simplex(rng, 3, 3), alphabet=words),
        "categoricals-ambiguous": mc.Categoricals(simplex(rng, 3, 3), alphabet=letters),
        "multinomials-dense": mc.Multinomials(simplex(rng, 3, 5), trials=4),
        "multinomials-sparse": mc.Multinomials(sparse.csr_array(counts / counts.sum(axis=1)[:, None])),
        "bernoullis": mc.families.Bernoullis(rng.random_sample((3, 4))),
        "poissons": mc.Poissons(rng.gamma(2.0, size=(3, 4))),
        "mixtures": mc.Mixtures(
            simplex(rng, 3, 2), mc.Gaussians(mean=rng.normal(size=(3, 2, 1)), covariance=np.ones((3, 2, 1)))
        ),
        "hmms-mixed": mc.HMMs.concat([small, large]),
        "hmms-gaussian": mc.HMMs(
            initial=simplex(rng, 2, 2),
            transition=simplex(rng, 2, 2, 2),
            emission=mc.Gaussians(mean=rng.normal(size=(2, 2, 3)), covariance=rng.uniform(1, 2, size=(2, 2, 3))),
        ),
        "hmms-mixture": mc.HMMs(
            initial=simplex(rng, 2, 2),
            transition=simplex(rng, 2, 2, 2),
            emission=mc.Mixtures(
                simplex(rng, 2, 2, 2), mc.Gaussians(mean=rng.normal(size=(2, 2, 2, 1)), covariance=np.ones((2, 2, 2)))
            ),
        ),
        "markov-dense": mc.MarkovChains(simplex(rng, 2, 4), simplex(rng, 2, 4, 4), alphabet="dna"),
        "pairhmms": mc.models.PairHMMs(
            initial=[[0.6, 0.3], [0.0, 1.0]],
            transition=[[[0.5, 0.3], [0.1, 0.4]], [[0.2, 0.2], [0.0, 0.9]]],
            stop=[[0.2, 0.5], [0.6, 0.1]],
            emission=mc.Categoricals(simplex(rng, 2, 2, 4), alphabet="dna"),
            silent=[[0.1, 0.0], [0.5, 0.25]],
            empty=[0.1, 0.0],
        ),
        "affinepairhmms": mc.models.AffinePairHMMs(
            joint=[[[0.3, 0.1, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.2]]],
            insertion=simplex(rng, 1, 3),
            open=[0.02],
            extend=[0.5],
            continuation=[0.99],
            alphabet=letters,
        ),
        "localpairhmms": mc.models.LocalPairHMMs(
            joint=[[[0.4, 0.1], [0.1, 0.4]]],
            insertion=[[0.5, 0.5]],
            open=[0.1],
            extend=[0.4],
            continuation=[0.8],
            flank_open=[0.9],
            flank_extend=[0.95],
            alphabet="ab",
        ),
        "hiddentrees": mc.models.HiddenTrees(
            parent=[[-1, 0], [-1, 0]],
            root=simplex(rng, 2, 2),
            transition=simplex(rng, 2, 2, 2, 2),
            leaf_parent=[[0, 1, 1], [0, 0, 0]],
            leaf=simplex(rng, 2, 3, 2, 4),
            pruning=[0.0, 0.25],
            leaves=["mouse", "human", "chimp"],
            alphabet="dna",
        ),
        "kdes": mc.models.KDEs([rng.normal(size=(3, 2)), rng.normal(size=(1, 2))], [0.25, 0.5]),
        "gammas": mc.families.Gammas(rng.uniform(1, 3, size=(3, 2)), rng.uniform(1, 3, size=(3, 2))),
        "exponentials": mc.families.Exponentials(rng.uniform(1, 3, size=(3, 2))),
        "ldss": mc.LDSs(
            transition=[[[0.5, 0.25], [0.0, -0.5]]] * 2,
            emission=[[[1.0, 0.5]], [[2.0, 0.0]]],
            process_covariance=[np.eye(2), 0.5 * np.eye(2)],
            observation_covariance=[[[0.25]], [[1.0]]],
            initial_mean=[[0.0, 1.0], [1.0, 0.0]],
            initial_covariance=[np.eye(2), 2 * np.eye(2)],
            observation_offset=[[0.5], [-0.5]],
        ),
        "switchingldss": mc.models.SwitchingLDSs(
            initial=[[0.25, 0.75]],
            transition=[[[0.5, 0.5], [0.125, 0.875]]],
            systems=mc.LDSs(
                transition=[[[[0.5]], [[-0.5]]]],
                emission=np.ones((1, 2, 1, 1)),
                process_covariance=[[[[1.0]], [[0.25]]]],
                observation_covariance=np.full((1, 2, 1, 1), 0.5),
                initial_mean=np.zeros((1, 2, 1)),
                initial_covariance=np.ones((1, 2, 1, 1)),
            ),
        ),
        "bayesnets": mc.BayesNets(
            probability={"rain": [[0.25, 0.75], [0.5, 0.5]], "wet": [[[1.0, 0.0], [0.5, 0.5]]] * 2},
            nodes={"rain": ["yes", "no"], "wet": 2, "level": "gaussian"},
            parents={"wet": ["rain"], "level": ["rain"]},
            hidden=["rain"],
            mean={"level": [[1.0, 0.0], [2.0, 0.5]]},
            variance={"level": [[1.0, 0.25], [0.5, 2.0]]},
        ),
        "markovnetworks": mc.models.MarkovNetworks(
            factors={("rain", "wet"): [[[2.0, 0.0], [0.5, 1.0]]] * 2, ("wet", "cold"): [[[1.0, 3.0], [2.0, 0.25]]] * 2},
            nodes={"rain": ["yes", "no"], "wet": 2, "cold": 2},
            hidden=["rain"],
        ),
        "factorialhmms": mc.models.FactorialHMMs(
            initial=[[[0.5, 0.5], [0.25, 0.75]]],
            transition=[[[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]]],
            mean=[[[[0.0, 1.0], [2.0, 1.0]], [[0.5, 0.0], [1.0, -1.0]]]],
            covariance=[[[1.0, 0.25], [0.25, 0.5]]],
        ),
        "profilehmms": mc.models.ProfileHMMs(
            match=[[[0.5, 0.25, 0.125, 0.125], [0.25, 0.25, 0.25, 0.25]], [[1.0, 0.0, 0.0, 0.0]]],
            insert=[[[0.25] * 4] * 3, [[0.5, 0.0, 0.5, 0.0]] * 2],
            transitions=[
                [
                    [0.5, 0.25, 0.25, 0.5, 0.5, 1.0, 0.0],
                    [0.75, 0.25, 0.0, 0.5, 0.5, 0.75, 0.25],
                    [0.5, 0.5, 0.0, 0.75, 0.25, 1.0, 0.0],
                ],
                [[0.5, 0.0, 0.5, 1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]],
            ],
            alphabet="dna",
            mode="unilocal",
            length=50,
            insertion="model",
            annotations=[{"name": "tiny"}, {"name": "ä", "map": [1]}],
        ),
    } | declared()


GRAM = {"K": np.array([[1.0, 0.5, -0.25], [0.5, 1.0, 0.125]]), "rows": ["a", "ä"], "columns": ["x", "y", "z"]}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, batch in batches().items():
        batch.save(FOLDER / f"{name}.npz")
    mc.gram.save(FOLDER / "gram.npz", GRAM["K"], rows=GRAM["rows"], columns=GRAM["columns"], kernel=mc.RBF(gamma=0.5))
