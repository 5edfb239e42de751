"""Whole numbers of a codebook are counts where a range from 0 is little wider than the declared."""

import json

import pytest

import dpmodels as dp

CASES = [
    ("0", "40", dp.Count), ("1", "60", dp.Count), ("18", "80", dp.Real), ("-5", "40", dp.Real),
    ("0", "", dp.Count), ("", "", dp.Real),
]  # fmt: skip


@pytest.mark.parametrize(("low", "high", "kind"), CASES)
def test_integers_of_csv_and_json_codebooks(tmp_path, low, high, kind):
    """Every integer of a CSV codebook became a Real, whose medians are no whole numbers."""
    (tmp_path / "a.csv").write_text(f"name,type,lower,upper\nyears,integer,{low},{high}\n")
    limits = {k: int(v) for k, v in (("minimum", low), ("maximum", high)) if v}
    field = {"name": "years", "type": "integer", "constraints": limits}
    (tmp_path / "a.json").write_text(json.dumps({"fields": [field]}))
    for name in ("a.csv", "a.json"):
        declared = dp.Schema.from_codebook(tmp_path / name)["years"]
        assert type(declared) is kind
        if high:
            assert declared.upper == int(high)
