"""Write dpmodels/privacy/trusted.md: the files that must be right for the claim of privacy to hold.

A line is trusted if the claim fails where it is wrong: it reads rows, bounds what one unit moves,
draws noise, or states a curve. Arithmetic of plans that fixes a strength, a failure or a size of
noise counts too, unless the release takes that number from the step that was charged
(``Raw.mechanism``, ``Raw.failure``) or raises where the number does not fit it. The guarantee
itself composes the charged steps and raises above the request. Rules that choose among what is
proved (a ridge, a share, an order, a method), estimates and words are not trusted.

``python .ci/trusted.py`` writes it, ``python .ci/trusted.py --show`` prints it.
"""

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "dpmodels"
PLACE = PACKAGE / "privacy" / "trusted.md"

#: (title, why, files and folders). A folder stands for its files that no line before it names.
GROUPS = (
    (
        "The prover",
        "How far one unit moves a query: the only numbers that noise is made of.",
        "proof/prove.py proof/statistics.py proof/sets.py",
    ),
    (
        "The door",
        "Charges first, hands rows to a stage once, draws the noise, lets nothing else out.",
        "door.py quiet.py sums/ask.py",
    ),
    (
        "Charges, curves and noise",
        "What a step costs, how steps compose, what is drawn, what a budget has left.",
        "privacy/account.py privacy/budget.py privacy/composition.py privacy/ledger_file.py "
        "privacy/mechanisms.py privacy/noise.py privacy/returns.py privacy/run.py",
    ),
    (
        "The wall",
        "What a formula may see of a row, and the sets that clip, round and sum its result.",
        "opaque.py core/",
    ),
    (
        "From cells to integers",
        "Every row ends in its clip set, as a function of itself alone; sums are exact.",
        "sums/cells.py sums/labels.py sums/products.py sums/rowmap.py formula/program.py cells.py "
        "formula/reading.py",
    ),
    (
        "Whose rows these are",
        "A row is read once a pass, by public places or secret coins; a person's rows together.",
        "places.py sources/rows.py sources/people.py sources/sorted.py "
        "sources/summed.py sources/tasks.py sources/tables.py units.py",
    ),
    (
        "Proofs of their own",
        "Releases that are no query (proof/prove.py has their list), and bounds that they rest on.",
        "own/ bought.py",
    ),
)


def grouped() -> list[tuple[str, str, list[str]]]:
    """Return (title, why, files) of every group; each file once, where it is named."""
    named = {f for _, _, files in GROUPS for f in files.split() if not f.endswith("/")}
    out = []
    for title, why, given in GROUPS:
        files = []
        for one in given.split():
            if one.endswith("/"):
                inside = sorted(
                    p.relative_to(PACKAGE).as_posix() for p in (PACKAGE / one).glob("*.py")
                )
                files += [f for f in inside if f not in named and not f.endswith("__init__.py")]
            else:
                files.append(one)
        out.append((title, why, files))
    return out


def sentence(text: str) -> str:
    """Return the first sentence of a module's docstring."""
    doc = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(doc.split("\n\n")[0].split())


def written() -> str:
    """Return the document."""
    parts, sizes, count = [], {}, 0
    for title, why, files in grouped():
        texts = {f: (PACKAGE / f).read_text() for f in files}
        lines = {f: len(text.splitlines()) for f, text in texts.items()}
        sizes[title], count = sum(lines.values()), count + len(files)
        parts.append(f"\n## {title}: {sizes[title]:,} lines\n\n{why}\n\n")
        parts += [f"* `{f}` ({lines[f]}): {sentence(texts[f])}\n" for f in files]
    single, total = sizes["Proofs of their own"], sum(sizes.values())
    files = (PACKAGE / "sources" / name for name in ("files.py", "lines.py"))
    of_files = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in files)
    head = (
        "# What has to be right\n\n"
        f"The claim of privacy rests on {total:,} lines in {count} files, listed here by "
        f"`.ci/trusted.py` (a test compares): {total - single:,} for every call, {single:,} in "
        "proofs of their own; whole files, though parts of some only plan or print. What is "
        "not on the list may be wrong, and a result useless, but not less private: plans choose "
        "public numbers, estimates see released ones. Executors move tasks and parts without "
        "opening them, refusals see names and types. Assumed, and not counted: a reader of files "
        f"hands over each row once, and no cell decides how another is read ({of_files:,} lines, "
        "`sources/files.py` and `sources/lines.py`). Beneath it all: Python, numpy, scipy and the "
        "operating system's random bits.\n"
    )
    return head + "".join(parts)


if __name__ == "__main__":
    if "--show" in sys.argv:
        print(written(), end="")
    else:
        PLACE.write_text(written())
