"""Check that `.ci/run` can install each package for whose want a test is skipped."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: The distribution that installs a module of another name, and those that come with another package.
DISTRIBUTION = {
    "sklearn": "scikit-learn",
    "docx": "python-docx",
    "distributed": "dask",
    "cloudpickle": "dask",
    "jsonschema": "nbformat",
    "scipy": "dpmodels",
    "pandas": "dpmodels",
    "formulaic": "dpmodels",
    "patsy": "dpmodels",
}
#: Needs Java, which `.ci/run` names; or is part of Python on some systems alone.
NOT_ASKED = {"pyspark", "resource"}


def named_in(requirements: str) -> set[str]:
    """Read the names of distributions from lines of requirements."""
    return {
        found.lower().replace("_", "-")
        for found in re.findall(r"^\s*'?([A-Za-z][\w.-]*)", requirements, re.M)
    }


def installed_by_ci() -> set[str]:
    """Collect what the developer's extra and the environment `more` of `.ci/run` install."""
    extras = configparser.ConfigParser()
    extras.read(ROOT / "setup.cfg")
    script = (ROOT / ".ci" / "run").read_text()
    found = re.search(r'install -q -e "\.\[([^\]]*)\]" (.*?); then', script, re.S)
    assert found, "the environment with all packages is not installed as this test reads it"
    names = named_in("\n".join(found.group(2).replace("\\", "").split()))
    for extra in [*found.group(1).split(","), "dev"]:
        names |= named_in(extras["options.extras_require"][extra])
    return names | {"dpmodels"}


def test_every_package_a_test_is_skipped_for_is_installed_somewhere_in_ci():
    modules: dict[str, str] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for name in re.findall(r"importorskip\(\s*\"(\w+)", file.read_text()):
            modules.setdefault(name, file.name)
    wanted = {
        module: file
        for module, file in modules.items()
        if DISTRIBUTION.get(module, module).replace("_", "-") not in installed_by_ci()
    }
    assert set(wanted) <= NOT_ASKED, wanted
