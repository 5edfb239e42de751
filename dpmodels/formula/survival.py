"""``Surv(time, event) ~ g + strata(s)``: how long a row was followed, and how that ended.

``Surv(time, event)``, ``Surv(start, stop, event)`` and ``strata(g)`` are compiled into rows of the
block buffer; :class:`Survival` says which. The design of a table (``build_survival_cells``) has
these rows alone, that of a regression (``build_survival_design``) has them beside its columns.

A row whose follow-up makes no sense (an event that is neither of its two codes, a time that is
missing or negative, ``start >= stop``) has NaN as its time: it counts as nothing, whatever the
other rows are. Negative cells are seen before the declared range clips them. A time of 0 is valid,
as in R: an event then happens while everybody is at risk. What is entered before the declared range
is there from its beginning.
"""

from __future__ import annotations

import ast
import copyreg
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmodels.arrays import Array, plain
from dpmodels.errors import FormulaError, shown
from dpmodels.formula import parser as fx
from dpmodels.formula.build import (
    Builder,
    build_cell_design,
    build_design,
    build_mean_design,
    column_of,
)
from dpmodels.formula.categories import compile_call
from dpmodels.formula.compile import compile_factor, compile_scalar, remember_designs
from dpmodels.formula.design import Design, Survival, as_cell
from dpmodels.formula.program import CellSource
from dpmodels.formula.schema import Schema
from dpmodels.formula.words import (
    Cat,
    Context,
    Env,
    Factor,
    Interval,
    Node,
    constant,
    literal,
    parse_expression,
    pretty,
    row_of,
    word,
)
from dpmodels.opaque import Rows, clip, of_code, where

_FORM = '"Surv(time, event) ~ group", or "Surv(start, stop, event) ~ group" for delayed entry'


# -- The words: only where the builders below look for them


@word("Surv")
def _surv(node: ast.Call, ctx: Context) -> Factor:
    raise ctx.fail(f"Surv() must be alone on the left of ~, in verbs of survival: {_FORM}")


@word("strata")
def _strata(node: ast.Call, ctx: Context) -> Factor:
    """Refuse ``strata()`` inside another expression."""
    raise ctx.fail(
        "strata() is a separate term on the right of ~, after Surv(): "
        "Surv(time, event) ~ x + strata(g)"
    )


def with_cause(formula: Any, cause: Any) -> str:
    """Return a formula with a cause inside ``Surv()``, where designs, files and pages have it."""
    left, _, right = str(formula).rpartition("~")
    if not isinstance(plain(cause), (str, int, float)) or not left.rstrip().endswith(")"):
        raise FormulaError(
            f"cause= must be one declared level of an event, or 'all', as in cause=1 for "
            f'"Surv(time, status) ~ group"; got {shown(cause)} for {shown(formula)}'
        )
    return f"{left.rstrip()[:-1]}, cause={plain(cause)!r}) ~{right}"


# -- Follow-up of a row


@dataclass(frozen=True)
class FollowUp:
    """Start, end and event of a row, compiled: nodes of the formula language."""

    start: Node | None
    # time, event: time in its declared range, NaN for a row that counts as nothing; event 0 or 1,
    # NaN there, or the number of its cause.
    time: Node
    event: Node
    names: tuple[str, str, str]  # (str, str, str): as typed; "" where there is none
    causes: tuple[str, ...] = ()  # Labels of the events 1, 2, ...: ``Survival.causes``


def follow_up(start: Node | None, time: Node, event: Node, names: tuple[str, str, str]) -> FollowUp:
    """Return the nodes of a row's follow-up, each NaN where the row counts as nothing."""
    last = 1.0 if event.interval is None else event.interval[1]

    def read(env: Env) -> tuple[Rows, Rows, Rows]:
        raw = env.unclipped()
        stop, happened = (row_of(n, raw) for n in (time, event))
        ok = (stop >= 0.0) & (happened == clip(np.rint(happened), 0.0, last))
        begin: Any = 0.0
        ended = stop
        if time.interval is not None:  # what comes after the declared range is not seen
            happened = where(stop > time.interval[1], 0.0, happened)
            ended = clip(stop, *time.interval)
        if start is not None:
            begin = entry = row_of(start, raw)
            if time.interval is not None:  # before the declared range nothing is seen to happen
                low, high = time.interval
                begin = where(entry < low, 0.0, np.minimum(entry, high))
            ok = ok & (entry >= 0.0) & (entry < stop) & (begin < ended)
        return where(ok, begin, np.nan), where(ok, ended, np.nan), where(ok, happened, np.nan)

    variables = time.variables | event.variables | (start.variables if start else frozenset())

    def node(which: int, interval: Interval) -> Node:
        return Node(interval, lambda env: read(env)[which], variables)

    ends = None if time.interval is None else (0.0, time.interval[1])
    begun = None if start is None else node(0, ends)
    return FollowUp(begun, node(1, time.interval), node(2, (0.0, last)), names)


def _is_call(text: str, name: str) -> bool:
    return text.replace(" ", "").startswith(f"{name}(")


class _Survival(Builder):
    """One compilation of a formula with ``Surv()`` on the left."""

    def sides(self) -> tuple[str, list[str], list[fx.TermText]]:
        """Return the call on the left, ``strata()`` terms, and all other terms."""
        lhs = self.parsed.lhs
        if lhs is None or len(lhs) != 1 or len(lhs[0]) != 1 or not _is_call(lhs[0][0][0], "Surv"):
            raise FormulaError(
                f'"{self.formula}" has no Surv() by itself on the left of "~". Write {_FORM}'
            )
        strata: list[str] = []
        terms = []
        for term in self.parsed.rhs:
            calls = [text for text, is_number in term if not is_number and _is_call(text, "strata")]
            if calls and len(term) > 1:
                raise FormulaError(
                    f'"{self.formula}": strata() is a separate term, not crossed with others'
                )
            strata += calls
            if not calls:
                terms.append(term)
        return lhs[0][0][0], strata, terms

    def _call(self, text: str) -> tuple[ast.Call, Context]:
        """Return the call that a text of the formula holds, and its context."""
        tree, quoted = parse_expression(text, self.formula)
        if not isinstance(tree, ast.Call):
            raise FormulaError(f'cannot read `{text}` in "{self.formula}"')
        return tree, Context(self.formula, self.schema, text, quoted, compile_call)

    def follow_up(self, text: str, *, others: int) -> FollowUp:
        """Compile ``Surv(time)``, ``Surv(time, event)`` or ``Surv(start, stop, event)``."""
        call, ctx = self._call(text)
        typed, words = list(call.args), {k.arg: k.value for k in call.keywords}
        cause = words.pop("cause", None)
        for name, value in words.items():
            if name != "event" or len(typed) > 2:
                raise ctx.fail(f"Surv() accepts times and an event, not {name}=", "Write " + _FORM)
            typed.append(value)
        if not 1 <= len(typed) <= 3 or len(words) + (cause is not None) < len(call.keywords):
            raise ctx.fail(f"Surv() needs one to three arguments once, got {len(typed)}", _FORM)
        *times, last = typed if len(typed) > 1 else [*typed, ast.Constant(1)]
        nodes = [self._time(t, ctx) for t in times]
        names = tuple(pretty(t, ctx) for t in (*times, last))
        causes: tuple[str, ...] = ()
        event = constant(1.0)
        if cause is not None:
            event, causes = self._cause(last, ctx, literal(cause), others)
        elif len(typed) > 1:
            event = self._event(last, ctx)
        start, first = (None, "") if len(nodes) == 1 else (nodes[0], names[0])
        compiled = follow_up(start, nodes[-1], event, (first, names[-2], names[-1]))
        return replace(compiled, causes=causes)

    def _time(self, tree: ast.expr, ctx: Context) -> Node:
        """Compile a time of ``Surv()``; its declared range must start at 0 or above."""
        node = compile_scalar(tree, ctx)
        name = pretty(tree, ctx)
        if node.boolean or node.constant is not None:
            raise ctx.fail(
                f"{name} is not a time: the first argument of Surv(time, event) must be the time",
                _FORM,
            )
        if node.interval is not None and not 0.0 <= node.interval[0] < node.interval[1]:
            low, high = node.interval
            raise ctx.fail(
                f"the declared range of {name}, [{low:g}, {high:g}], holds negative times or one "
                "alone",
                f"A follow-up begins at 0: bounds={{{name!r}: (0, {max(high, 1.0):g})}}",
            )
        return node

    def _event(self, tree: ast.expr, ctx: Context) -> Node:
        """Compile the event: 0 and 1, the second of two declared levels, or a comparison."""
        factor = compile_factor(tree, ctx)
        name = pretty(tree, ctx)
        fix = (
            f"Declare {name} = dp.Binary() for 0 and 1, or two levels of which the second is the "
            f'event, {name} = dp.Levels([1, 2]) or dp.Levels(["alive", "dead"])'
        )
        if isinstance(factor, Cat):
            if len(factor.levels) != 2:
                raise ctx.fail(
                    f"the event {name} has {len(factor.levels)} levels, not two",
                    f"Say which it is: Surv(..., {name} == {factor.levels[-1]!r}), or cause=",
                )
            return Node((0.0, 1.0), _coded(factor), factor.variables)
        if not isinstance(factor, Node):
            raise ctx.fail(f"{name} is not an event", fix)
        if factor.interval != (0.0, 1.0):
            codes, last, further = "no codes", "1", f", or {name} == 2 for codes 1 and 2; or"
            if factor.interval is not None:
                codes = f"the declared range {ctx.range_of(factor.interval)}"
                last, further = f"{factor.interval[1]:g}", "; or"
            raise ctx.fail(
                f"the event {name} has {codes}: a number is declared to be 0 (censored) or 1 "
                "(event)",
                f"Say which number is the event: Surv(..., {name} == {last}){further}",
                fix,
            )
        return factor

    def _cause(
        self, tree: ast.expr, ctx: Context, cause: Any, others: int
    ) -> tuple[Node, tuple[str, ...]]:
        """Compile the event of one cause (1, other causes ``others``) or of "all", with labels."""
        factor, name = compile_factor(tree, ctx), pretty(tree, ctx)
        levels = list(factor.levels) if isinstance(factor, Cat) else []
        is_bool = isinstance(cause, bool)  # True is no 1
        chosen = [v for v in levels[1:] if v == cause and isinstance(v, bool) == is_bool]
        every = cause == "all" and others > 0
        if not isinstance(factor, Cat) or 0 in levels[1:] or not (chosen or every):
            raise ctx.fail(
                f"cause={cause!r} is not a cause of {name}, whose declared levels are {levels!r}",
                "The first declared level is censored (0, where it is one), all others are causes: "
                "dp.Levels([0, 1, 2]) and cause=1",
                "Each of them: dp_survfit(..., cause='all'). Any of them, or an event of 0 and 1: "
                f"leave cause= out, Surv(..., {name} != {[*levels, 0][0]!r})",
            )
        codes = np.array([*range(len(levels)), np.nan])
        if not every:
            codes[1:-1] = [1 if v in chosen else others for v in levels[1:]]
        labels = tuple(f"{name}={v}" for v in (levels[1:] if every else chosen))
        labels += ("",) * (not every and others > 0 and len(levels) > 2)
        ends = 0.0, float(len(labels))
        value = Node(ends, lambda env: of_code(codes, factor.evaluate(env)), factor.variables)
        return value, labels

    def crossed(self, texts: Sequence[str], what: str) -> tuple[CellSource, ...]:
        """Return the categories that groups or strata are made of; refuse numbers."""
        sources = []
        for text in texts:
            source = as_cell(text, self.factor(text), self.schema, self.formula)
            if source.levels is None:
                raise FormulaError(
                    f'"{self.formula}": {text!r} is a number, and {what} are made of categories. '
                    f"Declare its levels, {text} = dp.Levels([...]), or cut it at public points: "
                    f"cut({text}, breaks=[...])"
                )
            sources.append(source)
        return tuple(sources)

    def strata_texts(self, calls: Sequence[str]) -> list[str]:
        """Return the variables inside ``strata()`` calls, in order."""
        out = []
        for text in calls:
            call, ctx = self._call(text)
            if call.keywords or not call.args:
                raise ctx.fail("strata() needs variables with declared levels, as in strata(g)")
            out += [pretty(a, ctx).strip("`") for a in call.args]
        return list(dict.fromkeys(out))

    # -- designs ---------------------------------------------------------------------------
    def checked(self) -> None:
        """Refuse options that survival models cannot take."""
        if self.weights is not None:
            raise FormulaError("survival verbs cannot use weights=: every person counts once")
        if self.na == "impute-midpoint":
            raise FormulaError(
                "na='impute-midpoint' would fill in times and events: leave na= out, a row with a "
                "missing time counts as nothing"
            )

    def cells(self) -> Design:
        """Compile a table of groups and strata by follow-up."""
        self.checked()
        surv, calls, terms = self.sides()
        follow_up = self.follow_up(surv, others=2)
        texts = []
        for term in terms:
            mine = [text for text, is_number in term if not is_number]
            if any(_is_call(text, "offset") for text in mine):
                raise FormulaError(f'"{self.formula}": a table of groups cannot use offset()')
            texts += mine
        groups = self.crossed(list(dict.fromkeys(texts)), "groups")
        strata = self.crossed(self.strata_texts(calls), "strata")
        begun, names = follow_up.start, follow_up.names
        sources = [] if begun is None else [CellSource(names[0], begun)]
        events = tuple(range(1 + max(len(follow_up.causes), 1)))
        sources.append(CellSource(names[1], follow_up.time))
        sources.append(CellSource(names[2], follow_up.event, events))
        at, start = len(sources), None if begun is None else 0
        place: dict[str, int | None] = {}
        labels: dict[str, tuple[str, ...]] = {}
        for kind, parts in (("group", groups), ("strata", strata)):
            place[kind], labels[kind] = None, ()
            if parts:
                cat = _combined(parts)
                place[kind], labels[kind] = at, tuple(cat.levels)
                sources.append(CellSource(f"({kind})", cat, cat.levels))
                at += 1
        survival = Survival(
            time=int(start is not None), event=1 + (start is not None), start=start,
            group=place["group"], strata=place["strata"], groups=labels["group"],
            stratas=labels["strata"], names=names, causes=follow_up.causes,
        )  # fmt: skip
        right = tuple((j,) for j in range(len(sources)))
        return self.cells_of(sources, (), right, survival=survival)

    def regression(self) -> Design:
        """Compile a regression: columns of the terms, separate from start, event and stratum."""
        self.checked()
        surv, calls, terms = self.sides()
        follow_up = self.follow_up(surv, others=0)
        if any(_is_call(text, "offset") for term in terms for text, _ in term):
            raise FormulaError(f'"{self.formula}": offset() is not offered with Surv()')
        texts = self.strata_texts(calls)
        special = {_bare(text) for text in texts}
        gone = [t for t in terms if all(_bare(text) in special for text, _ in t)]
        if gone:  # levels that are strata have a hazard each
            name = ":".join(text for text, _ in gone[0])
            right_terms = [":".join(x for x, _ in t) for t in terms if t not in gone]
            right = " + ".join([*(term for term in right_terms if term not in ("", "1")), *calls])
            raise FormulaError(
                f'"{self.formula}": strata() gives each level of {_bare(name)} a hazard of its '
                f"own, which absorbs the effect of {name}. Leave the effect out: {surv} ~ {right}"
            )
        strata = self.crossed(texts, "strata")
        products, columns, infos = self.products(tuple(terms))
        aside: dict[str, Node] = {} if follow_up.start is None else {"start": follow_up.start}
        aside["event"] = follow_up.event
        labels: tuple[str, ...] = ()
        if strata:
            cat = _combined(strata)
            labels = tuple(cat.levels)
            aside["strata"] = Node((0.0, len(labels) - 1.0), _coded(cat), cat.variables)
        place = {kind: len(columns) + j for j, kind in enumerate(aside)}
        survival = Survival(
            time=len(columns) + len(aside), event=place["event"], start=place.get("start"),
            strata=place.get("strata"), stratas=labels, names=follow_up.names,
            causes=follow_up.causes,
        )  # fmt: skip
        response = column_of(
            follow_up.names[1], follow_up.time.interval, follow_up.names[1], "response"
        )
        return self.finish(
            products, columns, infos, response, follow_up.time, None,
            {"survival": survival}, auxiliary_rows=aside,
        )  # fmt: skip


def _bare(text: str) -> str:
    return text.replace(" ", "").removeprefix("C(").removesuffix(")")


def _coded(cat: Cat) -> Callable[[Env], Rows]:
    """Return the codes of a category as numbers, NaN where a cell has none."""
    table = np.array([*range(len(cat.levels)), np.nan])
    return lambda env: of_code(table, cat.evaluate(env))


def _combined(parts: Sequence[CellSource]) -> Cat:
    """Return one category of all combinations of levels, the last variable fastest.

    Its levels read as R writes strata: ``"sex=1, arm=b"``.
    """
    labels = [""]
    for part in parts:
        assert part.levels is not None
        labels = [
            f"{before}, {part.name}={level}" if before else f"{part.name}={level}"
            for before in labels
            for level in part.levels
        ]

    def codes(env: Env) -> Rows:
        out: Any = 0
        gone: Any = False
        for part in parts:
            source = part.source
            if isinstance(source, Cat):
                codes_of_part = source.evaluate(env)
            else:  # 0 and 1
                value = source.evaluate(env)
                codes_of_part = where((value == 0.0) | (value == 1.0), value, -1.0)
            assert part.levels is not None
            out = out * len(part.levels) + codes_of_part
            gone = gone | (codes_of_part < 0)
        return where(gone, -1, out)

    variables = frozenset().union(*(part.source.variables for part in parts))
    return Cat(tuple(labels), codes, variables=variables)


@remember_designs
def build_survival_cells(formula: str, schema: Schema, **how: Any) -> Design:
    """Compile ``"Surv(time, event) ~ g + strata(s)"`` as a table: one row of the buffer each.

    Rows of the buffer: start (if there is one), time, event, group, strata; which is which is
    ``design.survival`` (:class:`~dpmodels.formula.design.Survival`). Groups are all combinations of
    levels of what stands on the right. The codes of event, group and strata are one more than the
    last where there is none; a row that counts as nothing has NaN for its time.
    """
    return _Survival(formula, schema, **how).cells()


@remember_designs
def build_survival_design(formula: str, schema: Schema, **how: Any) -> Design:
    """Compile ``"Surv(time, event) ~ x + strata(g)"`` as a regression.

    The columns are those of the terms, as in :func:`build_design`; start, event and stratum stand
    aside, the time is the response, last. ``design.survival`` says which row is which. A row with
    a missing cell, an undeclared stratum, or whose follow-up counts as nothing has NaN as its time.
    """
    return _Survival(formula, schema, **how).regression()


def strata_codes(design: Design, new: Any) -> Array:
    """Return the stratum of public rows, (k,): its index among those of the design, or NaN."""
    builder = _Survival(design.formula, design.schema, na=design.na, engine=design.engine)
    out: Any = 0.0
    for text in builder.strata_texts(builder.sides()[1]):
        strata = build_design(f"~ 0 + {text}", design.schema, na="zero-row", one_sided_ok=True)
        cells = np.asarray(strata.matrix(new), dtype=float)
        if cells.shape[1] == 1:  # 0 and 1
            many, code = 2, cells[:, 0]
        else:
            many, code = cells.shape[1], np.nan_to_num(cells).argmax(axis=1).astype(float)
            code = np.where(np.isnan(cells).any(axis=1), np.nan, code)
        out = out * many + code
    return np.asarray(out)


# -- A design compiled again from its text and schema: what files and pickles hold of it.


def design_from(data: Mapping[str, Any]) -> Design:
    """Compile the design again from its text and schema."""
    schema = Schema.from_dict(data["schema"])
    shared = {k: data[k] for k in ("na", "engine", "subset", "weights")}
    labels: Any = None if data.get("labels") is None else tuple(data["labels"])
    ids = data.get("ids")
    if data.get("survival"):
        build = build_survival_cells if data.get("cells") else build_survival_design
        design = build(data["formula"], schema, **shared)
    elif data.get("cells"):
        design = build_cell_design(data["formula"], schema, labels=labels, **shared)
    elif data["mean"]:
        design = build_mean_design(
            data["formula"], schema, aside=data.get("aside", False), labels=labels, ids=ids,
            **shared,
        )  # fmt: skip
    else:
        design = build_design(
            data["formula"], schema, order=data["order"], response_ok=data["response_ok"],
            event=data["event"], one_sided_ok=data["one_sided"], aside=data.get("aside", False),
            labels=labels, ids=ids, **shared,
        )  # fmt: skip
    if data["buy_all"]:
        design = design.without_bounds()
    bought = {name: (lo, hi) for name, lo, hi in data["bought"]}
    return design.with_bounds(bought) if bought else design


# A design is pickled as its text and schema: what it compiled to are functions.
copyreg.pickle(Design, lambda design: (design_from, (design.to_dict(),)))
