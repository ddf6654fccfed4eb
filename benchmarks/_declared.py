"""The declared results behind the numbers on pages: scripts, arguments of whole and quick runs, CPU minutes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Result:
    """A table, figure or benchmark: its script, the arguments of the whole and of the quick run, CPU minutes.

    ``quick=None``: nothing but times, or ``needs`` other libraries, without which an earlier measurement stays; or
    ``no_quick`` says why. ``stays`` says why an earlier measurement stays wherever this is run.
    """

    script: str
    arguments: str
    quick: str | None
    minutes: float
    needs: str = ""
    no_quick: str = ""
    stays: str = ""

    @property
    def seed(self) -> int:
        """The seed of the whole run."""
        words = self.arguments.split()
        return int(words[words.index("--seed") + 1]) if "--seed" in words else 0

    @property
    def kept(self) -> str:
        """Why it cannot be measured here, or nothing."""
        missing = [module for module in self.needs.split() if find_spec(module) is None]
        return self.stays or (f"{' and '.join(missing)} is not installed" if missing else "")

    @property
    def not_repeated(self) -> str:
        """Why its values, if it has any, have no quick variant."""
        return self.stays or self.no_quick or (self.needs and f"needs {' and '.join(self.needs.split())}")

    def command(self, arguments: str | None = None) -> str:
        """Return the command line, of the whole run by default."""
        words = f"python {self.script} {self.arguments if arguments is None else arguments}".strip()
        return words if self.script else "none"


def paper(name: str, part: str, minutes: float, *, more: str = "", quick: str = "") -> dict[str, Result]:
    """Declare a part of a reproduction; ``more`` arguments are for the whole run, ``quick`` ones for the quick run."""
    label = "_".join([name, part, *(word.strip("-") for word in more.split() if word != "--variants")])
    quick = f"{part} --quick {quick}".strip()
    return {label: Result(f"reproductions/{name}.py", f"{part} {more}".strip(), quick, minutes)}


PAPERS: dict[str, Result] = {
    **paper("jebara2004", "figure7", 1, more="--variants"),
    **paper("jebara2004", "figure8a", 5, more="--variants"),
    **paper("jebara2004", "figure8b", 8, more="--variants", quick="--draws 1"),
    **paper("jebara2004", "lengths", 1),
    **paper("jebara2004", "figure10", 8),
    **paper("mehta2010", "table1", 14, more="--variants"),
    **paper("mehta2010", "lambdas", 1),
    **paper("mehta2010", "states", 1),
    **paper("mehta2010", "figure2groups", 2),
    **paper("agarwal2011", "table1", 1),
    **paper("agarwal2011", "table1", 1, more="--balanced --variants", quick="--balanced --variants"),
    **paper("agarwal2011", "table2", 1),
    **paper("agarwal2011", "figure4", 3, more="--variants"),
    **paper("agarwal2011", "figure5", 5, more="--variants"),
    **paper("agarwal2011", "figure6", 2, more="--variants"),
    **paper("agarwal2011", "figure7", 2, more="--variants"),
    **paper("agarwal2011", "concentrations", 5, quick="--draws 1"),
    **paper("song2010", "known", 0.2),
    **paper("song2010", "horizon", 2),
    **paper("song2010", "audio", 3),
    "song2010_kooplearn": Result("reproductions/song2010.py", "horizon", None, 2, needs="kooplearn"),
}
README: dict[str, Result] = {
    "accuracy_series": Result("benchmarks/accuracy_series.py", "", "Beef Chinatown Wine NATOPS --preset fast", 5),
    "accuracy_words": Result("benchmarks/accuracy_choice.py", "words", "words --quick", 2),
    "accuracy_proteins": Result("benchmarks/accuracy_choice.py", "proteins", "proteins --quick", 4),
    "bench_hmm_fit": Result("benchmarks/bench_hmm_fit.py", "", None, 1, needs="hmmlearn"),
    "bench_hmm_inference": Result("benchmarks/bench_hmm_inference.py", "", None, 1, needs="dynamax glhmm"),
}
LOST = "its script was not kept"
OTHERS = "needs other libraries, in an environment of their own"
LEVELS = "its columns are runs on several levels of the instruction set"
PROTEINS = "the matrices of thousands of proteins take longer than all quick variants may"
ERRORS: dict[str, Result] = {
    "accuracy_series_fast": Result(
        "benchmarks/accuracy_series.py", "--preset fast", None, 2, no_quick="it is part of that of accuracy_series"
    ),
    "accuracy_series_seed1": Result(
        "benchmarks/accuracy_series.py", "--seed 1", None, 5, no_quick="it is that of accuracy_series"
    ),
    "accuracy_series_seed2": Result(
        "benchmarks/accuracy_series.py", "--seed 2", None, 5, no_quick="it is that of accuracy_series"
    ),
    "accuracy_gaps": Result("benchmarks/accuracy_series.py", "gaps", None, 8, no_quick="80 fits take too long"),
    "accuracy_gaps_fast": Result(
        "benchmarks/accuracy_series.py", "gaps --preset fast", "gaps Chinatown --preset fast", 2
    ),
    "accuracy_choice": Result("benchmarks/accuracy_choice.py", "dna vowels series sets", "dna sets --no-search", 25),
    "accuracy_aligned": Result("benchmarks/accuracy_choice.py", "splice promoters", "promoters --no-search", 40),
    "accuracy_generated": Result("benchmarks/accuracy_generated.py", "", "sources tree", 0.3),
    "accuracy_sequences_series": Result(
        "benchmarks/accuracy_sequences.py", "gunpoint ecg coffee wafer", "gunpoint --quick", 60
    ),
    "accuracy_sequences_lengths": Result(
        "benchmarks/accuracy_sequences.py", "vowels digits", None, 20, no_quick="accuracy_dynamics repeats the vowels"
    ),
    "accuracy_sequences_dna": Result("benchmarks/accuracy_sequences.py", "splice splice-cut", "splice --quick", 30),
    "accuracy_dynamics": Result("benchmarks/accuracy_dynamics.py", "", "motions --quick", 12),
    "accuracy_pairs": Result("benchmarks/accuracy_pairs.py", "", "promoters --quick", 25),
    "many_sets": Result("benchmarks/many_sets.py", "", None, 120, needs="aeon"),
    "scop": Result("benchmarks/scop.py", "", None, 15, no_quick=PROTEINS),
    "scop_development": Result("benchmarks/scop.py", "--development", None, 15, no_quick=PROTEINS),
    "which_kernel_earlier": Result(
        "benchmarks/accuracy_choice.py", "words proteins", None, 6,
        stays="it stands in for what accuracy_series, accuracy_words and accuracy_proteins do not have yet",
    ),
    "study_claims": Result("reproductions/agarwal2011.py", "", None, 0, stays="no script prints paired differences"),
    **{
        f"study_{name}": Result("", "", None, 0, stays=LOST)
        for name in (
            "landmarks", "metrics", "parts", "promoters", "scop_map", "series_kernels", "stability", "systems",
        )
    },
}  # fmt: skip
TIMES: dict[str, Result] = {
    **{
        f"bench_{name}": Result(f"benchmarks/bench_{name}.py", "", None, 2, stays=why)
        for name, why in {
            "device": "it was measured on a GPU", "embedding": LEVELS, "hmm": LEVELS, "lds": LEVELS, "nets": LEVELS,
            "pair_hmm": LEVELS, "profiles": "some rows are estimates, or of single runs",
        }.items()
    },
    "bench_device_whole": Result(
        "benchmarks/bench_device.py", "--device cuda --whole", None, 5, stays="it was measured on a GPU"
    ),
    "bench_device_hidden": Result(
        "benchmarks/bench_device.py", "--hidden", None, 5, stays="it was measured on a GPU"
    ),
    "bench_native": Result("benchmarks/bench_native.py", "", None, 10, stays="it needs a checkout of commit 5d5d0ec"),
    "bench_series": Result("benchmarks/bench_series.py", "", None, 1, stays=OTHERS),
    "bench_costs": Result("benchmarks/bench_costs.py", "", None, 1),
    "bench_cluster": Result("benchmarks/bench_cluster.py", "1200", None, 2),
    "bench_history": Result("benchmarks/bench_history.py", "", None, 1),
    "bench_kde": Result("benchmarks/bench_kde.py", "", None, 4, needs="pykeops"),
    "bench_latency": Result("benchmarks/bench_latency.py", "", None, 1),
    "bench_latency_compact": Result("benchmarks/bench_latency.py", "--compact --calls 100", None, 3),
    "bench_latent": Result("benchmarks/bench_latent.py", "", None, 1),
    "bench_memo": Result("benchmarks/bench_memo.py", "--repeat 5", None, 2),
    "bench_million": Result("benchmarks/bench_million.py", "100000 1000000", None, 10),
    "bench_store": Result("benchmarks/bench_store.py", "20000", None, 2),
    "bench_windows": Result("benchmarks/bench_windows.py", "", None, 5),
    "elsewhere_glhmm": Result("benchmarks/elsewhere.py", "glhmm", None, 1, needs="glhmm"),
    "elsewhere_hmmlearn": Result("benchmarks/elsewhere.py", "hmmlearn", None, 1, needs="hmmlearn"),
    "elsewhere_strkernels": Result("benchmarks/elsewhere.py", "strkernels", None, 1, needs="strkernels"),
    "elsewhere_tslearn": Result("benchmarks/elsewhere.py", "tslearn aeon", None, 2, needs="tslearn aeon"),
}  # fmt: skip
RESULTS: dict[str, Result] = {**PAPERS, **README, **ERRORS, **TIMES}
"""All results."""
