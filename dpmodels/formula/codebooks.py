"""Codebooks to schemas, and back: CSV, REDCap, Frictionless JSON, and labels of Stata, SPSS, SAS.

A codebook is public: it was written without the rows. Nothing here reads a cell.
"""

from __future__ import annotations

import csv
import datetime
import html
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpmodels.errors import SchemaError, did_you_mean, path_of, shown
from dpmodels.variables import (
    LARGEST,
    NUMERAL,
    Variable,
    as_key,
    as_variable,
    missing_spans,
)

Facts = dict[str, dict[str, Any]]


def read(path: Any) -> Facts:
    """Return the variables of a codebook, by the type of its file."""
    file = path_of(path, "the path of a codebook", SchemaError)
    if not file.is_file():
        raise SchemaError(f"there is no codebook {str(path)!r}")
    text = _text(file)
    if file.suffix.lower() == ".json" or text.lstrip().startswith("{"):
        return _frictionless(text, file.name)
    rows = _rows(text, file.name)
    fields = {_word(key) for key in rows[0]} if rows else set()
    if {"variable / field name", "field type"} <= fields or {"field_name", "field_type"} <= fields:
        return _redcap(rows)
    return _csv(rows, file.name)


def _text(file: Path) -> str:
    """Return the text of a codebook file, as UTF-8 or else as Windows-1252."""
    raw = file.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # a codebook is public: a letter that is read wrongly harms nobody
        return raw.decode("cp1252", "replace")


def _rows(text: str, name: str) -> list[dict[str, str]]:
    """Return the lines of a codebook by their header; comma, semicolon or tab separate cells."""
    head = text.partition("\n")[0]
    sep = max(",;\t", key=head.count)
    rows = []
    for row in csv.DictReader(io.StringIO(text, newline=""), delimiter=sep):
        cells = {str(k): v.strip() for k, v in row.items() if k and isinstance(v, str)}
        if any(cells.values()):
            rows.append(cells)
    if not rows:
        raise SchemaError(f"{name}: the codebook lists no variable")
    return rows


def _word(text: str) -> str:
    return " ".join(text.strip().strip('"').casefold().split())


# -- A CSV codebook: one line a variable


#: Field of a variable -> words for its column.
_COLUMNS = {
    "name": ("name", "variable", "variable name", "field", "field name", "column", "var"),
    "type": ("type", "data type", "kind", "variable type"),
    "lower": ("lower", "min", "minimum", "from", "lower bound"),
    "upper": ("upper", "max", "maximum", "to", "upper bound"),
    "levels": ("levels", "values", "codes", "choices", "categories", "value labels",
               "allowed values"),
    "missing": ("missing", "missing codes", "missing values", "missing value codes",
                "missing value"),
    "label": ("label", "description", "variable label", "question", "question text", "meaning"),
    "unit": ("unit", "units"),
    **{name: (name,) for name in (
        "other", "na", "recode", "format", "decimal", "thousands", "duration", "strip",
        "ignore_case",
    )},
}  # fmt: skip
#: Kind of a variable -> words for it.
_TYPES = {
    "real": ("real", "number", "numeric", "float", "double", "continuous", "decimal", "integer",
             "int", "scale", "interval", "ratio"),
    "count": ("count",),
    "binary": ("binary", "boolean", "bool", "logical", "yesno", "yes/no", "dichotomous", "0/1"),
    "levels": ("levels", "categorical", "category", "factor", "nominal", "enum"),
    "ordered": ("ordered", "ordinal", "ordered factor"),
    "date": ("date", "datetime", "timestamp"),
    "text": ("text", "string", "character", "char", "free text", "id", "identifier"),
}  # fmt: skip
_KIND_OF = {word: kind for kind, words in _TYPES.items() for word in words}


def _csv(rows: list[dict[str, str]], file: str) -> Facts:
    """Return the declarations of a codebook in CSV, one row per variable."""
    names = {word: field for field, words in _COLUMNS.items() for word in words}
    columns = {key: names[_word(key)] for key in rows[0] if _word(key) in names}
    if "name" not in columns.values():
        raise SchemaError(
            f"{file}: a codebook has a column name (or variable), and type, lower, upper, levels, "
            f"missing, label. Its header has: {', '.join(rows[0])}"
        )
    out: Facts = {}
    for number, row in enumerate(rows, 2):
        facts: dict[str, str] = {}
        for key, value in row.items():
            if key in columns and value:
                facts.setdefault(columns[key], value)
        name = facts.pop("name", "")
        if not name:
            raise SchemaError(f"{file}: line {number} names no variable")
        if name in out:
            raise SchemaError(f"{file}: {name!r} occurs twice")
        out[name] = _line(facts, f"{file}: {name}")
    return out


_ENDS = ("lower", "upper")


def _counts(lower: Any, upper: Any) -> bool:
    """Return whether whole numbers between these ends are counts: a range from 0 is little wider.

    Medians of counts are whole numbers.
    """
    low, high = (x if isinstance(x, (int, float)) else None for x in (lower, upper))
    return low is not None and (low == 0 or (high is not None and 0 < 10 * low <= high))


def _line(facts: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return the facts of one line of a CSV codebook."""
    levels, recode = _levels(facts.get("levels", ""))
    kind = _kind(facts, levels, where)
    if kind == "text":
        return {"type": kind, **({"label": facts["label"]} if "label" in facts else {})}
    copied = ("label", "format", "decimal", "thousands", "duration")
    out: dict[str, Any] = {"type": kind, **{k: facts[k] for k in copied if k in facts}}
    if kind in ("levels", "ordered", "binary"):
        out |= {"levels": levels} if levels else {}
        recode |= _mapping(facts.get("recode", ""), where)
        out |= {"recode": recode} if recode else {}
        out |= {
            key: _word(facts[key]) != "false" for key in ("strip", "ignore_case") if key in facts
        }
    else:
        out |= _of_numbers(facts, kind, where)
    for key in ("other", "na"):
        if key in facts:
            out[key] = _scalar(facts[key]) if facts[key] not in levels else facts[key]
    if "missing" in facts:
        out["missing"] = _items(facts["missing"])
    if kind in ("real", "count"):
        out = {k: v for k, v in out.items() if k not in ("format", "other")}
    return out


def _kind(facts: Mapping[str, str], levels: list[Any], where: str) -> str:
    """Return the kind of a variable, as its line names it or its levels tell."""
    word = _word(facts.get("type", "")) or ("levels" if levels else "real")
    if word not in _KIND_OF:
        raise SchemaError(
            f"{where}: unknown type {facts['type']!r}.{did_you_mean(word, _KIND_OF)} Types: "
            f"{', '.join(_TYPES)}"
        )
    if word in ("integer", "int") and _counts(*(_scalar(facts.get(k, "")) for k in _ENDS)):
        return "count"
    kind = _KIND_OF[word]
    return "levels" if kind == "text" and levels else kind


def _of_numbers(facts: Mapping[str, str], kind: str, where: str) -> dict[str, Any]:
    """Return unit, format and range of a number or a date. Counts are from 0.

    One end is not a range: it must be declared or estimated.
    """
    out: dict[str, Any] = {"unit": facts["unit"]} if "unit" in facts else {}
    if "format" in facts and kind == "date":
        text = facts["format"]
        out["format"] = _items(text) if text[0] == "[" else [s.strip() for s in text.split("|")]
    ends = [key for key in _ENDS if key in facts]
    limits = {k: facts[k] if kind == "date" else _limit(_scalar(facts[k]), where, k) for k in ends}
    if kind == "count":
        return out | {k: v for k, v in limits.items() if k == "upper"}
    return out | (limits if len(ends) == 2 else {})


def _scalar(text: str) -> Any:
    """Return a number if the text is one, else the text."""
    if not NUMERAL.fullmatch(text.strip()):
        return text
    number = float(text)
    is_integer = number.is_integer() and not set(text) & set(".eE")
    return int(number) if is_integer else number


def _limit(limit: Any, where: str, key: str) -> Any:
    """Return a limit of a number, or refuse one that is written as text."""
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise SchemaError(f"{where}: {key} = {shown(limit)} is not a number")
    return limit


def _items(text: str) -> list[Any]:
    """Return the entries of a list: JSON, or separated by | or ; or a comma."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    sep = next((sign for sign in "|;,\n" if sign in text), "|")
    return [_scalar(item.strip()) for item in text.split(sep) if item.strip()]


def _levels(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the levels and their codes from ``1=male | 2=female``."""
    if text.lstrip().startswith("["):
        return list(json.loads(text)), {}
    levels: list[Any] = []
    recode: dict[str, Any] = {}
    sep = next((sign for sign in "|;,\n" if sign in text), "|")
    for item in (part.strip() for part in text.split(sep)):
        code, coded, label = item.partition("=")
        if coded and label.strip():
            levels.append(label.strip())
            if code.strip() != label.strip():
                recode[code.strip()] = label.strip()
        elif item:
            levels.append(item)
    return levels, recode


def _mapping(text: str, where: str) -> dict[str, Any]:
    """Return a recoding written as JSON or as ``y=yes|n=no``."""
    if not text:
        return {}
    if text.lstrip().startswith("{"):
        return dict(json.loads(text))
    pairs = [pair.partition("=") for pair in re.split(r"[|;]", text) if pair.strip()]
    if not all(sign for _, sign, _ in pairs):
        raise SchemaError(f"{where}: recode is written y=yes|n=no")
    return {key.strip(): value.strip() for key, _, value in pairs}


# -- A REDCap data dictionary


_REDCAP = {
    "name": ("variable / field name", "field_name"), "type": ("field type", "field_type"),
    "form": ("form name", "form_name"), "label": ("field label", "field_label"),
    "choices": ("choices, calculations, or slider labels", "select_choices_or_calculations"),
    "validation": ("text validation type or show slider number",
                   "text_validation_type_or_show_slider_number"),
    "min": ("text validation min", "text_validation_min"),
    "max": ("text validation max", "text_validation_max"),
}  # fmt: skip
_NO_DATA = ("descriptive", "file", "signature")


def _redcap(rows: list[dict[str, str]]) -> Facts:
    """Return the declarations of a REDCap data dictionary."""
    key_of = {word: key for key, words in _REDCAP.items() for word in words}
    out: Facts = {}
    forms: list[str] = []
    for row in rows:
        field = {key_of[_word(k)]: v for k, v in row.items() if _word(k) in key_of}
        kind = field.get("type", "").casefold()
        if field.get("form") and field["form"] not in forms:
            forms.append(field["form"])
        if field.get("name") and kind not in _NO_DATA:
            out |= dict(_field(field, kind))
    for form in forms:  # the columns that an export adds
        name = re.sub(r"\W+", "_", form.casefold()) + "_complete"
        done = ["Incomplete", "Unverified", "Complete"]
        out.setdefault(name, {"type": "ordered", "levels": done, "label": f"{form} complete",
                              "recode": {str(k): v for k, v in enumerate(done)}})  # fmt: skip
    return out


def _field(field: Mapping[str, str], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the columns of one field, with their facts."""
    name = field["name"]
    label = _plain(field.get("label", ""))
    titled: dict[str, Any] = {"label": label} if label else {}
    choices = _choices(field.get("choices", ""))
    if kind == "checkbox":
        for code, choice in choices:
            column = f"{name}___{re.sub(r'[^a-z0-9]', '_', code.casefold())}"
            yield column, {"type": "binary", "levels": ["Unchecked", "Checked"],
                           "recode": {"0": "Unchecked", "1": "Checked"},
                           "label": f"{label}: {choice}" if label else choice}  # fmt: skip
    elif kind in ("radio", "dropdown") and len(choices) > 1:
        yield name, {"type": "levels", **coded(choices), **titled}
    elif kind in ("yesno", "truefalse"):
        pair = ["No", "Yes"] if kind == "yesno" else ["False", "True"]
        yield name, {"type": "binary", "levels": pair, "recode": dict(zip("01", pair, strict=True)),
                     **titled}  # fmt: skip
    elif kind == "slider":
        ends = [field.get(key, "") for key in ("min", "max")]
        limits = [_scalar(x) for x in ends if NUMERAL.fullmatch(x)]
        yield name, {"type": "real", **(_range(limits) or {"lower": 0, "upper": 100}), **titled}
    elif kind == "calc":
        yield name, {"type": "real", **titled}
    else:
        yield name, {**_validated(field), **titled}


def _plain(label: str) -> str:
    """Return a label without its HTML."""
    return " ".join(html.unescape(re.sub(r"</?[a-zA-Z][^<>]*>", " ", label)).split())


def _choices(text: str) -> list[tuple[str, str]]:
    """Return (code, label) of the choices of a field: a pipe begins one if a code follows it."""
    pipe = r" \| " if " | " in text else r"\|"
    parts = re.split(rf"(?:{pipe}|\n)(?=\s*[^\s,|]+\s*,)", text)
    pairs = [part.partition(",") for part in parts]
    return [(code.strip(), _plain(label)) for code, comma, label in pairs if comma]


def _validated(field: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts of a text field, from its validation."""
    word = field.get("validation", "").casefold()
    ends = [field.get(key, "") for key in ("min", "max")]
    if word.startswith(("integer", "number")):
        comma = {"decimal": ","} if "comma_decimal" in word else {}
        ends = [x.replace(",", ".") if comma else x for x in ends]
        numbers = [_scalar(x) for x in ends if NUMERAL.fullmatch(x)]
        return {"type": "real", **_range(numbers), **comma}
    if word.startswith(("date_", "datetime_")):
        dates = [_day(x, word.split("_")[-1]) for x in ends]
        return {"type": "date", **_range([x for x in dates if x is not None])}
    return {"type": "text"}


def _range(ends: list[Any]) -> dict[str, Any]:
    """Return a range of two ordered ends, or None if it must be declared."""
    if len(ends) != 2 or not ends[0] < ends[1]:
        return {}
    return {"lower": ends[0], "upper": ends[1]}


def _day(text: str, order: str) -> str | None:
    """Return a date of the dictionary in ISO 8601, or None if it is not one (``today``)."""
    text = text.split(" ")[0]
    shapes = {"dmy": ("%d-%m-%Y", "%d/%m/%Y"), "mdy": ("%m-%d-%Y", "%m/%d/%Y")}.get(order, ())
    for shape in ("%Y-%m-%d", *shapes):
        try:
            return str(datetime.datetime.strptime(text, shape).date())
        except ValueError:
            continue
    return None


def coded(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return levels and codes of (code, label): labels are the levels, where they differ."""
    listed = [(code, str(label).strip() or str(code)) for code, label in pairs]
    labels = [label for _, label in listed]
    if len({as_key(label) for label in labels}) < len(labels):  # two codes of one label
        labels = [f"{code} {label}" for code, label in listed]
    recode = {}
    for (code, _), label in zip(listed, labels, strict=True):
        text = str(int(code)) if isinstance(code, float) and code.is_integer() else str(code)
        if text != label:
            recode[text] = label
    if set(recode) & set(labels):  # codes that are labels of others: the codes are the levels
        return {"levels": [code for code, _ in listed]}
    return {"levels": labels, **({"recode": recode} if recode else {})}


# -- A Frictionless Table Schema, or a data package with one


#: Keys of a variable without a word in the standard: they keep their names.
_OWN = ("recode", "other", "na", "strip", "ignore_case", "duration", "unit")
_BOOLEAN = (["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"])


def _frictionless(text: str, file: str) -> Facts:
    """Return the declarations of a Frictionless table schema."""
    problem, data = "", None
    try:
        data = json.loads(text)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise SchemaError(f"{file}: this file is not valid JSON: {problem}")
    if isinstance(data, dict) and "resources" in data:
        schemas = [resource.get("schema") for resource in data["resources"]]
        data = next((schema for schema in schemas if isinstance(schema, dict)), data)
    if not isinstance(data, dict) or not isinstance(data.get("fields"), list):
        raise SchemaError(
            f'{file}: a Table Schema has a list of fields: {{"fields": [{{"name": "age", "type": '
            '"integer", "constraints": {"minimum": 0, "maximum": 120}}]}'
        )
    words = _missing_words(data.get("missingValues", []))
    return {
        str(field["name"]): _of_field(field, words, f"{file}: {field['name']}")
        for field in data["fields"]
    }


def _missing_words(codes: Any) -> list[Any]:
    """Return missing codes of a table schema, as text or (text, label); "" is always missing."""
    words = [code.get("value") if isinstance(code, dict) else code for code in codes or ()]
    return [_scalar(word) if isinstance(word, str) else word for word in words if word != ""]


def _of_field(field: Mapping[str, Any], words: list[Any], where: str) -> dict[str, Any]:
    """Return the facts of one field; ``words``: missing codes of the whole table."""
    kind = str(field.get("type", "string")).casefold()
    limits = field.get("constraints") or {}
    values = list(field.get("categories") or limits.get("enum") or ())
    if values and kind != "boolean":
        out = _categories(field, values)
    elif kind in ("integer", "number", "year"):
        out = _number_field(field, kind, limits, where)
    elif kind == "boolean":
        out = _boolean_field(field)
    elif kind in ("date", "datetime"):
        shape = str(field.get("format", "default"))
        out = {"type": "date", **({"format": shape} if "%" in shape else {}), **_limits(limits)}
    else:
        out = {"type": "text"}
    label = field.get("title") or field.get("description")
    out |= {"label": label} if label else {}
    if out["type"] == "text":
        return out
    missing = _missing_words(field["missingValues"]) if "missingValues" in field else words
    spelled = {as_key(x) for x in (*out.get("levels", ()), *out.get("recode", ()))}
    missing = [x for x in missing if as_key(x) not in spelled]
    out |= {"missing": missing} if missing else {}
    return {**out, **{key: field[key] for key in _OWN if key in field}}


def _limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    return _range([limits[key] for key in ("minimum", "maximum") if key in limits])


def _categories(field: Mapping[str, Any], values: list[Any]) -> dict[str, Any]:
    """Return the declaration of a field whose categories are listed."""
    kind = "ordered" if field.get("categoriesOrdered") or field.get("ordered") else "levels"
    if any(isinstance(value, dict) and "label" in value for value in values):
        pairs = [(value["value"], value.get("label", value["value"])) for value in values]
        return {"type": kind, **coded(pairs)}
    return {"type": kind, "levels": [v["value"] if isinstance(v, dict) else v for v in values]}


def _number_field(
    field: Mapping[str, Any], kind: str, limits: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return the declaration of a numeric field, a count if it is a whole number from 0."""
    if field.get("bareNumber", True) is not True:
        raise SchemaError(
            f"{where}: bareNumber = false, and a cell such as '95 %' would be missing. Write the "
            "numbers alone in the table, and leave bareNumber out"
        )
    limits = {
        key: _limit(limits[key], where, key) for key in ("minimum", "maximum") if key in limits
    }
    signs = (("decimalChar", "decimal"), ("groupChar", "thousands"))
    copied = {new: field[old] for old, new in signs if old in field}
    if kind == "integer" and _counts(limits.get("minimum"), limits.get("maximum")):
        top = {"upper": limits["maximum"]} if "maximum" in limits else {}
        return {"type": "count", **top, **copied}
    return {"type": "real", **_limits(limits), **copied}


def _boolean_field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of a field with two values."""
    yes, no = field.get("trueValues") or [], field.get("falseValues") or []
    if not (yes and no) or (yes, no) == _BOOLEAN:
        return {"type": "binary"}
    recode = {str(x): words[0] for words in (no, yes) for x in words[1:]}
    return {"type": "binary", "levels": [no[0], yes[0]], **({"recode": recode} if recode else {})}


# -- Back: a schema as a codebook


def write(path: Any, variables: Mapping[str, Variable]) -> None:
    """Write a codebook: ``.csv``, or ``.json`` as a Frictionless Table Schema."""
    file = path_of(path, "the path of a codebook", SchemaError)
    ending = file.suffix.lower()
    if ending not in (".csv", ".json"):
        raise SchemaError("a codebook is written to a file that ends in .csv or .json")
    facts = {name: variable.to_dict() for name, variable in variables.items()}
    if ending == ".json":
        fields = [{"name": name, **_as_field(variable)} for name, variable in facts.items()]
        text = json.dumps({"fields": fields, "missingValues": [""]}, ensure_ascii=False, indent=2)
        file.write_text(text + "\n", encoding="utf-8")
        return
    first = ["name", "type", "lower", "upper", "levels", "missing", "label"]
    used = {key for variable in facts.values() for key in variable}
    columns = first + [key for key in _COLUMNS if key in used and key not in first]
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        for name, variable in facts.items():
            writer.writerow(
                {"name": name, **{key: _cell(key, value) for key, value in variable.items()}}
            )


def _cell(key: str, value: Any) -> str:
    """Return a declared value as the text of a CSV cell."""
    if isinstance(value, (list, dict)):
        plain = isinstance(value, list) and key == "levels" and all(
            isinstance(x, str) and x and not set(x) & set("|;,=\n[") and x == x.strip()
            for x in value
        )  # fmt: skip
        return "|".join(value) if plain else json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_field(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a variable as a field of a Table Schema."""
    kind, limits = facts["type"], {}
    out: dict[str, Any] = {}
    if kind in ("levels", "ordered"):
        numbers = all(isinstance(x, (int, float)) for x in facts["levels"])
        out["type"] = "number" if numbers else "string"
        limits["enum"] = facts["levels"]
        out |= {"ordered": True} if kind == "ordered" else {}
    elif kind == "binary":
        out["type"] = "boolean"
        if "levels" in facts:
            out |= {"falseValues": facts["levels"][:1], "trueValues": facts["levels"][1:]}
    elif kind == "date":
        out |= {"type": "date", **({"format": facts["format"]} if "format" in facts else {})}
    elif kind == "text":
        out["type"] = "string"
    else:
        out["type"] = "integer" if kind == "count" else "number"
        signs = (("decimal", "decimalChar"), ("thousands", "groupChar"))
        out |= {new: facts[old] for old, new in signs if old in facts}
        limits |= {"minimum": 0} if kind == "count" else {}
    ends = (("lower", "minimum"), ("upper", "maximum"))
    limits |= {new: facts[old] for old, new in ends if old in facts}
    out |= {"constraints": limits} if limits else {}
    out |= {"title": facts["label"]} if "label" in facts else {}
    out |= {"missingValues": ["", *facts["missing"]]} if "missing" in facts else {}
    return out | {key: facts[key] for key in _OWN if key in facts}


# -- Labels inside files of Stata, SPSS and SAS


#: Ending -> function of pyreadstat.
READERS = {
    ".dta": "read_dta", ".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por",
    ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport",
}  # fmt: skip


def metadata(path: Path, **options: Any) -> Any:
    """Return the column metadata of a Stata, SPSS or SAS file; no row is read.

    ``options``: further ones of the library's reader.
    """
    from importlib.util import find_spec

    if find_spec("pyreadstat") is None:
        raise SchemaError("pyreadstat is needed to read this file: pip install 'dpmodels[files]'")
    import pyreadstat

    reader = getattr(pyreadstat, READERS[path.suffix.lower()])
    # user-missing codes are reported if cells keep them
    if path.suffix.lower() not in (".xpt", ".por"):
        options["user_missing"] = True
    header = None
    try:
        _, header = reader(str(path), metadataonly=True, **options)
    except Exception:  # its text could quote the file
        header = None
    if header is None:
        raise SchemaError(
            f"{path.name}: cannot be read as a {path.suffix} file. Nothing was charged"
        )
    return header


#: Beginnings of the formats of SAS and SPSS. What shows the date of a datetime is a datetime.
_DATETIMES = ("DATETIME", "DATEAMPM", "MDYAMPM", "YMDHMS", "E8601DT", "E8601DN", "E8601DZ",
              "B8601DT", "B8601DN", "B8601DZ", "IS8601DT", "IS8601DN", "DTDATE", "DTMONYY",
              "DTYEAR", "DTYYQC", "DTWKDATX", "EURDFDT")  # fmt: skip
_DATES = ("DATE", "ADATE", "EDATE", "SDATE", "JDATE", "MMDDYY", "DDMMYY", "YYMMDD", "E8601DA",
          "B8601DA", "IS8601DA", "WEEKDA", "WORDDA", "MONYY", "MOYR", "QYR", "WKYR", "MMYY",
          "YYMM", "YYMON", "YYQ", "YEAR", "MONNAME", "DOWNAME", "QTR", "JULIAN", "JULDAY",
          "EURDF", "NENGO", "MINGUO", "WEEKU", "WEEKV", "WEEKW")  # fmt: skip


def time_kind(meta: Any, name: str) -> str:
    """Return "date", "datetime", "time" or "" for a column, by its public format."""
    shape = str((getattr(meta, "original_variable_types", None) or {}).get(name) or "").upper()
    if shape.startswith("%"):  # of Stata
        shape = shape[1:].lstrip("-")
        when = "datetime" if shape.startswith("TC") else ""
        return "date" if shape.startswith(("TD", "D")) else when
    if shape.startswith(_DATETIMES):
        return "datetime"
    if shape.startswith(_DATES):
        return "date"
    times = ("TIME", "DTIME", "TOD", "HHMM", "E8601TM", "B8601TM", "IS8601TM")
    return "time" if shape.startswith(times) else ""


def from_metadata(meta: Any) -> Facts:
    """Return the variables of a file: value labels are levels, user-missing codes ``missing=``."""
    labels = getattr(meta, "variable_value_labels", None) or {}
    measures = getattr(meta, "variable_measure", None) or {}
    types = getattr(meta, "readstat_variable_types", None) or {}
    out: Facts = {}
    for name in meta.column_names:
        declared: dict[str, Any] = {}
        title = (getattr(meta, "column_names_to_labels", None) or {}).get(name)
        if title:
            declared["label"] = str(title)
        missing = _user_missing(meta, name)
        if missing:
            declared["missing"] = missing
        spans = missing_spans(missing)
        pairs = sorted(
            (code, label) for code, label in (labels.get(name) or {}).items()
            if isinstance(code, str) == (types.get(name) == "string")  # .a to .z are missing
            and code not in missing and not any(a <= code <= b for a, b in spans)
        )  # fmt: skip
        when = time_kind(meta, name)
        if _is_factor([code for code, _ in pairs], measures.get(name)):
            kind = "ordered" if measures.get(name) == "ordinal" else "levels"
            out[name] = {"type": kind, **coded(pairs), **declared}
        elif types.get(name) == "string":
            out[name] = {"type": "text", **declared}
        elif when in ("date", "datetime"):
            out[name] = {"type": "date", **{k: v for k, v in declared.items() if k == "label"}}
        else:
            out[name] = {"type": "real", **declared}
    return out


def _user_missing(meta: Any, name: str) -> list[Any]:
    """Return the user-missing codes and ranges of codes, as ``missing=`` takes them."""
    out: list[Any] = []
    for span in (getattr(meta, "missing_ranges", None) or {}).get(name, ()):
        low, high = (span["lo"], span["hi"]) if isinstance(span, dict) else (span, span)
        if low == high:
            out.append(int(low) if isinstance(low, float) and low.is_integer() else low)
        else:
            ends = (
                "lo" if low < -LARGEST else f"{low:.17g}",
                "hi" if high > LARGEST else f"{high:.17g}",
            )
            out.append(" thru ".join(ends))
    return out


def _is_factor(codes: list[Any], measure: Any) -> bool:
    """Return whether labelled codes are the levels of a factor, and not points of a scale.

    Labels of two or three whole numbers that are not next to each other name the ends, and the
    middle, of a scale, unless it is said to be nominal.
    """
    if len(codes) < 2 or measure == "scale":
        return False
    return isinstance(codes[0], str) or measure == "nominal" or len(codes) > 3 or not gaps(codes)


def gaps(codes: Iterable[Any]) -> list[int]:
    """Return the whole numbers between codes that are none of them; nothing for other codes."""
    numbers = {
        float(code) for code in codes if not isinstance(code, str) or NUMERAL.fullmatch(code)
    }
    if not numbers or not all(map(float.is_integer, numbers)) or max(numbers) - min(numbers) > 1e6:
        return []
    return [k for k in range(int(min(numbers)), int(max(numbers))) if k not in numbers]


def as_schema_items(facts: Facts, file: Any) -> dict[str, Variable]:
    """Return the variables of facts; a factor of one level is text."""
    out = {}
    for name, variable in facts.items():
        if variable["type"] in ("levels", "ordered") and len(variable.get("levels", ())) < 2:
            variable = {
                "type": "text",
                **({"label": variable["label"]} if "label" in variable else {}),
            }
        problem = ""
        try:
            out[name] = as_variable(name, variable)
        except SchemaError as error:
            problem = str(error)
        if problem:
            raise SchemaError(f"{Path(file).name}: {name}: {problem}")
    return out
