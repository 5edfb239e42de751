"""A study to complete, every choice explained."""

from __future__ import annotations

import json
import re

from dpmodels.formula.walk import category_names, needed_variables
from dpmodels.study.calls import AFTER, verb_named

_TEXT = '''\
# A study: what is to be estimated, written without the data. Complete the lines "# ... =",
# then:   dpmodels study check study.toml        every fault at once, and the plan
#         dpmodels study rehearse study.toml --out rehearsal        on rows made up
# and hand it over; who has the data types
#         dpmodels study run study.toml --data FILE --ledger project.ledger --out results
# Other lines that begin with # may be left out.

[study]
title = {title}
# who = "Institute, names"          # these two end up in the record
# why = "what the results are for"

[data]
{size}
# columns = {{wage = "WAGE_2021"}}    # name here = "name in the data", where they differ

[budget]                            # of everything below together
eps = 1                             # 1: strong protection; 3 is usual; above 10 says little
delta = 1e-6                        # well below 1 over the number of {counted}
# relation = "replace"              # the number of {counted} is public; or "add-remove": it is not

# What is public about each variable, from the questionnaire or the codebook, NEVER from the data.
# types: real (lower, upper), count (upper), binary, levels (levels = ["a", "b"]), ordered.
# Values outside a range are moved to its end; undeclared levels count as missing; a range that is
# not declared is bought from the budget.
{schema}
[[release]]                         # one release each; what follows from it is free
name = {name}
verb = "{verb}"                        # ols, glm, coxph, survfit, polr, table, test, mean, ...
formula = {formula}
share = 1.0                         # of the budget; or eps = 0.5. delta goes with eps
# options = {{vcov = "hetero"}}       # of the verb: see dpmodels methods

# [[release.after]]                 # computed from the release, at no cost. One of:
# wald = {wald}
# {after}

# [[table]]                         # several fits side by side
# fits = [{name}, "another"]

[report]
formats = ["html", "csv"]           # and "tex", "docx"
'''


def text(formula: str, verb: str = "ols", unit: str | None = None) -> str:
    """Return the text of a study for one formula."""
    verb = verb_named(verb).removeprefix("dp_")
    plain = formula.partition("|")[0] if verb in ("feols", "fepois", "iv") else formula
    names = [n for n in needed_variables(plain, None) if n != unit]
    levels = category_names(plain)
    size = "# n =                               # rows: a public number, 5_000"
    if unit:
        size = (f"unit = {json.dumps(unit)}                  # whose row it is: people are protected\n"
                "# units =                           # people: a public number, 5_000\n"
                "rows_per_unit = 5                   # a public guess of the rows of one")  # fmt: skip
    response = re.sub(r"\W+", "_", names[0]).strip("_") or "model"
    lines = []
    for name in names:
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
        facts = 'type = "levels"\n# levels =' if name in levels else 'type = "real"\n# lower =\n# upper ='
        lines.append(f"[schema.{key}]\n{facts}\n")
    return _TEXT.format(
        title=json.dumps(f"A study of {names[0]}"), size=size, schema="\n".join(lines),
        counted="people" if unit else "rows", name=json.dumps(f"{response}_{verb}"), verb=verb,
        formula=json.dumps(formula), wald=json.dumps(", ".join(names[1:2]) or names[0]),
        after=", ".join(AFTER),
    )  # fmt: skip
