"""A design, shown: columns, public ranges, norms, and which columns add up to others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.arrays import Array
from dpmodels.errors import RequestError, SchemaNeededError
from dpmodels.formula.build import build_design
from dpmodels.formula.design import Design, Made
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.schema import Schema, declared_schema, schema_for
from dpmodels.formula.words import Cat, magnitude, written_name
from dpmodels.lazy import pd
from dpmodels.tables.content import Layout
from dpmodels.tables.table import Shown, Table, grid
from dpmodels.variables import Levels, Variable

_NA_MEANINGS = {
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
        Two-sided, or one-sided for predictors only.
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
    full = schema_for(dict.fromkeys(names, "unknown"), schema, bounds, needed, formula=formula)
    left = formula.split("~", 1)[0].strip().strip("`") if "~" in formula else ""
    classes = isinstance(full.variables.get(left), Levels)
    design = build_design(
        formula,
        full,
        na=na,
        engine=engine,
        subset=subset,
        weights=weights,
        order=order,
        one_sided_ok=True,
        response_ok="levels" if classes else "real",
    )
    return Description(design.without_bounds() if bounds == "private" else design)


@dataclass(frozen=True, repr=False)
class Description(Shown):
    """Public description of a design."""

    design: Design

    def to_frame(self) -> pd.DataFrame:
        """Return one row per column: name, term, kind, lower, upper, norm of the term."""
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
        return pd.DataFrame(rows)

    def table(self) -> Table:
        """Return columns, terms below them, facts and advice."""
        d = self.design
        columns = [(c.name, c.kind, _num(c.lower), _num(c.upper)) for c in d.z]
        total = sum(d.term_norm(t) ** 2 for t in d.terms)
        terms = []
        for t in d.terms:
            norm = d.term_norm(t)
            share = f"{100 * norm**2 / total:.1f} %" if total > 0 else ""
            bounded = not math.isnan(norm) and not math.isnan(total)
            count = t.columns.stop - t.columns.start
            terms.append((t.name, str(count), _num(norm), share if bounded else ""))
        below = grid(("term", "columns", "norm", "share of squared row norm"), terms)
        return grid(
            ("column", "kind", "lower", "upper"), columns, layout=_LAYOUT,
            title=f'Design of "{d.formula}"', facts=tuple(self._facts()), notes=advice(d),
            more=(below,),
        )  # fmt: skip

    def _facts(self) -> list[tuple[str, str]]:
        """Return the facts above the table: bounds, missing cells, subset, weights, offset."""
        d = self.design
        norms = ", ".join(f"{_num(d.row_norm(n))} ({n})" for n in ("l2", "l1", "linf"))
        out = [("Row norm bound", norms)]
        if d.response is not None:
            out.append((f"Bound on |{d.response.name}|", _num(magnitude(d.response.interval))))
        out.append(("Missing or invalid cell", _NA_MEANINGS[d.na]))
        for what in ("subset", "weights", "offset"):
            value = getattr(d, what)
            if value is not None:
                out.append((what.capitalize(), f"{value}"))
        if d.unknown:
            out.append(("Ranges to be estimated from eps, delta", ", ".join(d.unknown)))
        return [*out, ("", "Values outside a range are clipped to it, silently.")]


def advice(design: Design) -> tuple[str, ...]:
    """Return public advice: which terms widen the row norm, and what to write instead."""
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
    products = design.program.products if design.program is not None else ()
    wide: dict[str, tuple[float, int]] = {}
    for atom in (atom for product in products for atom in product.atoms):
        norm = atom.norms["l2"]
        if isinstance(atom.source, Cat) and norm is not None and norm > 1.5:
            wide.setdefault(atom.names[0].rsplit("[", 1)[0], (norm, len(atom.source.levels)))
    for text, (norm, levels) in wide.items():
        out.append(
            f"the coding of {text} has row norm {norm:.3g} for {levels} levels; treatment coding "
            "has 1"
        )
    return tuple(out)


def _num(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.6g}"


# -- Whether the columns of one design are linear functions of another's, and which.
#
# Decided at public points: rows drawn over the declared ranges and levels, no data. Two functions
# that agree there to twelve digits are the same function of the row.


#: Points: the least number, and the least per column.
_POINTS = (512, 32)
#: Largest distance from the span, over the largest cell of a column.
_NEAR = 1e-8
#: Numbers without a range (rows whitened by public data).
_ANYWHERE = (1.0, 2.0)


def _cells(variable: Variable, ends: tuple[float, float] | None, m: int, rng: Any) -> Any:
    """Return m public cells of a variable."""
    if isinstance(variable, Levels) or variable.codes:
        codes = list(variable.codes)
        return [codes[k] for k in rng.integers(0, len(codes), m)]
    ends = variable.interval or ends
    if ends is None:
        return None
    low, high = map(float, ends)
    if variable.kind == "binary":
        return rng.integers(0, 2, m).astype(float)
    if variable.kind == "count":
        return rng.integers(int(low), int(high) + 1, m).astype(float)
    return rng.uniform(low, high, m)


def public_points(
    design: Design, m: int, anywhere: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return m rows over the public (or estimated) ranges and the levels of a design's variables.

    ``anywhere``: where numbers without a range lie; None: they are refused.
    """
    rng = np.random.default_rng(0)  # no secret: which points are used does not matter
    table: dict[str, Any] = Made()
    for name in design.variables:
        ends = next((c.interval for c in design.z if c.name == name), None)
        cells = _cells(design.schema[name], ends or anywhere, m, rng)
        if cells is None and name == design.ids:  # a label of clusters: any will do
            cells = np.ones(m)
        if cells is None:
            raise RequestError(
                f"the range of {name!r} is not public: declare it when the fit or the release is "
                f"made, bounds={{{name!r}: (lower, upper)}}"
            )
        table[name] = cells
    return table


def response_column(design: Design, table: dict[str, Any], schema: Schema) -> Array:
    """Return the cells of a design's response at rows of a table, (m,)."""
    assert design.response is not None
    name = design.response.name
    text = name if name in schema else f"I({name})"
    quoted = written_name(name) if name in schema else text
    design_of_response = build_design(f"~ 0 + {quoted}", schema, na=design.na, one_sided_ok=True)
    return np.asarray(design_of_response.matrix(table), dtype=float)[:, 0]


def independent(columns: dict[str, Array]) -> list[str]:
    """Return the columns that do not follow from the constant and those before them."""
    chosen: list[str] = []
    basis = np.ones((0, 1))
    for name, cells in columns.items():
        basis = basis if len(basis) else np.ones((len(cells), 1))
        column = cells - cells.mean()
        column = column / (np.abs(column).max() or 1.0)  # years lie within 1 % of each other
        if outside_span(column[:, None], basis)[1][0] > _NEAR:
            chosen.append(name)
            basis = np.column_stack([basis, column])
    return chosen


def outside_span(columns: Array, basis: Array) -> tuple[Array, Array]:
    """Return (coefficients (p, k) of least norm, (p,) relative distances) of columns (m, p)."""
    C = np.linalg.lstsq(basis, columns, rcond=1e-11)[0]
    size = np.maximum(np.abs(columns).max(axis=0), 1e-300)
    return C.T, np.abs(columns - basis @ C).max(axis=0) / size


def span(
    target: Design, source: Design, back: Array, *, constant: bool
) -> tuple[Array, tuple[int, ...]]:
    """Return the columns of ``target`` (response last) as functionals of released rows: (p + 1, k).

    ``source`` is the design of the release: its columns (response last, then the constant 1 if
    ``constant``, which is no column of it) are ``back w``, with ``back`` (q, k). Functionals are of
    least norm, so of least noise, where there is a choice. Also returned are the indices of columns
    that are not a linear function of the source's.
    """
    q = len(back)
    m = max(_POINTS[0], _POINTS[1] * q)
    # a number without a range is clipped nowhere, so any generic points will do
    table = public_points(source, m, _ANYWHERE)
    parts = [np.asarray(source.matrix(table), dtype=float)]
    if source.response is not None:
        parts.append(response_column(source, table, source.schema)[:, None])
    if constant:
        parts.append(np.ones((m, 1)))
    rows = np.hstack(parts)
    blocks = [np.asarray(target.matrix(table), dtype=float)]
    if target.response is not None:
        blocks.append(response_column(target, table, source.schema)[:, None])
    columns = np.hstack(blocks)
    complete = np.isfinite(rows).all(axis=1) & np.isfinite(columns).all(axis=1)
    onto = np.eye(q)
    if back.shape[1] > q:  # rows of several sites, side by side
        onto, back = (part.T for part in np.linalg.qr(back.T))
    w = np.linalg.solve(back, rows[complete].T).T
    functionals, far = outside_span(columns[complete], w)
    return functionals @ onto, tuple(int(j) for j in np.flatnonzero(~(far <= _NEAR)))


def terms_at(design: Design, places: Sequence[int]) -> list[str]:
    """Return the terms (or the response) of columns with these indices, once each."""
    response = "" if design.response is None else design.response.name
    names = [design.columns[j].term if j < design.p else response for j in places]
    return list(dict.fromkeys(names))
