# What Python says to type, as it is typed in R: dp.Levels(['a', 'b']) is c("a", "b").

# One list, pair or dictionary of Python that holds no other; an item of it.
item <- "(?:'[^']*'|\"[^\"]*\"|-?[\\d.]+(?:e[-+]?\\d+)?|\\w+|\\.{3}|(?:c|list|as\\.Date)\\([^()]*\\))"
items <- paste0("(?:", item, "(?:, ", item, ")*)")
# From left to right: `?=`, `(`, `, ` or `: ` stands before a value; [0, 1] in running text is none.
advice <- c(
  "\\*\\*" = "^", "\\bTrue\\b" = "TRUE", "\\bFalse\\b" = "FALSE", "([=(,] ?)None\\b" = "\\1NULL",
  "(?<![\\w.])\\{([^{}'\"]*[<>=][^{}]*)\\}" = "\\1", # {y > 1} ~ x
  "\\[([A-Za-z]\\w*(?:, \\w+)*)\\](?=\\))" = "list(\\1)", # pool([m1, m2])
  "\\bdp\\.Levels\\(\\[\\.{3}\\]\\)" = "c(\"a\", \"b\", ...)",
  "((?:[=(]|, |': ) ?)\\[(@)\\]" = "\\1c(\\2)", "(?<= )\\[(?=['.])(@)\\]" = "c(\\1)",
  "(=|': ?)\\(([^()]*, NULL|NULL, [^()]*)\\)" = "\\1list(\\2)",
  "((?:=|': ) ?)\\((@)\\)" = "\\1c(\\2)",
  "\\bdp\\.Levels\\(c\\((?=-?\\d)([^()]*)\\)\\)" = "list(type = \"levels\", levels = c(\\1))",
  "\\bdp\\.Levels\\((@)\\)" = "\\1", "\\bdp\\.Levels\\(\\)" = "list(type = \"levels\")",
  "\\bdp\\.Binary\\(\\)" = "c(FALSE, TRUE)",
  "\\bdp\\.Binary\\(\\((@)\\)\\)" = "list(type = \"binary\", levels = c(\\1))",
  "\\b(?:dp\\.)?Real\\(lower=([^,]*), upper=([^)]*)\\)" = "c(\\1, \\2)",
  "\\bdp\\.Real\\(([^()]*)\\)" = "c(\\1)",
  "\\bdp\\.Count\\(([^()]*)\\)" = "list(type = \"count\", upper = \\1)",
  "\\bdp\\.Ordered\\((@)\\)" = "list(type = \"ordered\", levels = \\1)",
  "\\bdp\\.Date\\(([^()]*)\\)" = "as.Date(c(\\1))",
  "\\bdp\\.(?:Schema|Survey)\\b" = "list",
  "([{,] ?)['\"](\\w+)['\"]: " = "\\1\\2 = ", "\\{(\\w+ = [^{}]*)\\}" = "list(\\1)",
  "\\b(?:dp\\.)?dp_ols\\b" = "dp_lm", "\\bdp\\.dp_" = "dp_", "\\bdp\\.Budget\\b" = "dp_budget",
  "\\bdp\\.(?=etable)" = "", "\\bdp\\.(?=[a-z])" = "dp_", "(?<![\\w.])(pool|meta)\\(" = "dp_\\1(",
  "\\bfit\\.(\\w+(?:\\.\\w+)*)\\(\\)" = "dp_result(fit, \"\\1\")",
  "\\bfit\\.(\\w+(?:\\.\\w+)*)\\(" = "dp_result(fit, \"\\1\", ",
  ",( *(?:#[^\\n]*)?\\n *\\))" = "\\1" # no comma after the last argument
)

in_r <- function(text) {
  for (rule in names(advice)) {
    text <- gsub(gsub("@", items, rule, fixed = TRUE), advice[[rule]], text, perl = TRUE)
  }
  text
}
