"""What seeded calls release is what it was: the committed corpus, line by line."""

from tests.golden import corpus

#: Cells at the corners of their box give squares on the edges of half octaves in these: on which side
#: one is counted, the last bit of the released coordinates says, and LAPACK of another processor (or
#: numpy 1.26) has another. Where they are the same as those that wrote the corpus, nothing moves.
ON_EDGES = tuple(f"people: {name}" for name in (
    "logit, people alike", "median", "ols, people alike", "ols, public", "quantiles",
))  # fmt: skip


def test_nothing_moved():
    """``python -m tests.golden.corpus --write`` stores what is new, after it was explained."""
    found = corpus.lines()
    assert len(found) > 400 and not any("refused" in line for line in found.values())
    assert set(found) >= {name for name in corpus.stored() if name.startswith(ON_EDGES)}
    gone = [one for one in corpus.moved(corpus.stored(), found) if not one.startswith(ON_EDGES)]
    assert not gone, "\n".join(gone)


def test_a_sum_that_is_off_by_a_millionth_and_a_word_that_is_new_are_named():
    old = {"call": {"sums": corpus.numbers([3.0, 1.0, 2.0]), "notes": corpus.words("n = 3 rows")}}
    near = {"call": {"sums": corpus.numbers([3.0, 1.0 + 1e-12, 2.0]), "notes": corpus.words("n = 4 rows")}}
    off = {"call": {"sums": corpus.numbers([3.0, 1.0 + 1e-5, 2.0]), "notes": corpus.words("n = 3 lines")}}
    assert list(corpus.moved(old, near)) == []
    found = list(corpus.moved(old, off))
    assert len(found) == 2 and "notes" in found[0] and "sums" in found[1]
    assert corpus.same(corpus.numbers([1.0, 5.0]), corpus.numbers([2.0, 10.0])) is False  # scale shows
