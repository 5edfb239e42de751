"""Runs of one study at several sites, joined: which results, whose guarantee, and what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import dpmodels as dp
from dpmodels import Study, cli
from dpmodels.errors import StudyError
from tests.unit.study.samples import STUDY, rows

SITES = STUDY.replace('why = "A paper"', 'why = "A paper"\nsites = ["Leeds", "York"]').replace(
    "[[table]]",
    '[[release]]\nname = "rare"\nverb = "survfit"\nformula = "Surv(wage, educ > 8) ~ 1"\n'
    "share = 0.2\n[[table]]",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two sites with 2000 and 3000 rows, and the study that they ran."""
    folder = tmp_path_factory.mktemp("sites")
    (folder / "study.toml").write_text(SITES, encoding="utf-8")
    study = Study.read(folder / "study.toml")
    for name, n in (("Leeds", 2000), ("York", 3000)):
        assert study.run(rows(n), ledger=folder / f"{name}.ledger", out=folder / name).complete
    return folder


def test_sums_are_pooled_and_estimates_combined(runs):
    joined = Study.join([runs / "Leeds", runs / "York" / "record.json"])
    assert list(joined) == ["wage", "regions", "moments", "simple", "rare"]
    parts = [dp.load(runs / site / "fits" / "moments.json") for site in ("Leeds", "York")]
    pooled = dp.pool(parts, names=["Leeds", "York"])
    assert joined["moments"].params.equals(pooled.params)
    assert joined["simple"].params.equals(dp.dp_ols("wage ~ educ", pooled).params)
    assert joined["regions"].nobs == joined["rare"].nobs == joined["simple"].nobs == 5000
    assert joined["wage"].titles == ("Leeds", "York")
    assert abs(joined["wage"].estimate[1] - 2.0) < 0.3
    text = str(joined)
    assert "Leeds, York" in text and "compose in parallel" in joined.notes[-1]
    each = [json.loads((runs / site / "record.json").read_text(encoding="utf-8"))["guarantee"]["eps"]
            for site in ("Leeds", "York")]  # fmt: skip
    assert f"eps = {max(each):g}" in joined.notes[-1]
    both = Study.join([runs / "Leeds", runs / "York"], effects="random", overlap=True)
    assert both["wage"].effects == "random" and f"eps = {sum(each):g}" in both.notes[-1]


def test_the_command_line_joins(runs, capsys):
    assert cli.main(["study", "join", str(runs / "Leeds"), str(runs / "York")]) == 0
    out = capsys.readouterr().out
    assert "Meta-analysis" in out and "All releases together" in out
    assert cli.main(["study", "join", str(runs / "Leeds")]) == 3
    assert "give one run of each site" in capsys.readouterr().err


def test_a_result_that_a_site_does_not_have_is_named(runs, tmp_path, monkeypatch):
    from dpmodels.study import joining

    verified = joining._verified

    def lost(folder):
        record = verified(folder)
        if folder.name == "York":
            record["releases"][2]["status"] = "lost"
        return record

    monkeypatch.setattr(joining, "_verified", lost)
    joined = Study.join([runs / "Leeds", runs / "York"])
    assert list(joined) == ["wage", "regions", "rare"]
    assert joined.notes[0] == "moments is not joined: lost."
    assert joined.notes[1].startswith("simple is not joined")


def test_folders_that_do_not_belong_together_are_refused(runs, tmp_path, study):
    leeds, york = runs / "Leeds", runs / "York"
    bent = tmp_path / "bent"
    shutil.copytree(york, bent)
    (bent / "fits" / "wage.json").write_text("{}", encoding="utf-8")
    other = study(SITES.replace("eps = 2", "eps = 1.5"))
    other.run(rows(500), ledger=tmp_path / "o.ledger", out=tmp_path / "other")
    other.rehearse(tmp_path / "rehearsed")
    for folders, says in (
        ([leeds, leeds], "2 folders and 1 ledgers"), ([leeds, york, york], "3 folders"),
        ([leeds, bent], "bent: fits/wage.json is not as it was written"),
        ([leeds, tmp_path / "other"], "different studies"),
        ([leeds, tmp_path / "rehearsed"], "rehearsed: it is a rehearsal"),
    ):  # fmt: skip
        with pytest.raises(StudyError, match=says):
            Study.join(folders)
    with pytest.raises(dp.errors.RequestError, match=r"record\.json"):
        Study.join([leeds, tmp_path / "nothing"])


def test_without_names_the_folders_name_the_sites(tmp_path, study):
    asked = study()
    for name in ("north", "south"):
        asked.run(rows(2000), ledger=tmp_path / f"{name}.ledger", out=tmp_path / name)
    joined = Study.join([tmp_path / "north", tmp_path / "south"])
    assert joined.title == "Wages and schooling: north, south"
    assert np.isfinite(joined["wage"].estimate).all()
