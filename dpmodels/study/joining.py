"""Results of several sites, joined from the folders that their runs of one study wrote."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dpmodels.api.pool import OPTIONS, pool
from dpmodels.errors import StudyError, path_of
from dpmodels.results import load
from dpmodels.results.meta import joint_guarantee, meta
from dpmodels.study.asked import call
from dpmodels.study.record import RECORD, verify
from dpmodels.study.running import try_to_compute


class Joined(dict[str, Any]):
    """Results of a study over its sites: ``joined["wage"]``; ``notes`` has the guarantee last."""

    title: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = (f"{name}\n{result}" for name, result in self.items())
        return "\n\n".join([self.title, *parts, "\n".join(self.notes)])


def join(places: Sequence[Any], *, effects: str = "fixed", overlap: bool = False) -> Joined:
    """Join the releases of all sites: sums by ``dp.pool``, estimates by ``dp.meta``."""
    folders = [p.parent if p.name == RECORD else p for p in map(path_of, places)]
    records = [_verified(folder) for folder in folders]
    study, joined = records[0]["study"]["text"]["study"], Joined()
    sites = list(study.get("sites", ())) or [folder.resolve().name for folder in folders]
    joined.title = f"{study['title']}: {', '.join(sites)}"
    if len({record["study"]["sha256"] for record in records}) > 1:
        raise StudyError(["these are runs of different studies: run one file at all sites"])
    ledgers = {record["run"]["ledger"] for record in records}
    if not len(ledgers) == len(sites) == len({*sites}) == len(folders):
        each = f"{len(folders)} folders and {len(ledgers)} ledgers for {', '.join(sites)}"
        raise StudyError([f"{each}: give one run of each site, with its ledger"])
    for releases in zip(*(record["releases"] for record in records), strict=True):
        name, states = releases[0]["name"], {release["status"] for release in releases}
        problem = ", ".join(sorted(states - {"released", "computed"}))
        parts = [folder / "fits" / f"{name}.json" for folder in folders]
        attempt = partial(
            _joined, releases[0], joined, parts, effects, names=sites, overlap=overlap
        )
        result, problem = (None, problem) if problem else try_to_compute(attempt)
        joined.update({} if problem else {name: result})
        joined.notes += (f"{name} is not joined: {problem}.",) if problem else ()
    promises: Any = [SimpleNamespace(**record["guarantee"]) for record in records]
    eps, delta, why = joint_guarantee(promises, sites, overlap=overlap)
    joined.notes += (f"All releases together: (eps = {eps:g}, delta = {delta:g})-DP. {why}.",)
    return joined


def _joined(release: Any, joined: Joined, files: Sequence[Path], effects: str, **sites: Any) -> Any:
    """Return one result of all sites; one that was computed from a release is computed again."""
    if source := release["from"]:
        return call(release["verb"], release["formula"], joined[source], release["options"])
    parts = [load(file) for file in files]
    pools = parts[0].model in OPTIONS
    return pool(parts, **sites) if pools else meta(parts, effects=effects, **sites)


def _verified(folder: Path) -> Any:
    """Return the record of a run, if its folder is as it was written."""
    verified = verify(folder)
    if verified.ok and verified.record["run"]["mode"] == "run":
        return verified.record
    problems = verified.problems or ("it is a rehearsal, on made-up rows",)
    raise StudyError([f"{folder.name}: {problem}" for problem in problems])
