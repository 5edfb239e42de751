# The verbs: each hands its arguments to the Python function, and keeps what R keeps of a fit.

# A function with the name of Python's verb, and its own arguments between `delta` and `schema`.
verb <- function(name, ...) {
  own <- as.list(sys.call())[-(1:2)]
  shared <- alist(formula = , data = , eps = NULL, delta = NULL)
  given <- c(shared, own, alist(schema = NULL, bounds = NULL, budget = NULL, seed = NULL, ... = ))
  sent <- lapply(setdiff(names(given), c("formula", "data", "...")), as.name)
  names(sent) <- vapply(sent, as.character, "")
  body <- as.call(c(quote(fit_of), name, quote(formula), quote(data), sent, quote(...)))
  as.function(c(given, body), envir = topenv())
}

dp_lm <- verb("dp_ols")
dp_glm <- verb("dp_glm", family = "binomial")
dp_quantreg <- verb("dp_quantreg", tau = 0.5)
dp_coxph <- verb("dp_coxph")
dp_survfit <- verb("dp_survfit")
dp_survdiff <- verb("dp_survdiff")
dp_table <- verb("dp_table", by = NULL)
dp_mean <- verb("dp_mean")
dp_quantile <- verb("dp_quantile", q = 0.5)
dp_moments <- verb("dp_moments")
dp_test <- verb("dp_test")
dp_feols <- verb("dp_feols")
dp_fepois <- verb("dp_fepois")
dp_iv <- verb("dp_iv")
dp_polr <- verb("dp_polr")
dp_multinom <- verb("dp_multinom")
dp_ate <- verb("dp_ate", treatment = "", propensity = NULL, estimand = "ATE")

# A column, or a comparison, which Python wants in braces: ~ arm == "drug" is {arm == 'drug'}.
treatment_text <- function(treatment) {
  if (!inherits(treatment, "formula")) {
    return(treatment)
  }
  text <- expression_text(treatment)
  if (is.name(treatment[[length(treatment)]])) text else paste0("{", text, "}")
}

# A one-sided formula as a formula reads it, so that I(x^2) is I(x ** 2); text as it is.
right_hand_side <- function(formula) {
  if (inherits(formula, "formula")) sub("^~ *", "", formula_text(formula)) else formula
}

# Plan a study before there are data.
dp_plan <- function(formula, schema = NULL, n = NULL, eps = NULL, delta = NULL, verb = "dp_lm",
                    ...) {
  sent <- python("plan", arguments_of(as_typed(list(
    formula = formula_text(formula), schema = schema, n = n, eps = eps, delta = delta,
    verb = if (identical(verb, "dp_lm")) "dp_ols" else verb, ...
  ))))
  structure(
    list(text = sent$text, verdict = sent$verdict, columns = as_frame(sent$columns),
         shares = as_named(sent$shares), scales = as_named(sent$scales)),
    class = "dp_plan"
  )
}

# Keep a privacy budget that several calls are charged to.
dp_budget <- function(eps = NULL, delta = NULL, path = NULL, ...) {
  given <- arguments_of(list(eps = eps, delta = delta, ...))
  if (is.null(path)) {
    return(structure(list(object = python("Budget", given), path = NULL), class = "dp_budget"))
  }
  path <- normalizePath(path, mustWork = FALSE)
  structure(list(object = python("Budget.open", c(list(path = path), given)), path = path),
            class = "dp_budget")
}

# The budget in Python; that of a file is opened again in a later session.
budget_object <- function(budget) {
  if (!is.null(budget$path)) {
    return(python("Budget.open", list(path = budget$path)))
  }
  if (!reticulate::py_is_null_xptr(budget$object)) {
    return(budget$object)
  }
  refuse("a budget in memory ends with its session: keep it in a file, dp_budget(..., path = ",
         "\"study.ledger\")")
}

# Ask a fit, a budget or a result for what has no function of its own here.
dp_result <- function(fit, name, ...) ask(name, list(...), owner_of(fit))

owner_of <- function(x) {
  if (inherits(x, "dp_budget")) return(budget_object(x))
  if (inherits(x, "dp_fit")) return(x$record)
  if (inherits(x, "dp_text") && !is.null(x$object) && !reticulate::py_is_null_xptr(x$object)) {
    return(x$object)
  }
  refuse("a fit, a budget, or a result that was made in this session is asked; got ", class(x)[1])
}

ask <- function(name, given, owner = NULL) {
  unnamed <- if (is.null(names(given))) rep(TRUE, length(given)) else names(given) == ""
  positional <- lapply(unname(given[unnamed]), argument, name = "in its place")
  shaped(python(name, arguments_of(given[!unnamed]), owner, positional))
}

# Functions of fits, and methods of a fit, by their name in Python.
calling <- function(name) function(...) ask(name, list(...))
asking <- function(name) function(fit, ...) dp_result(fit, name, ...)

etable <- calling("etable")
dp_pool <- calling("pool")
dp_meta <- calling("meta")
dp_levels <- calling("dp_levels")
dp_load <- calling("load")
dp_methods <- calling("methods")
dp_adjusted_curves <- asking("adjusted_curves")
dp_hypotheses <- asking("hypotheses")
dp_inline <- asking("inline")

# What an attacker gains from a fit, from a budget, or from a pair (eps, delta).
dp_explain <- function(x = NULL, ...) {
  if (is.null(x)) return(ask("explain", list(...)))
  dp_result(x, if (inherits(x, "dp_fit")) "privacy.explain" else "explain", ...)
}

# A step of a study: what `dpmodels study` does on the command line.
dp_study <- function(step, ...) {
  given <- lapply(list(...), formula_text)
  if (!step %in% c("new", "check", "inspect", "rehearse", "run", "verify", "join")) {
    refuse("a step is new, check, inspect, rehearse, run, verify or join: ",
           "dp_study(\"check\", \"study.toml\"); got ", step)
  }
  if (step %in% c("new", "verify", "join")) return(ask(paste0("Study.", step), given))
  ask(step, given[-1], python("Study.read", positional = unname(given[1])))
}

# Run a verb of Python and keep what R keeps of a fit: no data, and no environment that holds any.
fit_of <- function(verb, formula, data, ...) {
  given <- arguments_of(as_typed(list(...)))
  formula <- formula_text(formula)
  mentioned <- c(formula, rapply(given, identity, classes = "character", how = "unlist"))
  as_fit(python(verb, given, positional = list(
    if (length(formula) > 1) as.list(formula) else formula, data_argument(data, mentioned)
  )))
}

# Arguments that are typed as in R. binomial("probit") is family = "binomial", link = "probit".
as_typed <- function(given) {
  given$treatment <- treatment_text(given$treatment)
  given$propensity <- right_hand_side(given$propensity)
  family <- given[["family"]]
  if (is.function(family)) {
    family <- tryCatch(family(), error = function(e) {
      refuse("family is a name, or a family of R such as binomial(\"probit\")")
    })
  }
  if (inherits(family, "family")) {
    given$family <- tolower(family$family)
    given$link <- family$link
  }
  given
}

as_fit <- function(sent) {
  structure(
    list(
      record = sent$record, verb = sent$verb, formula = sent$formula,
      nobs = if (is.null(sent$nobs)) NA_real_ else sent$nobs, statement = sent$statement,
      ledger = as_frame(sent$ledger)
    ),
    class = c(sent$verb, "dp_fit")
  )
}

# A data frame, a list of columns, the path of a file, a release, or an object of Python.
data_argument <- function(data, mentioned = NULL) {
  if (inherits(data, c("dp_fit", "python.builtin.object"))) {
    return(argument(data))
  }
  if (is.character(data)) {
    return(if (length(data) > 1) as.list(data) else data)
  }
  if (!is.list(data)) {
    refuse("`data` is a data frame, a list of columns, or the path of a Parquet or CSV file; got ",
           "an object of class ", class(data)[1])
  }
  columns(data, mentioned)
}
