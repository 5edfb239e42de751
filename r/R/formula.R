# From a formula of R to the text of the same formula in Python. Reads no data.

# Words of Python that cannot be the name of a variable without backticks.
reserved <- c(
  "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
  "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in",
  "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield"
)

# How tightly an operator binds; a part that binds less is put in brackets.
binding <- c(
  "~" = 1, "|" = 2, "||" = 2, "&" = 3, "&&" = 3, "!" = 4, "==" = 5, "!=" = 5, "<" = 5, ">" = 5,
  "<=" = 5, ">=" = 5, "%in%" = 5, "+" = 6, "-" = 6, "*" = 7, "/" = 7, "%%" = 7, "%/%" = 7, ":" = 8,
  "^" = 10
)
comparisons <- c("==", "!=", "<", ">", "<=", ">=")

# Functions that have another name in Python.
renamed <- c(as.factor = "C", factor = "C", pmin = "minimum", pmax = "maximum", plogis = "logistic",
             atan = "arctan")

# Write a formula of R as the text that the Python package reads.
formula_text <- function(x) {
  if (!inherits(x, "formula")) {
    return(x)
  }
  sides <- as.list(x)[-1]
  text <- vapply(sides, side_text, "")
  if (length(text) == 1) paste("~", text) else paste(text, collapse = " ~ ")
}

# A one-sided formula as an argument is an expression, such as subset = ~ age > 50.
expression_text <- function(x) {
  if (length(x) != 2) {
    refuse("an expression has one side, as in subset = ~ age > 50; got ", deparse_short(x))
  }
  if (is.name(x[[2]])) as.character(x[[2]]) else written(x[[2]], inside = TRUE)
}

side_text <- function(x) {
  operator <- if (is.call(x) && is.name(x[[1]])) as.character(x[[1]]) else ""
  if (operator %in% c(comparisons, "!", "&", "&&", "||") || is_member(x)) {
    return(paste0("I(", written(x, inside = TRUE), ")"))
  }
  written(x, inside = FALSE)
}

# Whether x is `g %in% c("a", "b")`, and not the nesting of two terms.
is_member <- function(x) {
  is.call(x) && identical(x[[1]], as.name("%in%")) &&
    (is.character(x[[3]]) || (is.call(x[[3]]) && identical(x[[3]][[1]], as.name("c"))))
}

# `inside`: within a function, where operators compute; outside they join terms.
written <- function(x, inside) {
  if (is.name(x)) {
    return(name_text(as.character(x)))
  }
  if (!is.call(x)) {
    return(constant_text(x))
  }
  if (is.call(x[[1]])) {
    return(call_text(x, inside))
  }
  operator <- as.character(x[[1]])
  if (operator == "(") {
    return(paste0("(", written(x[[2]], inside), ")"))
  }
  if (operator == "{") {
    return(paste0("{", written(x[[2]], TRUE), "}"))
  }
  if (operator %in% c("$", "[[", "[", "@")) {
    refuse("a formula names columns of `data`: write the name of the column instead of ",
           deparse_short(x))
  }
  if (!inside && (is_member(x) || operator %in% c(comparisons, "!", "&", "&&"))) {
    return(paste0("I(", written(x, TRUE), ")"))
  }
  if (operator %in% names(binding)) {
    return(operator_text(x, operator, inside))
  }
  call_text(x, inside)
}

operator_text <- function(x, operator, inside) {
  own <- binding[[operator]]
  if (length(x) == 2) { # a sign, or a negation
    if (operator == "!") {
      return(paste0("~(", written(x[[2]], TRUE), ")"))
    }
    return(paste0(operator, part_text(x[[2]], if (operator == "~") own else 9, inside)))
  }
  if (inside && operator == ":") {
    return(constant_text(c(range_of(x))))
  }
  left <- part_text(x[[2]], own + (operator == "^"), inside)
  right <- part_text(x[[3]], own + (operator != "^"), inside)
  infix <- switch(operator,
    "^" = "**", "&" = , "&&" = if (inside) " and " else " & ",
    "|" = , "||" = if (inside) " or " else " | ",
    "%in%" = if (inside) " in " else " %in% ", "%%" = " % ", "%/%" = " // ", ":" = ":",
    paste0(" ", operator, " ")
  )
  if (inside && operator == "^") infix <- " ** "
  paste0(left, infix, right)
}

range_of <- function(x) {
  ends <- list(x[[2]], x[[3]])
  if (!all(vapply(ends, is.numeric, NA))) {
    refuse("inside a function a:b is a range of two numbers; got ", deparse_short(x))
  }
  ends[[1]]:ends[[2]]
}

part_text <- function(x, least, inside) {
  text <- written(x, inside)
  if (is.call(x) && is.name(x[[1]]) && !is_wrapped(x, inside)) {
    operator <- as.character(x[[1]])
    own <- if (length(x) == 2 && operator %in% c("+", "-")) 9 else binding[operator]
    if (!is.na(own) && own < least) {
      return(paste0("(", text, ")"))
    }
  }
  text
}

# Outside a function a comparison is written as I(...), which needs no brackets.
is_wrapped <- function(x, inside) {
  !inside && (is_member(x) || as.character(x[[1]]) %in% c(comparisons, "!", "&", "&&"))
}

call_text <- function(x, inside) {
  fun <- function_name(x[[1]])
  parts <- as.list(x)[-1]
  if (fun == "c") {
    return(paste0("[", paste(vapply(parts, written, "", inside = TRUE), collapse = ", "), "]"))
  }
  if (fun == "ifelse" && length(parts) == 3 && identical(parts[[2]], 1) &&
        identical(parts[[3]], 0)) {
    text <- written(parts[[1]], TRUE)
    return(if (inside) paste0("(", text, ")") else paste0("I(", text, ")"))
  }
  if (fun == "relevel" && length(parts) == 2) {
    return(paste0("C(", written(parts[[1]], TRUE), ", Treatment(", written(parts[[2]], TRUE), "))"))
  }
  if (fun %in% names(renamed)) {
    fun <- renamed[[fun]]
  }
  named <- if (is.null(names(parts))) rep("", length(parts)) else names(parts)
  text <- vapply(parts, written, "", inside = TRUE)
  paste0(fun, "(", paste0(ifelse(named == "", "", paste0(named, "=")), text, collapse = ", "), ")")
}

# `survival::Surv` is Surv.
function_name <- function(x) {
  if (is.call(x) && as.character(x[[1]]) %in% c("::", ":::")) {
    return(as.character(x[[3]]))
  }
  if (!is.name(x)) {
    refuse("a formula calls functions by name; got ", deparse_short(x))
  }
  as.character(x)
}

name_text <- function(name) {
  if (name == ".") {
    refuse("`.` is not read: columns are not chosen by what the data hold. Write the terms out, ",
           "for example y ~ a + b")
  }
  if (name %in% c("TRUE", "T")) return("True")
  if (name %in% c("FALSE", "F")) return("False")
  if (grepl("^[A-Za-z_][A-Za-z0-9_]*$", name) && !name %in% reserved) name else paste0("`", name, "`")
}

constant_text <- function(x) {
  if (length(x) != 1) {
    return(paste0("[", paste(vapply(as.list(x), constant_text, ""), collapse = ", "), "]"))
  }
  if (is.na(x)) {
    refuse("NA cannot be written in a formula: a row with a missing cell is dropped by itself")
  }
  if (is.logical(x)) {
    return(if (x) "True" else "False")
  }
  if (is.character(x)) {
    return(paste0("'", gsub("(['\\\\])", "\\\\\\1", x), "'"))
  }
  if (!is.numeric(x)) {
    refuse("a formula holds numbers, text, TRUE and FALSE; got ", deparse_short(x))
  }
  number_text(x)
}

# The fewest digits that read back as the same number.
number_text <- function(x) {
  if (x == round(x) && abs(x) < 1e15) {
    return(format(x, scientific = FALSE, trim = TRUE))
  }
  for (digits in 1:17) {
    text <- formatC(x, digits = digits, format = "g", width = 1, decimal.mark = ".")
    if (as.numeric(text) == x) break
  }
  text
}

deparse_short <- function(x) {
  text <- paste(deparse(x, width.cutoff = 60L), collapse = " ")
  if (nchar(text) > 60) paste0(substr(text, 1, 57), "...") else text
}
