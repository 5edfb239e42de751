"""A study to complete, every choice explained."""

from __future__ import annotations

import json
import re
from importlib import resources
from string import Template

from dpmodels.formula.parser import category_names, needed_variables
from dpmodels.study.calls import AFTER, verb_named

_PEOPLE = """\
unit = {}                           # whose row it is: all rows of a person are protected together
# units =                           # people: a public number, 5_000
rows_per_unit = 5                   # a public guess of the rows of one"""


def text(formula: str, verb: str = "ols", unit: str | None = None) -> str:
    """Return the text of a study for one formula."""
    verb = verb_named(verb).removeprefix("dp_")
    plain = formula.partition("|")[0] if verb in ("feols", "fepois", "iv") else formula
    names = [name for name in needed_variables(plain, None) if name != unit]
    levels = category_names(plain)
    variables = []
    for name in names:
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
        kind = ("levels", "levels") if name in levels else ("real", "lower =\n# upper")
        variables.append('[schema.{}]\ntype = "{}"\n# {} =\n'.format(key, *kind))
    size = "# n =                               # rows: a public number, 5_000"
    whole = Template(resources.files(__package__).joinpath("template.toml").read_text("utf-8"))
    return whole.substitute(
        title=json.dumps(f"A study of {names[0]}"), schema="\n".join(variables), verb=verb,
        size=_PEOPLE.format(json.dumps(unit)) if unit else size, formula=json.dumps(formula),
        counted="people" if unit else "rows", after=", ".join(AFTER),
        name=json.dumps(re.sub(r"[^A-Za-z0-9]+", "_", names[0]).strip("_") + f"_{verb}"),
        wald=json.dumps(", ".join(names[1:2]) or names[0]),
    )  # fmt: skip
