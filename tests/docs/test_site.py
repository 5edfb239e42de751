"""The documentation: pages build strictly, stand alone, and their code runs."""

import contextlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dpmodels as dp

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
#: tag -> attribute by which a page takes in something else (a link that is only followed by a reader is not one)
TAKEN_IN = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT / "docs")) for p in PAGES])
def test_the_code_of_a_page_runs(page):
    """Blocks marked ``python``, in order, in one name space; ``py`` marks what is not ours to run."""
    code = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as printed:
        warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
        exec(compile("\n".join(code), str(page), "exec"), {"__name__": "page"})
    assert bool(printed.getvalue()) == bool(code)


class Page(HTMLParser):
    """What a built page holds: places to jump to, links, things taken in, words of style."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.taken = {""}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if attrs.get(TAKEN_IN.get(tag, "")) and attrs.get("rel") not in (
            "canonical",
            "prev",
            "next",
        ):
            self.taken.append(attrs[TAKEN_IN[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build once, strictly: a warning is an error."""
    for package in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        pytest.importorskip(package)
    target = tmp_path_factory.mktemp("site")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return target


@pytest.fixture(scope="module")
def built(site):
    return {
        p.relative_to(site): Page(p.read_text(encoding="utf-8"))
        for p in sorted(site.rglob("*.html"))
    }


def test_no_link_goes_nowhere(site, built):
    lost = []
    for path, page in built.items():
        if path.name == "404.html":  # its links start at the root of a server
            continue
        for link in [*page.links, *page.taken]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (site / path).parent / unquote(parts.path) if parts.path else site / path
            target = target.resolve()
            target = target / "index.html" if target.is_dir() else target
            found = built.get(target.relative_to(site.resolve()))
            if not target.is_file() or (found and unquote(parts.fragment) not in found.ids):
                lost.append((str(path), link))
    assert not lost
    assert sum(len(p.links) for p in built.values()) > 500


def test_nothing_comes_from_elsewhere(site, built):
    outside = [(str(p), t) for p, page in built.items() for t in page.taken if urlsplit(t).netloc]
    assert not outside
    assert (site / "search" / "search_index.js").is_file()  # found from a folder, without a server
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", text), style.name


#: Loads pages one after the other in a frame as wide as a phone; answers with the widths in which they scroll.
PHONE = """<!doctype html><iframe id="phone" width="390" height="900"></iframe><pre id="widths"></pre><script>
const pages = %s, widths = {}, phone = document.getElementById("phone");
const look = () => {
  const page = phone.contentDocument, name = pages.shift();
  widths[name] = [page.documentElement.scrollWidth, page.querySelectorAll("article").length];
  next();
};
const next = () => {
  if (pages.length) phone.src = pages[0];
  else document.getElementById("widths").textContent = JSON.stringify(widths);
};
phone.onload = () => setTimeout(look, 100);
next();
</script>"""


def test_no_page_is_wider_than_a_phone(site, built, tmp_path):
    """Tables, code and output scroll in boxes of their own; a page that holds a wider thing fails."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no browser is installed")
    wide = site / "wide.html"  # what the test must find
    wide.write_text("<article><div style='width: 700px'>wide</div></article>", encoding="utf-8")
    pages = [str(p) for p in built if p.name != "404.html"]
    (site / "phone.html").write_text(PHONE % json.dumps([*pages, wide.name]), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --disable-background-networking --disable-component-update --allow-file-access-from-files --virtual-time-budget=600000 --dump-dom"
    try:
        dom = subprocess.run(
            [browser, *flags.split(), f"--user-data-dir={tmp_path}", (site / "phone.html").as_uri()],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        ).stdout
    finally:
        wide.unlink()
        (site / "phone.html").unlink()
    widths = json.loads(html.unescape(dom.partition('id="widths">')[2].partition("</pre>")[0]))
    assert widths.pop(wide.name)[0] > 390
    assert sorted(widths) == sorted(pages)
    assert {page: width for page, (width, articles) in widths.items() if width > 390 or not articles} == {}


def test_no_role_of_a_docstring_and_no_cut_signature_is_in_the_reference(site):
    linked = 0
    for path in sorted((site / "reference").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r":(func|class|meth|mod|attr|data|exc|ref):(`|<code>)", text), path.name
        linked += len(re.findall(r"<a [^>]*autorefs[^>]*><code>", text))
        for signature in re.findall(r'doc-signature.*?</pre>', text, re.DOTALL):
            shown = html.unescape(re.sub(r"<[^>]+>", "", signature))
            assert all(len(line) < 90 for line in shown.splitlines()[1:]), shown
    assert linked > 100


def test_the_menu_names_pages_as_they_name_themselves(site):
    """One page is in two places of the menu: it is "Coming from R" in both, and had been "R"."""
    text = (site / "notebooks/12-people.html").read_text(encoding="utf-8")
    menu = re.findall(r'<a href="10-coming-from-r\.html" class="md-nav__link">(.*?)</a>', text, re.DOTALL)
    names = [re.sub(r"<[^>]+>|\s+", " ", name).strip() for name in menu]
    assert names and {*names} == {"Coming from R"}


def test_only_code_has_a_copy_button_and_the_first_page_a_picture(site, built):
    style = (site / "style.css").read_text(encoding="utf-8")
    assert re.search(r"\.language-text [^{]*\{ display: none; \}", style)
    text = (site / "index.html").read_text(encoding="utf-8")
    assert text.count('<div class="language-text highlight">') == 2
    assert any(t.endswith("two_parts.svg") for t in built[Path("index.html")].taken)
    assert text.index("two_parts.svg") < text.index("Four words are new")


def test_no_cell_of_a_notebook_shows_a_directive_or_a_private_name():
    for path in (ROOT / "vignettes").rglob("[0-9][0-9]-*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            assert "# fmt:" not in source, path.name
            if cell["cell_type"] == "code":
                assert not re.search(r"\w\._[a-z]", source), path.name


def test_a_notebook_has_a_picture_and_ends_in_what_to_write():
    for path in sorted((ROOT / "vignettes").glob("[0-9][0-9]-*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [o for cell in cells for o in cell.get("outputs", [])]
        assert any("image/png" in o.get("data", {}) for o in outputs), path.name
        heads = [line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"] if line.startswith("## ")]
        assert heads[-1].strip() == "## What to write", path.name
        said = " ".join("".join(cells[-1]["outputs"][-1]["text"]).split())
        assert re.search(r"ifferential privacy: \d|-differentially private\.", said) and "NOT PRIVATE" not in said, path.name


def test_the_reference_writes_out_what_verbs_share(site):
    page = (site / "reference" / "survival.html").read_text(encoding="utf-8")
    assert page.count("A pandas or polars frame") == 3 and "As in" not in page


def test_every_public_name_has_its_place_in_the_reference(site, built):
    ids = set().union(*(page.ids for path, page in built.items() if path.parts[0] == "reference"))
    for name in dp.__all__:
        if not name.startswith("__"):
            thing = getattr(dp, name)
            assert f"{thing.__module__}.{thing.__qualname__}" in ids or name.lower() in ids, name


def test_no_cell_shows_the_escape_of_a_bar(site):
    """Eight cells of tables printed the backslash of "y ~ x | id" in code."""
    pages = [path for folder in ("guides", "coming") for path in site.glob(f"{folder}/**/*.html")]
    assert pages
    for path in pages:
        cells = re.findall(r"<td[^>]*>.*?</td>", path.read_text(encoding="utf-8"), re.DOTALL)
        assert not [cell for cell in cells if re.search(r"<code>[^<]*\\\|", cell)], path.name


def test_every_method_of_every_kind_stands_in_the_reference(site, built):
    """Nine of Fit's did; ``emmeans``, ``wald_test`` and others stood on no page."""
    import sys

    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import hooks
    finally:
        sys.path.pop(0)
    ids = set().union(*(page.ids for path, page in built.items() if path.parts[0] == "reference"))
    import importlib

    from dpmodels.results.fit import Fit, kind_of

    kind_of("dp_coxph")  # those of kinds.py enter themselves when one is asked for
    assert {*hooks.KINDS, *hooks.MORE_KINDS} == {*Fit._kinds}  # no kind is left out
    paths = [f"results.fit.{name}" for name in hooks.KINDS]
    paths += [f"results.kinds.{name}" for name in hooks.MORE_KINDS] + list(hooks.MADE)
    missing = []
    for path in paths:
        module, _, name = f"dpmodels.{path}".rpartition(".")
        kind = getattr(importlib.import_module(module), name)
        for own in hooks.names_of(kind):
            owner = next(c for c in kind.__mro__ if own in vars(c))
            place = f"{owner.__module__}.{owner.__qualname__}.{own}"
            if (place not in ids and place.rpartition(".")[0] not in ids) or (place not in ids and callable(getattr(kind, own)) and owner.__module__.startswith("dpmodels.results")):
                missing.append(place)
    assert missing == []


def test_a_guide_shows_what_its_code_prints(site):
    """Executed when the site is built: the noise is fresh, the layout is that of the code."""
    for name in ("index", "guides/intervals", "coming/statsmodels", "guides/tables"):
        source = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        if "print(" not in source:
            continue
        page = (site / f"{name}.html").read_text(encoding="utf-8")
        text = html.unescape(re.sub(r"<[^>]+>", "", page))
        assert "eps = 1" in text or "Std. Error" in text or "95 % interval" in text, name
    start = html.unescape(re.sub(r"<[^>]+>", "", (site / "index.html").read_text(encoding="utf-8")))
    assert "least squares, private" in start


def test_the_search_puts_guides_before_theory(site):
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(text[text.index("{") : text.rindex("}") + 1])["docs"]
    boost = {e["location"].partition("#")[0]: e.get("boost", 1.0) for e in entries}
    assert boost["guides/intervals.html"] > 1 > boost["theory/scoring-theory.html"]


def test_every_theory_note_and_notebook_is_a_page(site):
    for note in (ROOT / "dpmodels").rglob("theory.md"):
        name = "-".join(note.relative_to(ROOT / "dpmodels").with_suffix("").parts)
        assert (site / "theory" / f"{name}.html").is_file()
    for notebook in (ROOT / "vignettes").rglob("[0-9][0-9]-*.ipynb"):
        folder = "papers" if notebook.parent.name == "papers" else "notebooks"
        assert (site / folder / f"{notebook.stem}.html").is_file()


def test_the_mathematics_of_the_notes_survives(site):
    """Signs of formulas that are not markup: stars, underscores and "less than"."""
    note = (ROOT / "dpmodels/models/linear/posterior.md").read_text(encoding="utf-8")
    page = (site / "theory/models-linear-posterior.html").read_text(encoding="utf-8")
    page = html.unescape(re.sub(r"<[^>]+>", "", page[page.index("<article") :]))
    for formula in (
        "theta*_+ - theta* = A^{-1}x w",
        "e^2|x|^2/(2 sigma^2)",
        "|r|, |w| <= rbar",
        "2 sigma^2) - log(1+h)",
    ):
        assert formula in note.replace("\n", " ").replace("`", "") and formula in page.replace(
            "\n", " "
        )
    for path in (site / "theory").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        body = text[text.index("<article") : text.index("</article")]
        assert not re.search(r"\\[*_]|&amp;lt;", body), path.name  # an escape that shows


def test_every_item_of_the_changelog_is_an_item(site):
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    page = (site / "changelog.html").read_text(encoding="utf-8")
    page = page[page.index("<article") : page.index("</article")]
    assert page.count("<li>") == len(re.findall(r"^ *[*-] ", text, re.MULTILINE))
    assert page.count("<strong>") == len(re.findall(r"\*\*[^*]+\*\*", text))


def test_a_newcomers_questions_are_two_clicks_away(site, built):
    start = built[Path("index.html")]
    for page, place in (
        ("guides/schema.html", "what-ranges-do-i-declare"),
        ("guides/protected.html", "is-this-person-level"),
        ("guides/intervals.html", "why-is-my-interval-wide"),
    ):
        assert f"{page}#{place}" in start.links and place in built[Path(page)].ids


def test_the_pictures_are_described():
    for path in (ROOT / "vignettes").rglob("[0-9][0-9]-*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    assert output["metadata"]["image/png"]["alt"], path.name
    for page in PAGES:
        assert not re.search(r"!\[\]\(", page.read_text(encoding="utf-8")), page.name


def test_figures_of_the_pages_have_a_script():
    text = (ROOT / "docs/figures/make.py").read_text(encoding="utf-8")
    for figure in (ROOT / "docs/figures").glob("*.svg"):
        assert f'"{figure.stem}": ' in text


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^version: {re.escape(dp.__version__)}$", text, re.MULTILINE)
