/* Stockham's transform: each stage splits one factor off the length and leaves its results in order.
 *
 * A stage reads r elements m = n / r apart and writes them next to each other, times a twiddle: the loops
 * over q, which covers all transforms and all that earlier stages split off, are vectorised.
 */
#include "op/signal/dft.h"

typedef struct stage {
    int64_t       n, m, s; /* length that is left, n / r, how many of them */
    int64_t       step;    /* between roots of unity of length n in the plan's table */
    ipu__dft_data x, y;
} stage;

static void radix_2(const ipu__dft_plan *plan, const stage *t)
{
    int64_t s = t->s;
    for (int64_t p = 0; p < t->m; p++) {
        double        wr = plan->re[p * t->step], wi = plan->im[p * t->step];
        const double *ar = t->x.re + s * p, *ai = t->x.im + s * p;
        const double *br = ar + s * t->m, *bi = ai + s * t->m;
        double *restrict yr = t->y.re + s * 2 * p, *restrict yi = t->y.im + s * 2 * p;
        double *restrict zr = yr + s, *restrict zi = yi + s;
        IPU__INDEPENDENT for (int64_t q = 0; q < s; q++)
        {
            double dr = ar[q] - br[q], di = ai[q] - bi[q];
            yr[q] = ar[q] + br[q];
            yi[q] = ai[q] + bi[q];
            zr[q] = dr * wr - di * wi;
            zi[q] = dr * wi + di * wr;
        }
    }
}

static void radix_4(const ipu__dft_plan *plan, const stage *t)
{
    int64_t s = t->s, far = s * t->m;
    for (int64_t p = 0; p < t->m; p++) {
        const double *xr = t->x.re + s * p, *xi = t->x.im + s * p;
        double *restrict yr = t->y.re + s * 4 * p, *restrict yi = t->y.im + s * 4 * p;
        double w1r = plan->re[p * t->step], w1i = plan->im[p * t->step];
        double w2r = plan->re[2 * p * t->step], w2i = plan->im[2 * p * t->step];
        double w3r = plan->re[3 * p * t->step], w3i = plan->im[3 * p * t->step];
        IPU__INDEPENDENT for (int64_t q = 0; q < s; q++)
        {
            double pr = xr[q] + xr[q + 2 * far], pi = xi[q] + xi[q + 2 * far];
            double mr = xr[q] - xr[q + 2 * far], mi = xi[q] - xi[q + 2 * far];
            double sr = xr[q + far] + xr[q + 3 * far], si = xi[q + far] + xi[q + 3 * far];
            double dr = xi[q + far] - xi[q + 3 * far], di = xr[q + 3 * far] - xr[q + far]; /* -i (b - d) */
            double ar = mr + dr, ai = mi + di, br = pr - sr, bi = pi - si, cr = mr - dr, ci = mi - di;
            yr[q]         = pr + sr;
            yi[q]         = pi + si;
            yr[q + s]     = ar * w1r - ai * w1i;
            yi[q + s]     = ar * w1i + ai * w1r;
            yr[q + 2 * s] = br * w2r - bi * w2i;
            yi[q + 2 * s] = br * w2i + bi * w2r;
            yr[q + 3 * s] = cr * w3r - ci * w3i;
            yi[q + 3 * s] = cr * w3i + ci * w3r;
        }
    }
}

/* y (+)= x w */
static void accumulate(const double *xr, const double *xi, double wr, double wi, double *restrict yr,
                       double *restrict yi, int64_t n, bool is_first)
{
    if (is_first) {
        for (int64_t q = 0; q < n; q++) {
            yr[q] = xr[q] * wr - xi[q] * wi;
            yi[q] = xr[q] * wi + xi[q] * wr;
        }
        return;
    }
    for (int64_t q = 0; q < n; q++) {
        yr[q] += xr[q] * wr - xi[q] * wi;
        yi[q] += xr[q] * wi + xi[q] * wr;
    }
}

/* The twiddle e^(-2 pi i j p / n) and the root e^(-2 pi i j k / r) are one: both are in the table. */
static void radix_any(const ipu__dft_plan *plan, const stage *t, int r)
{
    int64_t s = t->s, root = plan->n / r;
    for (int64_t p = 0; p < t->m; p++)
        for (int64_t j = 0; j < r; j++)
            for (int64_t k = 0; k < r; k++) {
                int64_t at = (j * p * t->step + j * k % r * root) % plan->n;
                accumulate(t->x.re + s * (p + k * t->m), t->x.im + s * (p + k * t->m), plan->re[at],
                           plan->im[at], t->y.re + s * (r * p + j), t->y.im + s * (r * p + j), s, k == 0);
            }
}

static bool transform(const ipu__dft_plan *plan, int64_t n_lanes, ipu__dft_data x, ipu__dft_data y)
{
    stage t = {.n = plan->n, .s = n_lanes, .x = x, .y = y};
    for (int i = 0; i < plan->n_factors; i++) {
        int r  = plan->factor[i];
        t.m    = t.n / r;
        t.step = plan->n / t.n;
        if (r == 2)
            radix_2(plan, &t);
        else if (r == 4)
            radix_4(plan, &t);
        else
            radix_any(plan, &t, r);
        ipu__dft_data swap = t.x;
        t.x                = t.y;
        t.y                = swap;
        t.n                = t.m;
        t.s *= r;
    }
    return plan->n_factors % 2 == 1;
}

const ipu__dft_loops IPU__SIMD(ipu__dft_loops_of) = {.transform = transform};
