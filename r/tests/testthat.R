library(testthat)
library(dpmodels)

test_check("dpmodels")
