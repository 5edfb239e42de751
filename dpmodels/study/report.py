"""The report of a run: tables in files, and one page that needs no network."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from html import escape
from importlib import resources
from importlib.util import find_spec
from typing import Any

from dpmodels.privacy.composition import joint
from dpmodels.study.checking import failure, side_by_side
from dpmodels.tables.table import plain
from dpmodels.verbs import verb_of

_READ = (
    "Every number holds noise, drawn once: none is exact, and the data behind it cannot be worked "
    "out from it. Running the study again reads these numbers back.",
    "Errors and intervals allow for the sample and for the noise: an interval of 95 % covers what "
    "the same model would give on the population in 95 of 100 studies.",
    "n/d, or an empty cell: not determined, as the noise at this budget is too large for a test.",
    "The guarantee is of all releases together. Tests, tables, means and predictions computed from "
    "them cost nothing more, today or later: dp.load reads the files of the folder fits.",
)
Output = tuple[str, str, str]


def write(ran: Any, folder: Any) -> list[Output]:
    """Write all outputs but the record; return (name, what it is, of which release) of each."""
    outputs, page = [], [_head(ran)]
    for outcome in ran.outcomes:
        name, fit = outcome.asked.name, outcome.fit
        page.append(_asked(outcome))
        if fit is None:
            continue
        if not outcome.asked.source:
            outputs.append((f"fits/{name}.json", "fit", name))
        page += [_shown(fit), _picture(fit, name) if fit.released else ""]
        outputs += _files(ran, folder, fit, (name, "estimates", name))
        for k, (one, found) in enumerate(outcome.after, 1):
            of = f": {escape(one.given)}" if isinstance(one.given, str) else ""
            page.append(f"<h3>{one.what.capitalize()}{of}</h3>")
            if isinstance(found, str):
                page.append(_missing(found))
                continue
            page.append(_shown(found))
            outputs += _files(ran, folder, found, (f"{name}-{k}-{one.what}", one.what, name))
    for side in ran.paper.sides:
        made: list[Any] = []
        said = "a fit of it was not given"
        if {*side.fits} <= {*ran}:
            said = failure(lambda side=side, made=made: made.append(side_by_side(side, ran)))
        page.append(f"<h2>{escape(side.title or side.name)}</h2>")
        if said:
            ran.missing.append(f"table {side.name}: {said}")
            page.append(_missing(said))
            continue
        page.append(_shown(made[0]))
        outputs += _files(ran, folder, made[0], (side.name, "table", ", ".join(side.fits)))
    if "html" in ran.paper.formats:
        folder.write("report.html", _page(ran, page))
        outputs.append(("report.html", "report", "all"))
    return outputs


def _files(ran: Any, folder: Any, found: Any, of: Output) -> list[Output]:
    """Write one table in the formats that were asked for; a rehearsal is marked in each."""
    table, out = _table(found), []
    if ran.rehearsal:
        notes = ("REHEARSAL: made-up rows", *table.notes)
        table = replace(table, title=f"REHEARSAL {table.title}".strip(), notes=notes)
    for fmt in (fmt for fmt in ran.paper.formats if fmt != "html"):
        name = f"tables/{of[0]}.{fmt}"
        if fmt == "docx":
            folder.write_word(name, table)
        elif fmt == "tex":
            folder.write(name, table.render("tex") + "\n")
        else:
            frame = _frame(found).assign(run="REHEARSAL" if ran.rehearsal else "release")
            folder.write(name, frame.to_csv(index=False, lineterminator="\n"))
        out.append((name, *of[1:]))
    return out


def _frame(found: Any) -> Any:
    """Return the numbers of a result as a frame."""
    import pandas as pd

    if hasattr(found, "tidy"):
        return found.tidy()
    if isinstance(found, (pd.Series, pd.DataFrame)):
        frame = found.to_frame("value") if isinstance(found, pd.Series) else found
        named = any(isinstance(label, str) for label in frame.index)
        return frame.rename_axis("row").reset_index() if named else frame
    return pd.DataFrame({"value": [found]})


def _table(found: Any) -> Any:
    """Return a result as a table of ours."""
    if hasattr(found, "summary"):
        return found.summary().table()
    if hasattr(found, "table"):
        return found.table()
    frame = _frame(found)
    lines = (tuple(f"{x:.4g}" if isinstance(x, float) else str(x) for x in line)
             for line in frame.itertuples(index=False))  # fmt: skip
    return plain([str(c) for c in frame.columns], lines)


# -- the page -------------------------------------------------------------------------------------


def _missing(said: str) -> str:
    return f'<p class="missing">Not given: {escape(said)}</p>'


def _shown(found: Any) -> str:
    return f'<div class="wide">{_table(found).render("html")}</div>'


def _picture(fit: Any, name: str) -> str:
    """Return the picture of a fit inside the page; empty where there is none."""
    if find_spec("matplotlib") is None:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure, file = Figure(layout="constrained"), io.BytesIO()

    def draw() -> None:
        with mpl.rc_context({"svg.hashsalt": name}):
            fit.plot(figure.subplots())
            lines = max(len(ax.get_yticks()) for ax in figure.axes)
            figure.set_size_inches(6.4, min(1.4 + 0.38 * max(lines, 2), 14.0))
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})

    code = "" if failure(draw) else base64.b64encode(file.getvalue()).decode()
    alt = f"Estimates of {escape(name)} with their intervals"
    return code and f'<img alt="{alt}" src="data:image/svg+xml;base64,{code}">'


def _asked(outcome: Any) -> str:
    """Return what one release was asked for, in words."""
    asked = outcome.asked
    words = ", ".join(f"{k} = {v}" for k, v in asked.options.items())
    paid = f"charged (eps = {asked.eps:g}, delta = {asked.delta:.3g})"
    paid = f"free, computed from {asked.source}" if asked.source else paid
    said = f"{verb_of('dp_' + asked.verb).title}, <code>{escape(asked.formula)}</code>"
    with_ = f", with {escape(words)}" if words else ""
    line = f"<h2>{escape(asked.title or asked.name)}</h2><p>Asked: {said}{with_}; {paid}.</p>"
    plainly = outcome.given and not outcome.reason
    return line + ("" if plainly else _missing(f"{outcome.status}. {outcome.reason}"))


def _head(ran: Any) -> str:
    paper = ran.paper
    charges = [charge.guarantee for o in ran.outcomes for charge in o.charges]
    said = joint(charges).statement() if charges else "nothing was charged"
    if ran.rehearsal:
        said = "none is needed: the rows were made from the schema"
    met = {fit.nobs for fit in ran.values() if fit.nobs} - {paper.size}
    size = f"{paper.size:,} {'people' if paper.unit else 'rows'}"
    lines = [f"{key.title()}: {paper.get('study', key)}" for key in ("who", "why")
             if paper.get("study", key)]  # fmt: skip
    lines += [f"Planned for {size}" + "".join(f"; the data have {n:,}" for n in sorted(met)) + ".",
              f"Guarantee: {said}."]  # fmt: skip
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _page(ran: Any, parts: list[str]) -> str:
    title = escape(str(ran.paper.get("study", "title")))
    mark = '<p class="mark">REHEARSAL: made-up rows, no result</p>' if ran.rehearsal else ""
    read = "".join(f"<li>{escape(text)}</li>" for text in _READ)
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join([parts[0], *map(_missing, ran.missing), *parts[1:]])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{'REHEARSAL: ' * ran.rehearsal}{title}</title><style>\n{style}</style></head>\n"
        f"<body>{mark}<h1>{title}</h1>\n{body}\n<h2>How to read it</h2><ul>{read}</ul>\n"
        f"<p>Study {ran.paper.hash[:12]}. What a checker asks is in record.json.</p>"
        "</body></html>\n"
    )
