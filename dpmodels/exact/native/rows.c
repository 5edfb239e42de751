/* Products of a block of rows: the map of rows and their Gram matrix (exact/theory.md, 1.5); and sums
   by cell and number (1.9).

   Trusted code. No allocation, no static state, no input or output, no pointer that is kept: every
   buffer is the caller's, every function is told every length and checks it before it reads
   anything. Nothing depends on what a cell is but the numbers that are written. */

#include <stddef.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "rows must not be multiplied under -ffast-math"
#endif
#if !defined(__GNUC__) || __FLT_EVAL_METHOD__ != 0
#error "this file needs vector extensions, and doubles that are doubles"
#endif

#if defined(_WIN32)
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

#define MOST_ROWS 8192    /* of a block: sums of products of integers up to 2^20 are exact */
#define MOST_COLUMNS 4096
#define CHUNK 512         /* rows of a Gram matrix at once: eight columns of them fit the cache */
#define GROUP 8           /* vectors of rows whose coordinates are worked off together */
#define WIDEST 8          /* doubles of the widest vector */
#define TILE 256          /* rows of a pass that are worked off together ... */
#define WIDE (TILE + 16)  /* ... and from one of their columns to the next: not a power of two */
#define MOST_OF_PASS (1 << 20) /* rows of a call: sums of products fit 64 bits */
#define SHORTEST 1e-140   /* lengths that rows are divided by ... */
#define LONGEST 1.7e308   /* ... are between these */
#define NONE __builtin_nan("") /* the squared length of what is no row */

/* Numbers of a scoring pass, in this order. */
enum { STEP, TOP, LONG, LEAST, VAST, LEVERAGE, SOFTENED, KEPT, SLOPE, CLIP, MOST, FACTOR,
       CUT_OF_SCALE, FIRST, BINS, SIGNED, RESIDUAL, ORDINARY, MEAT, FAR_RADIUS, FAR_TOP, FAR_FACTOR,
       NUMBERS };

/* An affine map to whole steps: k rows of q columns, the first `own` of one size. */
typedef struct {
    int64_t k, q, own;
    const double *matrix, *shift, *reach;
    double ulps, least;
    double *packed;
    int64_t *seen;
} Steps;

/* Columns of a table: addresses, doubles from cell to cell (0: one cell for all), ranges. */
typedef struct {
    int64_t q;
    const int64_t *from, *apart;
    const double *low, *high;
} Columns;

/* A scoring pass on its way: its numbers, the rows of a tile, the sums of floats since they were
   last made integers, and the integers. */
typedef struct {
    int64_t k, waiting;
    const double *is;
    const int64_t *chosen, *last;
    double *z, *psi, *square, *length, *norm, *kept, *some[2];
    double *gram[3], *score, *scale, *far;
    int64_t *grams, *sums, *bins;
} Adding;

/* Rows by cell and number: rows of a call and of a tile, numbers of a row, cells; columns of a tile. */
#define MOST_BY_CELL 65536
#define BY_TILE 64
#define MOST_NUMBERS 16
#define MOST_CELLS 1048576
#define WHOLE_NUMBER(most) ((most) >= 0.0 && (most) <= 1048576.0)
#define COLUMNS(d) (11 + 3 * (d))

/* Numbers of a scoring pass by cell, in this order. */
enum { BY_UNIT, BY_KEPT, BY_MEAT, BY_MOST_MEAT, BY_FACTOR_MEAT, BY_SPREAD, BY_MOST_SPREAD,
       BY_FACTOR_SPREAD, BY_MOST, BY_FACTOR, BY_CUT, BY_CLIP, BY_LOWEST, BY_FIRST, BY_BINS,
       BY_SIGNED, BY_NUMBERS };

static inline int64_t round_up(int64_t n, int64_t to) { return n + (to - n % to) % to; }

/* A sum of integers that floats held exactly; nothing is left of it. */
static inline int64_t whole_sum(double *parts, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += parts[i];
        parts[i] = 0.0;
    }
    return (int64_t)sum;
}

/* The integers of a row as they are defined, and its squared length in the own coordinates: column
   after column, each product and each sum rounded once. A cell that is none reaches every image, also
   through a zero. */
static double as_defined(const Steps *of, const double *x, int64_t ldx, double *z, int64_t ldz)
{
    double square = 0.0;
    for (int64_t i = 0; i < of->k; i++) {
        const double *row = of->matrix + i * of->q;
        double s = row[0] * x[0];
        for (int64_t j = 1; j < of->q; j++)
            s += row[j] * x[j * ldx];
        s += of->shift[i];
        if (s < 4503599627370496.0 && s > -4503599627370496.0)
            s = (double)(int64_t)s; /* beyond there are whole numbers only */
        z[i * ldz] = s;
        if (i < of->own)
            square += s * s;
    }
    return square;
}

/* A row of the tile among those whose products of ordinary information and of meat are wanted. */
static void one_chosen(Adding *to, int64_t i)
{
    const double *is = to->is;
    double length = to->length[i], norm = to->norm[i], ratio = length > 0.0 ? norm / length : 0.0;
    double near = is[TOP] / length, far = is[TOP] / norm;
    near = near < is[TOP] / is[ORDINARY] ? near : is[TOP] / is[ORDINARY];
    far = far < is[TOP] / is[MEAT] ? far : is[TOP] / is[MEAT];
    if (!(length >= SHORTEST && length <= LONGEST))
        near = 0.0;
    if (!(norm >= SHORTEST && norm <= LONGEST))
        far = 0.0;
    for (int64_t c = 0; c < to->k; c++) {
        double cell = to->z[c * WIDE + i];
        to->some[0][c * WIDE + to->waiting] = cell * near;
        to->some[1][c * WIDE + to->waiting] = cell * ratio * far;
    }
    to->waiting++;
}

/* What scores of a tile are beyond the clip, on a lattice of their own. */
static void far_scores(const Adding *to, int64_t m)
{
    const double *is = to->is;
    for (int64_t i = 0; i < m; i++) {
        double norm = to->norm[i], length = to->length[i];
        if (!(norm > is[KEPT]))
            continue;
        double size = (norm < is[FAR_TOP] ? norm : is[FAR_TOP]) - to->kept[i];
        if (!(size > 0.0 && length >= SHORTEST && length <= LONGEST))
            continue;
        double by = size < is[FAR_RADIUS] ? size : is[FAR_RADIUS];
        by = __builtin_copysign(by, to->psi[i]) / length * is[FAR_FACTOR];
        for (int64_t c = 0; c < to->k; c++) {
            double part = to->z[c * WIDE + i] * by;
            if (part <= 1048576.0 && part >= -1048576.0)
                to->far[c] += (double)(int64_t)part;
        }
    }
}

/* the names of one instruction set: name_plain, name_avx2, name_avx512 */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

#define LANES 2
#define SET plain
#define TARGET
#define FMA(a, b, c) ((a) * (b) + (c))
#define CUT(a) JOIN(towards_zero, SET)(a)
#define ROOT(a) ((vec){__builtin_sqrt((a)[0]), __builtin_sqrt((a)[1])})
#define SPREAD(p, s) ((vec){(p)[0], (p)[s]})
#include "rows.h"
#include "passes.h"
#include "cells.h"
#undef LANES
#undef SET
#undef TARGET
#undef FMA
#undef CUT
#undef ROOT
#undef SPREAD

#if defined(__x86_64__) && !defined(DP_PLAIN)
#include <immintrin.h>

#define LANES 4
#define SET avx2
#define TARGET __attribute__((target("avx2,fma")))
#define FMA(a, b, c) ((vec)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define ROOT(a) ((vec)_mm256_sqrt_pd((__m256d)(a)))
#define SPREAD(p, s) ((vec){(p)[0], (p)[s], (p)[2 * (s)], (p)[3 * (s)]})
#define CUT(a) ((vec)_mm256_round_pd((__m256d)(a), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
#include "rows.h"
#include "passes.h"
#include "cells.h"
#undef LANES
#undef SET
#undef TARGET
#undef FMA
#undef CUT
#undef ROOT
#undef SPREAD

#define LANES 8
#define SET avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))
#define FMA(a, b, c) ((vec)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define ROOT(a) ((vec)_mm512_sqrt_pd((__m512d)(a)))
#define SPREAD(p, s) ((vec){(p)[0], (p)[s], (p)[2 * (s)], (p)[3 * (s)], (p)[4 * (s)], \
                            (p)[5 * (s)], (p)[6 * (s)], (p)[7 * (s)]})
#define CUT(a) ((vec)_mm512_roundscale_pd((__m512d)(a), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
#include "rows.h"
#include "passes.h"
#include "cells.h"
#undef LANES
#undef SET
#undef TARGET
#undef FMA
#undef CUT
#undef ROOT
#undef SPREAD
#endif

/* What this was built from, and the widest instruction set of this processor: 0, 1, 2. */
PUBLIC uint64_t dp_number(void) { return DP_NUMBER; }

PUBLIC int dp_widest(void)
{
#if defined(__x86_64__) && !defined(DP_PLAIN)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return 1;
#endif
    return 0;
}

/* Doubles of work that each function needs. */
PUBLIC int64_t dp_need(int64_t k, int64_t q)
{
    int64_t of_map = 2 * round_up(k, 4) * q + 4 * WIDEST * q;
    int64_t groups = round_up(k, 4) / 4;
    int64_t of_steps = 2 * WIDEST * (q + 4 * groups) + 4 * groups * q + groups * (q + 1);
    int64_t of_gram = 16 * WIDEST * (groups * (groups + 1) / 2) + 4 * CHUNK;
    int64_t most = of_map > of_gram ? of_map : of_gram;
    return most > of_steps ? most : of_steps;
}

/* The same of whole passes of k coordinates over q columns. */
PUBLIC int64_t dp_need_of_pass(int64_t k, int64_t q)
{
    int64_t k4 = round_up(k + 1, 4), groups = k4 / 4;
    return 3 * 16 * WIDEST * (groups * (groups + 1) / 2) + (q + 3 * k4 + 5) * WIDE
           + k4 * WIDEST + WIDEST + k4 + 4 * groups * q + groups * (q + 1);
}

static int bad(int64_t k, int64_t q, int64_t m, int64_t ld, int64_t ld_out, const void *work,
               int64_t work_len)
{
    if (k < 1 || k > MOST_COLUMNS || q < 1 || q > MOST_COLUMNS)
        return 1;
    if (m < 0 || m > MOST_ROWS || ld < m || ld_out < m)
        return 2;
    if ((uintptr_t)work % 64 || work_len < dp_need(k, q))
        return 3;
    return 0;
}

#if defined(__x86_64__) && !defined(DP_PLAIN)
#define EACH(name, ...)                                \
    if (set == 2) JOIN(name, avx512)(__VA_ARGS__);     \
    else if (set == 1) JOIN(name, avx2)(__VA_ARGS__);  \
    else JOIN(name, plain)(__VA_ARGS__);
#else
#define EACH(name, ...) JOIN(name, plain)(__VA_ARGS__);
#endif

/* Rows of out (q, m), those that `rows` (columns) names: columns of a table, which begin at the
   addresses `from` and have their cells `apart` doubles from each other, cut to low and high. */
PUBLIC int dp_load(int set, int64_t columns, int64_t m, int64_t q, const int64_t *from,
                   const int64_t *apart, const double *low, const double *high,
                   const int64_t *rows, double *out, int64_t ld_out)
{
    if (columns < 1 || columns > q || q > MOST_COLUMNS)
        return 1;
    if (m < 0 || m > MOST_ROWS || ld_out < m)
        return 2;
    if (set < 0 || set > dp_widest())
        return 4;
    for (int64_t j = 0; j < columns; j++)
        if (rows[j] < 0 || rows[j] >= q || !(low[j] <= high[j]))
            return 5;
    EACH(load, columns, m, from, apart, low, high, rows, out, ld_out)
    return 0;
}

/* out (k, m) = matrix (k, q) times block (q, m), column after column, each product and each sum
   rounded once. Row i sees the columns from[i] to to[i]; none where they are equal. */
PUBLIC int dp_map(int set, int64_t k, int64_t q, int64_t m, const double *matrix,
                  const int64_t *from, const int64_t *to, const double *block, int64_t ld,
                  double *out, int64_t ld_out, double *work, int64_t work_len)
{
    int code = bad(k, q, m, ld, ld_out, work, work_len);
    if (code || set < 0 || set > dp_widest())
        return code ? code : 4;
    for (int64_t i = 0; i < k; i++)
        if (from[i] < 0 || to[i] > q || from[i] > to[i])
            return 5;
    EACH(map, k, q, m, matrix, from, to, block, ld, out, ld_out, work)
    return 0;
}

/* The same of many columns by parts whose products are exact: upper (k, q), lower (k, q) of the
   matrix, a power of two a column, and the two numbers that cut a cell. */
PUBLIC int dp_map_exactly(int set, int64_t k, int64_t q, int64_t m, const double *upper,
                          const double *lower, const double *size, double first, double second,
                          const double *block, int64_t ld, double *out, int64_t ld_out,
                          double *work, int64_t work_len)
{
    int code = bad(k, q, m, ld, ld_out, work, work_len);
    if (code || set < 0 || set > dp_widest())
        return code ? code : 4;
    EACH(map_exactly, k, q, m, upper, lower, size, first, second, block, ld, out, ld_out, work)
    return 0;
}

/* Integers of rows: out (k, m) = trunc(matrix (k, q) block (q, m) + shift (k)), square (m) of their
   lengths in the first `own` coordinates, and which rows (m) are in doubt. reach (2, q + 1): largest
   absolute entries of each column and of the shift, of the own coordinates and of the others. */
PUBLIC int dp_steps(int set, int64_t k, int64_t q, int64_t m, int64_t own, const double *matrix,
                    const double *shift, const double *reach, double ulps, double least,
                    const double *block, int64_t ld, double *out, int64_t ld_out, double *square,
                    uint8_t *doubtful, double *work, int64_t work_len)
{
    int code = bad(k, q, m, ld, ld_out, work, work_len);
    if (code || set < 0 || set > dp_widest())
        return code ? code : 4;
    if (own < 1 || own > k)
        return 5;
    int64_t k4 = round_up(k, 4);
    double *z = work + 2 * WIDEST * q, *packed = z + 2 * WIDEST * k4;
    const Steps of = {k, q, own, matrix, shift, reach, ulps, least, packed,
                      (int64_t *)(packed + k4 * q)};
    EACH(steps, &of, m, block, ld, out, ld_out, square, doubtful, work, z)
    return 0;
}

/* out (k, k) = z z', z (k, m) of integers of at most 2^20: exact in any order. */
PUBLIC int dp_gram(int set, int64_t k, int64_t m, const double *z, int64_t ld, double *out,
                   double *work, int64_t work_len)
{
    int code = bad(k, k, m, ld, ld, work, work_len);
    if (code || set < 0 || set > dp_widest())
        return code ? code : 4;
    EACH(gram, k, m, z, ld, out, work)
    return 0;
}

/* -- Whole passes -------------------------------------------------------------------------------- */

static int bad_pass(int set, int64_t k, int64_t q, int64_t m, const void *work, int64_t work_len)
{
    if (k < 1 || k > MOST_COLUMNS || q < 1 || q > MOST_COLUMNS)
        return 1;
    if (m < 0 || m > MOST_OF_PASS)
        return 2;
    if ((uintptr_t)work % 64 || work_len < dp_need_of_pass(k, q))
        return 3;
    return set < 0 || set > dp_widest() ? 4 : 0;
}

static int bad_columns(const Columns *of)
{
    for (int64_t j = 0; j < of->q; j++)
        if (of->apart[j] < 0 || !(of->low[j] <= of->high[j]))
            return 5;
    return 0;
}

static int bad_numbers(const double *is, int64_t numbers, int64_t m, const int64_t *chosen,
                       int64_t many_chosen, int64_t many)
{
    if (numbers != NUMBERS || !(is[BINS] >= 1.0 && is[BINS] <= 64.0)
        || many < (int64_t)is[BINS] * (is[SIGNED] != 0.0 ? 2 : 1)
        || !(is[FIRST] >= 0.0 && is[FIRST] <= 2048.0) || !(is[CUT_OF_SCALE] > 0.0))
        return 5;
    for (int64_t i = 0; i < many_chosen; i++)
        if (chosen[i] < (i ? chosen[i - 1] + 1 : 0) || chosen[i] >= m)
            return 6;
    return many_chosen < 0 ? 6 : 0;
}

static double *zeros(double *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = 0.0;
    return at + n;
}

/* Parts of the work of a pass. Sums begin at zero, and rows below the k coordinates are zeros. What is
   behind them is for the map. */
static double *laid_out(Adding *to, int64_t k, int64_t q, double *work, double **x)
{
    int64_t k4 = round_up(k + 1, 4), groups = k4 / 4, pairs = 8 * groups * (groups + 1);
    to->k = k, to->waiting = 0;
    for (int part = 0; part < 3; part++) {
        to->gram[part] = work;
        work = zeros(work, pairs * WIDEST);
    }
    double **rows[] = {&to->z, &to->some[0], &to->some[1]};
    for (int i = 0; i < 3; i++) {
        *rows[i] = work;
        work = zeros(work + (k - 1) * WIDE, (k4 - k + 1) * WIDE);
    }
    *x = work, work += q * WIDE;
    double **arrays[] = {&to->psi, &to->square, &to->length, &to->norm, &to->kept};
    for (int i = 0; i < 5; i++, work += WIDE)
        *arrays[i] = work;
    to->score = work;
    to->scale = work + k4 * WIDEST;
    to->far = to->scale + WIDEST;
    return zeros(work, k4 * WIDEST + WIDEST + k4);
}

/* A scoring pass over rows z (k, m) in whole steps, with their psi and squared lengths: adds to grams
   (3, k, k) of information, ordinary information and meat, the latter of the rows `chosen`; to sums
   (2 k + 1) of scores, of what they are beyond the clip, and of the scale; to bins (many: 2 BINS where
   signs count). What the pass is stands in `is` (NUMBERS). */
PUBLIC int dp_scores(int set, int64_t k, int64_t m, const double *z, int64_t ld, const double *psi,
                     const double *square, const double *is, int64_t numbers,
                     const int64_t *chosen, int64_t many_chosen, int64_t *grams, int64_t *sums,
                     int64_t *bins, int64_t many, double *work, int64_t work_len)
{
    int code = bad_pass(set, k, 1, m, work, work_len);
    if (!code && (m > MOST_ROWS || ld < m))
        code = 2;
    if (!code)
        code = bad_numbers(is, numbers, m, chosen, many_chosen, many);
    if (code)
        return code;
    double *x;
    Adding to = {.is = is, .chosen = chosen, .last = chosen + many_chosen, .grams = grams,
                 .sums = sums, .bins = bins};
    laid_out(&to, k, 1, work, &x);
    EACH(scores, m, z, ld, psi, square, &to)
    return 0;
}

/* The same of least squares over columns: own coordinates and the residual behind them by the map of
   dp_steps. k: own or more. */
PUBLIC int dp_pass(int set, int64_t k, int64_t q, int64_t m, int64_t own, const double *matrix,
                   const double *shift, const double *reach, double ulps, double least,
                   const int64_t *from, const int64_t *apart, const double *low,
                   const double *high, const double *is, int64_t numbers, const int64_t *chosen,
                   int64_t many_chosen, int64_t *grams, int64_t *sums, int64_t *bins,
                   int64_t many, double *work, int64_t work_len)
{
    const Columns columns = {q, from, apart, low, high};
    int code = bad_pass(set, k, q, m, work, work_len);
    if (!code)
        code = own < 1 || own > k ? 5 : bad_columns(&columns);
    if (!code)
        code = bad_numbers(is, numbers, m, chosen, many_chosen, many);
    if (code)
        return code;
    double *x;
    Adding to = {.is = is, .chosen = chosen, .last = chosen + many_chosen, .grams = grams,
                 .sums = sums, .bins = bins};
    double *packed = laid_out(&to, k, q, work, &x);
    const Steps of = {own + 1, q, own, matrix, shift, reach, ulps, least, packed,
                      (int64_t *)(packed + round_up(own + 1, 4) * q)};
    EACH(pass, &of, &columns, m, &to, x)
    return 0;
}

/* Second moments of rows over columns, in the ball of `top` steps: adds to out (k, k). By the map of
   dp_steps, or where it is diagonal by a factor and a shift (k = q) each. */
PUBLIC int dp_moments(int set, int64_t k, int64_t q, int64_t m, int diagonal,
                      const double *matrix, const double *shift, const double *reach, double ulps,
                      double least, const int64_t *from, const int64_t *apart, const double *low,
                      const double *high, double top, double most, int64_t *out, double *work,
                      int64_t work_len)
{
    const Columns columns = {q, from, apart, low, high};
    int code = bad_pass(set, k, q, m, work, work_len);
    if (!code)
        code = (diagonal && k != q) || !(top > 0.0 && top <= 1048576.0) ? 5 : bad_columns(&columns);
    if (code)
        return code;
    double *x;
    Adding to;
    double *packed = laid_out(&to, k, q, work, &x);
    const Steps of = {k, q, k, matrix, shift, reach, ulps, least, packed,
                      (int64_t *)(packed + round_up(k, 4) * q)};
    EACH(moments, &of, diagonal, &columns, m, top, most, out, x, to.z, to.square, to.gram[0])
    return 0;
}

/* Doubles of work that rows by cell and number need. */
PUBLIC int64_t dp_need_by_cell(int64_t d)
{
    return COLUMNS(d) * BY_TILE + (d * (d + 1) / 2 + 1 + d) * WIDEST;
}

static int bad_by_cell(int set, int64_t d, int64_t K, int64_t m, int64_t ld)
{
    if (d < 1 || d > MOST_NUMBERS || K < 1 || K > MOST_CELLS)
        return 1;
    if (m < 0 || m > MOST_BY_CELL || ld < m)
        return 2;
    return set < 0 || set > dp_widest() ? 4 : 0;
}

/* Rows by cell and number, all coordinates in a ball: block (d, m) of numbers and cells (m), tables at
   (K, 1 + d) and map (2 + 2 d + d d). Of rows inside, added: to by (K, 1 + d) how many they are and
   their integers, to among (d (d + 1)/2) the products of these. dense (m): rows that are not inside,
   in no void cell. */
PUBLIC int dp_ball_by_cell(int set, int64_t d, int64_t K, int64_t m, const double *map,
                           const double *at, const double *block, int64_t ld,
                           const int64_t *cells, int64_t *by, int64_t *among, uint8_t *dense,
                           double *work, int64_t work_len)
{
    int code = bad_by_cell(set, d, K, m, ld);
    if (code)
        return code;
    if ((uintptr_t)work % 64 || work_len < dp_need_by_cell(d))
        return 3;
    EACH(ball_by_cell, d, K, m, map, at, block, ld, cells, by, among, dense, work)
    return 0;
}

/* out (m) = of_cells (K) of the row's cell + slopes (d) times its numbers; NaN where it has no cell. */
PUBLIC int dp_seen_by_cell(int set, int64_t d, int64_t K, int64_t m, const double *of_cells,
                           const double *slopes, const double *block, int64_t ld,
                           const int64_t *cells, double *out)
{
    int code = bad_by_cell(set, d, K, m, ld);
    if (code)
        return code;
    EACH(seen_by_cell, d, K, m, of_cells, slopes, block, ld, cells, out)
    return 0;
}

/* The same of a scoring pass, whose scores are short (what the pass is stands in `is`): by (K, 2 + d)
   has the integers of scores too; chosen (K, 2 (1 + d)) weights, and weights times integers, of meat
   and of ordinary information, of the rows that `some` (m, or none) names; among, of p = d (d + 1)/2
   products: products, scale, scores times integers (d), and of both weights low and high words of
   products (4 p). */
PUBLIC int dp_scores_by_cell(int set, int64_t d, int64_t K, int64_t m, const double *map,
                             const double *at, const double *block, int64_t ld,
                             const int64_t *cells, const double *seen, const double *psi,
                             const uint8_t *some, const double *is, int64_t numbers, int64_t *by,
                             int64_t *chosen, int64_t *among, int64_t *bins, int64_t many,
                             uint8_t *dense, double *work, int64_t work_len)
{
    int code = bad_by_cell(set, d, K, m, ld);
    if (code)
        return code;
    if ((uintptr_t)work % 64 || work_len < dp_need_by_cell(d))
        return 3;
    if (numbers != BY_NUMBERS || !(is[BY_BINS] >= 1.0 && is[BY_BINS] <= 64.0)
        || many < (int64_t)is[BY_BINS] * (is[BY_SIGNED] != 0.0 ? 2 : 1)
        || !(is[BY_FIRST] >= 0.0 && is[BY_FIRST] <= 2048.0) || !(is[BY_CUT] > 0.0)
        || !(is[BY_CLIP] > 0.0) || !WHOLE_NUMBER(is[BY_FACTOR] * is[BY_MOST])
        || !WHOLE_NUMBER(is[BY_FACTOR_MEAT] * is[BY_MOST_MEAT])
        || !WHOLE_NUMBER(is[BY_FACTOR_SPREAD] * is[BY_MOST_SPREAD]))
        return 5;
    EACH(scores_by_cell, d, K, m, map, at, block, ld, cells, seen, psi, some, is, by, chosen, among,
         bins, dense, work)
    return 0;
}
