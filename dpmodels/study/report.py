"""The report of a run: tables in files, and one page that needs no network."""

from __future__ import annotations

import base64
import io
from html import escape
from importlib.util import find_spec
from typing import Any

from dpmodels.errors import DPModelsError
from dpmodels.study.checking import noted, side_by_side
from dpmodels.tables import plain
from dpmodels.verbs import verb_of

#: One column that every CSV file has: a rehearsal cannot be taken for a result.
_MARK = "run"
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1a1a1a;
background:#fff;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2}h2{margin-top:2.5rem;border-top:1px solid #ccc;padding-top:1rem}
.wide{overflow-x:auto;font-size:.9rem;overflow-wrap:normal}.wide th,.wide td{white-space:nowrap}
.wide li,.wide caption,.wide p{white-space:normal}
img{max-width:100%;height:auto}code{background:#f3f3f3;padding:0 .2em}
.mark{background:#b00020;color:#fff;padding:.5rem 1rem;font-weight:bold;position:sticky;top:0}
.missing{border-left:4px solid #b00020;padding-left:1rem}
"""
_READ = (
    "Every number holds noise that was drawn once; the data behind it cannot be worked out from "
    "it, and it is not exact. Repeating the run does not make other numbers: it reads these back.",
    "Errors and intervals allow for the sample and for the noise. An interval of 95 % covers what "
    "the same model would give on the population in 95 of 100 studies.",
    "n/d: not determined. The noise at this budget is too large for a test.",
    "The guarantee is of all releases together. Tables, tests, means and predictions computed from "
    "them cost nothing more, today or later: the fits in this folder load with dpmodels.",
)


def write(ran: Any, folder: Any, *, rehearsal: bool) -> list[tuple[str, str, str]]:
    """Write all outputs but the record; return (name, what it is, of which release) of each."""
    formats = ran.paper.formats
    listed: list[tuple[str, str, str]] = []
    page = [_head(ran, rehearsal)]
    for outcome in ran.outcomes:
        name = outcome.asked.name
        page.append(_asked(outcome))
        if outcome.fit is None:
            continue
        if not outcome.asked.source:
            listed.append((f"fits/{name}.json", "fit", name))
        parts = [(name, outcome.fit, "estimates")]
        parts += [
            (f"{name}-{k}-{one.what}", found, one.what)
            for k, (one, found) in enumerate(outcome.after, 1)
        ]
        for stem, found, what in parts:
            if isinstance(found, str):
                page.append(f'<p class="missing">{escape(what)}: {escape(found)}</p>')
                continue
            page.append(_shown(found, "" if what == "estimates" else what))
            listed += _files(folder, formats, stem, found, (what, name), rehearsal)
            if what == "estimates" and "html" in formats:
                page.append(_picture(found, name))
    fits = {name: ran[name] for name in ran}
    for side in ran.paper.sides:
        given = [name for name in side.fits if name in fits]
        if not given or len(given) < len(side.fits):
            ran.missing.append(f"table {side.name}: a fit of it was not given")
            continue
        try:
            table = side_by_side(side, fits)
        except DPModelsError as error:
            ran.missing.append(f"table {side.name}: {error}")
            continue
        page.append(f"<h2>{escape(side.title or side.name)}</h2>{_shown(table, '')}")
        listed += _files(folder, formats, side.name, table, ("table", ", ".join(given)), rehearsal)
    if "html" in formats:
        folder.write("report.html", _page(ran, page, rehearsal))
        listed.append(("report.html", "report", "all"))
    return listed


def _files(
    folder: Any, formats: Any, stem: str, found: Any, what: tuple[str, str], rehearsal: bool
) -> list[tuple[str, str, str]]:
    """Write one table in the formats that were asked for."""
    table = _table(found)
    if rehearsal:
        from dataclasses import replace

        table = replace(table, title=f"REHEARSAL {table.title}".strip(),
                        notes=("REHEARSAL: made-up rows", *table.notes))  # fmt: skip
    out = []
    for fmt in formats:
        name = f"tables/{stem}.{fmt}"
        if fmt == "csv":
            frame = _frame(found)
            frame[_MARK] = "REHEARSAL" if rehearsal else "release"
            folder.write(name, frame.to_csv(index=False, lineterminator="\n"))
        elif fmt == "tex":
            folder.write(name, table.render("tex") + "\n")
        elif fmt == "docx":
            folder.write_word(name, table)
        else:
            continue
        out.append((name, *what))
    return out


def _frame(found: Any) -> Any:
    """Return the numbers of a result as a frame."""
    import pandas as pd

    if hasattr(found, "tidy"):
        with noted():
            return found.tidy().copy()
    if isinstance(found, pd.Series):
        return found.rename("value").rename_axis("row").reset_index()
    if isinstance(found, pd.DataFrame):
        named = any(isinstance(label, str) for label in found.index)
        return found.rename_axis("row").reset_index() if named else found.copy()
    return pd.DataFrame({"value": [found]})


def _table(found: Any) -> Any:
    """Return a result as a table of ours."""
    if hasattr(found, "summary"):
        return found.summary().table()
    if hasattr(found, "table"):
        return found.table()
    frame = _frame(found)
    rows = [
        tuple(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row)
        for row in frame.itertuples(index=False)
    ]
    return plain([str(c) for c in frame.columns], rows)


def _shown(found: Any, what: str) -> str:
    title = f"<h3>{escape(what)}</h3>" if what else ""
    return f'{title}<div class="wide">{_table(found).render("html")}</div>'


def _picture(fit: Any, name: str) -> str:
    """Return the picture of a fit inside the page; empty where there is none."""
    if find_spec("matplotlib") is None or not fit.released:
        return ""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, min(1.2 + 0.38 * max(len(fit.params), 6), 14.0)),
                    layout="constrained")  # fmt: skip
    file = io.BytesIO()
    try:
        with noted(), mpl.rc_context({"svg.hashsalt": name}):
            fit.plot(figure.subplots())
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    except (DPModelsError, TypeError, ValueError):
        return ""
    code = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="Estimates of {escape(name)} with their intervals" src="data:image/svg+xml;base64,{code}">'


def _asked(outcome: Any) -> str:
    """Return what one release was asked for, in words."""
    asked = outcome.asked
    words = "; ".join(f"{k} = {v}" for k, v in asked.options.items())
    paid = f"free, computed from {asked.source}" if asked.source else (
        f"charged (eps = {asked.eps:g}, delta = {asked.delta:.3g})"
    )
    lines = [
        f"<h2>{escape(asked.title or asked.name)}</h2>",
        f"<p>Asked: {escape(verb_of('dp_' + asked.verb).title)}, <code>{escape(asked.formula)}"
        f"</code>{escape(f', with {words}' if words else '')}; {escape(paid)}.</p>",
    ]
    if not outcome.given or outcome.reason:
        text = f"{outcome.status}. {outcome.reason}"
        lines.append(f'<p class="missing">Outcome: {escape(text)}</p>')
    return "\n".join(lines)


def _head(ran: Any, rehearsal: bool) -> str:
    from dpmodels.privacy.guarantee import joint

    paper = ran.paper
    charges = [charge.guarantee for o in ran.outcomes for charge in o.charges]
    said = joint(charges).statement() if charges else "nothing was charged"
    if rehearsal:
        said = "none: the rows were made from the schema, nothing of the data is in this page"
    facts = [("Who", "who"), ("Why", "why")]
    lines = [f"<p>{label}: {escape(str(paper.get('study', key)))}</p>"
             for label, key in facts if paper.get("study", key)]  # fmt: skip
    planned = f"Planned for {paper.size:,} {'people' if paper.unit else 'rows'}"
    met = {o.fit.nobs for o in ran.outcomes if o.fit is not None and o.fit.nobs}
    planned += "".join(f"; the data have {n:,}" for n in sorted(met) if n != paper.size)
    return "\n".join([*lines, f"<p>{planned}.</p>", f"<p>Guarantee: {escape(said)}.</p>"])


def _page(ran: Any, parts: list[str], rehearsal: bool) -> str:
    title = escape(str(ran.paper.get("study", "title")))
    mark = '<p class="mark">REHEARSAL: made-up rows, no result</p>' if rehearsal else ""
    missing = "".join(f'<p class="missing">Not given: {escape(text)}</p>' for text in ran.missing)
    read = "".join(f"<li>{escape(text)}</li>" for text in _READ)
    body = "\n".join([parts[0], missing, *parts[1:]])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{'REHEARSAL: ' * rehearsal}{title}</title><style>{_STYLE}</style></head>\n"
        f"<body>{mark}<h1>{title}</h1>\n{body}\n<h2>How to read it</h2><ul>{read}</ul>\n"
        f"<p>Study {ran.paper.hash[:12]}; what a checker asks is in record.json.</p>"
        "</body></html>\n"
    )
