/* The loops of one instruction set; included by rows.c once for each, with LANES, SET, TARGET and
   FMA set. Products are contracted only where they are exact. */

#define vec JOIN(vec, SET)
#define loose JOIN(loose, SET)
#define bits JOIN(bits, SET)

typedef double vec __attribute__((vector_size(8 * LANES)));
typedef double loose __attribute__((vector_size(8 * LANES), aligned(8)));
typedef int64_t bits __attribute__((vector_size(8 * LANES)));

#define T (2 * LANES)        /* rows of a tile */
#define ALL(x) ((x) - (vec){0})  /* a number in all lanes, as it is */
#define LOAD(p) (*(const loose *)(p))

/* Towards zero where there is no instruction for it. Numbers of 2^51 and more come out wrong by a few:
   what they may be off is more, so that their rows are in doubt. */
TARGET static inline vec JOIN(towards_zero, SET)(vec a)
{
    const bits sign = (bits){0} + INT64_MIN;
    const vec whole = ALL(4503599627370496.0);
    vec size = (vec)((bits)a & ~sign), near = (size + whole) - whole;
    near -= (vec)((bits)ALL(1.0) & (near > size));
    return (vec)((bits)near | ((bits)a & sign));
}

/* Copy up to T rows of a column; zeros behind them. */
TARGET static inline void JOIN(taken, SET)(const double *from, int64_t m, double *to)
{
    if (m >= T) {
        *(vec *)to = (vec)LOAD(from);
        *(vec *)(to + LANES) = (vec)LOAD(from + LANES);
        return;
    }
    for (int64_t i = 0; i < T; i++)
        to[i] = i < m ? from[i] : 0.0;
}

TARGET static inline void JOIN(given, SET)(vec a, vec b, int64_t m, double *to)
{
    if (m >= T) {
        *(loose *)to = (loose)a;
        *(loose *)(to + LANES) = (loose)b;
        return;
    }
    double part[T] __attribute__((aligned(64)));
    *(vec *)part = a;
    *(vec *)(part + LANES) = b;
    for (int64_t i = 0; i < m; i++)
        to[i] = part[i];
}

/* Cut to a range; what is missing stays so. */
TARGET static inline vec JOIN(within, SET)(vec cells, double low, double high)
{
    bits below = cells < ALL(low), above = cells > ALL(high);
    bits in = (bits)cells & ~(below | above);
    return (vec)(in | ((bits)ALL(low) & below) | ((bits)ALL(high) & above));
}

/* Columns, wherever they lie, cut to their ranges: rows of the table side by side, so that columns of
   one array of rows are read a line of the cache at a time. */
TARGET static void JOIN(load, SET)(int64_t columns, int64_t m, const int64_t *from,
                                   const int64_t *apart, const double *low, const double *high,
                                   const int64_t *rows, double *out, int64_t ld_out)
{
    for (int64_t a = 0; a < m; a += T)
        for (int64_t j = 0; j < columns; j++) {
            const double *p = (const double *)(uintptr_t)from[j] + a * apart[j];
            int64_t step = apart[j];
            vec both[2];
            if (m - a >= T) {
                both[0] = SPREAD(p, step);
                both[1] = SPREAD(p + LANES * step, step);
            } else {
                double part[T] __attribute__((aligned(64)));
                for (int64_t i = 0; i < T; i++)
                    part[i] = i < m - a ? p[i * step] : 0.0;
                both[0] = *(const vec *)part, both[1] = *(const vec *)(part + LANES);
            }
            for (int h = 0; h < 2; h++)
                both[h] = JOIN(within, SET)(both[h], low[j], high[j]);
            JOIN(given, SET)(both[0], both[1], m - a, out + rows[j] * ld_out + a);
        }
}

TARGET static void JOIN(map, SET)(int64_t k, int64_t q, int64_t m, const double *matrix,
                                  const int64_t *from, const int64_t *to, const double *block,
                                  int64_t ld, double *out, int64_t ld_out, double *x)
{
    for (int64_t a = 0; a < m; a += T) {
        for (int64_t j = 0; j < q; j++)
            JOIN(taken, SET)(block + j * ld + a, m - a, x + j * T);
        for (int64_t i = 0; i < k; i++) {
            const double *row = matrix + i * q;
            vec s = {0}, t = {0};
            if (from[i] < to[i]) {
                const double *p = x + from[i] * T;
                s = *(const vec *)p * ALL(row[from[i]]);
                t = *(const vec *)(p + LANES) * ALL(row[from[i]]);
            }
            for (int64_t j = from[i] + 1; j < to[i]; j++) {
                const double *p = x + j * T;
                vec u = *(const vec *)p * ALL(row[j]);
                vec v = *(const vec *)(p + LANES) * ALL(row[j]);
                s += u;
                t += v;
            }
            JOIN(given, SET)(s, t, m - a, out + i * ld_out + a);
        }
    }
}

/* Cut the cells of a tile: hi and lo of each column, and the power of two that goes back. */
TARGET static inline void JOIN(cut, SET)(int64_t q, const double *size, double first,
                                         double second, double *x, vec *back)
{
    const bits exponent = (bits){0} + ((int64_t)2047 << 52), one = (bits){0} + ((int64_t)1 << 52);
    const bits reflected = (bits){0} + ((int64_t)2045 << 52);
    const bits sign = (bits){0} + INT64_MAX;
    for (int h = 0; h < 2; h++) {
        bits longest = {0};
        for (int64_t j = 0; j < q; j++) {
            double *p = x + j * 2 * T + h * LANES;
            vec t = *(vec *)p * ALL(size[j]);
            *(vec *)p = t;
            bits b = (bits)t & sign; /* of positive floats the order is that of integers */
            bits more = b > longest;
            longest = (b & more) | (longest & ~more);
        }
        bits e = longest & exponent;
        vec down = (vec)(reflected - e);
        /* a cell that is not finite: none of its row's images is */
        bits none = e == exponent;
        back[h] = (vec)(((e & ~none) + one) | (none & ((bits){0} + INT64_MAX)));
        for (int64_t j = 0; j < q; j++) {
            double *p = x + j * 2 * T + h * LANES;
            vec t = *(vec *)p * down;
            vec high = (t + ALL(first)) - ALL(first);
            t -= high;
            t = (t + ALL(second)) - ALL(second);
            *(vec *)p = t;
            *(vec *)(p + T) = high;
        }
    }
}

/* N rows of the matrix at once: sums of small and of large products of two vectors of rows */
#define SUMS(n) vec s##n##a = {0}, s##n##b = {0}, t##n##a = {0}, t##n##b = {0};
#define STEP(n)                                      \
    {                                                \
        vec u = ALL(M[n]), l = ALL(M[4 + n]);        \
        s##n##a = FMA(u, la, s##n##a);               \
        s##n##b = FMA(u, lb, s##n##b);               \
        t##n##a = FMA(u, ha, t##n##a);               \
        t##n##b = FMA(u, hb, t##n##b);               \
        s##n##a = FMA(l, ha, s##n##a);               \
        s##n##b = FMA(l, hb, s##n##b);               \
    }
#define END(n)                                                                    \
    if (i + n < k)                                                                \
        JOIN(given, SET)((s##n##a + t##n##a) * back[0], (s##n##b + t##n##b) * back[1], m - a, \
                         out + (i + n) * ld_out + a);

TARGET static void JOIN(map_exactly, SET)(int64_t k, int64_t q, int64_t m, const double *upper,
                                          const double *lower, const double *size, double first,
                                          double second, const double *block, int64_t ld,
                                          double *out, int64_t ld_out, double *work)
{
    /* the matrix by four rows: of each column four upper and four lower parts */
    double *x = work + 2 * round_up(k, 4) * q;
    for (int64_t i = 0; i < k; i += 4)
        for (int64_t j = 0; j < q; j++)
            for (int64_t n = 0; n < 4; n++) {
                double *M = work + (i * q + 4 * j) * 2 + n;
                M[0] = i + n < k ? upper[(i + n) * q + j] : 0.0;
                M[4] = i + n < k ? lower[(i + n) * q + j] : 0.0;
            }
    for (int64_t a = 0; a < m; a += T) {
        vec back[2];
        for (int64_t j = 0; j < q; j++)
            JOIN(taken, SET)(block + j * ld + a, m - a, x + j * 2 * T);
        JOIN(cut, SET)(q, size, first, second, x, back);
        for (int64_t i = 0; i < k; i += 4) {
            const double *M = work + i * q * 2;
            int64_t j = 0, end = q;
            /* columns that these rows do not see add exact zeros: rows that are not finite are
               told by the first, which sees all */
            if (i) {
                while (j < end && !M[8 * j] && !M[8 * j + 1] && !M[8 * j + 2] && !M[8 * j + 3]
                       && !M[8 * j + 4] && !M[8 * j + 5] && !M[8 * j + 6] && !M[8 * j + 7])
                    j++;
            }
            const double *p = x + j * 2 * T;
            M += 8 * j;
#if LANES == 8
            SUMS(0) SUMS(1) SUMS(2) SUMS(3)
            for (; j < end; j++, M += 8, p += 2 * T) {
                vec la = *(const vec *)p, lb = *(const vec *)(p + LANES);
                vec ha = *(const vec *)(p + T), hb = *(const vec *)(p + T + LANES);
                STEP(0) STEP(1) STEP(2) STEP(3)
            }
            END(0) END(1) END(2) END(3)
#else
            const double *M0 = M, *p0 = p;
            int64_t j0 = j;
            {
                SUMS(0) SUMS(1)
                for (; j < end; j++, M += 8, p += 2 * T) {
                    vec la = *(const vec *)p, lb = *(const vec *)(p + LANES);
                    vec ha = *(const vec *)(p + T), hb = *(const vec *)(p + T + LANES);
                    STEP(0) STEP(1)
                }
                END(0) END(1)
            }
            M = M0, p = p0, j = j0;
            {
                SUMS(2) SUMS(3)
                for (; j < end; j++, M += 8, p += 2 * T) {
                    vec la = *(const vec *)p, lb = *(const vec *)(p + LANES);
                    vec ha = *(const vec *)(p + T), hb = *(const vec *)(p + T + LANES);
                    STEP(2) STEP(3)
                }
                END(2) END(3)
            }
#endif
        }
    }
}
#undef SUMS
#undef STEP
#undef END

/* The matrix of a map by four rows, and the columns that these see: others are left out. */
TARGET static void JOIN(pack, SET)(const Steps *of)
{
    int64_t q = of->q;
    for (int64_t g = 0; 4 * g < of->k; g++) {
        int64_t *columns = of->seen + g * (q + 1), many = 0;
        for (int64_t j = 0; j < q; j++) {
            double *M = of->packed + 4 * (g * q + many);
            int any = 0;
            for (int64_t n = 0; n < 4; n++) {
                M[n] = 4 * g + n < of->k ? of->matrix[(4 * g + n) * q + j] : 0.0;
                any |= M[n] != 0.0;
            }
            if (any)
                columns[++many] = j;
        }
        columns[0] = many;
    }
}

/* The integers of an affine map: four rows of it at once, two vectors of rows of the table. A row of
   which an image and the same less or more what floats may err do not end in one integer is left in
   doubt; so is one with a cell that is none. z has as many rows as fours of the map. */
#define START(n) double c##n = i + n < k ? of->shift[i + n] : 0.0; vec s##n##a = ALL(c##n), s##n##b = s##n##a;
#define STEP(n)                            \
    {                                      \
        vec c = ALL(M[n]);                 \
        s##n##a = FMA(c, xa, s##n##a);     \
        s##n##b = FMA(c, xb, s##n##b);     \
    }
#define END(n)                                                              \
    if (i + n < k) {                                                        \
        const vec *e = err + (i + n < of->own ? 0 : 2);                     \
        vec ta = CUT(s##n##a + e[0]), tb = CUT(s##n##b + e[1]);             \
        vec la = CUT(s##n##a - e[0]), lb = CUT(s##n##b - e[1]);             \
        doubt[0] |= ta != la;                                               \
        doubt[1] |= tb != lb;                                               \
        if (i + n < of->own) {                                              \
            square[0] = square[0] + ta * ta;                                \
            square[1] = square[1] + tb * tb;                                \
        }                                                                   \
        *(vec *)(z + (i + n) * ldz) = ta;                                   \
        *(vec *)(z + (i + n) * ldz + LANES) = tb;                           \
    }

TARGET static void JOIN(in_steps, SET)(const Steps *of, const double *x, int64_t ldx, double *z,
                                       int64_t ldz, vec *square, bits *doubt)
{
    const bits sign = (bits){0} + INT64_MAX;
    int64_t k = of->k, q = of->q;
    const double *own = of->reach, *rest = of->reach + q + 1;
    /* of own rows, of the others: what their images may be off */
    vec err[4] = {ALL(own[q]), ALL(own[q]), ALL(rest[q]), ALL(rest[q])};
    for (int64_t j = 0; j < q; j++) {
        vec xa = *(const vec *)(x + j * ldx), xb = *(const vec *)(x + j * ldx + LANES);
        xa = (vec)((bits)xa & sign), xb = (vec)((bits)xb & sign);
        vec mine = ALL(own[j]), others = ALL(rest[j]);
        err[0] = FMA(mine, xa, err[0]), err[1] = FMA(mine, xb, err[1]);
        err[2] = FMA(others, xa, err[2]), err[3] = FMA(others, xb, err[3]);
    }
    for (int h = 0; h < 4; h++)
        err[h] = err[h] * ALL(of->ulps) + ALL(of->least);
    square[0] = square[1] = (vec){0};
    doubt[0] = doubt[1] = (bits){0};
    for (int64_t i = 0; i < k; i += 4) {
        const int64_t *columns = of->seen + i / 4 * (q + 1), *end = columns + columns[0];
        const double *M = of->packed + i * q;
        START(0) START(1) START(2) START(3)
        while (columns < end) {
            const double *p = x + *++columns * ldx;
            vec xa = *(const vec *)p, xb = *(const vec *)(p + LANES);
            STEP(0) STEP(1) STEP(2) STEP(3)
            M += 4;
        }
        END(0) END(1) END(2) END(3)
    }
}
#undef START
#undef STEP
#undef END

TARGET static void JOIN(steps, SET)(const Steps *of, int64_t m, const double *block, int64_t ld,
                                    double *out, int64_t ld_out, double *square,
                                    uint8_t *doubtful, double *x, double *z)
{
    JOIN(pack, SET)(of);
    for (int64_t a = 0; a < m; a += T) {
        vec length[2];
        bits doubt[2];
        for (int64_t j = 0; j < of->q; j++)
            JOIN(taken, SET)(block + j * ld + a, m - a, x + j * T);
        JOIN(in_steps, SET)(of, x, T, z, T, length, doubt);
        for (int64_t i = 0; i < of->k; i++)
            JOIN(given, SET)(*(const vec *)(z + i * T), *(const vec *)(z + i * T + LANES), m - a,
                             out + i * ld_out + a);
        JOIN(given, SET)(length[0], length[1], m - a, square + a);
        for (int64_t i = 0; i < T && a + i < m; i++)
            doubtful[a + i] = doubt[i / LANES][i % LANES] != 0;
    }
}

/* Sixteen products of four and four columns over a chunk, added to their vectors in acc. */
TARGET static inline void JOIN(four, SET)(const double *const *a, const double *const *b, int64_t m,
                                          vec *acc)
{
#define PAIR(i, j) vec g##i##j = acc[4 * i + j];
#define ROW(i) PAIR(i, 0) PAIR(i, 1) PAIR(i, 2) PAIR(i, 3)
#define ADD(i, j) g##i##j = FMA(x, y##j, g##i##j);
#define LINE(i) { vec x = (vec)LOAD(a[i] + n); ADD(i, 0) ADD(i, 1) ADD(i, 2) ADD(i, 3) }
#define KEEP(i) acc[4 * i] = g##i##0; acc[4 * i + 1] = g##i##1; acc[4 * i + 2] = g##i##2; \
    acc[4 * i + 3] = g##i##3;
#if LANES == 8
    ROW(0) ROW(1) ROW(2) ROW(3)
    for (int64_t n = 0; n < m; n += LANES) {
        vec y0 = (vec)LOAD(b[0] + n), y1 = (vec)LOAD(b[1] + n);
        vec y2 = (vec)LOAD(b[2] + n), y3 = (vec)LOAD(b[3] + n);
        LINE(0) LINE(1) LINE(2) LINE(3)
    }
    KEEP(0) KEEP(1) KEEP(2) KEEP(3)
#else
    {
        ROW(0) ROW(1)
        for (int64_t n = 0; n < m; n += LANES) {
            vec y0 = (vec)LOAD(b[0] + n), y1 = (vec)LOAD(b[1] + n);
            vec y2 = (vec)LOAD(b[2] + n), y3 = (vec)LOAD(b[3] + n);
            LINE(0) LINE(1)
        }
        KEEP(0) KEEP(1)
    }
    {
        ROW(2) ROW(3)
        for (int64_t n = 0; n < m; n += LANES) {
            vec y0 = (vec)LOAD(b[0] + n), y1 = (vec)LOAD(b[1] + n);
            vec y2 = (vec)LOAD(b[2] + n), y3 = (vec)LOAD(b[3] + n);
            LINE(2) LINE(3)
        }
        KEEP(2) KEEP(3)
    }
#endif
#undef PAIR
#undef ROW
#undef ADD
#undef LINE
#undef KEEP
}

TARGET static void JOIN(gram, SET)(int64_t k, int64_t m, const double *z, int64_t ld, double *out,
                                   double *work)
{
    int64_t groups = round_up(k, 4) / 4;
    double *zeros = work;
    vec *acc = (vec *)(work + 4 * CHUNK);
    for (int64_t i = 0; i < CHUNK; i++)
        zeros[i] = 0.0;
    for (int64_t i = 0; i < 16 * (groups * (groups + 1) / 2); i++)
        acc[i] = (vec){0};
    int64_t whole = m - m % LANES;
    for (int64_t at = 0; at < whole; at += CHUNK) {
        int64_t rows = whole - at < CHUNK ? whole - at : CHUNK;
        vec *here = acc;
        for (int64_t i = 0; i < groups; i++)
            for (int64_t j = 0; j <= i; j++, here += 16) {
                const double *a[4], *b[4];
                for (int64_t n = 0; n < 4; n++) {
                    a[n] = 4 * i + n < k ? z + (4 * i + n) * ld + at : zeros;
                    b[n] = 4 * j + n < k ? z + (4 * j + n) * ld + at : zeros;
                }
                JOIN(four, SET)(a, b, rows, here);
            }
    }
    vec *here = acc;
    for (int64_t i = 0; i < groups; i++)
        for (int64_t j = 0; j <= i; j++, here += 16)
            for (int64_t n = 0; n < 16; n++) {
                int64_t r = 4 * i + n / 4, c = 4 * j + n % 4;
                if (r >= k || c >= k)
                    continue;
                double sum = 0.0;
                for (int64_t lane = 0; lane < LANES; lane++)
                    sum += here[n][lane];
                for (int64_t at = whole; at < m; at++)
                    sum += z[r * ld + at] * z[c * ld + at];
                out[r * k + c] = sum;
                out[c * k + r] = sum;
            }
}
