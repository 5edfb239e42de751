# To Python and back. Columns go as raw bytes, because reticulate sends a missing integer as
# -2147483648 and a missing text as "NA"; results come back as lists.

state <- new.env(parent = emptyenv())

# The Python side, dpmodels.interop.r, imported when it is first needed.
bridge <- function() {
  if (is.null(state$bridge)) {
    state$bridge <- tryCatch(import("dpmodels.interop.r"), error = function(e) {
      where <- if (py_available()) py_config()$python else "no Python"
      refuse("the Python package dpmodels cannot be loaded (", where, ": ",
             strsplit(conditionMessage(e), "\n")[[1]][1], "). Install it (pip install .), and say ",
             "before the first call which Python has it: ",
             "reticulate::use_python(\".venv/bin/python\")")
    })
  }
  state$bridge
}

refuse <- function(...) {
  stop(structure(
    class = c("dpmodels_error", "error", "condition"), list(message = paste0(...), call = NULL)
  ))
}

# Run a function of Python, or with `record` a method of a fit or of a budget. Its warnings become
# warnings, its error an error, with their text.
python <- function(name, arguments = list(), record = NULL, positional = list()) {
  owner <- if (is.character(record)) list(r_fit = record) else record
  answer <- bridge()$run(name, as_dict(arguments), owner, positional)
  for (one in answer$warnings) {
    warning(structure(
      class = c(one[[2]], "dpmodels_warning", "warning", "condition"),
      list(message = in_r(one[[1]]), call = NULL)
    ))
  }
  if (nzchar(answer$error)) {
    stop(structure(
      class = c(unlist(answer$kind), "dpmodels_error", "error", "condition"),
      list(message = in_r(answer$error), call = NULL)
    ))
  }
  answer$value
}

# A named list is a dictionary of Python, also without entries.
as_dict <- function(x) {
  if (length(x) == 0) reticulate::dict() else x
}

# -- Arguments

# Arguments of a call, by name, for Python: NULL is left out.
arguments_of <- function(given) {
  given <- given[!vapply(given, is.null, NA)]
  if (length(given) > 0 && (is.null(names(given)) || any(names(given) == ""))) {
    refuse("arguments after the data are given by name, for example eps = 1, delta = 1e-6")
  }
  mapply(argument, given, names(given), SIMPLIFY = FALSE)
}

argument <- function(value, name) {
  if (inherits(value, "dp_budget")) {
    return(budget_object(value))
  }
  if (inherits(value, "dp_fit")) {
    return(list(r_fit = value$record))
  }
  if (is.null(value)) {
    return(NULL)
  }
  if (inherits(value, "formula")) {
    return(expression_text(value))
  }
  if (is.data.frame(value)) {
    return(columns(value))
  }
  if (inherits(value, "python.builtin.object")) {
    return(value)
  }
  if (is.factor(value)) {
    value <- as.character(value)
  }
  if (inherits(value, c("Date", "POSIXct"))) {
    value <- date_text(value)
  }
  if (is.list(value)) {
    return(as_dict_or_list(if (name == "schema") schema_argument(value) else value, name))
  }
  if (!is.atomic(value)) {
    refuse("argument ", name, " is a ", class(value)[1],
           ": numbers, text, TRUE or FALSE, a named list, or a one-sided formula are read")
  }
  if (anyNA(value)) {
    refuse("argument ", name, " holds NA")
  }
  if (!is.null(names(value))) {
    return(as_dict_or_list(as.list(value), name))
  }
  if (is.character(value)) {
    value <- gsub("(Intercept)", "Intercept", value, fixed = TRUE)
  }
  if (length(value) == 1) value else as.list(value)
}

as_dict_or_list <- function(value, name) {
  inner <- paste0(name, if (is.null(names(value))) "" else "$", names(value))
  if (!is.null(names(value))) names(value) <- sub("^\\(Intercept\\)$", "Intercept", names(value))
  as_dict(mapply(argument, value, inner, SIMPLIFY = FALSE))
}

# list(x = c(0, 1), g = c("a", "b")): a pair of numbers or dates is a range, text are levels, and
# c(FALSE, TRUE) is a logical column. More is said by a list, list(type = "count", upper = 10).
schema_argument <- function(schema) {
  if (length(schema) > 0 && (is.null(names(schema)) || any(names(schema) == ""))) {
    refuse("a schema is a list with a name for each variable: list(x = c(0, 1), g = c(\"a\", \"b\"))")
  }
  Map(function(entry, name) {
    if (anyNA(unlist(entry))) {
      refuse("schema: the declaration of ", name, " holds NA")
    }
    if (inherits(entry, c("Date", "POSIXct")) && length(entry) == 2) {
      ends <- date_text(entry)
      return(list(type = "date", lower = ends[1], upper = ends[2]))
    }
    if (inherits(entry, "difftime") && length(entry) == 2) {
      unit <- sub("^mins$", "minutes", sub("^secs$", "seconds", units(entry)))
      ends <- as.numeric(entry)
      return(list(type = "real", lower = ends[1], upper = ends[2], duration = unit))
    }
    if (is.list(entry) || inherits(entry, "python.builtin.object")) entry else as.list(unname(entry))
  }, schema, names(schema))
}

# A POSIXct is an instant: it is read and written in UTC.
date_text <- function(x) {
  if (inherits(x, "Date")) format(x, "%Y-%m-%d") else format(x, "%Y-%m-%d %H:%M:%S", tz = "UTC")
}

# -- Columns

# What Python makes a frame of: names, and the kind and bytes of each column.
columns <- function(data, mentioned = NULL) {
  if (is.null(names(data))) {
    refuse("`data` is a data frame, or a list of columns with names")
  }
  kinds <- vapply(data, column_kind, "")
  if (!is.null(mentioned)) { # a column of another class is a refusal only if the call names it
    named <- vapply(names(data), function(name) any(grepl(name, mentioned, fixed = TRUE)), NA)
    data <- unclass(data)[kinds != "" | named]
    kinds <- vapply(data, column_kind, "")
  }
  for (place in which(kinds == "")) {
    refuse("column ", names(data)[place], " is a ", class(data[[place]])[1],
           ": numbers, text, factors, logicals, dates (Date, POSIXct), difftime and integer64 are ",
           "read. ",
           "Convert it first, for example with as.numeric()")
  }
  if (length(unique(lengths(unclass(data)))) > 1) {
    refuse("the columns of `data` have different lengths")
  }
  list(
    names = as.list(names(data)),
    r_columns = unname(Map(column_bytes, unclass(data), kinds))
  )
}

# The kind depends on the class of a column alone, not on its cells.
column_kind <- function(x) {
  if (!is.null(dim(x))) return("")
  if (is.factor(x)) return("text")
  if (inherits(x, "Date")) return("date")
  if (inherits(x, "POSIXct")) return("time")
  if (inherits(x, "difftime")) return("duration")
  if (inherits(x, "integer64")) return("integer64")
  if (length(setdiff(class(x), c(plain_classes, "AsIs", "haven_labelled", "labelled", "vctrs_vctr"))) > 0) {
    return("")
  }
  switch(typeof(x), integer = , double = "number", character = "text", logical = "logical", "")
}
plain_classes <- c("numeric", "integer", "double", "character", "logical")

column_bytes <- function(x, kind) {
  switch(kind,
    number = , date = , time = list(kind = kind, cells = writeBin(as.double(unclass(x)), raw())),
    integer64 = , logical = list(kind = kind, cells = writeBin(as.vector(unclass(x)), raw())),
    duration = list(kind = kind, cells = writeBin(as.double(x, units = "secs"), raw())),
    text = text_bytes(x)
  )
}

# Codes and the texts that they stand for. Text that is not UTF-8 is no level of anything.
text_bytes <- function(x) {
  texts <- if (is.factor(x)) levels(x) else unique(as.vector(unclass(x)))
  clean <- utf8(texts)
  levels <- unique(clean[!is.na(clean)])
  codes <- match(clean, levels)
  codes <- if (is.factor(x)) codes[as.integer(x)] else codes[match(as.vector(unclass(x)), texts)]
  list(kind = "text", cells = writeBin(codes, raw()), levels = as.list(levels))
}

utf8 <- function(x) {
  x[Encoding(x) == "bytes"] <- "\ufffd"
  x <- enc2utf8(x)
  x[!validUTF8(x)] <- "\ufffd"
  x
}

# -- Results

# The data frame of what Python sends of a frame.
as_frame <- function(sent) {
  frame <- lapply(as.list(sent$cells), vector_of)
  names(frame) <- unlist(sent$columns)
  structure(frame, class = "data.frame", row.names = seq_along(unlist(sent$rows)))
}

as_matrix <- function(sent) {
  cells <- matrix(unlist(lapply(as.list(sent$cells), vector_of)), length(unlist(sent$rows)))
  dimnames(cells) <- lapply(list(unlist(sent$rows), unlist(sent$columns)), as_term)
  cells
}

as_named <- function(sent) {
  setNames(vector_of(sent$values), as_term(unlist(sent$names)))
}

# A vector of numbers, logicals or text, in which nothing is NA.
vector_of <- function(cells) {
  cells <- unlist(lapply(cells, function(cell) if (is.null(cell)) NA else cell))
  if (is.numeric(cells)) cells[is.nan(cells)] <- NA
  if (is.null(cells)) numeric(0) else if (is.character(cells)) as_term(cells) else cells
}

# The name of a constant is that of R.
as_term <- function(x) sub("(^|:)Intercept$", "\\1(Intercept)", x)
