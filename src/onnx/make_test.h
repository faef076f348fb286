/* For tests: ONNX files made of a few words, and pieces of protobuf's wire format for those that are damaged.
 *
 *     model(13, graph("in x float[2,N]; const k int64[1] 0; out y; y = Unsqueeze(x, k)", NULL), none)
 *
 * Statements of a graph: `in NAME TYPE`, `out NAME`, `const NAME TYPE NUMBERS`, `OUTPUTS = [DOMAIN:]OP(INPUTS)
 * ATTRIBUTES`; of attributes `axis=1`, `alpha=0.5`, `pads=[0,1]`, `scales=[1.0,2.0]`, `mode='edge'`,
 * `activations=['Relu','Tanh']`, `body=@0` (subs[0]), `axis=$a` (of the function). A `-` stands for an input or output
 * that is left out. All memory is in `pool`.
 */
#ifndef IPU_ONNX_MAKE_TEST_H
#define IPU_ONNX_MAKE_TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

typedef struct bytes {
    unsigned char *at;
    size_t         n;
} bytes;

static ipu__arena  pool;
static const bytes none;

static inline bytes raw(const void *data, size_t n)
{
    bytes b = {ipu__arena_alloc(&pool, n + 1), n};
    if (n) memcpy(b.at, data, n);
    return b;
}

static inline bytes join(bytes a, bytes b)
{
    bytes out = {ipu__arena_alloc(&pool, a.n + b.n + 1), a.n + b.n};
    if (a.n) memcpy(out.at, a.at, a.n);
    if (b.n) memcpy(out.at + a.n, b.at, b.n);
    return out;
}

static inline bytes join_all(const bytes *parts, size_t n)
{
    bytes out = none;
    for (size_t i = 0; i < n; i++) out = join(out, parts[i]);
    return out;
}
#define JOIN(...) join_all((const bytes[]){__VA_ARGS__}, sizeof((const bytes[]){__VA_ARGS__}) / sizeof(bytes))

static inline bytes varint(uint64_t value)
{
    unsigned char data[10];
    size_t        n = 0;
    do {
        data[n] = (unsigned char)(value & 127);
        value >>= 7;
        if (value) data[n] |= 128;
        n++;
    } while (value);
    return raw(data, n);
}

static inline bytes number(int field, int64_t value)
{
    return join(varint((uint64_t)field << 3), varint((uint64_t)value));
}
static inline bytes block(int field, bytes content)
{
    return JOIN(varint((uint64_t)field << 3 | 2), varint(content.n), content);
}
static inline bytes text(int field, const char *value) { return block(field, raw(value, strlen(value))); }
static inline bytes real(int field, float value)
{
    return join(varint((uint64_t)field << 3 | 5), raw(&value, sizeof value));
}

/* ---- types and tensors ---- */

static inline int type_number(const char *name, size_t n)
{
    static const char *const names[] = {"undefined", "float",  "uint8",     "int8",       "uint16",  "int16",
                                        "int32",     "int64",  "string",    "bool",       "half",    "double",
                                        "uint32",    "uint64", "complex64", "complex128", "bfloat16"};
    for (int i = 0; i < 17; i++)
        if (strlen(names[i]) == n && strncmp(names[i], name, n) == 0) return i;
    return 99;
}

/* "float[2,N]" or "float" (a shape that is not told) or "seq(float)" or "opt(float[2])". */
static inline bytes type_of(const char *word)
{
    if (strncmp(word, "seq(", 4) == 0) return block(4, block(1, type_of(word + 4)));
    if (strncmp(word, "opt(", 4) == 0) return block(9, block(1, type_of(word + 4)));
    size_t n    = strcspn(word, "[) ");
    bytes  type = number(1, type_number(word, n)), dims = none;
    if (word[n] != '[') return block(1, type);
    for (const char *at = word + n + 1; *at && *at != ']';) {
        size_t length = strcspn(at, ",]");
        char   dim[40];
        snprintf(dim, sizeof dim, "%.*s", (int)length, at);
        bool is_number = (*dim >= '0' && *dim <= '9') || *dim == '-';
        dims           = join(dims, block(1, is_number ? number(1, strtoll(dim, NULL, 10)) : text(2, dim)));
        at += length + (at[length] == ',');
    }
    return block(1, join(type, block(2, dims)));
}

static inline bytes tensor_dims(const char *word)
{
    const char *at  = strchr(word, '[');
    bytes       out = none;
    for (at = at ? at + 1 : "]"; *at != ']';) {
        char *end;
        out = join(out, number(1, strtoll(at, &end, 10)));
        at  = *end == ',' ? end + 1 : end;
    }
    return out;
}

/* A TensorProto "float[2,3]" with its data as raw bytes. */
static inline bytes tensor(const char *name, const char *type, bytes data)
{
    int number_of = type_number(type, strcspn(type, "["));
    return JOIN(tensor_dims(type), number(2, number_of), text(8, name), block(9, data));
}

/* Numbers as a list: float_data, int64_data, int32_data. */
static inline bytes tensor_of_numbers(const char *name, const char *type, const char *numbers)
{
    int   number_of = type_number(type, strcspn(type, "["));
    bytes out       = JOIN(tensor_dims(type), number(2, number_of), text(8, name));
    for (char *end; *numbers; numbers = end + strspn(end, " ")) {
        double  value = strtod(numbers, &end);
        char   *digits;
        int64_t whole = strtoll(numbers, &digits, 10); /* a double does not hold the largest */
        if (end == numbers) break;
        if (digits != end) whole = (int64_t)value;
        out = join(out, number_of == 1   ? real(4, (float)value)
                        : number_of == 7 ? number(7, whole)
                                         : number(5, whole));
    }
    return out;
}

/* ---- graphs ---- */

static inline bytes words(int field, const char *list, size_t n)
{
    bytes out = none;
    for (size_t at = 0; at < n;) {
        size_t skip = strspn(list + at, " ,"), length = strcspn(list + at + skip, " ,)=");
        if (at + skip >= n) break;
        char word[80];
        snprintf(word, sizeof word, "%.*s", (int)length, list + at + skip);
        out = join(out, text(field, strcmp(word, "-") == 0 ? "" : word));
        at += skip + length;
    }
    return out;
}

static inline bytes attribute(const char *name, const char *value, const bytes *subs)
{
    bytes head = text(1, name);
    if (*value == '@') return JOIN(head, number(20, 5), block(6, subs[value[1] - '0']));
    if (*value == '#') return JOIN(head, number(20, 4), block(5, subs[value[1] - '0']));
    if (*value == '$') return JOIN(head, number(20, 2), text(21, value + 1));
    if (*value == '\'') return JOIN(head, number(20, 3), block(4, raw(value + 1, strcspn(value + 1, "'"))));
    if (strncmp(value, "['", 2) == 0) {
        bytes out = join(head, number(20, 8));
        for (const char *at = value + 2; *at && *at != ']'; at += strspn(at, ",'")) {
            size_t n = strcspn(at, "'");
            out      = join(out, block(9, raw(at, n)));
            at += n + 1;
        }
        return out;
    }
    if (*value == '[' && strchr(value, '.')) {
        bytes out = join(head, number(20, 6));
        for (const char *at = value + 1; *at && *at != ']';) {
            char *end;
            out = join(out, real(7, strtof(at, &end)));
            at  = *end == ',' ? end + 1 : end;
        }
        return out;
    }
    if (*value == '[') {
        bytes out = join(head, number(20, 7));
        for (const char *at = value + 1; *at && *at != ']';) {
            char *end;
            out = join(out, number(8, strtoll(at, &end, 10)));
            at  = *end == ',' ? end + 1 : end;
        }
        return out;
    }
    if (strchr(value, '.')) return JOIN(head, number(20, 1), real(2, strtof(value, NULL)));
    return JOIN(head, number(20, 2), number(3, strtoll(value, NULL, 10)));
}

static inline bytes node(const char *line, const bytes *subs)
{
    const char *equals = strchr(line, '='), *open = strchr(line, '('), *close = strchr(line, ')');
    char        op[80], name[40], value[80];
    snprintf(op, sizeof op, "%.*s", (int)(open - equals - 1), equals + 1);
    char *start = op + strspn(op, " "), *colon = strchr(start, ':');
    bytes out = JOIN(words(1, open + 1, (size_t)(close - open - 1)), words(2, line, (size_t)(equals - line)),
                     text(4, colon ? colon + 1 : start));
    if (colon) out = join(out, block(7, raw(start, (size_t)(colon - start))));
    int used;
    for (const char *at = close + 1; sscanf(at, " %39[^= ]=%79[^ ]%n", name, value, &used) == 2; at += used)
        out = join(out, block(5, attribute(name, value, subs)));
    return out;
}

/* `is_function`: inputs and outputs are names only. */
static inline bytes statements(const char *source, const bytes *subs, bool is_function)
{
    bytes out = none;
    char  line[800], name[80], type[80];
    int   used;
    while (*source) {
        size_t skip = strspn(source, " \n;"), n = strcspn(source + skip, ";");
        snprintf(line, sizeof line, "%.*s", (int)n, source + skip);
        source += skip + n;
        if (!*line) continue;
        bool is_in = strncmp(line, "in ", 3) == 0, is_out = strncmp(line, "out ", 4) == 0;
        int  found = sscanf(line, "%*s %79s %79s%n", name, type, &used);
        if (is_function && (is_in || is_out))
            out = join(out, text(is_in ? 4 : 5, name));
        else if (is_in || is_out)
            out = join(out, block(is_in ? 11 : 12,
                                  found == 2 ? join(text(1, name), block(2, type_of(type))) : text(1, name)));
        else if (strncmp(line, "const ", 6) == 0)
            out = join(out, block(5, tensor_of_numbers(name, type, line + used + strspn(line + used, " "))));
        else
            out = join(out, block(is_function ? 7 : 1, node(line, subs)));
    }
    return out;
}

static inline bytes graph(const char *source, const bytes *subs)
{
    return join(statements(source, subs, false), text(2, "g"));
}

static inline bytes opset(const char *domain, int version)
{
    return join(text(1, domain), number(2, version));
}

/* `extra`: further fields of the file. */
static inline bytes model(int version, bytes g, bytes extra)
{
    return JOIN(number(1, 8), block(8, opset("", version)), block(7, g), extra);
}

/* As a further field of a file. */
static inline bytes function(const char *domain, const char *name, int version, const char *source)
{
    return block(25, JOIN(text(1, name), text(10, domain), block(9, opset("", version)),
                          statements(source, NULL, true)));
}

/* For the end of a group of tests. */
static inline int free_pool(void **state)
{
    (void)state;
    ipu__arena_fini(&pool);
    return 0;
}

#endif
