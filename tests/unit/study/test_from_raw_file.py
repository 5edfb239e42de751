"""From a messy export with its dictionary to a report, by the command line alone."""

import json

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.cli import main

DICTIONARY = '''"Variable / Field Name","Form Name","Field Type","Field Label","Choices, Calculations, OR Slider Labels","Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max"
arm,visit,radio,Treatment,"1, Usual care | 2, Coaching",,,
age,visit,text,Age,,integer,18,95
smoker,visit,dropdown,Smoking,"0, Never | 1, Former | 2, Current",,,
bmi,visit,text,Body mass index,,number_1dp_comma_decimal,"15,0","60,0"
sbp,visit,text,Systolic blood pressure,,integer,80,220
day,visit,text,Date of the visit,,date_dmy,01-01-2019,31-12-2021
'''
STUDY = """
[study]
title = "Coaching"
[data]
n = {n}
schema = "{schema}"
sep = ";"
decimal = ","
encoding = "latin-1"
[budget]
eps = {eps}
delta = 1e-6
[[release]]
name = "model"
verb = "ols"
formula = "sbp ~ arm + age + smoker + bmi + day"
share = 0.5
[[release.after]]
emmeans = "arm"
{table}
[report]
formats = ["html", "csv"]
"""
TABLE = """[[release]]
name = "one"
verb = "table"
formula = "~ age + smoker + bmi"
share = 0.5
options = {by = "arm", medians = ["bmi"], smd = true}
"""


def export(folder, n=4000):
    """Write the dirty file; return the clean frame."""
    rng = np.random.default_rng(1)
    clean = pd.DataFrame(
        {
            "arm": rng.choice(["Usual care", "Coaching"], n), "age": rng.integers(25, 85, n).astype(float),
            "smoker": rng.choice(["Never", "Former", "Current"], n),
            "bmi": np.clip(rng.gamma(30, 0.9, n), 16, 55).round(1),
            "day": np.datetime64("2019-01-01") + rng.integers(0, 1000, n).astype("timedelta64[D]"),
        }
    )  # fmt: skip
    noise = rng.normal(0, 10, n)
    clean["sbp"] = (95 + 0.5 * clean["age"] - 5 * (clean["arm"] == "Coaching") + noise).round()
    clean.loc[rng.random(n) < 0.05, "bmi"] = np.nan
    codes = {"Never": "0", "Former": " former", "Current": "CURRENT "}
    lines = ["arm;age;smoker;bmi;sbp;day;note"]
    for row in clean.itertuples():
        bmi = "-9" if row.bmi != row.bmi else f"{row.bmi:.1f}".replace(".", ",")
        lines.append(
            f"{row.arm.upper()};{row.age:.0f};{codes[row.smoker]};{bmi};{row.sbp:.0f};"
            f"{row.day:%d.%m.%Y};Größe"
        )
    (folder / "export.csv").write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    (folder / "dictionary.csv").write_text(DICTIONARY, encoding="utf-8")
    schema = dp.Schema.from_codebook(folder / "dictionary.csv").update(
        bmi=dp.Real(15, 60, missing=[-9]), sbp=dp.Real(80, 220, missing=[-9]),
        day=dp.Date("2019-01-01", "2021-12-31", format="%d.%m.%Y", unit="years"),
    )  # fmt: skip
    schema.save(folder / "schema.toml")
    schema.update(smoker=dp.Levels(["nein", "ja"])).save(folder / "lax-schema.toml")
    return clean, schema


def run(folder, name, schema="schema.toml", table=TABLE, eps=400):
    (folder / f"{name}.toml").write_text(
        STUDY.format(n="4_000", schema=schema, table=table, eps=eps), encoding="utf-8"
    )
    return main(["study", "run", str(folder / f"{name}.toml"), "--data", str(folder / "export.csv"),
                 "--ledger", str(folder / f"{name}.ledger"), "--out", str(folder / name)])  # fmt: skip


def test_a_study_of_a_messy_file_gives_the_numbers_of_the_clean_one(tmp_path, capsys):
    """At eps = 200 a release, with the noise of the system: false alarm below 1e-6."""
    clean, schema = export(tmp_path)
    assert run(tmp_path, "good") == 0
    fit = dp.load(tmp_path / "good" / "fits" / "model.json")
    found = dp.load(tmp_path / "good" / "fits" / "one.json")
    clean_schema = schema.update(bmi=dp.Real(15, 60), day=dp.Date("2019-01-01", "2021-12-31", unit="years"))
    with pytest.warns(dp.errors.NotPrivateWarning):
        same = dp.dp_ols("sbp ~ arm + age + smoker + bmi + day", clean, eps=200, delta=5e-7,
                         schema=clean_schema, seed=1)  # fmt: skip
    far = np.abs(fit.params - same.params)  # seven coefficients beyond 6 sds: once in 1e8
    assert (far <= 6 * np.hypot(fit.bse_privacy, same.bse_privacy)).all()
    assert (fit.bse_privacy < 0.3 * fit.bse_sampling.max()).all()
    cell = found.tidy().set_index("term")
    for arm, part in clean.groupby("arm"):
        assert cell.loc[f"mean(age)[arm={arm}]", "estimate"] == pytest.approx(part["age"].mean(), abs=0.02)
        assert cell.loc[f"q0.5(bmi)[arm={arm}]", "estimate"] == pytest.approx(part["bmi"].median(), abs=0.11)
        wanted = (part["smoker"] == "Former").sum()
        assert found.crosstab("smoker", "arm").loc["Former", arm] == pytest.approx(wanted, abs=1)
    assert "n/a" not in str(fit.emmeans("arm"))
    page = (tmp_path / "good" / "report.html").read_text(encoding="utf-8")
    assert "Treatment" in page and "(n = " in page and "SMD" in page
    assert main(["study", "verify", str(tmp_path / "good"), "--ledger", str(tmp_path / "good.ledger")]) == 0
    assert "holds" in capsys.readouterr().out


def test_the_schema_of_a_careless_analyst_is_stopped_early(tmp_path, capsys):
    """No level matches, so no row is usable: at most a twentieth of the budget is spent."""
    export(tmp_path)
    assert run(tmp_path, "careless", "lax-schema.toml", table="", eps=3) == 4
    record = json.loads((tmp_path / "careless" / "record.json").read_text(encoding="utf-8"))
    assert "no reply" in json.dumps(record)
    said = capsys.readouterr().err
    assert "went back to the budget" in said
    returned = float(said.split("%")[0].split(";")[-1].split()[-1])
    assert returned >= 95.0
