"""From the text of a formula to its terms, by formulaic (or patsy), and which variables it needs.

formulaic does what it is best at: grammar, term order, full-rank coding and column names. It reads
no private row and never runs user text: every factor is handed to it as a *lookup* whose name is
the text of the factor and whose value is a two-row canary made from the public schema.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError, did_you_mean
from dpmodels.formula.refuse import refuse_r
from dpmodels.formula.words import (
    MOST_TERMS,
    REGISTERED,
    Basis,
    Cat,
    Factor,
    bracket_sums,
    capped_powers,
    check_columns,
    check_names,
    is_read_as_itself,
    literal,
    parse_expression,
    subsets,
    tick_hint,
    ticked,
    too_many_terms,
    without_ticked,
)
from dpmodels.lazy import pd
from dpmodels.quiet import quiet
from dpmodels.variables import Levels, Text, Variable

#: (text, is a number) of each factor of a term
TermText = tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Parsed:
    """Terms of both sides, in order; ``lhs`` is ``None`` for a one-sided formula."""

    lhs: tuple[TermText, ...] | None
    rhs: tuple[TermText, ...]


@dataclass(frozen=True)
class Part:
    """One scoped product of a term: a constant times factors, each in full or reduced coding."""

    scale: float
    factors: tuple[tuple[str, bool], ...]  # (text, reduced)


@dataclass(frozen=True)
class TermLayout:
    """Columns of one term, as formulaic lays them out."""

    name: str
    parts: tuple[Part, ...]
    columns: tuple[str, ...]


# -- Everything taken from formulaic (and patsy's parser), in one place, checked when first used.


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MARKS = re.compile(r"[⧛⧚]")


@dataclass(frozen=True)
class Coding:
    """Coding of a factor: column labels and the (levels, columns) matrix."""

    fields: tuple[Any, ...]
    matrix: Any
    format: str


@functools.cache
def _library() -> Any:
    """Import formulaic once and check every name used below."""
    try:
        import formulaic
        import formulaic.errors
        from formulaic.materializers.types import FactorValues
        from formulaic.parser import DefaultFormulaParser
        from formulaic.parser.types import Factor as FFactor
        from formulaic.parser.types import Term
        from formulaic.transforms import contrasts
    except ImportError as error:  # pragma: no cover
        raise FormulaError(f"formulas need formulaic >=1.2,<1.3: {error}") from None
    version = tuple(int(x) for x in formulaic.__version__.split(".")[:2])
    if not (1, 2) <= version < (1, 3):
        raise FormulaError(f"formulas need formulaic >=1.2,<1.3, found {formulaic.__version__}")
    needed = {
        contrasts: "C TreatmentContrasts SumContrasts HelmertContrasts PolyContrasts "
        "DiffContrasts SASContrasts CustomContrasts",
        formulaic: "Formula SimpleFormula",
        formulaic.errors: "FormulaicError",
    }
    for module, names in needed.items():
        for name in names.split():
            if not hasattr(module, name):  # pragma: no cover
                raise FormulaError(f"this formulaic lacks {module.__name__}.{name}; pin 1.2.x")

    return SimpleNamespace(
        Formula=formulaic.Formula, SimpleFormula=formulaic.SimpleFormula,
        Error=formulaic.errors.FormulaicError, FactorValues=FactorValues,
        Parser=DefaultFormulaParser, Factor=FFactor, Term=Term, contrasts=contrasts,
    )  # fmt: skip


# -- parse ---------------------------------------------------------------------------------


def parse(
    text: str, available: Iterable[str] | None, engine: str = "formulaic", by_degree: bool = True
) -> Parsed:
    """Return the terms of a formula; ``.`` stands for the ``available`` variables."""
    if not isinstance(text, str) or not text.strip():
        raise FormulaError('the formula is empty. For example "quality ~ alcohol + pH"')
    return _parsed(text, None if available is None else tuple(available), engine, by_degree)


@functools.lru_cache(maxsize=256)
def _parsed(text: str, available: tuple[str, ...] | None, engine: str, by_degree: bool) -> Parsed:
    """Parse once: a call asks for the terms of its formula several times."""
    if engine == "patsy":
        return _parse_patsy(text)
    if engine != "formulaic":
        raise FormulaError(f"unknown engine {engine!r}. Use 'formulaic' or 'patsy'")
    if "~" in text and not text.rsplit("~", 1)[1].strip():
        raise FormulaError(
            f'"{text}" has nothing on the right-hand side. '
            'Use "y ~ 1" for the mean, or "y ~ x1 + x2"'
        )
    lib = _library()
    plain, others, names = _plain_names(text, available)
    context = {} if others is None else {"__formulaic_variables_available__": list(others)}
    problem = ""
    formula: Any = None
    try:
        with quiet():
            parser = lib.Parser(feature_flags={"twosided"})
            ordering = "degree" if by_degree else "none"
            capped = bracket_sums(capped_powers(plain, len(others or ()) if "." in plain else 0))
            _check_terms(parser.get_ast(capped, context=context), others or ())
            formula = lib.Formula.from_spec(
                capped, ordering=ordering, parser=parser, context=context
            )
    except (lib.Error, SyntaxError, ValueError, TypeError, KeyError, RecursionError) as error:
        problem = _restored(_problem(error, plain), names)
    if formula is None:
        if "__formulaic_variables_available__" in problem:
            problem = "'.' stands for all other variables: the data or a schema must name them"
        elif "`|`" in problem:
            problem = (
                "'|' (fixed effects, several parts) is not part of the language. Fixed effects of "
                "up to a few hundred levels are a factor with declared levels, y ~ x + region; "
                "those of people are removed by dp_feols('y ~ x | id', unit='id') and by "
                "dp_fepois; instruments after a bar are those of dp_iv"
            )
        elif "~" in text and re.search(r"[=!<>]=|[<>]|\bin\b", left := text.split("~", 1)[0]):
            problem = (
                "a comparison on the left-hand side must be in braces: "
                f"{{{left.strip()}}} ~{text.split('~', 1)[1]}"
            )
        else:
            problem += _hint(text)
        raise FormulaError(f'cannot read the formula "{text}"\n  {problem}')
    lhs = getattr(formula, "lhs", None) if hasattr(formula, "rhs") else None
    rhs = formula.rhs if hasattr(formula, "rhs") else formula
    if not isinstance(rhs, lib.SimpleFormula) or not isinstance(
        lhs, (type(None), lib.SimpleFormula)
    ):
        raise FormulaError(
            f'"{text}" has several parts; one left-hand and one right-hand side only'
        )
    return Parsed(None if lhs is None else _texts(lhs, names), _texts(rhs, names))


def _plain_names(
    text: str, available: tuple[str, ...] | None
) -> tuple[str, tuple[str, ...] | None, dict[str, str]]:
    """Return (formula, columns, name of each placeholder): formulaic reads some names wrongly.

    It takes the back-ticks off words, and leaves these to Python: ``log(`class`)``, ``C(`µg`)``.
    """
    stem = "_ticked_"
    while any(stem in name for name in (text, *(available or ()))):
        stem = "_" + stem
    _, names_of = without_ticked(text)
    odd = [n for n in dict.fromkeys(names_of.values()) if re.fullmatch(r"\w+", n)]
    names = {f"{stem}{i}_": n for i, n in enumerate(odd) if not is_read_as_itself(n)}
    keys = {n: key for key, n in names.items()}
    if not keys:
        return text, available, {}
    pattern = "|".join(map(re.escape, keys))
    plain = re.sub(f"`({pattern})`", lambda m: f"`{keys[m[1]]}`", ticked(text))
    others = None if available is None else tuple(keys.get(n, n) for n in available)
    return plain, others, names


def _restored(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of its placeholders."""
    for key, name in names.items():
        text = text.replace(key, name)
    return text


def _check_terms(node: Any, others: tuple[str, ...]) -> tuple[int, frozenset[str], int]:
    """Return (terms at most, factors, factors of a term at most) of a parsed formula.

    A product whose terms are too many is refused before it is written out. ``others``: what ``.``
    stands for.
    """
    if not hasattr(node, "operator"):
        return 1, frozenset({str(node)}), 1
    if not node.args:  # a dot
        return len(others), frozenset(others), 1
    inner = [_check_terms(argument, others) for argument in node.args]
    terms, factors, degree = inner[0]
    symbol = node.operator.symbol
    for added, new_factors, deep in inner[1:]:
        if symbol in ("**", "^"):
            (text,) = new_factors or {"1"}
            power = int(text) if text.isdigit() else 1
            degree *= power
            terms = min(terms ** min(power, 64), subsets(len(factors), degree))
        elif symbol in (":", "*", "in", "%in%"):
            factors, degree = factors | new_factors, degree + deep
            both = min(terms * added, subsets(len(factors), degree))
            terms = both + (terms + added if symbol == "*" else 0)
        else:
            factors, degree = factors | new_factors, max(degree, deep)
            terms += added
        terms = min(terms, subsets(len(factors), degree) + 1)
        if terms > MOST_TERMS:
            raise too_many_terms(f"a product of {len(factors)} factors")
    return terms, factors, degree


def _hint(text: str) -> str:
    """Return the text to type instead, for common faults."""
    if hint := tick_hint(text):
        return hint
    if "~" not in text and text.count("=") == 1:
        return f"\n  Fix, with ~ between response and predictors: {text.replace('=', '~')}"
    left, tilde, right = text.partition("~")
    if re.search(r"[-+*/:]\s*$", right):
        return f"\n  Fix, without a sign at the end: {text.rstrip(' +-*/:')}"
    opened = right.count("(") - right.count(")")
    if opened > 0:
        return f"\n  Fix, with the brackets closed: {text}{')' * opened}"
    double = re.sub(r"([-+*/:])\s*[-+*/:]+(?!\*)", r"\1", right)
    if double != right:
        return f"\n  Fix, with one sign between two terms: {left}{tilde}{double}"
    compared = re.search(r"([\w.]+\s*(?:[<>]=?|==|!=)\s*[\w.]+)", right)
    if compared:
        fixed = right.replace(compared.group(1), f"{{{compared.group(1)}}}")
        return f"\n  Fix, with the comparison in braces: {left}{tilde}{fixed}"
    return ""


#: Refusal of a formula whose sums or products are nested too deeply to be read.
_TOO_DEEP = (
    "too many signs follow each other: about two hundred minus signs, factors of a product, or "
    "numbers in I() can be read. List the terms that stay, y ~ x1 + x2 + ..., or make a column of "
    "the sum first"
)


def _problem(error: Exception, text: str) -> str:
    """Return the parser's message on the text of the formula, with the position."""
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    plain = _COLOUR.sub("", str(error))
    if isinstance(error, SyntaxError) and error.text:
        start = max(text.find(error.text.strip()), 0)
        offset = error.offset or len(error.text.strip()) + 1  # 0: the end came too soon
        return f"{error.msg} at position {start + offset} of the formula"
    marked = next((line for line in plain.splitlines() if "⧛" in line), None)
    first = plain.splitlines()[0] if plain else type(error).__name__
    if marked is None:
        return _MARKS.sub("", plain) or type(error).__name__
    shown = _MARKS.sub("", marked.replace("⧛", " >>> "))
    return f"{first} At position {marked.index('⧛') + 1}: {shown}"


def _texts(terms: Any, names: Mapping[str, str]) -> tuple[TermText, ...]:
    """Return the factors of each term as texts, and whether each is a number."""
    return tuple(
        tuple((_restored(f.expr, names), f.eval_method.value == "literal") for f in t.factors)
        for t in terms
    )


def _parse_patsy(text: str) -> Parsed:
    """Use patsy as a parser only; nothing is evaluated."""
    try:
        import patsy
    except ImportError:
        raise FormulaError(
            "engine='patsy' needs patsy installed; engine='formulaic' does not"
        ) from None
    problem = ""
    desc: Any = None
    written, text = text, bracket_sums(text)
    if "~" in text and not text.rsplit("~", 1)[1].strip():
        raise FormulaError(f'"{text}" has nothing on the right-hand side. Use "y ~ 1" for the mean')
    try:
        ast = _library().Parser(feature_flags={"twosided"}).get_ast(text, context={})
    except (_library().Error, SyntaxError, ValueError, TypeError, KeyError, RecursionError):
        ast = None  # patsy says what is wrong with it
    with contextlib.suppress(RecursionError):  # patsy will say so
        if ast is not None:
            _check_terms(ast, ())
    try:
        desc = patsy.ModelDesc.from_formula(text)
    except (patsy.PatsyError, SyntaxError, ValueError, TypeError, RecursionError) as error:
        problem = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
    if desc is None:
        raise FormulaError(f'cannot read the formula "{written}"\n  {problem}')

    def term(t: Any) -> TermText:
        return tuple((f.code, False) for f in t.factors) or (("1", True),)

    lhs = tuple(term(t) for t in desc.lhs_termlist)
    return Parsed(lhs or None, tuple(term(t) for t in desc.rhs_termlist))


# -- contrasts -----------------------------------------------------------------------------

_CONTRASTS = {
    "treatment": "TreatmentContrasts",
    "sas": "SASContrasts",
    "sum": "SumContrasts",
    "helmert": "HelmertContrasts",
    "poly": "PolyContrasts",
    "diff": "DiffContrasts",
}


def contrast(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a contrast object by name ("treatment", "sum", "helmert", "poly", "diff", "sas")."""
    cls = getattr(_library().contrasts, _CONTRASTS[name])
    problem = ""
    try:
        return cls(*args, **kwargs)
    except (TypeError, ValueError) as error:
        problem = str(error)
    raise FormulaError(f"contrast {name}: {problem}")


def custom_contrast(spec: Any) -> Any:
    """Return a contrast given by its matrix (levels x columns), or by its columns by name."""
    columns = {k: list(v) for k, v in spec.items()} if isinstance(spec, Mapping) else None
    matrix = np.asarray(spec, dtype=float) if columns is None else columns
    return _library().contrasts.CustomContrasts(matrix)


def coding(spec: Any, levels: Sequence[Any], reduced: bool) -> Coding:
    """Return the coding matrix of a factor in full or reduced rank."""
    obj = contrast("treatment") if spec is None else spec
    levels = list(levels)
    if len(levels) == 1 and reduced:
        return Coding((), np.empty((1, 0)), obj.get_factor_format(levels, reduced_rank=True))
    problem = ""
    try:
        matrix = np.asarray(obj.get_coding_matrix(levels, reduced_rank=reduced), dtype=float)
        names = tuple(obj.get_coding_column_names(levels, reduced_rank=reduced))
        return Coding(names, matrix, obj.get_factor_format(levels, reduced_rank=reduced))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        problem = str(error)
    raise FormulaError(f"contrast over levels {levels!r}: {problem}")


# -- layout --------------------------------------------------------------------------------


def clustered(terms: Sequence[TermText], factors: Mapping[str, Factor]) -> tuple[TermText, ...]:
    """Return terms in patsy's order: grouped by their numeric factors, by degree in a group.

    The group without numeric factors comes first, the others in order of appearance.
    """
    groups: dict[frozenset[str], list[TermText]] = {frozenset(): []}
    for term in terms:
        numeric = frozenset(t for t, lit in term if not lit and not isinstance(factors[t], Cat))
        groups.setdefault(numeric, []).append(term)

    def degree(term: TermText) -> int:
        return sum(not lit for _, lit in term)

    return tuple(t for group in groups.values() for t in sorted(group, key=degree))


def layout(terms: Sequence[TermText], factors: Mapping[str, Factor]) -> tuple[TermLayout, ...]:
    """Return formulaic's full-rank layout of a side of a formula, from the canary."""
    width = {
        text: max(len(f.levels) - 1, 1) if isinstance(f, Cat)
        else len(f.fields) if isinstance(f, Basis) else 1
        for text, f in factors.items()
    }  # fmt: skip
    check_columns([{text: width[text] for text, lit in term if not lit} for term in terms])
    lib = _library()
    zeros = pd.Series([0.0, 1.0])
    context: dict[str, Any] = {}
    for text, f in factors.items():
        if isinstance(f, Cat):
            first: Any = [f.levels[0]] * 2
            canary = pd.Series(pd.Categorical(first, categories=list(f.levels)))
            context[text] = lib.contrasts.C(
                canary,
                contrasts=f.contrast,
                levels=list(f.levels),
                spans_intercept=f.spans_intercept,
            )
        elif isinstance(f, Basis):
            context[text] = lib.FactorValues(
                {name: zeros for name in f.fields},
                kind="numerical",
                spans_intercept=f.spans_intercept,
                drop_field=f.fields[0] if f.spans_intercept else None,
                format="{name}[{field}]",
            )
        else:
            context[text] = lib.FactorValues(zeros, kind="numerical", spans_intercept=False)
    rebuilt = [
        lib.Term([lib.Factor(e, eval_method="literal" if lit else "lookup") for e, lit in t])
        for t in terms
    ]
    with quiet():
        matrix = lib.SimpleFormula(rebuilt, _ordering="none").get_model_matrix(
            pd.DataFrame(index=[0, 1]),
            context=context,
            na_action="ignore",
            output="pandas",
        )
    return tuple(
        TermLayout(
            name="Intercept" if str(s.term) == "1" else str(s.term),
            parts=tuple(
                Part(float(st.scale), tuple((f.factor.expr, bool(f.reduced)) for f in st.factors))
                for st in s.scoped_terms
            ),
            columns=tuple(str(c) for c in s.columns),
        )
        for s in matrix.model_spec.structure
    )


# -- Which raw columns a formula uses: our own walk over the expressions, before a schema exists.


#: names that stand for functions or modules when they are called or dotted, or for contrasts
_BINDING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
_KEYWORDS = frozenset({"Treatment", "Sum", "Helmert", "Poly", "Diff"})
_MODULES = frozenset({"contr", "np", "numpy", "dp"})


def expressions(
    formula: str, available: Iterable[str] | None, engine: str = "formulaic"
) -> tuple[str, ...]:
    """Return the text of every factor of both sides, once each, in order."""
    parsed = parse(formula, available, engine)
    texts = [e for t in (*(parsed.lhs or ()), *parsed.rhs) for e, lit in t if not lit]
    return tuple(dict.fromkeys(texts))


def names_in(text: str, formula: str) -> Iterator[str]:
    """Yield the variables of one expression, in order of appearance (with repeats)."""
    code = not text.isidentifier()
    if code:
        try:
            ast.parse(without_ticked(text)[0], mode="eval")
        except (SyntaxError, ValueError):
            code = any(c in text for c in "()`+-*/<>=[]{}")
    if not code:
        yield text
        return
    tree, quoted = parse_expression(text, formula)
    yield from _names(tree, quoted)


def _names(node: ast.AST, quoted: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables in an expression."""
    if isinstance(node, ast.Name):
        name = quoted.get(node.id, node.id)
        if name not in _KEYWORDS:
            yield name
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id not in _MODULES:  # np.log, but also a column with a dot too many
            yield from _names(node.value, quoted)
        return
    if isinstance(node, _BINDING):
        return  # refused when compiled; the names it binds are its own
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "Q" and node.args:
            quoted_name = literal(node.args[0])
            if isinstance(quoted_name, str):
                yield quoted_name
        if not isinstance(node.func, ast.Name):
            yield from _names(node.func, quoted)
        for argument in (*node.args, *(k.value for k in node.keywords)):
            yield from _names(argument, quoted)
        return
    for child in ast.iter_child_nodes(node):
        yield from _names(child, quoted)


def needed_variables(
    formula: str,
    available: Iterable[str] | None,
    *,
    engine: str = "formulaic",
    subset: str | None = None,
    weights: str | None = None,
    declared: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the raw columns a formula (with ``subset=`` and ``weights=``) uses, response first.

    ``available``: public column names, to which ``.`` expands; None: unknown, and names are not
    checked; ``declared`` are columns then. **Privacy.** Reads the text and the column names only.
    """
    columns = None if available is None else tuple(available)
    texts = (formula, subset, weights)
    hashable = all(isinstance(t, (str, type(None))) for t in texts)
    walk = _needed_columns if hashable else _needed_columns.__wrapped__
    return walk(formula, columns, engine, subset, weights, frozenset(declared), tuple(REGISTERED))


@functools.lru_cache(maxsize=64)
def _needed_columns(
    formula: str,
    columns: tuple[str, ...] | None,
    engine: str,
    subset: str | None,
    weights: str | None,
    declared: frozenset[str],
    registered: tuple[str, ...],
) -> tuple[str, ...]:
    """Walk once: a call asks several times. What is a word depends on what was registered."""
    for text in (formula, subset, weights):
        check_names(text)
        refuse_r(text or "", {*(columns or ()), *declared})
    texts = [*expressions(formula, columns, engine), *(t for t in (subset, weights) if t)]
    # a column whose odd name reads like an expression is a column
    quick = {*(columns or ()), *declared}
    names = list(
        dict.fromkeys(n for t in texts for n in ([t] if t in quick else names_in(t, formula)))
    )
    if columns is not None:
        for name in names:
            if name not in columns:
                shown = ", ".join(map(str, columns[:12])) + (", ..." if len(columns) > 12 else "")
                where = _place_of_name(name, formula, {"subset": subset, "weights": weights})
                raise FormulaError(
                    f"{name!r} in {where} is not a column.{did_you_mean(name, columns)} "
                    f"Columns: {shown}"
                )
    return tuple(names)


def _place_of_name(name: str, formula: str, others: Mapping[str, str | None]) -> str:
    """Return the place of a name that is not a column: the formula, or an argument."""
    in_formula = re.search(rf"\b{re.escape(name)}\b", formula)
    for argument, text in others.items():
        if text and not in_formula and name in names_in(text, formula):
            return f"{argument}={text!r}"
    return f'"{formula}"'


def _calls(formula: str) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield (call, function, variable) of every call on a bare variable in a formula."""
    texts: tuple[str, ...] = ()
    with contextlib.suppress(FormulaError):  # the formula is read again, and refused, elsewhere
        texts = expressions(formula, ())
    for text in texts:
        parsed: tuple[ast.expr, dict[str, str]] | None = None
        with contextlib.suppress(FormulaError):
            parsed = parse_expression(text, formula)
        if parsed is None:
            continue
        for node in ast.walk(parsed[0]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if isinstance(first, ast.Name):
                    yield node, node.func.id, parsed[1].get(first.id, first.id)


def category_names(formula: str) -> tuple[str, ...]:
    """Return the variables inside ``C()``, ``i()`` or ``hashed()``."""
    names = [name for _, word, name in _calls(formula) if word in ("C", "hashed", "i")]
    return tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=64)
def inline_variables(formula: str) -> Mapping[str, Variable]:
    """Return the declarations in the formula: ``C(x, levels=[...])`` and ``hashed(x, ...)``."""
    out: dict[str, Variable] = {}
    for node, word, name in _calls(formula):
        if word == "hashed":
            out.setdefault(name, Text())
        levels = [literal(k.value) for k in node.keywords if k.arg == "levels"]
        if word in ("C", "i") and levels and isinstance(levels[0], list):
            out[name] = Levels(levels[0])
    return out
