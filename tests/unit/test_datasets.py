"""Bundled data are the published file, and their ranges are declared, not learnt."""

from __future__ import annotations

import gzip
import hashlib
import os
from importlib import resources
from pathlib import Path

import pytest

from dpmodels import datasets
from dpmodels.errors import SourceError

SHARED = Path(os.environ.get("DPMODELS_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


def packed() -> bytes:
    return (resources.files("dpmodels.datasets") / "rand_hie.csv.gz").read_bytes()


def test_rand_hie_is_the_file_of_statsmodels():
    sm = pytest.importorskip("statsmodels.datasets.randhie")
    pd = pytest.importorskip("pandas")
    frame = datasets.rand_hie()
    assert frame.shape == (20190, 10) and not frame.isna().any().any()
    pd.testing.assert_frame_equal(
        frame, sm.load_pandas().data, check_dtype=False, check_flags=False
    )


def test_the_gzip_is_deterministic_and_carries_no_name_or_time():
    raw = packed()
    assert raw[3] == 0 and raw[4:8] == b"\0\0\0\0"
    text = gzip.decompress(raw)
    digest = hashlib.sha256(text).hexdigest()
    assert digest == "9f6c87d05aef087a82cc4465310c8cd3f38327be6eafa43bd81fb98c4f3d088c"


def test_source_and_licence_stand_beside_the_data():
    text = (resources.files("dpmodels.datasets") / "rand_hie.md").read_text(encoding="utf-8")
    assert "public domain" in text and "statsmodels" in text


def test_ranges_are_attached_and_those_the_design_fixes_clip_nothing():
    from dpmodels.formula.schema import Schema

    frame = datasets.rand_hie()
    schema = Schema.from_frame_attrs(frame)
    assert list(schema) == list(frame.columns)
    for name in ("lncoins", "idp", "lpi", "fmde", "physlm", "hlthg", "hlthf", "hlthp"):
        low, high = schema[name].interval
        assert frame[name].between(low, high).all(), name
    # a range copied from the rows would be hit exactly
    for name in ("mdvis", "lncoins", "lpi", "fmde", "disea"):
        assert frame[name].max() != schema[name].interval[1], name


def test_wine_without_a_copy_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("DPMODELS_DATA", raising=False)
    with pytest.raises(SourceError, match=r"10\.24432/C56S3T(.|\n)*rand_hie"):
        datasets.wine()
    with pytest.raises(SourceError, match="winequality-red"):
        datasets.wine(tmp_path)


def test_wine_refuses_a_changed_copy(tmp_path):
    (tmp_path / "winequality.csv.gz").write_bytes(gzip.compress(b"quality,alcohol\n5,10\n"))
    with pytest.raises(SourceError, match="not the published file"):
        datasets.wine(tmp_path)
    (tmp_path / "winequality.csv.gz").unlink()
    for name in ("winequality-red.csv", "winequality-white.csv"):
        (tmp_path / name).write_text('"quality";"alcohol"\n5;10\n')
    with pytest.raises(SourceError, match="not the published file"):
        datasets.wine(str(tmp_path))


@pytest.mark.skipif(not (SHARED / "winequality.csv.gz").is_file(), reason="no copy of the data")
def test_wine_reads_both_forms_alike(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    joined = datasets.wine(SHARED)
    assert joined.shape == (6497, 13) and round(joined["quality"].mean(), 4) == 5.8184
    for name in ("winequality-red.csv", "winequality-white.csv"):
        (tmp_path / name).symlink_to(SHARED / name)
    monkeypatch.setenv("DPMODELS_DATA", str(tmp_path))
    pd.testing.assert_frame_equal(datasets.wine(), joined)
    pd.testing.assert_frame_equal(datasets.wine(SHARED / "winequality.csv.gz"), joined)
