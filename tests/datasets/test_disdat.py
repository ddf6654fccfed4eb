"""The loader of species distributions gives the published counts, or one clear sentence."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from mercer.datasets import _fetch, _niches
from mercer.datasets._niches import fetch_disdat

# region: species, presences, features, features that are categories, smallest and largest set
COUNTS = {
    "AWT": (40, 3806, 13, 0, 9, 265),
    "CAN": (20, 5063, 10, 1, 16, 740),
    "NSW": (54, 3323, 12, 1, 2, 426),
    "NZ": (52, 3088, 11, 2, 18, 211),
    "SA": (30, 2220, 11, 0, 17, 216),
    "SWI": (30, 35105, 12, 1, 36, 5822),
}


@pytest.mark.usefixtures("real")
class TestDisdat:
    @pytest.mark.parametrize("region", COUNTS)
    def test_counts_are_the_published_ones(self, region):
        n, presences, features, coded, fewest, most = COUNTS[region]
        found = fetch_disdat(region)
        lengths = found.data.lengths
        assert (len(found.data), len(found.data.values), found.data.dimension) == (n, presences, features)
        assert (lengths.min(), lengths.max()) == (fewest, most)
        assert found.background.shape == (10_000, features)
        assert len(set(found.feature_names)) == features
        assert np.isfinite(found.data.values).all()
        assert np.isfinite(found.background).all()
        assert found.data.ids == tuple(f"{region.lower()}{i + 1:02d}" for i in range(n))
        assert len(found.target) == n
        kept = fetch_disdat(region, categories="keep")
        assert len(kept.feature_names) == features + coded
        columns = [kept.feature_names.index(name) for name in found.feature_names]
        assert np.array_equal(kept.data.values[:, columns], found.data.values)
        assert np.array_equal(kept.background[:, columns], found.background)
        assert "github.com/rspatial/disdat" in found.DESCR

    def test_groups(self):
        birds = fetch_disdat("AWT")
        assert birds.target_names == ["bird", "plant"]
        assert np.bincount(birds.target).tolist() == [20, 20]
        species = fetch_disdat("NSW")
        counts = dict(zip(species.target_names, np.bincount(species.target).tolist(), strict=True))
        assert counts == {"ba": 7, "db": 8, "nb": 2, "ot": 8, "ou": 8, "rt": 7, "ru": 6, "sr": 8}

    def test_points_are_the_rows_of_the_file(self):
        species = fetch_disdat("NSW", categories="keep")
        with _fetch.open_binary(_fetch.data_path("disdat", "NSWtrain_po.csv")) as stream:
            rows = [row for row in csv.DictReader(io.TextIOWrapper(stream)) if row["spid"] == "nsw17"]
        at = species.data.ids.index("nsw17")
        assert [[float(row[name]) for name in species.feature_names] for row in rows] == species.data[at].tolist()
        assert {row["group"] for row in rows} == {species.target_names[species.target[at]]}
        assert {"x", "y", "occ"}.isdisjoint(species.feature_names)


class TestWhatCannotBe:
    def test_unknown_choices(self):
        with pytest.raises(ValueError, match=r"region must be 'AWT', 'CAN', 'NSW', 'NZ', .* got 'USA'"):
            fetch_disdat("USA")
        with pytest.raises(ValueError, match="categories must be 'drop' or 'keep'; got 'code'"):
            fetch_disdat("AWT", categories="code")

    def test_no_file(self, monkeypatch, tmp_path):
        monkeypatch.delenv("MERCER_DATA", raising=False)
        sentence = (
            r"^disdat/NZtrain_po\.csv cannot be downloaded, because it was derived from inst/extdata of the R package "
            r"disdat \(github\.com/rspatial/disdat, .* CSV .* Set the environment variable MERCER_DATA to a folder "
            r"that contains it\.$"
        )
        with pytest.raises(FileNotFoundError, match=sentence):
            fetch_disdat("NZ")
        monkeypatch.setenv("MERCER_DATA", str(tmp_path))
        with pytest.raises(
            FileNotFoundError, match=r"disdat has neither NZtrain_po\.csv nor .*\. Put the file there; it was"
        ):
            fetch_disdat("NZ")

    def test_every_region_has_both_of_its_files(self):
        known = {file for folder, file in _fetch.SOURCES if folder == "disdat"}
        assert known == {f"{region}train_{part}.csv" for region in _niches._REGIONS for part in ("po", "bg")}
