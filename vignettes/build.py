"""Build the notebooks: ``python vignettes/build.py [NN-name | papers/NN-name ...]``.

Each ``NN-name.py`` (percent format) is executed and written, with its outputs, beside itself as
``NN-name.ipynb``. A line ``# alt: ...`` describes the picture of its cell for those who do not see it.
The tests execute the sources and compare them with the notebooks.
"""

import re
import sys
from pathlib import Path

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


def joined(outputs):
    """Join what was printed in pieces: where the kernel cuts it is chance."""
    out = []
    for one in outputs:
        if out and one.output_type == out[-1].output_type == "stream" and one.name == out[-1].name:
            out[-1].text += one.text
        else:
            out.append(one)
    return out


def build(source):
    """Execute one source and write its notebook."""
    notebook = jupytext.read(source)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd=str(HERE))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"  # no random ids: a rebuild changes what changed
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            cell.outputs = joined(cell.outputs)
            described = re.search(r"^# alt: (.+)$", cell.source, re.MULTILINE)
            for output in cell.outputs:
                if described and "image/png" in output.get("data", {}):
                    output.metadata = {"image/png": {"alt": described.group(1)}}
    target = source.with_suffix(".ipynb")
    text = __import__("nbformat").writes(notebook)
    target.write_text(text + "\n", encoding="utf-8")
    print(target.name)


if __name__ == "__main__":
    named = [HERE / f"{name}.py" for name in sys.argv[1:]]
    for path in named or sorted(HERE.rglob("[0-9][0-9]-*.py")):
        build(path)
