"""Figure 2 of mehta2010: how species are read, thinned and compared, and what their niches tell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.utils import Bunch

import mercer as mc
from mercer.papers import _niches
from mercer.papers._figures import draw
from mercer.papers._niches import FEWEST_OWN, Majority, Species, niche_groups, niche_kernel, niches, read_species


def some_species(n: int = 12, seed: int = 0) -> Species:
    """Species at 40 sites with two features; the more, the later."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(40, 2))
    sites = [rng.choice(40, size=4 + i, replace=False) for i in range(n)]
    return Species(
        np.array([f"s{i}" for i in range(n)]), np.array(["a", "b"] * (n // 2)), [features[s] for s in sites], sites
    )


class TestOwnSites:
    def test_no_site_has_two_species_and_none_is_lost(self):
        species = some_species()
        for seed in range(5):
            own = species.own_sites(seed)
            kept = Counter(np.concatenate(own.sites).tolist())
            assert max(kept.values()) == 1
            lost = set(np.concatenate(species.sites).tolist()) - set(kept)
            dropped = set(species.names) - set(own.names)
            assert bool(lost) <= bool(dropped)  # a site is lost with a species that has too few

    def test_what_is_left_was_there(self):
        species = some_species()
        own = species.own_sites(0)
        assert min(len(points) for points in own.points) >= FEWEST_OWN
        for name, group, points, sites in zip(own.names, own.groups, own.points, own.sites, strict=True):
            i = species.names.tolist().index(name)
            assert group == species.groups[i]
            where = [species.sites[i].tolist().index(site) for site in sites]
            assert np.array_equal(species.points[i][where], points)

    def test_as_few_has_the_same_numbers_and_still_shares_sites(self):
        species = some_species()
        own, few = species.own_sites(0), species.as_few(0)
        assert few.names.tolist() == own.names.tolist()
        assert [len(points) for points in few.points] == [len(points) for points in own.points]
        assert max(Counter(np.concatenate(few.sites).tolist()).values()) > 1
        for name, sites, points in zip(few.names, few.sites, few.points, strict=True):
            i = species.names.tolist().index(name)
            where = [species.sites[i].tolist().index(site) for site in sites]
            assert len(set(where)) == len(where)
            assert np.array_equal(species.points[i][where], points)

    def test_the_seed_decides(self):
        first, again, other = (some_species().own_sites(seed).sites for seed in (1, 1, 2))
        assert [s.tolist() for s in first] == [s.tolist() for s in again]
        assert [s.tolist() for s in first] != [s.tolist() for s in other]


class TestReading:
    @pytest.fixture
    def found(self, monkeypatch) -> Bunch:
        rng = np.random.default_rng(0)
        sets = [rng.integers(0, 9, size=(m, 3)) * 10.0 for m in (8, 4, 6)]
        found = Bunch(
            data=mc.Sequences(sets, ids=["one", "few", "two"]),
            target=np.array([0, 1, 1]),
            target_names=["ba", "sr"],
            feature_names=["rain", "heat", "sun"],
            background=rng.normal([1.0, 2.0, 3.0], [10.0, 20.0, 30.0], size=(500, 3)),
        )
        monkeypatch.setattr(_niches, "fetch_disdat", lambda region: found)
        return found

    def test_units_are_those_of_the_background(self, found):
        species = read_species("X", ["sun", "rain"])
        assert species.names.tolist() == ["one", "two"]  # four presences are too few
        assert species.groups.tolist() == ["bats", "reptiles"]
        for points, raw in zip(species.points, (found.data[0], found.data[2]), strict=True):
            for column, feature in enumerate((2, 0)):
                reference = found.background[:, feature]
                slow = [(value - np.mean(reference)) / np.std(reference) for value in raw[:, feature]]
                np.testing.assert_allclose(points[:, column], slow)

    def test_sites_are_alike_in_all_features(self, found):
        species = read_species("X", ["sun"])
        raw = {}
        for sites, values in zip(species.sites, (found.data[0], found.data[2]), strict=True):
            for site, value in zip(sites.tolist(), values.tolist(), strict=True):
                assert raw.setdefault(site, value) == value
        assert len({tuple(value) for value in raw.values()}) == len(raw)


class TestKernel:
    def test_against_the_sum_over_pairs(self):
        rng = np.random.default_rng(0)
        sets = [rng.normal(i / 2, 1.0, size=(m, 3)) for i, m in enumerate((6, 9, 5))]
        widths = mc.KDE(bandwidth="lscv").fit_each(sets).bandwidth
        slow = np.empty((3, 3))
        for i, x in enumerate(sets):
            for j, y in enumerate(sets):
                width = 1 + widths[i] + widths[j]  # lambda = 1
                terms = [np.exp(-np.sum((a - b) ** 2) / (2 * width)) for a in x for b in y]
                slow[i, j] = np.mean(terms) / width**1.5
        np.testing.assert_allclose(niche_kernel(sets), slow, rtol=1e-10)
        scale = np.sqrt(np.diag(slow))
        np.testing.assert_allclose(niche_kernel(sets, normalize=True), slow / np.outer(scale, scale), rtol=1e-10)

    def test_the_largest_group(self):
        labels = np.array(["a", "b", "b", "a", "b", "a"])
        assert Majority().predictions(labels, np.array([0, 1, 2]), np.array([3, 4]))[0].tolist() == ["b", "b"]
        assert len(Majority().settings) == 1


@pytest.mark.usefixtures("real")
class TestReal:
    def test_the_map(self):
        places = niches()
        assert len(places) == 2 * 53
        panels = list(dict.fromkeys(place.panel for place in places))
        assert panels == ["1st and 4th component", "1st and 2nd component"]
        groups = Counter(place.group for place in places if place.panel == panels[0])
        assert sum(groups.values()) == 53
        assert min(groups.values()) >= 7
        fourth, second = ([p for p in places if p.panel == panel] for panel in panels)
        assert [(p.name, p.x) for p in fourth] == [(p.name, p.x) for p in second]
        spread = [np.std([p.x for p in second]), np.std([p.y for p in second]), np.std([p.y for p in fourth])]
        assert spread == sorted(spread, reverse=True)  # components in their order
        assert places == niches()
        pytest.importorskip("matplotlib").use("Agg")
        assert len(draw(_niches.FIGURE2, places).axes) == 2

    def test_niches_tell_groups_better_than_plain_numbers_do(self):
        """Three rounds gave .22 (as few .26, own sites .40), plain numbers .36 (.34, .39), the largest group .72."""
        cells = niche_groups(quick=True)
        chosen = {(cell.task, cell.method): cell.chosen for cell in cells}
        assert len(chosen) == 3 * 5
        whole, own, few = (f"NSW, all features{kind}" for kind in ("", ", own sites", ", as few"))
        for method in ("Mean, spread, number", "Mean", "Number"):
            assert chosen[whole, "KDE mean map"] < chosen[whole, method] < chosen[whole, "Majority"]
        niche = [chosen[task, "KDE mean map"] for task in (whole, few, own)]
        assert niche[0] < 0.3
        assert niche[0] < niche[2] < chosen[own, "Majority"]  # shared sites help
        assert niche[1] < niche[2]
