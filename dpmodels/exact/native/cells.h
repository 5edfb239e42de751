/* Rows that are a cell of a public grid and a few numbers (exact/theory.md, 1.9), in the loops of one
   instruction set; included by rows.c after rows.h. Each number of a row is rounded as numpy rounds
   it, step by step; sums are of integers. A cell is data: one that is no place of the tables is void,
   before anything is read with it. */

#define vec JOIN(vec, SET)
#define bits JOIN(bits, SET)
#define loose JOIN(loose, SET)
#define ALL(x) ((x) - (vec){0})
#define LOAD(p) (*(const loose *)(p))
/* of few numbers the loops are written out */
#define INLINE TARGET static inline __attribute__((always_inline))
#define BY_NUMBER(name, ...)                                     \
    switch (d) {                                                 \
    case 2: JOIN(name, SET)(2, __VA_ARGS__); break;              \
    case 3: JOIN(name, SET)(3, __VA_ARGS__); break;              \
    case 4: JOIN(name, SET)(4, __VA_ARGS__); break;              \
    default: JOIN(name, SET)(d, __VA_ARGS__);                    \
    }
#define AT(column) (*(vec *)(tile + (column) * BY_TILE + i))
#define PICK(where, a, b) ((vec)(((bits)(a) & (where)) | ((bits)(b) & ~(where))))
#define SIZE(a) ((vec)((bits)(a) & ((bits){0} + INT64_MAX)))

/* Integers in a tile of doubles. */
typedef int64_t integer __attribute__((may_alias));

/* The columns of a tile: its cells' numbers, the rows' own, and what is made of them. Of d numbers
   GIVEN(j) is j as it is, LATTICE(j) its integer. */
#define PLACE 0                        /* int64_t: the cell, 0 where it is none */
#define LONG_ 1                        /* squared length of the cell; infinite: void */
#define LEAN(j) (2 + (j))              /* of the cell, for each number */
#define GIVEN(j) (2 + d + (j))
#define LATTICE(j) (2 + 2 * d + (j))   /* double, then int64_t */
#define SQUARE (2 + 3 * d)
#define INSIDE (3 + 3 * d)             /* int64_t: -1 or 0 */
#define SEEN_ (4 + 3 * d)
#define PSI (5 + 3 * d)
#define SOME (6 + 3 * d)               /* int64_t: -1 or 0, of meat and ordinary information */
#define WHOLE (7 + 3 * d)              /* int64_t: the integer of the score */
#define MEAT_ (8 + 3 * d)
#define SPREAD_ (9 + 3 * d)
#define BIN_ (10 + 3 * d)

/* Bring n rows into the tile: which cells they are in, and what the tables know of these. */
INLINE void JOIN(gathered, SET)(int64_t d, int64_t K, int64_t n, const double *at,
                                       const double *block, int64_t ld, const int64_t *cells,
                                       double *tile)
{
    integer *place = (integer *)tile + PLACE * BY_TILE;
    for (int64_t i = 0; i < BY_TILE; i++) {
        int64_t c = i < n ? cells[i] : -1;
        int there = (uint64_t)c < (uint64_t)K;
        const double *own = at + (there ? c : 0) * (1 + d);
        place[i] = there ? c : 0;
        tile[LONG_ * BY_TILE + i] = there ? own[0] : __builtin_inf();
        for (int64_t j = 0; j < d; j++)
            tile[LEAN(j) * BY_TILE + i] = own[1 + j];
    }
    for (int64_t j = 0; j < d && n < BY_TILE; j++)
        for (int64_t i = 0; i < BY_TILE; i++)
            tile[GIVEN(j) * BY_TILE + i] = i < n ? block[j * ld + i] : 0.0;
}

/* Their integers, squared lengths and whether they are inside: zeros where a number is missing or
   beyond its range. map: the largest square, the margin, then of the numbers the middles, the factors
   and the rows of Q. */
INLINE void JOIN(on_lattice, SET)(int64_t d, int64_t n, const double *map, const double *block,
                                  int64_t ld, double *tile)
{
    if (n < BY_TILE)
        block = tile + GIVEN(0) * BY_TILE, ld = BY_TILE;
    const double *middle = map + 2, *factor = middle + d, *Q = factor + d;
    for (int64_t i = 0; i < BY_TILE; i += LANES) {
        bits within = ~(bits){0};
        for (int64_t j = 0; j < d; j++) {
            vec t = CUT(((vec)LOAD(block + j * ld + i) - ALL(middle[j])) * ALL(factor[j]));
            within &= SIZE(t) <= ALL(1048576.0);
            AT(LATTICE(j)) = t;
        }
        vec square = AT(LONG_);
        for (int64_t j = 0; j < d; j++) {
            vec x = (vec)((bits)AT(LATTICE(j)) & within), own = AT(LEAN(j));
            AT(LATTICE(j)) = x;
            for (int64_t k = 0; k <= j; k++) {
                vec part = AT(LATTICE(k)) * ALL(Q[j * d + k]);
                own += part;
            }
            own *= x;
            square += own;
        }
        square += ALL(map[1]);
        AT(SQUARE) = square;
        AT(INSIDE) = (vec)((square <= ALL(map[0])) & within);
    }
}

/* Add the products of numbers of rows that are inside, and make these integers; zeros elsewhere. */
INLINE void JOIN(multiplied, SET)(int64_t d, double *tile, vec *among)
{
    for (int64_t j = 0; j < d; j++)
        for (int64_t i = 0; i < BY_TILE; i += LANES)
            AT(LATTICE(j)) = (vec)((bits)AT(LATTICE(j)) & (bits)AT(INSIDE));
    for (int64_t j = 0; j < d; j++)
        for (int64_t k = 0; k <= j; k++, among++) {
            vec sum = *among;
            for (int64_t i = 0; i < BY_TILE; i += LANES)
                sum = FMA(AT(LATTICE(j)), AT(LATTICE(k)), sum);
            *among = sum;
        }
    for (int64_t j = 0; j < d; j++)
        for (int64_t i = 0; i < BY_TILE; i += LANES)
            AT(LATTICE(j)) = (vec)__builtin_convertvector(AT(LATTICE(j)), bits);
}

/* What vectors of whole numbers add up to, added to sums of integers; the vectors are zero again. */
TARGET static void JOIN(flushed, SET)(int64_t many, vec *from, int64_t *sums)
{
    for (int64_t i = 0; i < many; i++) {
        double whole = 0.0;
        for (int64_t lane = 0; lane < LANES; lane++)
            whole += from[i][lane];
        sums[i] += (int64_t)whole;
        from[i] = (vec){0};
    }
}

INLINE void JOIN(ball_of_tiles, SET)(int64_t d, int64_t K, int64_t m, const double *map,
                                           const double *at, const double *block, int64_t ld,
                                           const int64_t *cells, int64_t *by, int64_t *among,
                                           uint8_t *dense, double *tile)
{
    int64_t pairs = d * (d + 1) / 2;
    vec *sums = (vec *)(tile + COLUMNS(d) * BY_TILE);
    const integer *whole = (const integer *)tile;
    for (int64_t i = 0; i < pairs; i++)
        sums[i] = (vec){0};
    for (int64_t a = 0; a < m; a += BY_TILE) {
        int64_t n = m - a < BY_TILE ? m - a : BY_TILE;
        JOIN(gathered, SET)(d, K, n, at, block + a, ld, cells + a, tile);
        JOIN(on_lattice, SET)(d, n, map, block + a, ld, tile);
        JOIN(multiplied, SET)(d, tile, sums);
        for (int64_t i = 0; i < n; i++) {
            int64_t *row = by + whole[PLACE * BY_TILE + i] * (1 + d), in = whole[INSIDE * BY_TILE + i];
            row[0] -= in;
            for (int64_t j = 0; j < d; j++)
                row[1 + j] += whole[LATTICE(j) * BY_TILE + i];
            dense[a + i] = !in && tile[LONG_ * BY_TILE + i] < __builtin_inf();
        }
        if (a % MOST_ROWS == MOST_ROWS - BY_TILE || a + BY_TILE >= m)
            JOIN(flushed, SET)(pairs, sums, among);
    }
}

TARGET static void JOIN(ball_by_cell, SET)(int64_t d, int64_t K, int64_t m, const double *map,
                                           const double *at, const double *block, int64_t ld,
                                           const int64_t *cells, int64_t *by, int64_t *among,
                                           uint8_t *dense, double *tile)
{
    BY_NUMBER(ball_of_tiles, K, m, map, at, block, ld, cells, by, among, dense, tile)
}

/* What a model sees of rows: a number of the cell, and slopes times numbers, one after the other. */
TARGET static void JOIN(seen_by_cell, SET)(int64_t d, int64_t K, int64_t m, const double *of_cells,
                                           const double *slopes, const double *block, int64_t ld,
                                           const int64_t *cells, double *out)
{
    for (int64_t i = 0; i < m; i++)
        out[i] = (uint64_t)cells[i] < (uint64_t)K ? of_cells[cells[i]] : __builtin_nan("");
    for (int64_t a = 0; a < m; a += BY_TILE) {
        int64_t end = m - a < BY_TILE ? m : a + BY_TILE;
        for (int64_t j = 0; j < d; j++)
            for (int64_t i = a; i < end; i++) {
                double part = block[j * ld + i] * slopes[j];
                out[i] += part;
            }
    }
}

/* The scores of the tile's rows: which of them are inside still, the integers of score, meat and
   ordinary information, the bin of a length; adds up the scale. */
INLINE void JOIN(scored, SET)(int64_t d, const double *is, double *tile, vec *scale)
{
    const vec one = ALL(1.0), none = {0};
    const bits sign = (bits){0} + INT64_MIN, last = (bits){0} + ((int64_t)is[BY_BINS] - 1);
    const bits by_sign = (bits){0} + (is[BY_SIGNED] != 0.0 ? (int64_t)is[BY_BINS] : 0);
    for (int64_t i = 0; i < BY_TILE; i += LANES) {
        vec psi = AT(PSI), length = ROOT(AT(SQUARE)) * ALL(is[BY_UNIT]);
        vec norm = SIZE(psi) * length;
        bits in = (bits)AT(INSIDE) & (norm <= ALL(is[BY_KEPT])), some = (bits)AT(SOME);
        if (is[BY_MEAT] != 0.0) {
            vec less = ALL(is[BY_MEAT]) / norm, t = psi * psi, most = ALL(is[BY_MOST_MEAT]);
            less *= less;
            t *= PICK(less < one, less, one);
            in &= ~some | (t <= most);
            t = PICK(t < most, t, most);
            AT(MEAT_) = (vec)((bits)CUT(t * ALL(is[BY_FACTOR_MEAT])) & in & some);
        }
        if (is[BY_SPREAD] != 0.0) {
            vec t = ALL(is[BY_SPREAD]) / length, most = ALL(is[BY_MOST_SPREAD]);
            t *= t;
            t = PICK(t < one, t, one);
            t = PICK(t < most, t, most);
            AT(SPREAD_) = (vec)((bits)CUT(t * ALL(is[BY_FACTOR_SPREAD])) & in & some);
        }
        vec most = ALL(is[BY_MOST]), size = SIZE(psi);
        size = CUT(PICK(size < most, size, most) * ALL(is[BY_FACTOR]));
        AT(WHOLE) = (vec)(((bits)size | ((bits)psi & sign)) & in);
        vec cut = norm * norm / ALL(is[BY_CUT]), ratio = norm / ALL(is[BY_CLIP]);
        cut = CUT(PICK(cut < one, cut, one) * ALL(1048576.0));
        *scale += (vec)((bits)cut & in);
        bits bin = ((bits)(ratio * ratio) >> 52) - (int64_t)is[BY_FIRST];
        bin &= ~(bin < 0);
        bin = (bin & (bin < last)) | (last & ~(bin < last));
        bin += ~(psi > none) & by_sign;
        AT(BIN_) = (vec)(bin & (norm >= ALL(is[BY_LOWEST])));
        AT(INSIDE) = (vec)in;
    }
}

/* A row with an integer weight, added to the sums of its cell and to the products of numbers: low words
   and high words, since one product is up to 2^60. */
INLINE void JOIN(weighted, SET)(int64_t d, int64_t q, const integer *x, int64_t *row,
                                              int64_t *low, int64_t *high)
{
    row[0] += q;
    for (int64_t j = 0; j < d; j++) {
        int64_t first = q * x[j * BY_TILE];
        row[1 + j] += first;
        for (int64_t k = 0; k <= j; k++) {
            int64_t both = first * x[k * BY_TILE];
            *low++ += both & 0xffffffff;
            *high++ += both >> 32;
        }
    }
}

INLINE void JOIN(scores_of_tiles, SET)(int64_t d, int64_t K, int64_t m, const double *map,
                                             const double *at, const double *block, int64_t ld,
                                             const int64_t *cells, const double *seen,
                                             const double *psi, const uint8_t *some,
                                             const double *is, int64_t *by, int64_t *chosen,
                                             int64_t *among, int64_t *bins, uint8_t *dense,
                                             double *tile)
{
    int64_t pairs = d * (d + 1) / 2, *of_scores = among + pairs + 1, *words = of_scores + d;
    vec *sums = (vec *)(tile + COLUMNS(d) * BY_TILE); /* of products, of the scale, of scores */
    integer *whole = (integer *)tile;
    int chooses = some != NULL && is[BY_SPREAD] != 0.0;
    for (int64_t i = 0; i < pairs + 1 + d; i++)
        sums[i] = (vec){0};
    for (int64_t a = 0; a < m; a += BY_TILE) {
        int64_t n = m - a < BY_TILE ? m - a : BY_TILE;
        JOIN(gathered, SET)(d, K, n, at, block + a, ld, cells + a, tile);
        for (int64_t i = 0; i < BY_TILE; i++) {
            tile[SEEN_ * BY_TILE + i] = i < n ? seen[a + i] : __builtin_nan("");
            tile[PSI * BY_TILE + i] = i < n ? psi[a + i] : 0.0;
            whole[SOME * BY_TILE + i] = i < n && chooses && some[a + i] ? -1 : 0;
        }
        JOIN(on_lattice, SET)(d, n, map, block + a, ld, tile);
        JOIN(scored, SET)(d, is, tile, sums + pairs);
        for (int64_t j = 0; j < d; j++) {
            vec sum = sums[pairs + 1 + j];
            for (int64_t i = 0; i < BY_TILE; i += LANES)
                sum = FMA(AT(WHOLE), AT(LATTICE(j)), sum);
            sums[pairs + 1 + j] = sum;
        }
        JOIN(multiplied, SET)(d, tile, sums);
        for (int64_t i = 0; i < n; i++) {
            int64_t c = whole[PLACE * BY_TILE + i], in = whole[INSIDE * BY_TILE + i];
            int64_t *row = by + c * (2 + d);
            row[0] -= in;
            for (int64_t j = 0; j < d; j++)
                row[1 + j] += whole[LATTICE(j) * BY_TILE + i];
            row[1 + d] += (int64_t)tile[WHOLE * BY_TILE + i];
            bins[whole[BIN_ * BY_TILE + i]] -= in;
            double own = tile[SEEN_ * BY_TILE + i];
            dense[a + i] = !in && own == own && tile[LONG_ * BY_TILE + i] < __builtin_inf();
            if (!(in & whole[SOME * BY_TILE + i]))
                continue;
            const integer *x = whole + LATTICE(0) * BY_TILE + i;
            row = chosen + c * 2 * (1 + d);
            if (is[BY_MEAT] != 0.0)
                JOIN(weighted, SET)(d, (int64_t)tile[MEAT_ * BY_TILE + i], x, row, words,
                                    words + pairs);
            JOIN(weighted, SET)(d, (int64_t)tile[SPREAD_ * BY_TILE + i], x, row + 1 + d,
                                words + 2 * pairs, words + 3 * pairs);
        }
        if (a % MOST_ROWS == MOST_ROWS - BY_TILE || a + BY_TILE >= m)
            JOIN(flushed, SET)(pairs + 1 + d, sums, among);
    }
}

TARGET static void JOIN(scores_by_cell, SET)(int64_t d, int64_t K, int64_t m, const double *map,
                                             const double *at, const double *block, int64_t ld,
                                             const int64_t *cells, const double *seen,
                                             const double *psi, const uint8_t *some,
                                             const double *is, int64_t *by, int64_t *chosen,
                                             int64_t *among, int64_t *bins, uint8_t *dense,
                                             double *tile)
{
    BY_NUMBER(scores_of_tiles, K, m, map, at, block, ld, cells, seen, psi, some, is, by, chosen,
              among, bins, dense, tile)
}

#undef vec
#undef bits
#undef loose
#undef ALL
#undef LOAD
#undef INLINE
#undef BY_NUMBER
#undef AT
#undef PICK
#undef SIZE
#undef PLACE
#undef LONG_
#undef LEAN
#undef GIVEN
#undef LATTICE
#undef SQUARE
#undef INSIDE
#undef SEEN_
#undef PSI
#undef SOME
#undef WHOLE
#undef MEAT_
#undef SPREAD_
#undef BIN_
