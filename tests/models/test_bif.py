"""The reader of the Bayesian interchange format: published networks, hard cases, damaged and random files."""

import contextlib
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer as mc

PLAIN = """
network unknown {
}
variable rain {
  type discrete [ 2 ] { yes, no };
}
variable wet {
  type discrete [ 3 ] { dry, damp, soaked };
}
probability ( rain ) {
  table 0.2, 0.8;
}
probability ( wet | rain ) {
  (yes) 0.1, 0.3, 0.6;
  (no) 0.7, 0.2, 0.1;
}
"""
WET = [[0.1, 0.3, 0.6], [0.7, 0.2, 0.1]]
PARAMETERS = {
    "alarm": (37, 509), "asia": (8, 18), "barley": (48, 114005), "cancer": (5, 10), "child": (20, 230),
    "earthquake": (5, 10), "hailfinder": (56, 2656), "hepar2": (70, 1453), "insurance": (27, 1008),
    "sachs": (11, 178), "survey": (6, 21), "water": (32, 10083), "win95pts": (76, 574),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_published_networks(name, real_folder, tmp_path):
    """Numbers of nodes and parameters are those of the bnlearn repository; what is written is read again."""
    net = mc.read_bif(real_folder / "bif" / f"{name}.bif.gz")
    assert (len(net.nodes), net.n_parameters) == PARAMETERS[name]
    assert np.isfinite(net.log_prob(net.sample(3, random_state=0)[0])).all()
    if name != "barley":  # the same in two seconds
        net.to_bif(tmp_path / "a.bif.gz")
        again = mc.read_bif(tmp_path / "a.bif.gz")
        assert (again.nodes, again.parents) == (net.nodes, net.parents)
        np.testing.assert_allclose(again.probability, net.probability, rtol=1e-15)


def test_what_cannot_be_written(tmp_path):
    for name in ("x}", '"x"', "", " x"):
        with pytest.raises(ValueError, match="no place"):
            mc.BayesNets({"rain": [[0.2, 0.8]]}, {"rain": ("a", name)}).to_bif(tmp_path / "b.bif")
    net = mc.BayesNets(None, {"x": "gaussian"}, mean={"x": [1.0]}, variance={"x": [1.0]})
    with pytest.raises(ValueError, match="Gaussian node 'x'"):
        net.to_bif(tmp_path / "b.bif")
    with pytest.raises(ValueError, match="shape"):
        mc.read_bif(PLAIN)[:0].to_bif(tmp_path / "b.bif")
    assert not (tmp_path / "b.bif").exists()


def test_a_query_by_hand(real_folder):
    """The posterior of tuberculosis of Lauritzen and Spiegelhalter (1988), by the sum over all states."""
    net = mc.read_bif(real_folder / "bif" / "asia.bif.gz")
    joint = np.exp(net.log_prob(np.indices((2,) * 8).reshape(8, -1).T))[0].reshape((2,) * 8)
    place = {name: k for k, name in enumerate(net.observed)}
    given_asia = np.take(joint, 0, axis=place["asia"])
    expected = given_asia.sum(axis=tuple(k for k in range(7) if k != place["tub"] - 1))
    found = net.posterior({"asia": "yes"}, "tub")[0, 0]
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(found, [0.05, 0.95], rtol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("(no) 0.7, 0.2, 0.1;", "default 0.7, 0.2, 0.1;"),
        PLAIN.replace("network", "// a comment; {\n/* another } */ network").replace("0.2, 0.8", "0.2, /* 0.5 */ 0.8"),
        PLAIN.replace("(no)", '( "no" )').replace("rain", '"rain"').replace("yes, no", '"yes" "no"'),
        PLAIN.replace("[ 2 ]", "[2] =").replace("0.2, 0.8", "0.2 0.8").replace("|", "|\n"),
        PLAIN.replace("(yes) 0.1, 0.3, 0.6;", "").replace(
            "(no) 0.7, 0.2, 0.1;", "table 0.1 0.7 0.3 0.2 0.6 0.1 ;"  # JavaBayes: the child varies slowest
        ),
        PLAIN.replace("type", 'property "a ; { }" ;\n property position = (1, 2);\n  type').replace(
            "  table", "  property x = y;\n  table"
        ),
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN.replace("0.7, 0.2, 0.1", "7e-1, .2, 0.1000001"),  # rounded numbers
    ],
    ids=["default", "comments", "quotes", "no commas", "table", "properties", "windows", "mark", "rounded"],
)  # fmt: skip
def test_hard_cases(text, tmp_path):
    path = tmp_path / "net.bif"
    path.write_text(text, encoding="utf-8", newline="")
    net = mc.read_bif(path)
    assert net.nodes == (("rain", ("yes", "no")), ("wet", ("dry", "damp", "soaked")))
    np.testing.assert_allclose(net.table("wet")[0], WET, atol=1e-6)
    np.testing.assert_allclose(net.table("rain")[0], [0.2, 0.8])


def test_intervals_of_r_and_unicode():
    """The names that cut() of R makes have commas and brackets; bnlearn writes them without quotes."""
    text = (
        PLAIN.replace("yes, no", "[0,5], (5,10]").replace("(yes)", "([0,5])").replace("(no)", "((5,10])")
        .replace("dry, damp, soaked", "n/a, größer als 5, http://a")
    )  # fmt: skip
    net = mc.read_bif(text)
    assert net.nodes == (("rain", ("[0,5]", "(5,10]")), ("wet", ("n/a", "größer als 5", "http://a")))
    np.testing.assert_allclose(net.table("wet")[0], WET)
    both = """
    variable a { type discrete [ 2 ] { x,1, y }; } variable b { type discrete [ 2 ] { [0,1), [1,2] }; }
    variable c { type discrete [ 2 ] { u, v }; }
    probability ( a ) { table 0.5, 0.5; } probability ( b ) { table 0.5, 0.5; }
    probability ( c | a, b ) {
      (x,1, [0,1)) 0.1, 0.9; (x,1, [1,2]) 0.2, 0.8; (y, [0,1)) 0.3, 0.7; (y,[1,2]) 0.4, 0.6;
    }
    """
    np.testing.assert_allclose(mc.read_bif(both).table("c")[0, ..., 0], [[0.1, 0.2], [0.3, 0.4]])


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("(no) 0.7, 0.2, 0.1;\n}", "(no) 0.7, 0.2", "truncated"),
        ("(no) 0.7, 0.2, 0.1;", "", "'wet' given rain=no has no probabilities"),
        ("0.7, 0.2, 0.1", "0.7, 0.2, 0.5", "given rain=no has the sum 1.4"),
        ("0.7, 0.2, 0.1", "0.7, 0.6, -0.3", "contains -0.3"),
        ("0.7, 0.2, 0.1", "NaN, NaN, NaN", "given rain=no has no probabilities"),
        ("0.7, 0.2, 0.1", "0.7, 0.3", "must have 3 numbers; got 2"),
        ("0.7, 0.2, 0.1", "a, b, c", "are not numbers"),
        ("(no)", "(maybe)", "'maybe' are not states"),
        ("wet | rain", "wet | snow", "'snow' is not declared"),
        ("rain )", "rain | wet )", "cycle"),
        ("[ 3 ]", "[ 4 ]", "declares 4 states"),
        ("[ 3 ]", "[ 99999999999999999999 ]", "declares 9999999999 states"),
        ("type discrete [ 3 ]", "type continuous [ 3 ]", "must be discrete"),
        ("variable wet", "variable rain", "declared twice"),
        ("(no) 0.7", "(yes) 0.7", "two rows for 'yes'"),
        ("probability ( rain )", "probability ( wet )", "two probability blocks"),
        ("network unknown", "network /* unknown", "no end"),
        ("rain )", '"rain )', "no end"),
        ("variable wet", "thing wet", "unknown block 'thing'"),
        (PLAIN, "", "no variable"),
        (PLAIN, "Hello {", "expected a block"),
    ],
)  # fmt: skip
def test_damaged_files_are_named(old, new, match):
    assert old in PLAIN
    with pytest.raises(ValueError, match=match):
        mc.read_bif(PLAIN.replace(old, new, 1) + "\n")


def test_hostile_files_end_quickly():
    rows = "".join(f"variable v{k} {{ type discrete [ 9 ] {{ a,b,c,d,e,f,g,h,i }}; }}\n" for k in range(40))
    above = ", ".join(f"v{k}" for k in range(1, 40))
    tables = "".join(f"probability ( v{k} ) {{ table {', '.join(['0.1'] * 9)}; }}" for k in range(1, 40))
    with pytest.raises(ValueError, match="entries, more than"):
        mc.read_bif(f"{rows}{tables} probability ( v0 | {above} ) {{ default 1 0 0 0 0 0 0 0 0; }}")
    n = 20_000
    for text in ("{" * n, "/*" * n + "{", '"' * n + "{", "variable a { type " + " " * n + "{", "variable a {" * n,
                 "(" * n + "{\n", "variable a { type discrete [ 2 ] {" + "," * n, ";" * n + "{}" * n):  # fmt: skip
        with pytest.raises(ValueError, match="not a network in BIF"):
            mc.read_bif(text)
    with pytest.raises(TypeError, match="a path or text"):
        mc.read_bif(3)


def test_damaged_compression(tmp_path):
    packed = gzip.compress(PLAIN.encode())
    path = tmp_path / "net.bif.gz"
    path.write_bytes(packed[:-20])
    with pytest.raises(ValueError, match=r"not a valid gzip file.*copy it again"):
        mc.read_bif(path)
    path.write_bytes(gzip.compress(PLAIN.replace("soaked", "naß").encode("latin-1")))
    assert mc.read_bif(path).nodes[1][1][2] == "naß"


@given(st.data())
def test_random_changes_end_in_a_network_or_a_sentence(data):
    """Pieces are dropped, repeated and replaced."""
    text = PLAIN
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        end = at + data.draw(st.integers(0, 20))
        piece = data.draw(
            st.sampled_from(["", "{", "}", "(", ")", ";", ",", "|", '"', "//", "/*", "*/", "1e999", "\n"])
        )
        text = text[:at] + piece + text[end:]
    with contextlib.suppress(ValueError):
        assert mc.read_bif(text + "\n").shape == (1,)


def test_a_few_lines_do_not_ask_for_gigabytes():
    parents = [f"v{i}" for i in range(24)]
    text = "".join(f"variable {name} {{ type discrete [ 2 ] {{ y, n }}; }}\n" for name in [*parents, "c"])
    text += "".join(f"probability ( {name} ) {{ table 0.5, 0.5; }}\n" for name in parents)
    text += f"probability ( c | {', '.join(parents)} ) {{ default 0.2, 0.8; }}\n"
    with pytest.raises(ValueError, match=r"table of 'c' has 33,554,432 entries, more than 16,777,216\. Use fewer"):
        mc.read_bif(text)
