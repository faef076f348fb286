/* How loops over blocks are written so that gcc and clang vectorise them. */
#ifndef IPU_OP_VECTOR_BLOCK_H
#define IPU_OP_VECTOR_BLOCK_H

#include "base/simd.h"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops that call C library functions stay scalar */
#endif

#define IPU__BLOCK_UNARY(function, From, Work, To, value)                                       \
    static void function(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                           \
        const From *a  = in[0];                                                                 \
        To         *to = out;                                                                   \
        const Work  p = PARAMETER(Work, parameters[0]), q = PARAMETER(Work, parameters[1]);     \
        (void)p, (void)q;                                                                       \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                        \
        {                                                                                       \
            const Work x = (Work)a[i];                                                          \
            to[i]        = (To)(value);                                                         \
        }                                                                                       \
    }

#define IPU__BLOCK_BINARY(function, From, Work, To, value)                                      \
    static void function(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                           \
        const From *a = in[0], *b = in[1];                                                      \
        To         *to = out;                                                                   \
        (void)parameters;                                                                       \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                        \
        {                                                                                       \
            const Work x = (Work)a[i], y = (Work)b[i];                                          \
            to[i] = (To)(value);                                                                \
        }                                                                                       \
    }

/* in[0]: bool. */
#define IPU__BLOCK_WHERE(function, T)                                                           \
    static void function(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                           \
        const unsigned char *condition = in[0];                                                 \
        const T             *a = in[1], *b = in[2];                                             \
        T                   *to = out;                                                          \
        (void)parameters;                                                                       \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = condition[i] ? a[i] : b[i];    \
    }

#define IPU__BLOCK_MASK(function, T)                                                            \
    static void function(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                           \
        const T *x = in[0], *y = in[1], *z = in[2];                                             \
        T       *to = out;                                                                      \
        (void)parameters;                                                                       \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = x[i] > z[i] ? y[i] : z[i];     \
    }

#endif
