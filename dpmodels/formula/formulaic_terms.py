"""Everything taken from formulaic (and patsy's parser), in one place, checked when first used.

Plain formulas are read in ``plain``: importing formulaic would be half of a first call.

formulaic does what it is best at: grammar, term order, full-rank coding and column names. It never
sees a private row and never runs user text: every factor is handed to it as a *lookup* whose name
is the text of the factor and whose value is a two-row canary made from the public schema.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.errors import FormulaError
from dpmodels.formula.nodes import Basis, Cat, Factor
from dpmodels.formula.plain import (
    Parsed,
    Part,
    TermLayout,
    TermText,
    plain_layout,
    plain_terms,
)
from dpmodels.formula.syntax import (
    MOST_TERMS,
    capped_powers,
    check_columns,
    subsets,
    too_many_terms,
)
from dpmodels.quiet import quiet

__all__ = [
    "Coding",
    "Parsed",
    "Part",
    "TermLayout",
    "TermText",
    "coding",
    "contrast",
    "layout",
    "parse",
]

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

    class Library:
        """The names used, and nothing else."""

        Formula = formulaic.Formula
        SimpleFormula = formulaic.SimpleFormula
        Error = formulaic.errors.FormulaicError

    Library.FactorValues = FactorValues  # type: ignore[attr-defined]
    Library.Parser = DefaultFormulaParser  # type: ignore[attr-defined]
    Library.Factor = FFactor  # type: ignore[attr-defined]
    Library.Term = Term  # type: ignore[attr-defined]
    Library.contrasts = contrasts  # type: ignore[attr-defined]
    return Library


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
    return plain_terms(text, by_degree) or parsed_by_library(text, available, by_degree)


def parsed_by_library(text: str, available: tuple[str, ...] | None, by_degree: bool) -> Parsed:
    """Return the terms as formulaic reads them."""
    lib = _library()
    context = {} if available is None else {"__formulaic_variables_available__": list(available)}
    problem = ""
    formula: Any = None
    try:
        with quiet():
            parser = lib.Parser(feature_flags={"twosided"})
            ordering = "degree" if by_degree else "none"
            capped = capped_powers(text, len(available or ()) if "." in text else 0)
            _check_terms(parser.get_ast(capped, context=context), tuple(available or ()))
            formula = lib.Formula.from_spec(
                capped, ordering=ordering, parser=parser, context=context
            )
    except (lib.Error, SyntaxError, ValueError, TypeError, KeyError, RecursionError) as error:
        problem = _problem(error, text)
    if formula is None:
        if "__formulaic_variables_available__" in problem:
            problem = "'.' stands for all other variables: the data or a schema must name them"
        elif "`|`" in problem:
            problem = (
                "'|' (fixed effects, several parts) is not part of the language. Fixed effects of "
                "up to a few hundred levels are a factor with declared levels, y ~ x + region; for "
                "ids of people there are none: unit='id' protects the person and clusters errors"
            )
        elif "~" in text and re.search(r"[=!<>]=|[<>]|\bin\b", left := text.split("~", 1)[0]):
            problem = (
                "a comparison on the left-hand side stands in braces: "
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
    return Parsed(None if lhs is None else _texts(lhs), _texts(rhs))


def _check_terms(node: Any, others: tuple[str, ...]) -> tuple[int, frozenset[str], int]:
    """Return (terms at most, factors, factors of a term at most) of a parsed formula.

    A product whose terms are too many is refused before it is written out.

    Parameters
    ----------
    node : ASTNode, Token or None
    others : tuple of str
        What ``.`` stands for.
    """
    if not hasattr(node, "operator"):
        return 1, frozenset({str(node)}), 1
    if not node.args:  # a dot
        return len(others), frozenset(others), 1
    inner = [_check_terms(one, others) for one in node.args]
    terms, factors, degree = inner[0]
    symbol = node.operator.symbol
    for more, own, deep in inner[1:]:
        if symbol in ("**", "^"):
            (text,) = own or {"1"}
            power = int(text) if text.isdigit() else 1
            degree *= power
            terms = min(terms ** min(power, 64), subsets(len(factors), degree))
        elif symbol in (":", "*", "in", "%in%"):
            factors, degree = factors | own, degree + deep
            both = min(terms * more, subsets(len(factors), degree))
            terms = both + (terms + more if symbol == "*" else 0)
        else:
            factors, degree = factors | own, max(degree, deep)
            terms += more
        terms = min(terms, subsets(len(factors), degree) + 1)
        if terms > MOST_TERMS:
            raise too_many_terms(f"a product of {len(factors)} factors")
    return terms, factors, degree


def _hint(text: str) -> str:
    """Return what to type instead, where the fault is a usual one."""
    if "~" not in text and text.count("=") == 1:
        return f"\n  Fix, with ~ between response and predictors: {text.replace('=', '~')}"
    left, tilde, right = text.partition("~")
    if re.search(r"[-+*/:]\s*$", right):
        return f"\n  Fix, without a sign at the end: {text.rstrip(' +-*/:')}"
    double = re.sub(r"([-+*/:])\s*[-+*/:]+(?!\*)", r"\1", right)
    if double != right:
        return f"\n  Fix, with one sign between two terms: {left}{tilde}{double}"
    compared = re.search(r"([\w.]+\s*(?:[<>]=?|==|!=)\s*[\w.]+)", right)
    if compared:
        fixed = right.replace(compared.group(1), f"{{{compared.group(1)}}}")
        return f"\n  Fix, with the comparison in braces: {left}{tilde}{fixed}"
    return ""


def _problem(error: Exception, text: str) -> str:
    """Return what a parser says about the formula's text, with the position."""
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


def _texts(terms: Any) -> tuple[TermText, ...]:
    return tuple(
        tuple((f.expr, f.eval_method.value == "literal") for f in t.factors) for t in terms
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
    if "~" in text and not text.rsplit("~", 1)[1].strip():
        raise FormulaError(f'"{text}" has nothing on the right-hand side. Use "y ~ 1" for the mean')
    try:
        ast = _library().Parser(feature_flags={"twosided"}).get_ast(text, context={})
    except (_library().Error, SyntaxError, ValueError, TypeError, KeyError, RecursionError):
        ast = None  # patsy says what is wrong with it
    if ast is not None:
        _check_terms(ast, ())
    try:
        desc = patsy.ModelDesc.from_formula(text)
    except (patsy.PatsyError, SyntaxError, ValueError, TypeError) as error:
        problem = str(error)
    if desc is None:
        raise FormulaError(f'cannot read the formula "{text}"\n  {problem}')

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


def custom_contrast(matrix: Any) -> Any:
    """Return a contrast given by its matrix (levels x columns)."""
    return _library().contrasts.CustomContrasts(np.asarray(matrix, dtype=float))


def contrast_columns(columns: Mapping[str, Any]) -> Any:
    """Return a contrast given by its named columns."""
    return _library().contrasts.CustomContrasts({k: list(v) for k, v in columns.items()})


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
    """Return the full-rank layout of a side of a formula."""
    width = {
        text: max(len(f.levels) - 1, 1) if isinstance(f, Cat)
        else len(f.fields) if isinstance(f, Basis) else 1
        for text, f in factors.items()
    }  # fmt: skip
    check_columns([{text: width[text] for text, lit in term if not lit} for term in terms])
    plain = plain_layout(terms, factors)
    return laid_by_library(terms, factors) if plain is None else plain


def laid_by_library(
    terms: Sequence[TermText], factors: Mapping[str, Factor]
) -> tuple[TermLayout, ...]:
    """Return formulaic's full-rank layout, from the canary."""
    import pandas as pd

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
