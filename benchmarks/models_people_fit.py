"""The models of ``real_models.py``: (table, formula, verb and options), by what is hard about them.

``tuned`` were looked at while rules and constants were chosen, ``aside`` are of tables that were
set aside before the first run: looked at once, when everything was frozen.
"""

from __future__ import annotations

#: Columns made of a table's own, by thresholds: name -> (table, column, comparison, threshold).
MADE = {
    "gain": ("adult", "capital_gain", ">", 0),
    "long_hours": ("adult", "hours_per_week", ">", 60),
    "late": ("credit_default", "PAY_0", ">", 2),
    "rich": ("credit_default", "LIMIT_BAL", ">", 450_000),
    "few_bikes": ("bike_sharing_hour", "cnt", "<", 4),
    "crowd": ("bike_sharing_hour", "cnt", ">", 650),
    "poor_wine": ("winequality", "quality", "<", 5),
    "often": ("rand_hie", "mdvis", ">", 12),
    "twice": ("nmes1988_visits", "hospital", ">", 1),
    "dear": ("meps_drugexp", "drugexp", ">", 5_000),
    "high_wage": ("cps1988_wage", "wage", ">", 1_600),
    "low_wage": ("cps_earnings_sw8", "earnings", "<", 5.5),
    "coast": ("california_housing", "MedInc", ">", 9),
    "stay": ("rwm5yr", "hospvis", ">", 0),
    "stays": ("rwm5yr", "hospvis", ">", 1),
    "visits20": ("rwm5yr", "docvis", ">", 15),
    "rare_work": ("fertility2", "work", ">", 51),
    "young": ("fertility2", "age", "<", 24),
    "week20": ("injury", "durat", ">", 40),
    "weak": ("vocab", "vocabulary", "<", 2),
    "strong": ("vocab", "vocabulary", ">", 9),
    "low_pay": ("males", "wage", "<", 0.7),
    "dear_pc": ("computers", "price", ">", 3_500),
}
OLS, LOGIT, POISSON = ("ols", {}), ("glm", {}), ("glm", {"family": "poisson"})
PROBIT, CLOGLOG = ("glm", {"link": "probit"}), ("glm", {"link": "cloglog"})
NEGATIVE = ("glm", {"family": "negative_binomial"})
MEDIAN, HIGH = ("quantreg", {"tau": 0.5}), ("quantreg", {"tau": 0.9})
HUBER = ("mest", {"loss": "huber"})
_LATE = "LIMIT_BAL + C(EDUCATION) + C(MARRIAGE) + SEX + AGE"
_NMES = "health + adl + region + age + afam + gender + married + school + income + employed"
_MEPS = "totchr + age + female + blhisp + linc + hi_empunion + marry + vegood + good + fair + poor"
_MALES = "school + exper + I(exper**2) + union + ethn + maried + health"
_MEDINC = "MedInc + I(MedInc**2) + HouseAge + AveRooms + AveBedrms + Latitude + Longitude"
_ADULT = "C(occupation) + C(workclass)"

WIDE = {
    "tuned": {
        "hours by work": ("adult", f"hours_per_week ~ age + education_num + sex + {_ADULT}", OLS),
        "hours by home": (
            "adult", "hours_per_week ~ age + I(age**2) + C(marital_status) + C(race) + sex", OLS
        ),
        "age": ("adult", "age ~ C(education) + C(marital_status) + sex + hours_per_week", OLS),
        "wage": (
            "cps1988_wage",
            "log(wage) ~ education + experience + I(experience**2) + ethnicity + region + parttime "
            "+ smsa", OLS,
        ),
        "wage by region": (
            "cps1988_wage", "log(wage) ~ education*region + experience*parttime + smsa", OLS
        ),
        "earnings": ("cps_earnings_sw8", "log(earnings) ~ education*gender + age*region", OLS),
        "bikes by hour": ("bike_sharing_hour", "cnt ~ C(hr) + C(season) + temp + hum + windspeed", OLS),
        "bikes by month": (
            "bike_sharing_hour", "cnt ~ C(mnth) + C(weekday) + C(weathersit) + temp + hum", OLS
        ),
        "limit": ("credit_default", "LIMIT_BAL ~ AGE + C(EDUCATION) + C(MARRIAGE) + SEX + PAY_0", OLS),
        "credit age": ("credit_default", "AGE ~ C(EDUCATION) + C(MARRIAGE) + C(SEX) + C(PAY_0)", OLS),
        "houses": ("california_housing", f"MedHouseVal ~ {_MEDINC}", OLS),
        "wine": (
            "winequality",
            "quality ~ fixed_acidity + volatile_acidity + citric_acid + residual_sugar + chlorides "
            "+ total_sulfur_dioxide + density + pH + sulphates + alcohol + color", OLS,
        ),
        "doctor": (
            "rand_hie", "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
            OLS,
        ),
        "drugs": ("meps_drugexp", f"ldrugexp ~ {_MEPS}", OLS),
        "visits": ("nmes1988_visits", f"visits ~ {_NMES} + chronic", OLS),
        "protein": ("protein", "RMSD ~ F1 + F2 + F3 + F4 + F5 + F6 + F7 + F8 + F9", OLS),
        "robot": (
            "kin8nm",
            "y ~ theta1 + theta2 + theta3 + theta4 + theta5 + theta6 + theta7 + theta8 "
            "+ I(theta3**2) + theta3:theta5", OLS,
        ),
        "all factors": ("adult", "hours_per_week ~ C(education) + C(occupation) + C(race) + sex", OLS),
    },
    "aside": {
        "males": ("males", f"wage ~ {_MALES} + C(industry) + C(occupation)", OLS),
        "males years": ("males", f"wage ~ {_MALES} + C(year)", OLS),
        "vocabulary": ("vocab", "vocabulary ~ education + sex + C(year)", OLS),
        "vocabulary squares": ("vocab", "vocabulary ~ education + I(education**2) + sex*education + C(year)", OLS),
        "star": ("star", "math3 ~ gender + ethnicity + star3 + lunch3 + school3 + degree3 + experience3", OLS),
        "star ladder": ("star", "read1 ~ gender + star1 + lunch1 + school1 + ladder1 + experience1", OLS),
        "computers": (
            "computers", "price ~ speed + hd + ram + C(screen) + cd + multi + premium + ads + trend", OLS
        ),
        "computers ram": ("computers", "price ~ C(speed) + C(ram) + C(screen) + premium + trend", OLS),
        "schooling": (
            "schooling", "gfill76 ~ black + C(region) + smsa66 + daded + momed + momdad14 + num_sib + age66",
            OLS,
        ),
        "injury": (
            "injury",
            "ldurat ~ afchnge*highearn + male + married + hosp + C(indust) + C(injtype) + age + lprewage",
            OLS,
        ),
        "children": ("fertility2", "work ~ morekids + gender1*gender2 + C(age) + afam + hispanic + other", OLS),
        "income": ("rwm5yr", "hhninc ~ age + I(age**2) + female*married + kids + educ + self + C(year) + C(edlevel)", OLS),
    },
}
FACTORS = {
    "tuned": {
        "income logit": ("adult", "event ~ age + education_num + C(marital_status) + C(race) + sex", LOGIT),
        "income logit work": ("adult", f"event ~ age + education_num + sex + {_ADULT}", LOGIT),
        "default logit": ("credit_default", f"default ~ PAY_0 + {_LATE}", LOGIT),
        "visits poisson": ("nmes1988_visits", f"visits ~ {_NMES} + chronic", POISSON),
        "bikes poisson": ("bike_sharing_hour", "cnt ~ C(season) + C(weathersit) + C(weekday) + temp + hum", POISSON),
        "doctor poisson": (
            "rand_hie", "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
            POISSON,
        ),
    },
    "aside": {
        "morekids logit": ("fertility2", "morekids ~ age + gender1*gender2 + afam + hispanic + other + C(work_band)", LOGIT),
        "union logit": ("males", "union ~ school + exper + ethn + maried + C(industry)", LOGIT),
        "outwork logit": ("rwm5yr", "outwork ~ age + I(age**2) + female*married + kids + educ + C(year) + C(edlevel)", LOGIT),
        "docvis poisson": ("rwm5yr", "docvis ~ age + female*married + kids + educ + self + C(year) + C(edlevel)", POISSON),
    },
}  # fmt: skip
RARE = {
    "tuned": {
        "gain": ("adult", "gain ~ age + education_num + sex", LOGIT),
        "long hours": ("adult", "long_hours ~ age + education_num + sex", LOGIT),
        "long hours work": ("adult", "long_hours ~ age + education_num + sex + C(workclass)", LOGIT),
        "late": ("credit_default", "late ~ AGE + LIMIT_BAL", LOGIT),
        "late probit": ("credit_default", "late ~ AGE + LIMIT_BAL", PROBIT),
        "rich": ("credit_default", "rich ~ AGE + C(MARRIAGE) + SEX", LOGIT),
        "few bikes": ("bike_sharing_hour", "few_bikes ~ temp + hum + windspeed", LOGIT),
        "crowd": ("bike_sharing_hour", "crowd ~ temp + hum + workingday", LOGIT),
        "poor wine": ("winequality", "poor_wine ~ alcohol + volatile_acidity + color", LOGIT),
        "often": ("rand_hie", "often ~ lncoins + disea + physlm", LOGIT),
        "often cloglog": ("rand_hie", "often ~ lncoins + disea", CLOGLOG),
        "twice": ("nmes1988_visits", "twice ~ chronic + age + gender", LOGIT),
        "dear": ("meps_drugexp", "dear ~ totchr + age + female", LOGIT),
        "high wage": ("cps1988_wage", "high_wage ~ education + experience", LOGIT),
        "low wage": ("cps_earnings_sw8", "low_wage ~ age + education + gender", LOGIT),
        "low wage probit": ("cps_earnings_sw8", "low_wage ~ age + education + gender", PROBIT),
        "emergency": ("nmes1988_visits", "emergency ~ chronic + age + gender", POISSON),
        "hospital": ("nmes1988_visits", "hospital ~ chronic + age + school", POISSON),
        "hospital nb": ("nmes1988_visits", "hospital ~ chronic + age + school", NEGATIVE),
        "ovisits": ("nmes1988_visits", "ovisits ~ chronic + age + school + gender", POISSON),
        "stays of few": ("rand_hie", "often ~ lncoins + disea + hlthg", POISSON),
    },
    "aside": {
        "stay": ("rwm5yr", "stay ~ age + female + educ", LOGIT),
        "stays": ("rwm5yr", "stays ~ age + female + outwork", LOGIT),
        "stays probit": ("rwm5yr", "stay ~ age + female + outwork + married", PROBIT),
        "visits20": ("rwm5yr", "visits20 ~ age + female + educ + outwork", LOGIT),
        "hospvis": ("rwm5yr", "hospvis ~ age + female + outwork", POISSON),
        "hospvis wide": ("rwm5yr", "hospvis ~ age + female + outwork + married + kids + educ + self", POISSON),
        "hospvis nb": ("rwm5yr", "hospvis ~ age + female + outwork", NEGATIVE),
        "work": ("fertility2", "rare_work ~ age + morekids + afam + hispanic", LOGIT),
        "young": ("fertility2", "young ~ morekids + afam + hispanic + work", LOGIT),
        "week20": ("injury", "week20 ~ age + male + highearn + hosp", LOGIT),
        "weak": ("vocab", "weak ~ education + sex", LOGIT),
        "strong": ("vocab", "strong ~ education + sex + year", LOGIT),
        "strong cloglog": ("vocab", "strong ~ education + sex", CLOGLOG),
        "low pay": ("males", "low_pay ~ school + exper + union + maried", LOGIT),
    },
}
SKEW = {
    "tuned": {
        "wage levels": ("cps1988_wage", "wage ~ education + experience + parttime", OLS),
        "drug expense": ("meps_drugexp", "drugexp ~ totchr + age + female", OLS),
        "bill": ("credit_default", "BILL_AMT1 ~ LIMIT_BAL + AGE", OLS),
        "paid": ("credit_default", "PAY_AMT1 ~ LIMIT_BAL + AGE + SEX", OLS),
        "paid by bill": ("credit_default", "PAY_AMT2 ~ BILL_AMT1 + LIMIT_BAL", OLS),
        "gains": ("adult", "capital_gain ~ age + education_num + sex", OLS),
        "losses": ("adult", "capital_loss ~ age + education_num", OLS),
        "doctor levels": ("rand_hie", "mdvis ~ lncoins + disea + physlm", OLS),
        "nmes levels": ("nmes1988_visits", "visits ~ chronic + age + school + income", OLS),
        "ovisits levels": ("nmes1988_visits", "ovisits ~ chronic + age", OLS),
        "occupancy": ("california_housing", "MedHouseVal ~ AveOccup + MedInc", OLS),
        "population": ("california_housing", "Population ~ MedInc + HouseAge + AveRooms", OLS),
        "sugar": ("winequality", "residual_sugar ~ density + alcohol", OLS),
        "chlorides": ("winequality", "quality ~ chlorides + residual_sugar + alcohol", OLS),
        "casual": ("bike_sharing_hour", "casual ~ temp + hum + workingday", OLS),
        "hours on gains": ("adult", "hours_per_week ~ capital_gain + age + sex", OLS),
    },
    "aside": {
        "duration": ("injury", "durat ~ afchnge*highearn + age + male", OLS),
        "medical": ("injury", "totmed ~ age + male + hosp + prewage", OLS),
        "stay length": ("medpar", "los ~ hmo + white + died + C(type)", OLS),
        "docvis levels": ("rwm5yr", "docvis ~ age + female + educ + outwork", OLS),
        "hospvis levels": ("rwm5yr", "hospvis ~ age + female + outwork", OLS),
        "numvisit": ("badhealth", "numvisit ~ badh + age", OLS),
        "household": ("rwm5yr", "hhninc ~ age + educ + married", OLS),
        "price": ("computers", "price ~ hd + ram + trend", OLS),
    },
}  # fmt: skip
ROBUST = {
    "tuned": {
        "wage median": (
            "cps1988_wage",
            "log(wage) ~ education + experience + I(experience**2) + ethnicity + region + parttime "
            "+ smsa", MEDIAN,
        ),
        "hours 90 %": ("adult", "hours_per_week ~ age + education_num + sex + C(marital_status)", HIGH),
        "earnings median": ("cps_earnings_sw8", "log(earnings) ~ education*gender + age*region", MEDIAN),
        "wine median": (
            "winequality",
            "alcohol ~ fixed_acidity + volatile_acidity + citric_acid + residual_sugar + chlorides "
            "+ total_sulfur_dioxide + pH + sulphates + color", MEDIAN,
        ),
        "bikes median": (
            "bike_sharing_hour", "cnt ~ C(season) + C(weathersit) + C(weekday) + temp + hum", MEDIAN
        ),
        "houses huber": ("california_housing", f"MedHouseVal ~ {_MEDINC}", HUBER),
        "wage huber": ("cps1988_wage", "log(wage) ~ education*region + experience*parttime + smsa", HUBER),
        "drugs huber": ("meps_drugexp", f"ldrugexp ~ {_MEPS}", HUBER),
        "drugs median": ("meps_drugexp", f"ldrugexp ~ {_MEPS}", MEDIAN),
    },
    "aside": {
        "males median": ("males", f"wage ~ {_MALES} + C(industry)", MEDIAN),
        "males 90 %": ("males", f"wage ~ {_MALES} + C(occupation)", HIGH),
        "income median": ("rwm5yr", "hhninc ~ age + I(age**2) + female*married + kids + educ + self + C(edlevel)", MEDIAN),
        "males huber": ("males", f"wage ~ {_MALES} + C(industry)", HUBER),
        "injury huber": ("injury", "ldurat ~ afchnge*highearn + male + married + hosp + C(injtype) + age", HUBER),
    },
}  # fmt: skip
GROUPS = {"wide": WIDE, "factors": FACTORS, "rare": RARE, "skew": SKEW, "robust": ROBUST}
