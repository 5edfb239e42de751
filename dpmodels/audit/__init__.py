"""Audits of privacy claims: sensitivity, release, end to end, and structure.

``audit("mymethod")`` runs what follows from a method's queries, and every case registered for it.
How to register: README.md here.

Privacy
-------
Audits run on synthetic neighbours, never on private data. They can refute a claim, not prove
one: the proofs are in the theory notes.
"""

from dpmodels.audit.kit import (
    AuditCase,
    AuditReport,
    EventCheck,
    Finding,
    ReleaseCheck,
    SensitivityCheck,
    SentinelCheck,
    StructureCheck,
    audit,
    audit_events,
    audit_release,
    check_sensitivity,
    check_structure,
    clopper_pearson,
    corner_neighbours,
    register_case,
    sentinel_search,
)

__all__ = [
    "AuditCase",
    "AuditReport",
    "EventCheck",
    "Finding",
    "ReleaseCheck",
    "SensitivityCheck",
    "SentinelCheck",
    "StructureCheck",
    "audit",
    "audit_events",
    "audit_release",
    "check_sensitivity",
    "check_structure",
    "clopper_pearson",
    "corner_neighbours",
    "register_case",
    "sentinel_search",
]
