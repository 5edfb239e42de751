"""dp_gptr, dp_vote, dp_pate, dp_pca and selection."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.audit.queries import Kept
from dpmodels.errors import BudgetError, DPModelsError, NoReplyWarning, RequestError
from dpmodels.models import selection
from dpmodels.models.votes import vote_steps
from dpmodels.own import voting as pate_math
from dpmodels.own.voting import majority
from dpmodels.privacy.noise import SeededNoise
from dpmodels.privacy.run import Run
from dpmodels.sums.ask import Ask

pytestmark = pytest.mark.usefixtures("quiet")


# -- dp_gptr -------------------------------------------------------------------------------------


def test_propose_replies_where_the_loss_is_small_and_not_where_it_is_large():
    data = pd.DataFrame({"a": np.linspace(-1, 1, 500)})
    args = {"eps": 4, "delta": 1e-6, "sensitivity": 1e-3, "bounds": {"a": (-1, 1)}, "seed": 1}

    def mechanism(Z, noise):
        assert Z.shape == (500, 1)
        return Z.mean(0) + noise.normals(1)

    fit = dp.dp_gptr(mechanism, lambda Z: 0.1, "a ~ 1", data, **args)
    assert fit.released and np.isfinite(fit.params).all()
    assert fit.privacy.delta_at(4) <= 1e-6 * (1 + 1e-8)
    for loss in (lambda Z: 50.0, lambda Z: 1 / 0, lambda Z: math.nan):
        fit = dp.dp_gptr(mechanism, loss, "a ~ 1", data, **args)
        assert not fit.released and fit.params.isna().all()


def test_choose_always_replies_with_the_chosen_parameter():
    data = pd.DataFrame({"a": np.linspace(-1, 1, 500)})
    seen = []

    def choose(bound, eps, delta):
        seen.append((bound, eps, delta))
        return 2.0 * bound

    fit = dp.dp_gptr(
        lambda Z, phi, noise: [phi, 1.0], lambda Z: Z.max(), "a ~ 1", data, eps=2, delta=1e-6,
        sensitivity=0.01, test="choose", choose=choose, size=2, names=["u", "v"],
        bounds={"a": (-1, 1)}, seed=1,
    )  # fmt: skip
    ((bound, eps, delta),) = seen
    assert fit.params["u"] == pytest.approx(2 * bound) and bound >= 1.0
    assert 0 < eps < 1 and 0 < delta < 1e-6  # the add/remove half of the request


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sensitivity": -1.0}, "sensitivity"),
        ({"mechanism": 3}, "mechanism="),
        ({"test": "choose"}, "needs choose="),
        ({"test": "guess"}, "propose"),
        ({"size": 0}, "size="),
        ({"names": ["a", "b"]}, "names="),
        ({"bounds": None}, "estimates no ranges"),
    ],
)
def test_bad_input_of_dp_gptr(change, match):
    args = {
        "mechanism": lambda Z, noise: [0.0], "privacy_loss": lambda Z: 0.0, "formula": "a ~ 1",
        "data": pd.DataFrame({"a": [0.0, 1.0]}), "eps": 1, "delta": 1e-6, "sensitivity": 1.0,
        "bounds": {"a": (0, 1)},
    }  # fmt: skip
    with pytest.raises(DPModelsError, match=match):
        dp.dp_gptr(**(args | change))


# -- votes ---------------------------------------------------------------------------------------


def test_a_clear_vote_is_answered_exactly_and_a_close_one_with_noise():
    clear = dp.dp_vote(["x"] * 500 + ["y"] * 20, ["x", "y"], eps=1, delta=1e-6, seed=1)
    assert clear.label == "x" and clear.stable
    close = dp.dp_vote(["x"] * 50 + ["y"] * 49, ["x", "y"], eps=1, delta=1e-6, seed=1)
    assert not close.stable and close.label in ("x", "y")
    assert dp.dp_vote(["?", None, [1]], ["x", "y"], eps=1, delta=1e-6, seed=1).label in "xy"


def test_the_stable_branch_needs_a_margin_above_two():
    class Lower(SeededNoise):
        """Noise at the very end that the failure probability allows."""

        def discrete_laplace(self, scale, size):
            return [round(float(scale) * math.log(1 / (2 * 1e-6)))] * size

    steps = vote_steps(1.0, 1e-6)
    for margin, want in ((2, False), (3, True)):
        counts = np.array([10 + margin, 10])
        assert majority(Kept(), 2, Ask(counts, Run(steps, Lower(0))))[1] == want


def test_votes_charge_a_budget_and_refuse_nonsense():
    budget = dp.Budget(eps=1, delta=1e-6)
    dp.dp_vote([0, 1, 1], [0, 1], eps=0.6, delta=5e-7, budget=budget)
    with pytest.raises(BudgetError):
        dp.dp_vote([0, 1, 1], [0, 1], eps=0.6, delta=5e-7, budget=budget)
    for votes, classes in (("text", [0, 1]), ([0], [0]), ([0], [0, 0]), (3, [0, 1]), ([0], "ab")):
        with pytest.raises(RequestError):
            dp.dp_vote(votes, classes, eps=1, delta=1e-6)


# -- PATE ----------------------------------------------------------------------------------------


def teachers(consensus, seed=0, n=400, queries=200, classes=10):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, queries)
    agree = rng.random((n, queries)) < consensus
    return np.where(agree, truth, rng.integers(0, classes, (n, queries))), truth


def test_high_consensus_is_cheaper_than_its_data_independent_price():
    votes, truth = teachers(0.95)
    high = dp.dp_pate(votes, classes=10, eps=8, delta=1e-5, sigma=8.0, seed=1)
    assert high.released and (high.labels == truth).mean() > 0.99
    assert high.eps_data_dependent < 0.6 * high.eps_data_independent
    low = dp.dp_pate(teachers(0.3)[0], classes=10, eps=8, delta=1e-5, sigma=8.0, seed=1)
    assert not low.released and "NO REPLY" in repr(low)


def test_no_test_where_the_answers_are_affordable_anyway(quiet):
    votes, truth = teachers(0.9)
    fit = dp.dp_pate(votes, classes=10, eps=8, delta=1e-5, sigma=40.0, seed=1)
    assert fit.released and fit.eps_data_dependent == fit.eps_data_independent < 8
    assert (fit.labels == truth).mean() > 0.9 and "float" not in fit.privacy.statement()


def test_counts_and_labels_agree_without_noise(noiseless):
    votes, _ = teachers(0.95)
    counts = np.stack([(votes == c).sum(0) for c in range(10)], axis=1)
    one = dp.dp_pate(votes, classes=10, eps=8, delta=1e-5, sigma=8.0)
    two = dp.dp_pate(counts, counts=True, teachers=400, eps=8, delta=1e-5, sigma=8.0)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.eps_data_dependent == two.eps_data_dependent


@pytest.mark.parametrize(
    "change",
    [
        {"votes": np.ones((3, 4))},
        {"votes": np.ones(4, dtype=int)},
        {"votes": np.array([["a", "b"]])},
        {"classes": None},
        {"classes": 1},
        {"sigma": 0.0},
        {"test_eps": 9.0},
        {"counts": True},
        {"votes": np.zeros((0, 4), dtype=int)},
    ],
)
def test_votes_that_are_not_votes(change):
    args = {"votes": np.ones((3, 4), dtype=int), "classes": 3, "eps": 1, "delta": 1e-6} | change
    with pytest.raises(RequestError):
        dp.dp_pate(args.pop("votes"), **args)


def test_pate_constants():
    a, b, sigma_s = pate_math.gaussian_order(1.0, 1e-5)
    assert a == pytest.approx(25.41, abs=0.01) and sigma_s == pytest.approx(8.85, abs=0.01)
    assert b == pytest.approx(0.2 / a)
    # the claimed cost eps^/2 covers the exact Renyi divergence of the pair (bound, value)
    for hat, exact in ((0.1, 0.0445), (0.5, 0.2189), (1, 0.4296), (2, 0.8294), (5, 1.898)):
        assert (
            exact
            < (3 * pate_math.gaussian_order(hat, 1e-5)[0] + 2)
            / (2 * pate_math.gaussian_order(hat, 1e-5)[2] ** 2)
            == pytest.approx(hat / 2)
        )


def test_renyi_of_votes_bounds_the_two_outcome_divergence():
    """A two-class vote: the exact divergence between neighbours is below the bound, any order."""
    from scipy.special import ndtr

    for sigma in (3.0, 10.0):
        for gap in (4, 20, 60, 100):
            q = float(ndtr(-gap / (math.sqrt(2) * sigma)))
            for move in (-2, 2):
                r = float(ndtr(-(gap + move) / (math.sqrt(2) * sigma)))
                for a in (2.0, 8.0, 20.0):
                    parts = [
                        a * math.log(q) + (1 - a) * math.log(r),
                        a * math.log1p(-q) + (1 - a) * math.log1p(-r),
                    ]
                    true = float(np.logaddexp(*parts)) / (a - 1)
                    bound = pate_math.renyi_of_q(math.log(q), a, sigma)
                    assert true <= bound * (1 + 1e-9) + 1e-12


def test_smooth_sensitivity_is_smooth_and_covers_neighbours():
    rng = np.random.default_rng(0)
    a, b, _ = pate_math.gaussian_order(2.0, 1e-5)
    n, classes, sigma = 60, 3, 4.0
    table = pate_math.curve_table(a, sigma, classes, n)

    def at(counts):
        cells = pate_math.cells_of(counts, sigma, classes, len(table.value), table.step)
        return float(table.value[cells].sum()), pate_math.smooth(table, cells, b, n)

    for _ in range(300):
        p = rng.dirichlet(np.array([5.0, 1.0, 1.0]) * rng.uniform(0.2, 5))
        counts = rng.multinomial(n, p, size=20).astype(float)
        other = counts.copy()
        for i in range(20):
            held = np.flatnonzero(other[i])
            j, k = rng.choice(held), rng.integers(0, classes)
            other[i, j] -= 1
            other[i, k] += 1
        (v, s), (w, t) = at(counts), at(other)
        assert abs(v - w) <= s * (1 + 1e-12)
        assert math.exp(-b) <= s / t * (1 + 1e-12) and s / t <= math.exp(b) * (1 + 1e-12)


# -- principal components ------------------------------------------------------------------------


def correlated(n, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    X = np.column_stack([f, f, -f, 0 * f]) + 0.4 * rng.normal(size=(n, 4))
    return pd.DataFrame(X, columns=list("abcd"))


PCA = {"eps": 2, "delta": 1e-6, "bounds": dict.fromkeys("abcd", (-5, 5))}


def test_pca_finds_the_leading_subspace():
    data = correlated(20_000)
    fit = dp.dp_pca("~ a + b + c + d", data, **PCA)
    V = np.linalg.eigh(np.corrcoef(data.to_numpy().T))[1][:, -1]
    assert abs(V @ fit.params.to_numpy()) > 0.999
    assert list(fit.params.index) == ["PC1:a", "PC1:b", "PC1:c", "PC1:d"]
    assert 0.99e-6 < fit.privacy.delta_at(2) <= 1e-6 * (1 + 1e-8)
    same = dp.dp_pca("a + b + c + d ~ 1", data, seed=3, **PCA)
    again = dp.dp_pca("~ a + b + c + d", data, seed=3, **PCA)
    np.testing.assert_allclose(same.params, again.params)
    assert pickle.loads(pickle.dumps(fit)).params.equals(fit.params)


def test_pca_does_not_reply_without_a_gap():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.uniform(-5, 5, (400, 4)), columns=list("abcd"))
    with pytest.warns(NoReplyWarning):
        fit = dp.dp_pca("~ a + b + c + d", data, seed=1, **PCA)
    assert not fit.released and fit.params.isna().all()


@pytest.mark.parametrize(
    ("formula", "change", "match"),
    [
        ("~ a + b", {"k": 2}, "below the number of columns"),
        ("~ a + b", {"k": 0}, "k="),
        ("~ a", {}, "two columns"),
        ("~ a + b", {"bounds": {"a": (0, 1)}}, "estimates no ranges"),
        ("~ a + b", {"radius": -1.0}, "radius"),
    ],
)
def test_bad_input_of_pca(formula, change, match):
    with pytest.raises(DPModelsError, match=match):
        dp.dp_pca(formula, correlated(50), **(PCA | change))


# -- selection -----------------------------------------------------------------------------------


def test_strength_per_candidate_reference_values():
    want = {
        ("geometric", 30.0): (0.0499, 0.0988, 0.1960, 0.3909),
        ("poisson", 10.0): (0.0651, 0.1267, 0.2454, 0.4721),
        ("poisson", 30.0): (0.0382, 0.0745, 0.1445, 0.2789),
    }
    for (kind, mean), values in want.items():
        for eps, value in zip((0.5, 1, 2, 4), values, strict=True):
            got = selection.strength_per_candidate(eps, 1e-6, kind, mean)
            assert got == pytest.approx(value, abs=1e-4)


def test_selection_returns_a_good_candidate_and_its_guarantee():
    def candidate(level):
        def run(mu, noise):
            value = level + float(noise.normals(1)[0]) / mu
            return value, level

        return run

    best, promise = selection.select(
        [candidate(v) for v in (0.0, 100.0, 200.0)], eps=4, delta=1e-6, kind="poisson",
        relation="add-remove", seed=1,
    )  # fmt: skip
    assert best == 200.0 and promise.seeded
    # it stated "replace" whatever the candidates prove
    assert promise.relation == "add-remove"
    assert promise.delta_at(4.0) <= 1e-6 * (1 + 1e-8)
    with pytest.raises(RequestError):
        selection.select([], eps=1, delta=1e-6, relation="replace")
    with pytest.raises(RequestError):
        selection.strength_per_candidate(1.0, 1e-6, "uniform", 3.0)


@pytest.mark.parametrize("odd", [None, "x", 1.5, True, 10**30, [1], float("nan")])
def test_an_odd_vote_in_a_list_is_an_abstention(odd):
    """numpy found a type for the whole list: one odd vote was an error that showed."""
    votes = [[1] * 30 for _ in range(60)]
    votes[7] = [*votes[7][:-1], odd]
    answer = dp.dp_pate(votes, classes=3, eps=50, delta=1e-6, sigma=5, seed=1)
    assert answer.labels is not None and answer.labels.tolist() == [1] * 30
    with pytest.raises(RequestError, match="equal length"):
        dp.dp_pate([[1, 2], [1]], classes=3, eps=50, delta=1e-6)


def test_runs_of_a_choice_are_charged_to_the_enclosing_budget():
    with dp.Budget(1, 1e-5) as budget:
        selection.select(
            [lambda mu, noise: (0.0, mu)], eps=1, delta=1e-6, mean=3.0, seed=1, relation="replace"
        )
    assert len(budget.charges) == 1


@pytest.mark.parametrize("eps", [1e-6, 1e-3, 1.0])
def test_the_margin_of_a_vote_fails_no_more_often_than_delta(eps):
    """P(noise > what is taken off), exactly: the noise is discrete Laplace on a known lattice."""
    delta = 1e-3

    class Silent(SeededNoise):
        def discrete_laplace(self, scale, size):
            self.scale = scale
            return [0] * size

    noise = Silent(1)
    _, _, lower = majority(
        Kept(), 2, Ask(np.array([9, 3]), Run(vote_steps(eps, delta), noise))
    )
    fine = 2.0 ** max(0, math.ceil(math.log2(2.0**20 / (4.0 / eps * (1 + 1e-9)))))
    k = math.floor((6 - lower) * fine) + 1  # smallest k with k / fine > 6 - lower
    scale = 4.0 / eps * (1 + 1e-9) * fine
    # P(K >= k) = exp(-k/s) / (1 + exp(-1/s)), K with P(k) proportional to exp(-|k|/s)
    assert math.exp(-k / scale) / (1.0 + math.exp(-1.0 / scale)) <= delta


def test_a_null_in_a_table_of_votes_is_an_abstention():
    """The numpy type of an integer table depends on nulls; its schema does not."""
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    from dpmodels.api.custom import _checked

    rng = np.random.default_rng(0)
    votes = rng.integers(0, 3, (40, 5))
    holes = votes.astype(object)
    holes[7, 2] = None
    abstained = votes.copy()
    abstained[7, 2] = -1
    names = list("abcde")

    def tables(cells):
        columns = dict(zip(names, cells.T.tolist(), strict=True))
        yield pa.table(columns, schema=pa.schema([(c, pa.int16()) for c in names]))
        yield pl.DataFrame(columns, schema=dict.fromkeys(names, pl.UInt8))
        yield pd.DataFrame({c: pd.array(v, dtype="Int64") for c, v in columns.items()})
        yield pd.DataFrame({c: pd.array(v, dtype="int8[pyarrow]") for c, v in columns.items()})

    mask = np.zeros(votes.shape, bool)
    mask[7, 2] = True
    with_null = [*tables(holes), np.ma.masked_array(votes, mask), holes.tolist()]
    for table in with_null:
        array, classes, teachers = _checked(table, 3, False, None)
        np.testing.assert_array_equal(array, abstained)
        assert (classes, teachers) == (3, 40)
        answer = dp.dp_pate(table, classes=3, eps=50, delta=1e-6, sigma=5, seed=1)
        assert len(answer.labels) == 5
    for table in tables(votes):
        np.testing.assert_array_equal(_checked(table, 3, False, None)[0], votes)
    huge = pl.DataFrame(
        {"a": [2**64 - 1, 1], "b": [None, 2]}, schema=dict.fromkeys("ab", pl.UInt64)
    )
    assert (_checked(huge, None, True, 40)[0] == [[2**62, -1], [1, 2]]).all()
    for wrong in (pd.DataFrame({"a": [777.25]}), pl.DataFrame({"a": ["777"]})):
        with pytest.raises(RequestError, match="whole numbers") as caught:
            dp.dp_pate(wrong, classes=3, eps=50, delta=1e-6)
        assert "777" not in str(caught.value)


@pytest.mark.parametrize("kind", ["list", "array", "arrow", "chunked", "pandas", "polars"])
def test_votes_are_counted_whatever_holds_them(kind):
    from dpmodels.own.voting import count_votes

    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    cells = ["a"] * 5 + ["b"] * 3 + [None, "c"]
    holder = {
        "list": list, "array": lambda c: np.array(c, dtype=object), "arrow": pa.array,
        "chunked": lambda c: pa.chunked_array([c[:4], c[4:]]), "pandas": pd.Series,
        "polars": pl.Series,
    }[kind]  # fmt: skip
    assert count_votes(["a", "b"], holder(cells)).tolist() == [5, 3]
