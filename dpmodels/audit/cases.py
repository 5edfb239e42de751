"""Audit cases as data, and the one call that runs those of a method."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from dpmodels.audit.outcomes import EventCheck, ReleaseCheck
from dpmodels.audit.sensitivity import SensitivityCheck
from dpmodels.audit.stats import Finding
from dpmodels.audit.structure import SentinelCheck, StructureCheck
from dpmodels.errors import RequestError, did_you_mean

__all__ = ["AuditCase", "AuditReport", "audit", "register_case", "uncovered"]


@dataclass(frozen=True)
class AuditCase:
    """What a method's author gives: checks of each kind, on synthetic neighbours."""

    sensitivity: tuple[SensitivityCheck, ...] = ()
    release: tuple[ReleaseCheck, ...] = ()
    events: tuple[EventCheck, ...] = ()
    structure: tuple[StructureCheck, ...] = ()
    sentinels: tuple[SentinelCheck, ...] = ()


@dataclass(frozen=True)
class AuditReport:
    """Findings of all cases of a method."""

    method: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if there were findings and none was flagged."""
        return bool(self.findings) and all(f.passed for f in self.findings)

    def __str__(self) -> str:
        total = sum(f.false_alarm for f in self.findings)
        lines = [f"Audit of {self.method}: {'passed' if self.passed else 'FLAGGED'}"]
        lines += [f"  {f}" for f in self.findings]
        lines.append(
            f"  false-alarm probability of the whole report: at most {min(1.0, total):.3g}"
        )
        return "\n".join(lines)


#: Modules ``cases_*`` of this room: the cases of the methods that come with the package.
ROOMS = ("linear", "families", "propose", "posterior", "noised", "holdout", "tables", "people")
_CASES: dict[tuple[str, str], list[AuditCase]] = {}


def register_case(method: str, verb: str, case: AuditCase) -> None:
    """Add an audit case to a method (in a module ``cases_*`` of this room)."""
    cases = _CASES.setdefault((verb, method), [])
    if case not in cases:
        cases.append(case)


def _load() -> list[tuple[str, str]]:
    """Import the audit cases of every room; return all registered (verb, method)."""
    from dpmodels.registry import method_names, methods

    for case in ROOMS:
        importlib.import_module(f"dpmodels.audit.cases_{case}")
    known = [(str(v), name) for v in dict.fromkeys(methods()["verb"]) for name in method_names(v)]
    return known


def uncovered() -> list[tuple[str, str]]:
    """Return the registered (verb, method) that have no audit case and ask no query."""
    from dpmodels.audit.derived import derived

    return [key for key in _load() if key not in _CASES and not derived(*key)]


def audit(
    method: str, verb: str | None = None, *, draws: int = 20_000, seed: int = 0
) -> AuditReport:
    """Run the audits that follow from a method's queries, and every one registered for it.

    Parameters
    ----------
    method : str
    verb : str, optional
        Only that verb's.
    draws : int
        A side, for release audits (2e4 takes about a second; 2e5 for the slow suite).

    Privacy
    -------
    Runs on synthetic data. A passed audit refutes nothing; it is not a proof.
    """
    from dpmodels.audit.derived import derived

    known = dict.fromkeys([*_load(), *_CASES])
    keys = [k for k in known if k[1] == method and verb in (None, k[0])]
    findings: list[Finding] = []
    for key in keys:
        findings += derived(*key)
    for case in (c for k in keys for c in _CASES.get(k, ())):
        findings += [check.run() for check in case.sensitivity]
        findings += [check.run(draws, seed) for check in case.release]
        findings += [check.run(seed) for check in case.events]
        findings += [check.run() for check in case.structure]
        findings += [check.run() for check in case.sentinels]
    if not findings:
        names = sorted({k[1] for k in known})
        raise RequestError(
            f"no audit case is registered for {method!r}.{did_you_mean(method, names)}"
        )
    return AuditReport(method, tuple(findings))
