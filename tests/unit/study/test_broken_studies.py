"""Sixty broken files: each fault is told with its line, and with what to type instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpmodels import Study
from dpmodels.errors import StudyError

WHOLE = """\
[study]
title = "Doctor visits"
[data]
n = 20_190
[budget]
eps = 3
delta = 1e-6
[schema.mdvis]
type = "count"
upper = 52
[schema.disea]
type = "real"
lower = 0
upper = 60
[schema.health]
type = "levels"
levels = ["good", "poor"]
[schema.died]
type = "binary"
[schema.weight]
type = "real"
lower = 0
upper = 9
[[release]]
name = "visits"
verb = "ols"
formula = "log1p(mdvis) ~ disea + health"
eps = 1
[[release.after]]
wald = "disea"
[[release]]
name = "deaths"
verb = "glm"
formula = "died ~ disea"
share = 0.3
options = {family = "binomial"}
[[table]]
fits = ["visits", "deaths"]
[report]
formats = ["html", "csv"]
"""
AFTER_VISITS = 'eps = 1\n[[release.after]]\nwald = "disea"'
#: What stands there, what stands there instead (the fault begins at the sign), what is said.
BROKEN = [
    # not TOML at all
    ("no quotes", 'title = "Doctor visits"', "title = §Doctor visits", "quotes"),
    ("open quote", 'name = "visits"', 'name = "visits§', "not TOML"),
    ("key twice", "eps = 3\n", "eps = 3\neps = 4§\n", "once"),
    ("open list", '["html", "csv"]', '["html", "csv"', "not TOML"),
    ("table twice", "[budget]", "[data]§\nn = 3\n[budget]", "not TOML"),
    ("no equals", "n = 20_190", "n §20_190", "not TOML"),
    # sections
    ("section misspelt", "[budget]", "§[budgett]", "Did you mean 'budget'"),
    ("section unknown", "[report]", "§[output]\nx = 1\n[report]", "It has: study"),
    ("no title", 'title = "Doctor visits"', "", "title = "),
    ("no budget", "[budget]\neps = 3\ndelta = 1e-6\n", "", "eps = 3"),
    ("no data", "[data]\nn = 20_190\n", "", "n = 5_000"),
    ("one bracket", '[[table]]\nfits = ["visits", "deaths"]', '§[table]\nfits = ["visits"]',
     "[[table]], with two brackets"),
    ("section is a text", "[report]\nformats = [\"html\", \"csv\"]", "", None),
    # study and data
    ("title is a number", 'title = "Doctor visits"', "§title = 7", "type title = "),
    ("study key", 'title = "Doctor visits"', 'title = "x"\n§author = "me"', "It has: title, who"),
    ("n is a text", "n = 20_190", '§n = "many"', "type n = 41_000"),
    ("n is none", "n = 20_190", "§n = 0", "n = 5_000"),
    ("n negative", "n = 20_190", "§n = -3", "n = 5_000"),
    ("unit without people", "n = 20_190", 'unit = "id"', "units = 5_000"),
    ("rows per unit", "n = 20_190", 'unit = "id"\nunits = 90\n§rows_per_unit = 0', "rows_per_unit"),
    ("data key", "n = 20_190", "n = 20_190\n§rows = 3", "[data] has no 'rows'"),
    ("two schemas", "n = 20_190", 'n = 20_190\n§schema = "gone.toml"', "one schema"),
    ("columns", "n = 20_190", 'n = 20_190\n§columns = "wage"', "columns = {wage"),
    ("features of rows", "n = 20_190", 'n = 20_190\n§features = {x = "count"}', "whose row it is"),
    # budget
    ("eps zero", "eps = 3", "§eps = 0", "for example eps = 3"),
    ("eps text", "eps = 3", '§eps = "3"', "type eps = 3"),
    ("eps true", "eps = 3", "§eps = true", "type eps = 3"),
    ("delta large", "delta = 1e-6", "§delta = 0.9", "delta = 1e-6"),
    ("delta negative", "delta = 1e-6", "§delta = -1.0", "delta = 1e-6"),
    ("relation", "delta = 1e-6", 'delta = 1e-6\n§relation = "swap"', '"add-remove"'),
    ("budget key", "delta = 1e-6", "delta = 1e-6\n§epsilon = 3", "Did you mean 'eps'"),
    # schema
    ("type of a variable", 'type = "count"\nupper = 52', 'type = "integer"', "Types: real"),
    ("range turned", "lower = 0\nupper = 60", "lower = 60\nupper = 0", "Did you mean Real(0, 60)"),
    ("one end", "lower = 0\nupper = 60", "upper = 60", "Give both"),
    ("levels twice", '["good", "poor"]', '["good", "good"]', "listed twice"),
    ("no levels", 'levels = ["good", "poor"]\n', "", 'levels = ["north"'),
    ("one level", '["good", "poor"]', '["good"]', "at least two levels"),
    ("variable key", 'type = "binary"', 'type = "binary"\nlower = 0', "Binary has no"),
    # releases
    ("no release", None, None, "[[release]] with name"),
    ("name with blanks", 'name = "visits"', '§name = "my visits"', "a name becomes a file"),
    ("name twice", 'name = "deaths"', '§name = "Visits"', "is used twice"),
    ("name missing", 'name = "deaths"\n', "", 'name = "wage"'),
    ("verb misspelt", 'verb = "ols"', '§verb = "olss"', "Did you mean 'ols'"),
    ("verb of functions", 'verb = "ols"', '§verb = "eptr"', "Verbs: ols"),
    ("release key", 'verb = "ols"', '§formla = "x"\nverb = "ols"', "Did you mean 'formula'"),
    ("no eps", "eps = 1\n", "", "write eps = 1, or share = 0.3"),
    ("eps and share", "share = 0.3", "share = 0.3\neps = 1", "leave one out"),
    ("share above one", "share = 0.3", "§share = 1.5", "share = 0.3"),
    ("more than the budget", "eps = 1\n", "§eps = 4\n", "no more than the budget"),
    ("all too much", "eps = 1\n", "eps = 3\n", "the budget has"),
    ("seed", '{family = "binomial"}', '{§seed = 1}', "has no seeds"),
    ("option misspelt", '{family = "binomial"}', '{§famly = "binomial"}', "family"),
    ("family misspelt", '{family = "binomial"}', '{§family = "binomal"}', "binomial"),
    ("from nothing", "share = 0.3", '§from = "moments"', "names no release above"),
    ("from is free", "share = 0.3", 'share = 0.3\n§from = "visits"', "is free"),
    # formulas
    ("variable undeclared", '"died ~ disea"', '"died ~ age"', "[schema.NAME]"),
    ("no response", '"died ~ disea"', '"disea"', "response"),
    ("learnt from rows", '"died ~ disea"', '"died ~ scale(disea)"', "scale"),
    ("bracket", '"died ~ disea"', '"died ~ log(disea"', "disea"),
    ("response is a level", '"log1p(mdvis) ~ disea + health"', '"health ~ disea"', "health"),
    # after, tables, report
    ("after what", 'wald = "disea"', 'wold = "disea"', "has one of: wald"),
    ("wald of nothing", 'wald = "disea"', '§wald = "age"', "age"),
    ("after is paid", 'wald = "disea"', 'wald = "disea"\n§eps = 1', "is free: leave eps out"),
    ("means of nothing", 'wald = "disea"', '§emmeans = "sex"', "sex"),
    ("after of another kind", 'wald = "disea"', "§rmst = 3", "rmst"),
    ("table of nothing", '["visits", "deaths"]', '["visits", §"death"]', "Did you mean 'deaths'"),
    ("table options", 'fits = ["visits", "deaths"]', 'fits = ["visits"]\n§options = {digit = 3}',
     "digits = 3"),
    ("name of a table", 'fits = ["visits", "deaths"]', 'fits = ["visits"]\n§name = "Visits"',
     "of no other table"),
    ("two tables of one name", 'fits = ["visits", "deaths"]',
     'name = "one"\nfits = ["visits"]\n[[table]]\n§name = "One"\nfits = ["deaths"]', "of no other table"),
    ("name with a hyphen", 'name = "deaths"', '§name = "visits-1-wald"', "a name becomes a file"),
    ("format", '["html", "csv"]', '["html", §"pdf"]', "Formats: html, csv"),
]  # fmt: skip
#: Faults that are told at the nearest key which stands in the file.
NEAREST = {
    "no title": "[study]", "no budget": "", "no data": "", "unit without people": "[data]",
    "type of a variable": "[schema.mdvis]",
    "range turned": "[schema.disea]", "one end": "[schema.disea]",
    "levels twice": "[schema.health]", "no levels": "[schema.health]",
    "one level": "[schema.health]", "variable key": "[schema.died]", "no release": "",
    "name missing": "[[release]]\nverb", "no eps": '[[release]]\nname = "visits"',
    "eps and share": '[[release]]\nname = "deaths"', "all too much": "share = 0.3",
    "variable undeclared": 'formula = "died', "no response": 'formula = "disea',
    "learnt from rows": 'formula = "died', "bracket": 'formula = "died',
    "response is a level": 'formula = "health', "after what": "[[release.after]]",
}  # fmt: skip


def broken(old, new):
    if old is None:  # without any release
        return WHOLE[: WHOLE.index("[[release]]")] + '[report]\nformats = ["html"]\n'
    assert WHOLE.count(old) == 1, old
    return WHOLE.replace(old, new)


def place(text, name):
    """Return line and column of the sign, or of the nearest key."""
    at = text.index("§") if "§" in text else text.index(NEAREST.get(name, ""))
    before = text[:at]
    return before.count("\n") + 1, at - before.rfind("\n")


def faults(tmp_path, text):
    file = tmp_path / "study.toml"
    file.write_text(text, encoding="utf-8")
    try:
        return Study.read(file).check().problems
    except StudyError as error:
        return error.problems


def test_the_whole_file_is_fine(tmp_path):
    assert not faults(tmp_path, WHOLE)


def test_there_are_sixty():
    assert len(BROKEN) >= 60 and len({name for name, *_ in BROKEN}) == len(BROKEN)


@pytest.mark.parametrize(("name", "old", "new", "said"), BROKEN, ids=[b[0] for b in BROKEN])
def test_a_broken_file_is_told_its_line_and_remedy(tmp_path, name, old, new, said):
    text = broken(old, new)
    found = faults(tmp_path, text.replace("§", ""))
    if said is None:  # no fault: what may be left out is left out
        assert not found
        return
    assert found, "nothing was found"
    line, column = place(text, name)
    where = [f for f in found if said in f]
    assert where, found
    if "not TOML" in where[0]:  # the parser says where it stops, on that line or the next
        assert abs(int(where[0].split(":")[1]) - line) <= 1 or "open list" in name
    else:
        assert where[0].startswith(f"study.toml:{line}:{column}: "), (where, line, column)


def test_every_fault_at_once(tmp_path):
    text = WHOLE.replace('title = "Doctor visits"', "title = 7")
    text = text.replace('"died ~ disea"', '"died ~ age"').replace('["html", "csv"]', '["pdf"]')
    text = text.replace('levels = ["good", "poor"]\n', "")
    lines = [int(f.split(":")[1]) for f in faults(tmp_path, text)]
    assert len(lines) >= 4 and lines == sorted(lines)


def test_a_schema_beside_the_study_has_places_of_its_own(tmp_path):
    head, schema, rest = WHOLE.partition("[schema.mdvis]")
    schema, mark, rest = (schema + rest).partition("[[release]]\nname = \"visits\"")
    beside = schema.replace("[schema.", "[").replace("upper = 60", "upper = -60")
    (tmp_path / "facts.toml").write_text(beside)
    text = head.replace("n = 20_190", 'n = 20_190\nschema = "facts.toml"') + mark + rest
    found = faults(tmp_path, text)
    assert found and found[0].startswith("facts.toml:4:1: ")
    (tmp_path / "facts.toml").write_text(schema.replace("[schema.", "["))
    assert not faults(tmp_path, text)


def test_a_new_study_says_all_that_is_missing(tmp_path):
    found = faults(tmp_path, Study.new("log(wage) ~ educ + C(region)"))
    assert len(found) == 2 and "n = 5_000" in found[0] and "levels = [" in found[1]
    text = Study.new("log(wage) ~ educ + C(region)", unit="person")
    text = text.replace("# units =  ", "units = 3000 #").replace("# levels =", 'levels = ["a", "b"]')
    assert not [f for f in faults(tmp_path, text) if "units" in f]


def test_the_check_reads_no_rows_and_takes_every_verb(tmp_path):
    """The same code refuses a study before and at the run: a check calls the verbs themselves."""
    from dpmodels.study.asked import verbs

    assert {"ols", "glm", "coxph", "survfit", "feols", "polr", "table", "test", "mean", "quantile",
            "iv", "moments", "quantreg", "mest", "multinom", "fepois", "pca"} <= set(verbs())  # fmt: skip


def test_the_study_of_the_guide_is_fine(tmp_path):
    guide = Path(__file__).parents[3] / "docs" / "guides" / "study.md"
    text = guide.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    assert not faults(tmp_path, text)


def test_private_numbers_of_rows(tmp_path):
    text = WHOLE.replace("delta = 1e-6", 'delta = 1e-6\nrelation = "add-remove"')
    assert not faults(tmp_path, text)
