"""Audits of privacy claims: sensitivity, release, end to end, structure, and mutants.

``audit("eptr")`` runs everything registered for a method. How to register: README.md here.

Privacy
-------
Audits run on synthetic neighbours, never on private data. They can refute a claim, not prove
one: the proofs are in the theory notes.
"""

from dpmodels.audit.cases import (
    AuditCase,
    AuditReport,
    SensitivityCheck,
    audit,
    check_sensitivity,
    corner_neighbours,
    register_case,
    uncovered,
)
from dpmodels.audit.mutants import MUTANTS, Mutant, flagged
from dpmodels.audit.outcomes import (
    EventCheck,
    Finding,
    ReleaseCheck,
    audit_events,
    audit_release,
    clopper_pearson,
)
from dpmodels.audit.structure import (
    SentinelCheck,
    StructureCheck,
    check_structure,
    sentinel_search,
)
from dpmodels.audit.verbs import backend_release, odd_neighbours, plan_of, verb_case

__all__ = [
    "MUTANTS",
    "AuditCase",
    "AuditReport",
    "EventCheck",
    "Finding",
    "Mutant",
    "ReleaseCheck",
    "SensitivityCheck",
    "SentinelCheck",
    "StructureCheck",
    "audit",
    "audit_events",
    "audit_release",
    "backend_release",
    "check_sensitivity",
    "check_structure",
    "clopper_pearson",
    "corner_neighbours",
    "flagged",
    "odd_neighbours",
    "plan_of",
    "register_case",
    "sentinel_search",
    "uncovered",
    "verb_case",
]
