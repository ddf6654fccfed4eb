"""Take a picture of a report, with Chromium. Run: python docs/_static/make_report.py."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_dna

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures import shrink

SIZE = "1000,1310"  # the answer, the scores, the Gram matrix, the components


def main() -> None:
    strings, classes = make_dna(120, n_classes=3, random_state=0)
    y = np.array(["class A", "class B", "class C"])[classes]
    chain = mc.Fisher(mc.MarkovChain(1, alphabet="dna"))
    models = {
        "Spectrum": search(mc.Spectrum(3, alphabet="dna"), {"spectrum__k": [1, 2, 3, 4]}),
        "Fisher(MarkovChain)": search(chain, {}),
    }
    report = mc.report(mc.Sequences(strings, alphabet="dna"), y, models, title="Generated DNA of three classes")
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "report.html", Path(folder) / "report.png"
        report.save(page)
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if browser is None:
            sys.exit("Chromium is needed (Debian: chromium)")
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}", f"--screenshot={picture}"]
        subprocess.run([browser, *flags, page.as_uri()], check=True, stderr=subprocess.DEVNULL)
        shrink(picture, Path(__file__).with_name("report.png"))


def search(kernel: mc.kernels.Kernel, grid: dict) -> GridSearchCV:
    return GridSearchCV(make_pipeline(kernel, SVC(kernel="precomputed")), {"svc__C": [0.1, 1.0, 10.0], **grid})


if __name__ == "__main__":
    main()
