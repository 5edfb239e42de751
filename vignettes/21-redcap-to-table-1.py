# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a REDCap export to a Table 1 and a model
#
# **What you will learn.** How the data dictionary of a REDCap project becomes a schema, how a messy export is read without cleaning
# it first, and how a Table 1 and one regression come out of it.
#
# **Data.** Made up here with a fixed seed: 6,000 visits, one row per patient, with the dirt of real exports. **Privacy used.**
# (eps = 3, delta = 2e-6) in one budget. The noise is seeded so that this page can be checked; in a paper the calls have no seed.

# %%
import tempfile
import textwrap
import warnings
from pathlib import Path

import numpy as np

import dpmodels as dp

warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)  # seeded noise, on this page only
here = Path(tempfile.mkdtemp())

# %% [markdown]
# ## The two files
#
# REDCap exports the dictionary and the records as CSV files. The dictionary holds no records, so it may be read by anyone.

# %%
(here / "dictionary.csv").write_text('''"Variable / Field Name","Form Name","Field Type","Field Label","Choices, Calculations, OR Slider Labels","Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max"
record_id,visit,text,Record ID,,,,
arm,visit,radio,Treatment,"1, Usual care | 2, Coaching",,,
sex,visit,radio,Sex,"1, Female | 2, Male",,,
age,visit,text,Age,,integer,18,95
smoker,visit,dropdown,Smoking,"0, Never | 1, Former | 2, Current",,,
bmi,visit,text,Body mass index,,number_1dp_comma_decimal,"15,0","60,0"
sbp,visit,text,Systolic blood pressure,,integer,80,220
diabetes,visit,yesno,Diabetes,,,,
visit_date,visit,text,Date of the visit,,date_dmy,01-01-2019,31-12-2021
''', encoding="utf-8")

rng = np.random.default_rng(60)
n = 6000
arm, sex = rng.integers(1, 3, n), rng.integers(1, 3, n)
age = rng.integers(25, 85, n)
smoker = rng.choice([0, 1, 2], n, p=[0.5, 0.3, 0.2])
bmi = np.clip(rng.gamma(30, 0.9, n), 16, 55)
diabetes = rng.random(n) < 0.05 + 0.01 * (bmi - 20).clip(0)
sbp = 95 + 0.45 * age + 0.5 * bmi + 4 * (smoker == 2) - 5 * (arm == 2) + rng.normal(0, 10, n)
day = rng.integers(0, 1000, n)


def spelled(words):
    """Return labels as people type them: blanks, capitals."""
    forms = [str, str.upper, str.lower, lambda w: f" {w} "]
    return [forms[k](w) for w, k in zip(words, rng.integers(0, 4, n), strict=True)]


labels = {
    "arm": spelled(np.array(["Usual care", "Coaching"])[arm - 1]), "sex": [*map(str, sex)],
    "smoker": spelled(np.array(["Never", "Former", "Current"])[smoker]),
}
dates = np.datetime64("2019-01-01") + day.astype("timedelta64[D]")
lines = ["record_id;arm;sex;age;smoker;bmi;sbp;diabetes;visit_date;visit_complete"]
for i in range(n):
    year, month, date = str(dates[i]).split("-")
    height = f"{bmi[i]:.1f}".replace(".", ",") if rng.random() > 0.06 else "-9"
    pressure = f"{sbp[i]:.0f}" if rng.random() > 0.02 else "-9"
    lines.append(
        f"{i + 1};{labels['arm'][i]};{labels['sex'][i]};{age[i]};{labels['smoker'][i]};{height};"
        f"{pressure};{int(diabetes[i])};{date}.{month}.{year};2"
    )
(here / "export.csv").write_text("\n".join(lines) + "\n", encoding="latin-1")
print(lines[0])  # the header is public; the rows below it are not

# %% [markdown]
# ## The dictionary becomes a schema
#
# Choices become levels with their codes, validation limits become ranges, field labels become labels. Nothing is read from the
# records.

# %%
schema = dp.Schema.from_codebook(here / "dictionary.csv")
print(schema)

# %% [markdown]
# Two facts are not in the dictionary: this site writes -9 for "not measured", and dates with dots. They belong to the schema, as each says
# how *one cell* is read. `dp.read_csv` says how the file is written.

# %%
schema = schema.update(
    bmi=dp.Real(15, 60, missing=[-9], decimal=",", label="Body mass index"),
    sbp=dp.Real(80, 220, missing=[-9], label="Systolic blood pressure", unit="mmHg"),
    age=dp.Real(18, 95, label="Age", unit="years"),
    visit_date=dp.Date("2019-01-01", "2021-12-31", format="%d.%m.%Y", unit="years", label="Years since 2019"),
)
visits = dp.read_csv(here / "export.csv", sep=";", decimal=",", encoding="latin-1")
print(schema.problems(visits) or "every declared column is there, and every type can match")

# %% [markdown]
# ## What would a regression at eps = 1 show?
#
# A plan reads no row.

# %%
budget = dp.Budget(eps=3, delta=2e-6)
call = {"schema": schema, "delta": 1e-6}
plan = dp.plan("sbp ~ arm + age + sex + smoker + bmi + visit_date", n=n, eps=1, **call)
print({name: round(error, 2) for name, error in plan.expected_se.items()})

# %% [markdown]
# ## Table 1
#
# One call, one release, one table. Counts add up and are never negative. `medians=` chooses the variables that are shown by
# median and quartiles. Standardised differences cost nothing.

# %%
with budget:
    one = dp.dp_table("~ age + sex + smoker + bmi + sbp + diabetes", visits, by="arm", medians="bmi", eps=2, seed=1,
                      **call)
print(one.summary(smd=True))

# %% [markdown]
# How large is the noise of each number? Its standard deviation is beside it (`errors=False` leaves it out); `one.tidy()` has it too. The table goes into a
# paper as it is: `one.summary().to_word("table1.docx")`, `to_latex`, `to_html`.

# %%
print(one.tidy().query("measure == 'mean' and level != 'all'")[["term", "estimate", "std_error_privacy"]].round(2).to_string(index=False))

# %% [markdown]
# ## One model
#
# Did coaching lower blood pressure? Truth of this made-up file: by 5 mmHg.

# %%
with budget:
    fit = dp.dp_ols("sbp ~ arm + age + sex + smoker + bmi + visit_date", visits, eps=1, seed=2, **call)
print(fit.summary())

# %%
# alt: Coefficients times half the range of their columns, with inner bars for sampling error and outer bars for the total: age far above zero, coaching below it
fit.plot(scale="standardised")

# %% [markdown]
# Adjusted means hold the other numbers at their released centres.

# %%
print(fit.emmeans("arm"))

# %% [markdown]
# ## What to write

# %%
final = dp.Budget(eps=3, delta=2e-6)
with final:
    dp.dp_table("~ age + sex + smoker + bmi + sbp + diabetes", visits, by="arm", medians="bmi", eps=2, **call)
    dp.dp_ols("sbp ~ arm + age + sex + smoker + bmi + visit_date", visits, eps=1, **call)
print(textwrap.fill(final.statement(), 100))
