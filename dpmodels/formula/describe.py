"""A design, shown: columns, public ranges, norms, and what would make them smaller."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmodels.errors import SchemaNeededError
from dpmodels.formula.build import build_design
from dpmodels.formula.design import Design
from dpmodels.formula.nodes import Cat
from dpmodels.formula.schema import Schema, declared_schema, schema_for
from dpmodels.formula.walk import needed_variables
from dpmodels.tables import Column, Layout, Row, Shown, Table
from dpmodels.variables import Levels

if TYPE_CHECKING:
    import pandas as pd

_NA = {
    "zero-row": "the whole row becomes zero, intercept included; n is unchanged",
    "declared": "na= of the schema where declared; otherwise the whole row becomes zero",
    "impute-midpoint": "na= of the schema, else the middle of the range or the first level",
}


_LAYOUT = Layout(
    width=0, grows=True, outer="", inner="", closed=False, label=1, facts_last=True, indent=2,
    heading="Advice (from public facts only):", mark="  - ",
)  # fmt: skip


def describe(
    formula: str,
    schema: Schema | None = None,
    bounds: Mapping[str, Any] | str | None = None,
    *,
    na: str = "zero-row",
    engine: str = "formulaic",
    subset: str | None = None,
    weights: str | None = None,
    order: str | None = None,
) -> Description:
    """Show the design a formula gives under a schema: columns, ranges, norms. Reads no data.

    Parameters
    ----------
    formula : str
        Two-sided, or one-sided to look at predictors only.
    schema : Schema
    bounds : mapping, optional
        Short form ``{"alcohol": (8, 15)}``; "private" forgets the declared ranges.
    na, engine, subset, weights, order
        As in a fit.

    Returns
    -------
    Description
        ``print`` it, show it in a notebook, or take ``to_frame()``.

    Notes
    -----
    **Privacy.** A function of formula and schema: everything shown is public, nothing is charged.

    Examples
    --------
    >>> from dpmodels import Real, Schema
    >>> print(describe("y ~ x", Schema(y=Real(0, 10), x=Real(8, 15))))  # doctest: +ELLIPSIS
    Design of "y ~ x"...
    """
    schema = declared_schema(schema, None)
    declared = dict(schema.variables) if schema is not None else {}
    names = [*declared, *(n for n in (bounds or ()) if n not in declared)]
    if isinstance(bounds, str):
        names = [*declared]
    if not names:
        raise SchemaNeededError(
            "describe needs a schema. Paste and complete:\n  "
            + Schema.template(formula).replace("\n", "\n  ")
        )
    needed = needed_variables(formula, names, engine=engine, subset=subset, weights=weights)
    full = schema_for(dict.fromkeys(names, "numeric"), schema, bounds, needed, formula=formula)
    design = build_design(
        formula,
        full,
        na=na,
        engine=engine,
        subset=subset,
        weights=weights,
        order=order,
        one_sided_ok=True,
        response_ok=_response_kind(formula, full),
    )
    return Description(design.without_bounds() if bounds == "private" else design)


def _response_kind(formula: str, schema: Schema) -> str:
    left = formula.split("~", 1)[0].strip().strip("`") if "~" in formula else ""
    variable = schema.variables.get(left)
    return "levels" if isinstance(variable, Levels) else "real"


@dataclass(frozen=True, repr=False)
class Description(Shown):
    """What is public about a design.

    Attributes
    ----------
    design : Design
    """

    design: Design

    def to_frame(self) -> pd.DataFrame:
        """Return one row a column: name, term, kind, lower, upper, norm of the term."""
        import pandas as pd

        d = self.design
        norms = {t.name: d.term_norm(t) for t in d.terms}
        rows = [
            {
                "column": c.name,
                "term": c.term,
                "kind": c.kind,
                "lower": math.nan if c.lower is None else c.lower,
                "upper": math.nan if c.upper is None else c.upper,
                "term_norm": norms.get(c.term, math.nan),
            }
            for c in d.z
        ]
        frame: pd.DataFrame = pd.DataFrame(rows)
        return frame

    def table(self) -> Table:
        """Return columns, terms below them, facts and advice."""
        d = self.design
        columns = [(c.name, c.kind, _num(c.lower), _num(c.upper)) for c in d.z]
        total = sum(d.term_norm(t) ** 2 for t in d.terms)
        terms = []
        for t in d.terms:
            norm = d.term_norm(t)
            share = f"{100 * norm**2 / total:.1f} %" if total > 0 else ""
            known = not math.isnan(norm) and not math.isnan(total)
            count = t.columns.stop - t.columns.start
            terms.append((t.name, str(count), _num(norm), share if known else ""))
        return Table(
            title=f'Design of "{d.formula}"',
            facts=tuple(self._facts()),
            columns=_heads("column", "kind", "lower", "upper"),
            rows=tuple(map(Row, columns)),
            notes=advice(d),
            more=(
                Table(
                    columns=_heads("term", "columns", "norm", "share of squared row norm"),
                    rows=tuple(map(Row, terms)),
                ),
            ),
            layout=_LAYOUT,
        )

    def _facts(self) -> list[tuple[str, str]]:
        d = self.design
        norms = ", ".join(f"{_num(d.row_norm(n))} ({n})" for n in ("l2", "l1", "linf"))
        out = [("Row norm bound", norms)]
        if d.response is not None:
            out.append((f"Bound on |{d.response.name}|", _num(d.response_bound)))
        out.append(("Missing or invalid cell", _NA[d.na]))
        for what in ("subset", "weights", "offset"):
            value = getattr(d, what)
            if value is not None:
                out.append((what.capitalize(), f"{value}"))
        if d.unknown:
            out.append(("Ranges to be bought from eps, delta", ", ".join(d.unknown)))
        return [*out, ("", "Values outside a range are clipped to it, silently.")]

    def __repr__(self) -> str:
        return self.as_text()


def advice(design: Design) -> tuple[str, ...]:
    """Return public advice: which terms widen the row norm, and what to write instead.

    Notes
    -----
    **Privacy.** A function of formula and schema.
    """
    out = []
    norms = {t.name: design.term_norm(t) for t in design.terms}
    total = sum(v * v for v in norms.values())
    if math.isfinite(total) and len(norms) > 2:
        name, top = max(norms.items(), key=lambda item: item[1])
        if top * top > 0.9 * total and top > 2.0:
            out.append(
                f"term {name} makes up {100 * top * top / total:.0f} % of the squared row norm "
                f"bound; where a method's noise follows the norm, unit() of its variables or a "
                "narrower declared range makes it smaller"
            )
    for text, levels, norm in _wide_codings(design):
        out.append(
            f"the coding of {text} has row norm {norm:.3g} for {levels} levels; treatment coding "
            "has 1"
        )
    return tuple(out)


def _wide_codings(design: Design) -> Iterable[tuple[str, int, float]]:
    seen = set()
    products = design.program.products if design.program is not None else ()
    for product in products:
        for atom in product.atoms:
            norm = atom.norms["l2"]
            if isinstance(atom.source, Cat) and norm is not None and norm > 1.5:
                text = atom.names[0].rsplit("[", 1)[0]
                if text not in seen:
                    seen.add(text)
                    yield text, len(atom.source.levels), norm


def _num(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.6g}"


def _heads(*labels: str) -> tuple[Column, ...]:
    """Return headers: the first column left, the others right."""
    return tuple(Column(text, left=k == 0) for k, text in enumerate(labels))
