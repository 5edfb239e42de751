"""Columns of a design from its factors: names, intervals, norms. All public."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError, did_you_mean, shown
from dpmodels.formula import formulaic_terms as fx
from dpmodels.formula import functions as iv
from dpmodels.formula.design import Column, TermInfo
from dpmodels.formula.nodes import Basis, Cat, Factor, Node
from dpmodels.formula.program import Atom, Product
from dpmodels.variables import LARGEST


def column_of(name: str, interval: iv.Interval, term: str, kind: str) -> Column:
    """Return a column from its interval."""
    lo, hi = interval if interval is not None else (None, None)
    return Column(name, lo, hi, term, kind)


def check_event(text: str, interval: iv.Interval) -> None:
    """Refuse a numeric response that is not 0 or 1."""
    if interval != (0.0, 1.0):
        raise FormulaError(
            f"the response {text!r} must be an event, 0 or 1. Say which number is the event: "
            f"event=1; or declare {text} = dp.Binary(), or two "
            f'levels of which the second is the event: {text} = dp.Levels(["no", "yes"]); or write '
            f"the event as a comparison: {{{text} > 0}} ~ ..."
        )


def class_response(
    text: str, factor: Cat, response_ok: str, event: Any
) -> tuple[Column, Node | Cat, tuple[Any, ...]]:
    """Return column, source and levels of a response that is a category."""
    levels = factor.levels
    if response_ok == "levels":
        return Column(text, 0.0, len(levels) - 1.0, text, "class"), factor, levels
    if response_ok == "event":
        if event is None and len(levels) != 2:
            raise FormulaError(
                f"the response {text!r} has {len(levels)} levels; say which is the event: "
                f"event={levels[0]!r}"
            )
        chosen = levels[1] if event is None else event
        if chosen not in levels:
            close = did_you_mean(str(chosen), map(str, levels))
            raise FormulaError(
                f"event={shown(chosen)} is not a level of {text!r}.{close} Levels: {list(levels)!r}"
            )
        table = np.array([*(float(x == chosen) for x in levels), math.nan])
        node = Node((0.0, 1.0), lambda env: table[factor.evaluate(env)], factor.variables)
        rest = tuple(x for x in levels if x != chosen)
        return Column(text, 0.0, 1.0, text, "event"), node, (*rest, chosen)
    raise FormulaError(
        f"the response {text!r} has levels {list(levels)!r}, not numbers. Name the event: "
        f"{{{text} == {levels[-1]!r}}} ~ ..."
    )


def atom_of(text: str, factor: Factor, reduced: bool) -> Atom:
    """Return the columns of one factor in one coding."""
    if isinstance(factor, Node):
        norm = iv.magnitude(factor.interval)
        return Atom(factor, (text,), (factor.interval,), dict.fromkeys(("l2", "l1", "linf"), norm))
    if isinstance(factor, Basis):
        drop = 1 if factor.spans_intercept and reduced else 0
        names = tuple(f"{text}[{f}]" for f in factor.fields[drop:])
        return Atom(factor, names, factor.intervals[drop:], factor.norms, drop=drop)
    coding = fx.coding(factor.contrast, factor.levels, reduced)
    names = tuple(coding.format.format(name=text, field=f) for f in coding.fields)
    m = coding.matrix
    bounds = tuple((float(c.min()), float(c.max())) for c in m.T)
    norms = {
        "l2": float(np.sqrt((m**2).sum(axis=1)).max()),
        "l1": float(np.abs(m).sum(axis=1).max()),
        "linf": float(np.abs(m).max(initial=0.0)),
    }
    ones = (m == 1.0).sum(axis=1)
    plain = bool(np.isin(m, (0.0, 1.0)).all() and (ones <= 1).all() and m.shape[1])
    target = None
    if plain:
        target = np.append(np.where(ones == 1, m.argmax(axis=1), -1), -1).astype(np.intp)
    return Atom(factor, names, bounds, norms, matrix=m, target=target)


def columns_of(product: Product, term: str) -> list[Column]:
    """Return the columns of a product, first factor running fastest, with their intervals."""
    if not product.atoms:
        one = product.scale
        name = "Intercept" if term == "Intercept" else term
        return [Column(name, one, one, term, "intercept" if one == 1.0 else "numeric")]
    if len(product.atoms) > 1:
        kind = "product"
    elif product.atoms[0].target is not None:
        kind = "dummy"
    else:
        source = product.atoms[0].source
        kind = (
            "contrast"
            if isinstance(source, Cat)
            else "basis"
            if isinstance(source, Basis)
            else "numeric"
        )
    out = []
    index = [0] * len(product.atoms)
    for _ in range(product.width):
        name = ":".join(a.names[i] for a, i in zip(product.atoms, index, strict=True))
        interval: iv.Interval = None
        for k, (a, i) in enumerate(zip(product.atoms, index, strict=True)):
            interval = a.intervals[i] if k == 0 else iv.multiply(interval, a.intervals[i])
        if product.scale != 1.0:
            interval = iv.scale(interval, product.scale)
        known = all(a.intervals[i] for a, i in zip(product.atoms, index, strict=True))
        _within(interval, known, name)
        out.append(column_of(name, interval, term, kind))
        for k, a in enumerate(product.atoms):
            index[k] += 1
            if index[k] < a.width:
                break
            index[k] = 0
    return out


def _within(interval: iv.Interval, known: bool, name: str) -> None:
    """Refuse a product of declared ranges that is beyond any range that could be declared."""
    if known and interval is None:
        raise FormulaError(
            f"the range of {name!r}, a product of declared ranges, goes beyond {LARGEST:g}. Narrow "
            "the ranges of its variables, or give them in larger units"
        )


def part_norms(parts: list[Product], norm: str) -> float | None:
    """Norm bound of a term: product over factors, then over its parts (they are side by side)."""
    sizes = []
    for p in parts:
        size = abs(p.scale)
        for a in p.atoms:
            one = a.norms[norm]
            if one is None:
                return None
            size *= one
        sizes.append(size)
    if norm == "l1":
        return sum(sizes)
    if norm == "linf":
        return max(sizes, default=0.0)
    return math.hypot(*sizes)


def weighted(c: Column, w: Node) -> Column:
    """Return a column after multiplication by the root of the weight."""
    assert w.interval is not None
    root = (math.sqrt(w.interval[0]), math.sqrt(w.interval[1]))
    interval = iv.multiply(c.interval, root)
    _within(interval, c.interval is not None, c.name)
    lo, hi = interval if interval is not None else (None, None)
    return Column(c.name, lo, hi, c.term, c.kind)


def weighted_term(t: TermInfo, w: Node) -> TermInfo:
    """Return a term after multiplication by the root of the weight."""
    assert w.interval is not None
    root = math.sqrt(w.interval[1])
    norms = {k: None if v is None else v * root for k, v in t.norms.items()}
    return TermInfo(t.name, t.columns, norms["l2"], norms)


def numeric_rows(
    columns: list[Column], response: Column | None, weighted: bool, aside: int = 0
) -> tuple[slice, ...]:
    """Contiguous runs of buffer rows that can hold NaN."""
    flags = [weighted or c.kind not in ("intercept", "dummy", "contrast") for c in columns]
    flags += [True] * (aside + (response is not None))
    out: list[slice] = []
    start = None
    for j, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = j
        elif not flag and start is not None:
            out.append(slice(start, j))
            start = None
    return tuple(out)
