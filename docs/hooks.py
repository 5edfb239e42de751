"""Pages that are made from what stands elsewhere: reference, notebooks, theory notes, changelog.

Nothing is copied by hand, so nothing can get out of step. Used by ``mkdocs build`` (mkdocs.yml).
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

#: page of the reference -> public names; a name that no page has goes to "More"
PAGES = {
    "Regression": ("dp_ols", "dp_glm", "dp_quantreg", "dp_mest", "dp_iv", "dp_npreg", "dp_moments"),
    "Tables, tests, means": ("dp_table", "dp_test", "dp_quantile", "dp_mean"),
    "Survival": ("dp_survfit", "dp_survdiff", "dp_coxph"),
    "Treatment effects": ("dp_ate",),
    "Panels and choices": ("dp_feols", "dp_fepois", "dp_polr", "dp_multinom"),
    "Released tables": ("dp_release", "load_release", "NoisyTable", "IndexLoss"),
    "Classes, votes, components": (
        "dp_bayes", "balanced_error", "confusion_table", "dp_vote", "dp_pate", "dp_pca",
    ),
    "Your own estimator": ("dp_eptr", "dp_gptr", "dp_select", "check_safety"),
    "Before the data": (
        "plan", "describe", "explain", "Schema", "Real", "Count", "Binary", "Levels", "Ordered",
        "Date", "register_rowwise", "PublicMoments", "Budget", "Study", "per_person", "read_csv",
        "inspect_source", "dp_levels",
    ),
    "After a fit": (
        "load", "anova", "etable", "modelsummary", "coef_plot", "iplot", "tbl_merge",
        "tbl_stack", "tidy_style", "combine", "meta", "pool",
    ),
    "Methods": ("methods", "register_method", "Method", "Backend", "Option"),
    "Threads and clusters": ("connect", "Elsewhere", "partial_sums"),
}  # fmt: skip


RESULTS = "Results by kind"
#: Classes of results: the kinds of fits, what they are built from, and what is made from a fit.
KINDS = (
    "LinearRegression", "Regression", "QuantileRegression", "Averages", "Tabulation", "Quantiles",
    "SurvivalCurves", "TestResult", "TreatmentEffect", "Moments", "Classifier", "Curve",
    "Components", "Predictor", "Estimates",
)  # fmt: skip
#: Those that results/kinds.py holds: hazards, categories, panels.
MORE_KINDS = ("Hazards", "Choice", "OrderedChoice", "Effects")
BUILT_FROM = (
    "results.fit.Fit", "results.fit.Facts",
    *(f"results.capabilities.{name}" for name in ("Intervals", "Numbers", "JointTests")),
    "results.statements.Statements", "results.joint.Equivalence",
    *(f"results.capabilities.{name}" for name in (
        "Means", "Predictions", "Updates", "NewReleases", "MomentAnalyses",
    )),
    "attacker.Explanation",
    "tables.table.Written", "tables.table.Shown", "tables.table.Result", "tables.table.Table",
)  # fmt: skip
MADE = (
    "results.contrasts.Combinations", "results.inference.JointTest", "results.inference.AnovaTable",
    "results.side_by_side.Etable", "models.holdout.Score", "models.holdout.Diagnosis",
    "models.survival.zph.CoxZph",
    "models.votes.VoteResult", "models.votes.PateResult", "planning.Plan",
    "api.custom.Selection",
)  # fmt: skip


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the parts of the navigation that follow from the files."""
    made = {
        "Notebooks": [(title_of(p), f"notebooks/{p.stem}.md") for p in notebooks("vignettes")],
        "The papers": [(title_of(p), f"papers/{p.stem}.md") for p in notebooks("vignettes/papers")],
        "Reference": [(name, page_of(name)) for name in reference()],
        "Theory": [(heading(p), target) for p, target in theory()],
    }
    for entry in config.nav or []:
        (name,) = entry
        if name in made:
            entry[name] = [{title: target} for title, target in made[name]]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the made pages."""
    made: dict[str, str | bytes] = {}
    for folder, target in (("vignettes", "notebooks"), ("vignettes/papers", "papers")):
        for path in notebooks(folder):
            made |= notebook_page(path, target)
    for name, names in reference().items():
        made[page_of(name)] = reference_page(name, names)
    for path, target in theory():
        made[target] = prose(path.read_text(encoding="utf-8"))
    for name in ("changelog", "contributing", "security"):
        made[f"{name}.md"] = prose((ROOT / f"{name.upper()}.md").read_text(encoding="utf-8"))
    for target, content in made.items():
        files.append(File.generated(config, target, content=content))
    return files


#: How much more a page of a folder weighs in the search: who looks for a word wants the guide.
SEARCH = {"guides": 3.0, "coming": 2.0, "notebooks": 1.5, "reference": 1.2, "theory": 0.3}


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Put kept results and what its code prints into a page, and its weight into the search.

    Results stand where a page says ``{{ results NAME [section] }}``.
    """
    where = page.file.src_uri if page is not None else ""
    weight = SEARCH.get(where.partition("/")[0])
    if weight is not None:
        page.meta.setdefault("search", {"boost": weight})
    if where.startswith(("guides/", "coming/")) or where == "index.md":
        markdown = with_output(markdown)
    return bars_in_code(re.sub(
        r"^\{\{ results (\w+)(?: (.+?))? \}\}$",
        lambda found: kept(found.group(1), found.group(2)),
        markdown,
        flags=re.MULTILINE,
    ))  # fmt: skip


def bars_in_code(markdown: str) -> str:
    """Return a page whose code has bars for escaped bars.

    GitHub needs the backslash in the cells of a table; the site would print it.
    """
    return re.sub(r"(?<!`)`[^`\n]+`", lambda code: code[0].replace(r"\|", "|"), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn the roles of docstrings into names, with a link where the reference has the thing."""

    def name(found: re.Match[str]) -> str:
        path = found.group(1).strip()
        shown = path.rsplit(".", 1)[-1] if path.startswith("~") else path
        code = f"<code>{shown}</code>"
        path = path.lstrip("~")
        if not path.startswith("dpmodels."):
            return code
        return f'<autoref identifier="{path}" optional>{code}</autoref>'

    return re.sub(r":(?:func|class|meth|mod|attr|data|exc|ref):<code>([^<]+)</code>", name, html)


def with_output(markdown: str) -> str:
    """Return a page with what each of its blocks marked ``python`` prints, executed in order.

    The noise is fresh in every build, as it is for a reader.
    """
    import contextlib
    import io
    import warnings

    import dpmodels as dp

    space: dict[str, Any] = {"__name__": "page"}

    def run(found: re.Match[str]) -> str:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as printed:
            warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
            exec(compile(found.group(1), "page", "exec"), space)  # noqa: S102 - our own pages
        text = printed.getvalue().rstrip()
        return found.group() + (f"\n\n```text\n{text}\n```" if text else "")

    return re.sub(r"^```python\n(.*?)^```", run, markdown, flags=re.DOTALL | re.MULTILINE)


def kept(name: str, section: str | None) -> str:
    """Return a kept result without its title, or one section of it."""
    text = (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")
    if section:
        text = text.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    text = "\n".join(f"##{line}" if line.startswith("## ") else line for line in lines)
    return prose(spaced(text)).strip()


# -- reference -------------------------------------------------------------------------------------


def reference() -> dict[str, list[str]]:
    """Return page -> public names, every name once."""
    import dpmodels

    names = [n for n in dpmodels.__all__ if not n.startswith("__")]
    pages = {page: [n for n in listed if n in names] for page, listed in PAGES.items()}
    more = [n for n in names if not any(n in listed for listed in PAGES.values())]
    return pages | {RESULTS: []} | ({"More": more} if more else {})


def page_of(name: str) -> str:
    """Return the file of a reference page."""
    return f"reference/{re.sub('[^a-z]+', '-', name.lower())}.md"


def reference_page(name: str, names: list[str]) -> str:
    """Return a page of mkdocstrings' directives."""
    lines = [f"# {name}", ""]
    if name == "Methods":
        lines += [methods_table(), ""]
    for public in names:
        lines += directive(public)
    if name == RESULTS:
        lines += results_page()
    return "\n".join(lines)


def results_page() -> list[str]:
    """Return the page of all kinds of results: what each can do, then every method once."""
    from dpmodels.results import fit, kinds

    lines = [
        "What a result can do depends on its kind. `dir(fit)` lists the same names as this page; "
        "other spellings of R, statsmodels and earlier versions are accepted too.",
        "",
    ]
    for name in (*KINDS, *MORE_KINDS):
        kind = getattr(fit if name in KINDS else kinds, name)
        lines += [f"## {name}", "", (kind.__doc__ or "").split("\n")[0], ""]
        lines += [", ".join(link(kind, own) for own in names_of(kind)) + ".", ""]
    own = (f"results.fit.{name}" for name in KINDS)
    more = (f"results.kinds.{name}" for name in MORE_KINDS)
    for path in (*own, *more, *BUILT_FROM, *MADE):
        name = path.rsplit(".", 1)[1]
        lines += [f"::: dpmodels.{path}", *options(name, members=True, dp=False), ""]
    return lines


def names_of(kind: type) -> list[str]:
    """Return what a class of results lists: its public names, other spellings left out."""
    from inspect import getattr_static

    from dpmodels.tables.table import also

    return [n for n in dir(kind)
            if not n.startswith("_") and not isinstance(getattr_static(kind, n), also)]  # fmt: skip


def link(kind: type, name: str) -> str:
    """Return a name with a link to the class that defines it."""
    owner = next(c for c in kind.__mro__ if name in vars(c))
    return f"[`{name}`][{owner.__module__}.{owner.__qualname__}.{name}]"


def directive(public: str) -> list[str]:
    """Return the directive of one public name, at the place where it is defined."""
    import dpmodels

    thing = getattr(dpmodels, public)
    path = f"{thing.__module__}.{thing.__qualname__}"
    if thing.__qualname__ != public:  # another name of the same thing
        return [f"## {public}", "", f"Another name of `{thing.__qualname__}`.", ""]
    return [f"::: {path}", *options(public, members=isinstance(thing, type)), ""]


def options(public: str, *, members: bool, dp: bool = True) -> list[str]:
    """Return the options of a directive."""
    lines = ["    options:", f"      heading: {'dp.' if dp else ''}{public}"]
    return lines if members else [*lines, "      members: false"]


def methods_table() -> str:
    """Return the registry as a table of the page."""
    import dpmodels

    rows = dpmodels.methods()
    lines = ["| verb | method | title | reference |", "|---|---|---|---|"]
    for row in rows.to_dict("records"):
        cells = (f"`{row['verb']}`", f"`{row['method']}`", row["title"], row["reference"])
        lines.append("| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines)


# -- prose -----------------------------------------------------------------------------------------


def theory() -> list[tuple[Path, str]]:
    """Return (note, page) of every theory note of the package, engines first."""
    package = ROOT / "dpmodels"
    notes = [p for p in package.rglob("*.md") if p.parent.name not in ("datasets", "audit")]
    notes.sort(key=lambda p: ("models" in p.parts, str(p)))
    names = ["-".join(p.relative_to(package).with_suffix("").parts) for p in notes]
    return [(p, f"theory/{name}.md") for p, name in zip(notes, names, strict=True)]


def heading(path: Path) -> str:
    """Return the title of a note, short enough for a menu."""
    first = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    return re.sub(r":? ?theory note$", "", first)


def prose(text: str) -> str:
    """Return a note as Markdown in which its plain mathematics stays as it is written.

    The notes hold formulas as text (``theta*``, ``R_x``, ``a < b``): signs that are not markup are
    escaped, and a list gets the blank line before it that this Markdown wants.
    """
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.DOTALL | re.MULTILINE)
    for k in range(0, len(parts), 2):
        blocks = re.split(r"(\n[ \t]*(?:\n[ \t]*)*\n)", parts[k])
        parts[k] = "".join(b if _is_code(b) else escaped(b) for b in blocks)
    return "".join(parts)


def _is_code(block: str) -> bool:
    return all(line.startswith("    ") for line in block.splitlines())


def escaped(block: str) -> str:
    """Escape ``*``, ``_`` and ``<`` that are mathematics, outside code (which may span lines)."""
    spans: list[str] = []

    def put_away(found: re.Match[str]) -> str:
        spans.append(found.group().replace("\n", " "))  # a line of it may begin like an item
        return f"\0{len(spans) - 1}\0"

    text = _escaped(spaced(re.sub(r"(`+)[^`]+\1", put_away, block)))
    return re.sub(r"\0(\d+)\0", lambda found: spans[int(found.group(1))], text)


def _escaped(text: str) -> str:
    keep = re.compile(
        r"\*\*[^*\s](?:[^*]*[^*\s])?\*\*"  # bold
        r"|(?<![\w*)])\*[A-Za-z][^*\n]*[\w.:]\*(?![\w*])"  # emphasis of words
        r"|\]\([^)]*\)"  # the target of a link
        r"|(?:\A|(?<=\n)) *[*-] "  # the start of an item
    )
    out, last = [], 0
    for found in keep.finditer(text):
        kept_as = found.group()
        if kept_as.startswith("*"):
            kept_as = kept_as.replace("_", r"\_").replace("<", "&lt;")
        out += [_plain(text[last : found.start()]), kept_as]
        last = found.end()
    return "".join([*out, _plain(text[last:])])


def _plain(text: str) -> str:
    return re.sub(r"([*_])", r"\\\1", text.replace("<", "&lt;"))


# -- notebooks -------------------------------------------------------------------------------------


def notebooks(folder: str) -> list[Path]:
    """Return the executed notebooks of a folder."""
    return sorted((ROOT / folder).glob("[0-9][0-9]-*.ipynb"))


def title_of(path: Path) -> str:
    """Return the title of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return first.splitlines()[0].lstrip("# ")


def notebook_page(path: Path, folder: str) -> dict[str, str | bytes]:
    """Return file -> content of the page of a notebook and of its pictures."""
    made: dict[str, str | bytes] = {}
    lines: list[str] = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", source)
            lines += [spaced(text), ""]
            continue
        source = re.sub(r"^# alt: .+\n", "", source, flags=re.MULTILINE)
        lines += ["```py", source, "```", ""]
        for part, output in enumerate(cell.get("outputs", [])):
            name = f"{path.stem}-{number:03d}-{part}"
            lines += output_lines(output, name, folder, made)
    made[f"{folder}/{path.stem}.md"] = "\n".join(lines)
    return made


def spaced(text: str) -> str:
    """Put the blank line before a list or table that this Markdown wants."""
    text = re.sub(r"^(?![*-] |\d+\. |\s|$)(.+)\n(?=[*-] |\d+\. )", r"\1\n\n", text, flags=re.M)
    return re.sub(r"^(?!\|)(.+)\n(?=\|)", r"\1\n\n", text, flags=re.M)


def output_lines(
    output: dict[str, Any], name: str, folder: str, made: dict[str, str | bytes]
) -> list[str]:
    """Return the Markdown of one output; pictures become files of their own."""
    data = output.get("data", {})
    if "image/png" in data:
        made[f"{folder}/{name}.png"] = base64.b64decode("".join(data["image/png"]))
        alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
        return [f"![{alt}]({name}.png)", ""]
    if "text/html" in data:
        text = "".join(data["text/html"])
        text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL) if "scoped" in text else text
        text = re.sub(r"\n\s*", "\n", text).strip()
        return [f'<div class="nb-output">{one_block(text)}</div>', ""]
    text = "".join(output.get("text", data.get("text/plain", "")))
    return ["```text", text.rstrip("\n"), "```", ""] if text.strip() else []


def one_block(text: str) -> str:
    """Return HTML without blank lines, so that Markdown leaves it alone."""
    return "\n".join(line for line in text.splitlines() if line.strip())
