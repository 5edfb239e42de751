/* Whole passes over columns as they lie in a table, a tile of rows after the other: filled, mapped,
   ended and added up while the tile is in the cache (exact/theory.md, 1.10). Included after rows.h. */

/* A tile of columns, cut to their ranges: a row each of x, zeros behind the m cells that are there.
   Columns of one array of rows are read a few rows at a time: a line of the cache holds many. */
TARGET static void JOIN(tile_of, SET)(const Columns *of, int64_t first, int64_t m, double *x)
{
    int64_t whole = m - m % T;
    for (int64_t j = 0; j < of->q; j++) {
        const double *p = (const double *)(uintptr_t)of->from[j] + first * of->apart[j];
        int64_t step = of->apart[j];
        for (int64_t a = 0; step <= 1 && a < whole; a += LANES) {
            vec cells = step ? (vec)LOAD(p + a) : ALL(*p);
            *(vec *)(x + j * WIDE + a) = JOIN(within, SET)(cells, of->low[j], of->high[j]);
        }
        double *end = x + j * WIDE + whole;
        for (int64_t a = 0; whole < TILE && a < T; a++)
            end[a] = whole + a < m ? p[(whole + a) * step] : 0.0;
        for (int64_t a = 0; whole < TILE && a < T; a += LANES)
            *(vec *)(end + a) = JOIN(within, SET)(*(vec *)(end + a), of->low[j], of->high[j]);
    }
    for (int64_t a = 0; a < whole; a += T)
        for (int64_t j = 0; j < of->q; j++) {
            int64_t step = of->apart[j];
            if (step <= 1)
                continue;
            const double *p = (const double *)(uintptr_t)of->from[j] + (first + a) * step;
            vec one = SPREAD(p, step), two = SPREAD(p + LANES * step, step);
            double *to = x + j * WIDE + a;
            *(vec *)to = JOIN(within, SET)(one, of->low[j], of->high[j]);
            *(vec *)(to + LANES) = JOIN(within, SET)(two, of->low[j], of->high[j]);
        }
}

/* The integers of a tile and their squared lengths; of rows in doubt as they are defined. A row that
   is none has no length. Gone over by twos of vectors, to the end of the one that holds row m. */
TARGET static void JOIN(tile_in_steps, SET)(const Steps *of, int64_t m, const double *x, double *z,
                                            double *square)
{
    for (int64_t a = 0; a < m; a += T) {
        vec length[2];
        bits doubt[2];
        JOIN(in_steps, SET)(of, x + a, WIDE, z + a, WIDE, length, doubt);
        *(vec *)(square + a) = length[0];
        *(vec *)(square + a + LANES) = length[1];
        for (int64_t i = 0; i < T; i++)
            if (a + i >= m)
                square[a + i] = NONE;
            else if (doubt[i / LANES][i % LANES])
                square[a + i] = as_defined(of, x + a + i, WIDE, z + a + i, WIDE);
    }
}

/* Rows of a tile into the ball, towards zero; those without a length are zero. */
TARGET static void JOIN(tile_into_ball, SET)(int64_t k, int64_t m, double top, double most,
                                             double *z, const double *square)
{
    const vec one = ALL(1.0);
    for (int64_t a = 0; a < m; a += LANES) {
        vec s = *(const vec *)(square + a), by = ALL(top) / ROOT(s);
        bits beyond = s > ALL(top * top), there = s <= ALL(most), less = by < one;
        by = (vec)(((bits)by & less) | ((bits)one & ~less));
        by = (vec)(((bits)by & beyond) | ((bits)one & ~beyond));
        for (int64_t i = 0; i < k; i++) {
            vec *to = (vec *)(z + i * WIDE + a);
            *to = CUT((vec)((bits)*to & there) * by);
        }
    }
}

/* Products of the rows of a tile, added to those before: gram has 16 vectors for each four and four
   coordinates. Behind the last row up to a whole vector z is zero. */
TARGET static void JOIN(tile_gram, SET)(int64_t k, int64_t m, const double *z, double *gram)
{
    vec *here = (vec *)gram;
    for (int64_t i = 0; i < k; i += 4)
        for (int64_t j = 0; j <= i; j += 4, here += 16) {
            const double *a[4], *b[4];
            for (int64_t n = 0; n < 4; n++)
                a[n] = z + (i + n) * WIDE, b[n] = z + (j + n) * WIDE;
            JOIN(four, SET)(a, b, m, here);
        }
}

/* Sums of products as integers, added to out (k, k); and from the beginning again. */
TARGET static void JOIN(gram_out, SET)(int64_t k, double *gram, int64_t *out)
{
    vec *here = (vec *)gram;
    for (int64_t i = 0; i < k; i += 4)
        for (int64_t j = 0; j <= i; j += 4, here += 16)
            for (int64_t n = 0; n < 16; n++) {
                int64_t r = i + n / 4, c = j + n % 4, sum = whole_sum((double *)(here + n), LANES);
                if (r >= k || c >= k || c > r)
                    continue;
                out[r * k + c] += sum;
                if (c < r)
                    out[c * k + r] += sum;
            }
}

/* The numbers of the rows of a tile: lengths, norms of scores, factors of rows; rows into the ball,
   their scores added up; scale and lengths counted. Every number of a row is rounded as numpy rounds
   it, step by step. */
TARGET static void JOIN(tile_scores, SET)(const Adding *to, int64_t m)
{
    const double *is = to->is;
    const bits sign = (bits){0} + INT64_MIN;
    const int64_t bin_count = (int64_t)is[BINS];
    const bits by_sign = (bits){0} + (is[SIGNED] != 0.0 ? bin_count : 0);
    const vec one = ALL(1.0), top = ALL(is[TOP]);
    bits in[GROUP];
    vec by[GROUP], times[GROUP];
    for (int64_t a = 0; a < m; a += LANES) {
        int64_t n = m - a < LANES ? m - a : LANES, at = a / LANES % GROUP;
        vec p = *(vec *)(to->psi + a), s = *(vec *)(to->square + a);
        vec size = (vec)((bits)p & ~sign);
        bits there = (s <= ALL(is[LONG])) & (size <= ALL(is[VAST]));
        bits scaled = there & (s >= ALL(is[LEAST]));
        p = (vec)((bits)p & there), size = (vec)((bits)size & there), s = (vec)((bits)s & scaled);
        if (is[LEVERAGE] != 0.0) {
            bits more = s > top * top;
            size *= top * top / (vec)(((bits)s & more) | ((bits)(top * top) & ~more));
        }
        vec len = ROOT(s), r = size * len / ALL(is[STEP]);
        /* into the ball */
        bits beyond = len > top;
        vec shrink = top / len;
        shrink = (vec)(((bits)shrink & beyond) | ((bits)one & ~beyond));
        len = (vec)(((bits)top & beyond) | ((bits)len & ~beyond));
        /* the length of a score, and what an integer row is multiplied by */
        vec f = r, most = ALL(is[MOST]);
        if (is[SOFTENED] != 0.0) {
            vec g = (r - ALL(is[KEPT])) * ALL(is[SLOPE]) + ALL(is[KEPT]);
            bits more = r > g;
            f = (vec)(((bits)r & more) | ((bits)g & ~more));
        }
        bits less = f < ALL(is[CLIP]);
        f = (vec)(((bits)f & less) | ((bits)ALL(is[CLIP]) & ~less));
        *(vec *)(to->psi + a) = p;
        *(vec *)(to->length + a) = len;
        *(vec *)(to->norm + a) = r;
        *(vec *)(to->kept + a) = f;
        f = f / len * ALL(is[STEP]);
        less = f < most;
        f = (vec)(((bits)f & less) | ((bits)most & ~less));
        f = CUT(f * ALL(is[FACTOR]));
        f = (vec)((bits)f & (len > ALL(0.0)));
        f = (vec)((bits)f | ((bits)p & sign));
        in[at] = scaled, by[at] = shrink, times[at] = f;
        vec cut = r * r / ALL(is[CUT_OF_SCALE]), ratio = r / ALL(is[CLIP]);
        less = cut < one;
        cut = (vec)(((bits)cut & less) | ((bits)one & ~less));
        *(vec *)to->scale += CUT(cut * ALL(1048576.0));
        bits bin = ((bits)(ratio * ratio) >> 52) - (int64_t)is[FIRST], last = (bits){0} + (bin_count - 1);
        bin &= ~(bin < 0);
        bin = (bin & (bin < last)) | (last & ~(bin < last));
        bin += ~(p > ALL(0.0)) & by_sign;
        for (int64_t i = 0; i < n; i++)
            if (there[i])
                to->bins[bin[i]]++;
        /* the coordinates of so many rows at once */
        if (at < GROUP - 1 && a + LANES < m)
            continue;
        for (int64_t i = 0; i < to->k; i++) {
            vec *row = (vec *)(to->z + i * WIDE + a) - at, *sum = (vec *)to->score + i, t, u = *sum;
            for (int64_t g = 0; g <= at; g++) {
                t = CUT((vec)((bits)row[g] & in[g]) * by[g]);
                row[g] = t;
                u = FMA(t, times[g], u);
            }
            *sum = u;
        }
    }
}

/* The chosen rows that wait: their products of ordinary information and of meat. */
TARGET static void JOIN(some_done, SET)(Adding *to)
{
    int64_t m = round_up(to->waiting, LANES);
    for (int part = 0; part < 2 && m; part++) {
        if (!(to->is[ORDINARY + part] > 0.0))
            continue;
        for (int64_t i = 0; i < round_up(to->k, 4); i++) {
            double *row = to->some[part] + i * WIDE;
            for (int64_t a = to->waiting; a < m; a++)
                row[a] = 0.0;
            for (int64_t a = 0; a < m; a += LANES)
                *(vec *)(row + a) = CUT(*(vec *)(row + a));
        }
        JOIN(tile_gram, SET)(to->k, m, to->some[part], to->gram[1 + part]);
    }
    to->waiting = 0;
}

/* Everything that a tile adds: z, psi and square of its rows stand there. */
TARGET static void JOIN(tile_added, SET)(Adding *to, int64_t first, int64_t m)
{
    JOIN(tile_scores, SET)(to, m);
    JOIN(tile_gram, SET)(to->k, round_up(m, LANES), to->z, to->gram[0]);
    if (to->is[FAR_RADIUS] > 0.0)
        far_scores(to, m);
    while (to->chosen < to->last && *to->chosen < first + m) {
        one_chosen(to, *to->chosen++ - first);
        if (to->waiting == TILE)
            JOIN(some_done, SET)(to);
    }
}

/* Sums of floats as integers, exact since the last time; and from the beginning again. */
TARGET static void JOIN(all_out, SET)(Adding *to)
{
    JOIN(some_done, SET)(to);
    for (int part = 0; part < 3; part++)
        if (part == 0 || to->is[ORDINARY + part - 1] > 0.0)
            JOIN(gram_out, SET)(to->k, to->gram[part], to->grams + part * to->k * to->k);
    for (int64_t i = 0; i < to->k; i++) {
        to->sums[i] += whole_sum(to->score + i * LANES, LANES);
        to->sums[to->k + i] += whole_sum(to->far + i, 1);
    }
    to->sums[2 * to->k] += whole_sum(to->scale, LANES);
}

/* A scoring pass of least squares over columns. */
TARGET static void JOIN(pass, SET)(const Steps *of, const Columns *columns, int64_t m, Adding *to,
                                   double *x)
{
    JOIN(pack, SET)(of);
    for (int64_t first = 0, since = 0; first < m; first += TILE) {
        int64_t rows = m - first < TILE ? m - first : TILE;
        JOIN(tile_of, SET)(columns, first, rows, x);
        JOIN(tile_in_steps, SET)(of, rows, x, to->z, to->square);
        double *seen = to->z + of->own * WIDE;
        for (int64_t a = 0; a < round_up(rows, T); a++) {
            to->psi[a] = seen[a] * to->is[RESIDUAL];
            seen[a] = 0.0;
        }
        JOIN(tile_added, SET)(to, first, rows);
        since += rows;
        if (since + TILE > MOST_ROWS || first + TILE >= m) {
            JOIN(all_out, SET)(to);
            since = 0;
        }
    }
}

/* A scoring pass over rows that are mapped, with their scores. */
TARGET static void JOIN(scores, SET)(int64_t m, const double *z, int64_t ld, const double *psi,
                                     const double *square, Adding *to)
{
    for (int64_t first = 0; first < m; first += TILE) {
        int64_t rows = m - first < TILE ? m - first : TILE;
        for (int64_t a = 0; a < round_up(rows, T); a++) {
            int64_t there = a < rows;
            to->psi[a] = there ? psi[first + a] : 0.0;
            to->square[a] = there ? square[first + a] : NONE;
            for (int64_t i = 0; i < to->k; i++)
                to->z[i * WIDE + a] = there ? z[i * ld + first + a] : 0.0;
        }
        JOIN(tile_added, SET)(to, first, rows);
    }
    JOIN(all_out, SET)(to);
}

/* Second moments of rows in a ball, over columns: a number and a shift for each, or a map in whole
   steps. */
TARGET static void JOIN(moments, SET)(const Steps *of, int diagonal, const Columns *columns,
                                      int64_t m, double top, double most, int64_t *out,
                                      double *x, double *z, double *square, double *gram)
{
    int64_t k = of->own;
    if (!diagonal)
        JOIN(pack, SET)(of);
    for (int64_t first = 0, since = 0; first < m; first += TILE) {
        int64_t rows = m - first < TILE ? m - first : TILE;
        JOIN(tile_of, SET)(columns, first, rows, x);
        if (!diagonal)
            JOIN(tile_in_steps, SET)(of, rows, x, z, square);
        for (int64_t a = 0; diagonal && a < rows; a += LANES) {
            vec s = {0};
            for (int64_t i = 0; i < k; i++) {
                vec t = *(const vec *)(x + i * WIDE + a) * ALL(of->matrix[i]) + ALL(of->shift[i]);
                *(vec *)(z + i * WIDE + a) = t;
                s = s + t * t;
            }
            *(vec *)(square + a) = s;
        }
        for (int64_t a = rows; a < round_up(rows, T); a++)
            square[a] = NONE;
        JOIN(tile_into_ball, SET)(k, rows, top, most, z, square);
        JOIN(tile_gram, SET)(k, round_up(rows, LANES), z, gram);
        since += rows;
        if (since + TILE > MOST_ROWS || first + TILE >= m) {
            JOIN(gram_out, SET)(k, gram, out);
            since = 0;
        }
    }
}

#undef vec
#undef loose
#undef bits
#undef T
#undef ALL
#undef LOAD
