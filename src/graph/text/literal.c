/* Values to text and back. Every float is printed with the fewest digits from which ipu__literal_parse
 * restores the same bits; an unusual NaN is printed by its bits. Relies on the C locale, which print.c and
 * parse.c set. */
#include "graph/text/literal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct integer_range {
    int64_t     min;
    uint64_t    max;
    const char *expected;
} integer_range;

static const integer_range integer_ranges[IPU_N_TYPES] = {
    [IPU_BOOL]   = {0, 1, "true or false"},
    [IPU_INT8]   = {INT8_MIN, INT8_MAX, "an int8, from -128 to 127"},
    [IPU_UINT8]  = {0, UINT8_MAX, "a uint8, from 0 to 255"},
    [IPU_INT16]  = {INT16_MIN, INT16_MAX, "an int16, from -32768 to 32767"},
    [IPU_UINT16] = {0, UINT16_MAX, "a uint16, from 0 to 65535"},
    [IPU_INT32]  = {INT32_MIN, INT32_MAX, "an int32, from -2147483648 to 2147483647"},
    [IPU_UINT32] = {0, UINT32_MAX, "a uint32, from 0 to 4294967295"},
    [IPU_INT64]  = {INT64_MIN, INT64_MAX, "an int64, from -2^63 to 2^63 - 1"},
    [IPU_UINT64] = {0, UINT64_MAX, "a uint64, from 0 to 2^64 - 1"},
};

typedef struct float_format {
    uint64_t usual_nan, infinity, sign; /* bits */
    int      digits, max_digits;        /* decimal digits that always survive; digits that always suffice */
} float_format;

static const float_format float_formats[IPU_N_TYPES] = {
    [IPU_HALF]     = {0x7e00, 0x7c00, 0x8000, 3, 5},
    [IPU_BFLOAT16] = {0x7fc0, 0x7f80, 0x8000, 2, 4},
    [IPU_FLOAT]    = {0x7fc00000, 0x7f800000, 0x80000000, 6, 9},
    [IPU_DOUBLE]   = {0x7ff8000000000000, 0x7ff0000000000000, 0x8000000000000000, 15, 17},
};

static bool is_float(ipu_type type) { return float_formats[type].digits != 0; }

static bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool ipu__is_word(const char *name)
{
    static const char *const values[] = {"inf", "nan", "true", "false"};
    if (!starts_word(*name)) return false;
    for (const char *c = name + 1; *c; c++)
        if (!starts_word(*c) && !(*c >= '0' && *c <= '9') && *c != '.' && *c != '/') return false;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strcmp(name, values[i]) == 0) return false;
    return true;
}

void ipu__name_print(ipu__text *out, const char *name)
{
    if (ipu__is_word(name))
        ipu__text_add_bytes(out, name, strlen(name));
    else
        ipu__text_add_quoted(out, name);
}

static uint64_t bits_of(ipu_type type, const void *value)
{
    uint64_t bits = 0;
    memcpy(&bits, value, ipu_type_size(type)); /* little-endian hosts */
    return bits;
}

/* The bits of `type` nearest to the number at `text`; *end is where it stops. */
static uint64_t read_float(ipu_type type, const char *text, char **end)
{
    uint64_t bits = 0;
    if (type == IPU_DOUBLE) {
        double d = strtod(text, end);
        memcpy(&bits, &d, sizeof d);
        return bits;
    }
    float f = strtof(text, end);
    if (type == IPU_HALF) return ipu_half_from_float(f).bits;
    if (type == IPU_BFLOAT16) return ipu_bfloat16_from_float(f).bits;
    memcpy(&bits, &f, sizeof f);
    return bits;
}

static double float_value(ipu_type type, uint64_t bits)
{
    float  f;
    double d;
    switch (type) {
    case IPU_HALF: return ipu_half_to_float((ipu_half){(uint16_t)bits});
    case IPU_BFLOAT16: return ipu_bfloat16_to_float((ipu_bfloat16){(uint16_t)bits});
    case IPU_FLOAT: return memcpy(&f, &bits, sizeof f), f;
    default: return memcpy(&d, &bits, sizeof d), d;
    }
}

static void format_float(ipu_type type, uint64_t bits, char text[64])
{
    const float_format *format = &float_formats[type];
    if ((bits & ~format->sign) > format->infinity) {
        if (bits == format->usual_nan)
            snprintf(text, 64, "nan");
        else
            snprintf(text, 64, "nan:0x%" PRIx64, bits);
        return;
    }
    if ((bits & ~format->sign) == format->infinity) {
        snprintf(text, 64, "%s", bits & format->sign ? "-inf" : "inf");
        return;
    }
    double value = float_value(type, bits);
    if (value == floor(value) && fabs(value) < 1e9) {
        snprintf(text, 64, "%.0f", value);
        return;
    }
    bool subnormal = (bits & format->infinity) == 0; /* has fewer digits than the rest */
    for (int digits = subnormal ? 1 : format->digits; digits <= format->max_digits; digits++) {
        char *end;
        snprintf(text, 64, "%.*g", digits, value);
        if (read_float(type, text, &end) == bits) return;
    }
}

void ipu__float_print(ipu__text *out, double value)
{
    char text[64];
    format_float(IPU_DOUBLE, bits_of(IPU_DOUBLE, &value), text);
    ipu__text_add(out, "%s%s", text, strpbrk(text, ".enx") ? "" : ".0");
}

void ipu__literal_print(ipu__text *out, ipu_type type, const void *value)
{
    uint64_t bits = bits_of(type, value);
    if (is_float(type)) {
        char text[64];
        format_float(type, bits, text);
        ipu__text_add_bytes(out, text, strlen(text));
    } else if (type == IPU_BOOL) {
        ipu__text_add(out, "%s", bits ? "true" : "false");
    } else if (integer_ranges[type].min == 0) {
        ipu__text_add(out, "%" PRIu64, bits);
    } else {
        unsigned unused = 64 - 8 * (unsigned)ipu_type_size(type);
        ipu__text_add(out, "%" PRId64, (int64_t)(bits << unused) >> unused);
    }
}

static const char *parse_float(ipu_type type, const char *text, size_t n, void *out)
{
    const float_format *format = &float_formats[type];
    uint64_t            bits;
    char               *end = NULL;
    errno                   = 0;
    if (n == 3 && memcmp(text, "nan", 3) == 0) {
        bits = format->usual_nan;
    } else if (n > 4 && memcmp(text, "nan:", 4) == 0) {
        bits = strtoull(text + 4, &end, 16);
        if (errno || bits > (format->sign | (format->sign - 1)) || (bits & ~format->sign) <= format->infinity)
            return "the bits of a NaN of this type after 'nan:'";
    } else if (n > 1 && (text[0] == 't' || text[0] == 'f')) {
        return "a number";
    } else {
        bits             = read_float(type, text, &end);
        bool is_infinity = (bits & ~format->sign) == format->infinity;
        if (is_infinity && text[n - 1] != 'f') return "a number that this type can hold, or inf";
        if (end != text + n) return "a number";
    }
    memcpy(out, &bits, ipu_type_size(type));
    return NULL;
}

static const char *parse_bool(const char *text, size_t n, void *out)
{
    bool is_true = (n == 4 && memcmp(text, "true", 4) == 0) || (n == 1 && *text == '1');
    if (!is_true && !(n == 5 && memcmp(text, "false", 5) == 0) && !(n == 1 && *text == '0'))
        return integer_ranges[IPU_BOOL].expected;
    memcpy(out, &is_true, sizeof is_true);
    return NULL;
}

const char *ipu__literal_parse(ipu_type type, const char *text, size_t n, void *out)
{
    const integer_range *range = &integer_ranges[type];
    if (is_float(type)) return parse_float(type, text, n, out);
    if (type == IPU_BOOL) return parse_bool(text, n, out);
    char    *end;
    uint64_t bits;
    errno = 0;
    if (*text == '-') {
        int64_t value = strtoll(text, &end, 10);
        if (errno || value < range->min) return range->expected;
        bits = (uint64_t)value;
    } else {
        bits = strtoull(text, &end, 10);
        if (errno || bits > range->max) return range->expected;
    }
    if (end != text + n) return range->expected;
    memcpy(out, &bits, ipu_type_size(type));
    return NULL;
}
