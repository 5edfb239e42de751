"""A release in place of the data: the fit reads no row, and costs nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels._guard import one_thread
from dpmodels.errors import RequestError, UtilityWarning

if TYPE_CHECKING:
    from dpmodels.results import Fit

__all__ = ["REQUIRED", "fit_on_release", "is_release", "require"]


class _Required:
    """Stands for an argument that must be given; it has no default value."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _Required()

#: What other packages call the two numbers.
_OTHER_NAMES = {"epsilon": "eps"}


class MissingArgumentError(RequestError, TypeError):
    """A required keyword was left out."""


def is_release(data: Any) -> bool:
    """Whether ``data`` is a noised table."""
    return hasattr(type(data), "__noisy_table__")


def require(verb: str, eps: Any, delta: Any, options: Mapping[str, Any] | None = None) -> None:
    """Refuse a call on ordinary data that does not say its guarantee."""
    missing = [name for name, v in (("eps", eps), ("delta", delta)) if v is REQUIRED]
    if missing:
        other = [name for name in options or {} if name in _OTHER_NAMES]
        said = "".join(f" ({_OTHER_NAMES[name]} is not called {name} here)" for name in other)
        raise MissingArgumentError(
            f"{verb}() needs {' and '.join(missing)}{said}: the guarantee of the call has no "
            "default. For example eps=1, delta=1e-6"
        )


def fit_on_release(
    verb: str,
    formula: Any,
    rel: Any,
    *,
    eps: Any = REQUIRED,
    delta: Any = REQUIRED,
    method: str | None = None,
    schema: Any = None,
    bounds: Any = None,
    public: Any = None,
    inference: bool = True,
    budget: Any = None,
    seed: Any = None,
    progress: bool | None = None,
    options: Mapping[str, Any] | None = None,
    design_options: Mapping[str, Any] | None = None,
) -> Fit:
    """Fit a model on a release.

    Privacy
    -------
    Post-processing: nothing is read and nothing is charged. The fit states the guarantee of the
    release.
    """
    from dpmodels.api.building import build_request
    from dpmodels.models.noised.backend import estimate, plan_on_release
    from dpmodels.models.noised.methods import RELEASE_OPTIONS
    from dpmodels.models.noised.model import schema_of
    from dpmodels.registry import method_names, resolve
    from dpmodels.release import Release
    from dpmodels.results import Fit

    given = [
        name
        for name, value, blank in (
            ("eps", eps, REQUIRED),
            ("delta", delta, REQUIRED),
            ("schema", schema, None),
            ("bounds", bounds, None),
            ("public", public, None),
            ("budget", budget, None),
            ("seed", seed, None),
        )
        if value is not blank
    ]
    if given:
        raise RequestError(
            f"{', '.join(given)} must not be given with a release: it was paid for when it was "
            f"made, with guarantee {rel.guarantee.statement()}"
        )
    method = method or "drcl"
    entry = resolve(verb, method)
    if "release" not in entry.accepts:
        able = [m for m in method_names(verb) if "release" in resolve(verb, m).accepts]
        raise RequestError(
            f"{verb}(method={method!r}) needs the data itself, not a release. Methods that work "
            f"on a release: {', '.join(map(repr, able)) or 'none'}"
        )
    chosen = dict(options or {})
    ours = {o.name for o in RELEASE_OPTIONS}
    for name in chosen:
        if name in ours:
            raise RequestError(f"{name}= is fixed when the release is made, in dp_release()")
    facts = schema_of(rel)
    kinds = dict.fromkeys(facts, "numeric")
    call = build_request(
        verb,
        formula,
        eps=rel.guarantee.eps,
        delta=rel.guarantee.delta,
        method=method,
        kinds=kinds,
        attached=facts,
        schema=None,
        bounds=None,
        public=None,
        inference=inference,
        seed=None,
        progress=progress,
        options=chosen,
        design_options=design_options,
    )
    known = {
        name: (float(lo), float(lo + s))
        for name, lo, s in zip(rel.names, rel.lower, rel.scale, strict=True)
    }
    unknown = [c for c in call.design.unknown if c in known]
    design = call.design.with_bounds({c: known[c] for c in unknown}) if unknown else call.design
    plan = plan_on_release(call.request, design, rel)
    release = Release({}, rel.guarantee, design, detail=rel)
    with one_thread():
        found = estimate(plan, release)
    for text in found.warnings:
        warnings.warn(UtilityWarning(text), stacklevel=3)
    return Fit(plan, release, found)
