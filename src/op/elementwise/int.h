/* The words of unary.inc and binary.inc for one lane of integers. The file that includes this, once for each,
 * defines T, U (T unsigned), BITS, FN(name) and IS_NEGATIVE(x). Arithmetic wraps; nothing traps. */

static inline T FN(neg)(T x) { return (T)(0 - (U)x); }
static inline T FN(abs)(T x) { return IS_NEGATIVE(x) ? FN(neg)(x) : x; }
static inline T FN(sign)(T x) { return (T)((x > 0) - IS_NEGATIVE(x)); }

static inline T FN(div)(T x, T y)
{
    if (y == 0) return 0;
    if (IS_NEGATIVE(y) && y == (T)-1) return FN(neg)(x); /* the minimum divided by -1 overflows */
    return x / y;
}

static inline T FN(fmod)(T x, T y) { return (T)((U)x - (U)FN(div)(x, y) * (U)y); }

static inline T FN(mod)(T x, T y)
{
    T rest = FN(fmod)(x, y);
    return y != 0 && rest != 0 && IS_NEGATIVE(rest) != IS_NEGATIVE(y) ? (T)((U)rest + (U)y) : rest;
}

static inline T FN(floor_div)(T x, T y)
{
    T rest = FN(fmod)(x, y);
    return FN(div)(x, y) - (T)(y != 0 && rest != 0 && IS_NEGATIVE(rest) != IS_NEGATIVE(y));
}

/* Negative powers: those of 1 and -1, otherwise 0. */
static inline T FN(pow)(T x, T y)
{
    if (IS_NEGATIVE(y)) return x == 1 ? 1 : x == (T)-1 ? (y % 2 ? x : 1) : 0;
    U result = 1, factor = (U)x;
    for (U rest = (U)y; rest; rest >>= 1, factor *= factor)
        if (rest & 1) result *= factor;
    return (T)result;
}

static inline T FN(shift_left)(T x, T y) { return (U)y < BITS ? (T)((U)x << (U)y) : 0; }
static inline T FN(shift_right)(T x, T y)
{
    if ((U)y < BITS) return x >> y;
    return IS_NEGATIVE(x) ? (T)-1 : 0;
}

/* A parameter, which is a double, as the nearest integer in range. */
static inline T FN(parameter)(double p)
{
    const double least = BITS == 32 ? -0x1p31 : IS_NEGATIVE((T)-1) ? -0x1p63 : 0;
    const double over  = BITS == 32 ? 0x1p31 : IS_NEGATIVE((T)-1) ? 0x1p63 : 0x1p64;
    const T      most  = (T)(IS_NEGATIVE((T)-1) ? (U)-1 >> 1 : (U)-1);
    if (!(p > least)) return p == p ? (T)((U)most + 1) : 0; /* wraps to the minimum */
    return p >= over ? most : (T)p;
}
