/* Moves on a host: loops over bytes, and transposes in squares that fit cache lines. */
#include "engine/cpu/move.h"

#include <string.h>

int64_t ipu__moves_nanoseconds(const ipu__moves *moves, size_t first, size_t n)
{
    int64_t sum = 0; /* 5 ns per move, 1 ns per unit, 1 ns per 8 bytes: roughly a 3 GHz core */
    for (size_t i = first; i < first + n; i++) {
        const ipu__move *move = &moves->at.at[i];
        sum += 5 + move->bytes / move->unit + move->bytes / 8;
    }
    return sum;
}

/* Elements of `bits` bits, in one row or several. Host buffers need not be aligned: memcpy of a fixed size
 * is a plain load or store. A transpose goes in squares as wide as a cache line through a buffer, so that
 * every line of source and target is touched once, however badly their strides suit the cache. */
enum { LINE = 64 };

#define STRIDED(bits)                                                                                     \
    static void row_##bits(char *to, const char *from, int64_t n, int64_t to_step, int64_t from_step)     \
    {                                                                                                     \
        uint##bits##_t x;                                                                                 \
        if (from_step == 0) {                                                                             \
            memcpy(&x, from, sizeof x);                                                                   \
            if (to_step == (int64_t)sizeof x)                                                             \
                for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)sizeof x, &x, sizeof x);         \
            else                                                                                          \
                for (int64_t i = 0; i < n; i++, to += to_step) memcpy(to, &x, sizeof x);                  \
            return;                                                                                       \
        }                                                                                                 \
        for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                               \
            memcpy(&x, from, sizeof x);                                                                   \
            memcpy(to, &x, sizeof x);                                                                     \
        }                                                                                                 \
    }                                                                                                     \
    static void square_##bits(char *to, const char *from, int64_t to_step, int64_t from_step)             \
    {                                                                                                     \
        enum { SIDE = LINE / sizeof(uint##bits##_t) };                                                    \
        uint##bits##_t square[SIDE][SIDE], row[SIDE];                                                     \
        for (int c = 0; c < SIDE; c++) memcpy(square[c], from + c * from_step, LINE);                     \
        for (int r = 0; r < SIDE; r++) {                                                                  \
            for (int c = 0; c < SIDE; c++) row[c] = square[c][r];                                         \
            memcpy(to + r * to_step, row, LINE);                                                          \
        }                                                                                                 \
    }                                                                                                     \
    static void block_##bits(char *to, const char *from, const ipu__stride *o, const ipu__stride *i)      \
    {                                                                                                     \
        const int64_t unit = sizeof(uint##bits##_t), side = LINE / unit;                                  \
        bool          squares = o->from == unit && i->to == unit && o->count >= side && i->count >= side; \
        int64_t       rows    = squares ? o->count - o->count % side : 0;                                 \
        int64_t       columns = squares ? i->count - i->count % side : 0;                                 \
        for (int64_t r = 0; r < rows; r += side)                                                          \
            for (int64_t c = 0; c < columns; c += side)                                                   \
                square_##bits(to + r * o->to + c * unit, from + r * unit + c * i->from, o->to, i->from);  \
        for (int64_t r = 0; r < o->count; r++) {                                                          \
            int64_t c = r < rows ? columns : 0;                                                           \
            row_##bits(to + r * o->to + c * i->to, from + r * o->from + c * i->from, i->count - c, i->to, \
                       i->from);                                                                          \
        }                                                                                                 \
    }
STRIDED(8)
STRIDED(16)
STRIDED(32)
STRIDED(64)
#undef STRIDED

static void rows_of_bytes(char *to, const char *from, const ipu__stride *o, const ipu__stride *i, size_t unit)
{
    for (int64_t r = 0; r < o->count; r++)
        for (int64_t c = 0; c < i->count; c++)
            memmove(to + r * o->to + c * i->to, from + r * o->from + c * i->from, unit);
}

static void run_nest(char *to, const char *from, uint32_t unit, const ipu__stride *loops, uint32_t n)
{
    static const ipu__stride once = {1, 0, 0};
    if (n == 0) {
        memmove(to, from, unit);
        return;
    }
    if (n > 2) {
        for (int64_t i = 0; i < loops->count; i++)
            run_nest(to + i * loops->to, from + i * loops->from, unit, loops + 1, n - 1);
        return;
    }
    const ipu__stride *outer = n == 2 ? loops : &once, *inner = &loops[n - 1];
    switch (unit) {
    case 1: block_8(to, from, outer, inner); return;
    case 2: block_16(to, from, outer, inner); return;
    case 4: block_32(to, from, outer, inner); return;
    case 8: block_64(to, from, outer, inner); return;
    default: rows_of_bytes(to, from, outer, inner, unit); return;
    }
}

void ipu__move_run(const ipu__moves *moves, size_t i, char *const *to_bases, char *const *from_bases)
{
    const ipu__move *move = &moves->at.at[i];
    run_nest(ipu__place_pointer(move->to, to_bases), ipu__place_pointer(move->from, from_bases), move->unit,
             moves->loops.at + move->first_loop, move->n_loops);
}
