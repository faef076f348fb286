/* Mutation of protobuf messages field by field, so that lengths stay right: a field is dropped, doubled, changed, or
 * put in place of another of its kind. What is not well formed is mutated byte by byte. */
#ifndef FUZZ_PROTOBUF_H
#define FUZZ_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

enum { MOST_FIELDS = 4096, MOST_NESTED = 40 };

size_t LLVMFuzzerMutate(unsigned char *data, size_t bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const unsigned char *a, size_t a_bytes, const unsigned char *b,
                                 size_t b_bytes, unsigned char *out, size_t max_bytes, unsigned seed);

/* A field with its tag: [begin, end); what it says is [content, end). `parent`: the one it is in, -1: none. */
typedef struct pb_field {
    const ProtobufCFieldDescriptor *type; /* NULL: unknown */
    size_t                          begin, content, end;
    int                             parent, wire;
} pb_field;

typedef struct pb_tree {
    const unsigned char *data;
    pb_field             fields[MOST_FIELDS];
    int                  n;
} pb_tree;

static bool pb_varint(const unsigned char *data, size_t *at, size_t end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = data[(*at)++];
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

static size_t pb_put_varint(unsigned char *out, uint64_t value)
{
    size_t n = 0;
    for (; value >= 128; value >>= 7) out[n++] = (unsigned char)(value | 128);
    out[n++] = (unsigned char)value;
    return n;
}

/* False: not well formed. Fields beyond MOST_FIELDS are not listed. */
static bool pb_parse(pb_tree *t, const ProtobufCMessageDescriptor *message, size_t at, size_t end, int parent,
                     int depth)
{
    while (at < end) {
        uint64_t tag, value;
        pb_field f = {.begin = at, .parent = parent};
        if (!pb_varint(t->data, &at, end, &tag) || tag >> 3 == 0 || tag > UINT32_MAX) return false;
        f.type    = protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3));
        f.wire    = (int)(tag & 7);
        f.content = at;
        if (f.wire == 0) {
            if (!pb_varint(t->data, &at, end, &value)) return false;
        } else if (f.wire == 2) {
            if (!pb_varint(t->data, &at, end, &value)) return false;
            f.content = at;
            if (value > end - at) return false;
            at += value;
        } else if (f.wire == 1 || f.wire == 5) {
            size_t n = f.wire == 1 ? 8 : 4;
            if (n > end - at) return false;
            at += n;
        } else
            return false;
        f.end = at;
        if (t->n == MOST_FIELDS) continue;
        int own           = t->n;
        t->fields[t->n++] = f;
        if (f.wire == 2 && f.type && f.type->type == PROTOBUF_C_TYPE_MESSAGE && depth < MOST_NESTED
            && !pb_parse(t, f.type->descriptor, f.content, f.end, own, depth + 1))
            return false;
    }
    return true;
}

/* The message with field `which` as a whole (its tag too) replaced; lengths of what it is in are mended. 0: too long. */
static size_t pb_replace(const pb_tree *t, size_t bytes, int which, const unsigned char *with, size_t n,
                         unsigned char *out, size_t max_bytes)
{
    int             chain[MOST_NESTED + 2], depth = 0;
    const pb_field *f = &t->fields[which];
    unsigned char   head[MOST_NESTED + 2][20];
    size_t          head_bytes[MOST_NESTED + 2], inner = n;
    for (int p = f->parent; p >= 0; p = t->fields[p].parent) chain[depth++] = p;
    size_t from = f->begin, to = f->end;
    for (int i = 0; i < depth; i++) { /* from the innermost outwards */
        const pb_field *p  = &t->fields[chain[i]];
        size_t          at = p->begin;
        uint64_t        tag;
        pb_varint(t->data, &at, p->end, &tag);
        inner += (from - p->content) + (p->end - to);
        head_bytes[i] = pb_put_varint(head[i], tag);
        head_bytes[i] += pb_put_varint(head[i] + head_bytes[i], inner);
        inner += head_bytes[i];
        from = p->begin;
        to   = p->end;
    }
    if (inner + from + (bytes - to) > max_bytes) return 0;
    size_t done = 0, at = 0;
    for (int i = depth; i-- > 0;) {
        const pb_field *p = &t->fields[chain[i]];
        memcpy(out + done, t->data + at, p->begin - at);
        done += p->begin - at;
        memcpy(out + done, head[i], head_bytes[i]);
        done += head_bytes[i];
        at = p->content;
    }
    memcpy(out + done, t->data + at, f->begin - at);
    done += f->begin - at;
    memcpy(out + done, with, n);
    done += n;
    memcpy(out + done, t->data + f->end, bytes - f->end);
    return done + bytes - f->end;
}

static bool pb_same_kind(const pb_field *a, const pb_field *b)
{
    if (!a->type || !b->type || a->wire != b->wire || a->type->type != b->type->type) return false;
    return a->type->type != PROTOBUF_C_TYPE_MESSAGE || a->type->descriptor == b->type->descriptor;
}

/* A field of `t` of the same kind as `f`, -1: none was met. */
static int pb_like(const pb_tree *t, const pb_field *f, unsigned *seed)
{
    for (int tries = 0; tries < 64 && t->n > 0; tries++) {
        int i = rand_r(seed) % t->n;
        if (&t->fields[i] != f && pb_same_kind(&t->fields[i], f)) return i;
    }
    return -1;
}

static uint64_t pb_some_number(uint64_t old, unsigned *seed)
{
    static const uint64_t some[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    7,
                                    8,
                                    16,
                                    255,
                                    65536,
                                    (uint64_t)-1,
                                    (uint64_t)-2,
                                    INT32_MAX,
                                    INT64_MAX,
                                    (uint64_t)INT64_MIN,
                                    (uint64_t)1 << 40};
    switch (rand_r(seed) % 4) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return (uint64_t)(rand_r(seed) % 20);
    default: return some[(size_t)rand_r(seed) % (sizeof some / sizeof *some)];
    }
}

/* New contents for field `f`: tag and all. 0: none. `word`: texts worth trying. */
static size_t pb_change(const pb_tree *t, const pb_field *f, unsigned char *out, size_t max, unsigned *seed,
                        const char *(*word)(unsigned *))
{
    size_t   at = f->begin, n = f->end - f->content;
    uint64_t tag, value       = 0;
    pb_varint(t->data, &at, f->end, &tag);
    size_t done = pb_put_varint(out, tag);
    if (f->wire == 0) {
        pb_varint(t->data, &at, f->end, &value);
        return done + pb_put_varint(out + done, pb_some_number(value, seed));
    }
    if (n > max || n > 4000) return 0;
    unsigned char content[8192];
    memcpy(content, t->data + f->content, n);
    if (f->wire != 2) { /* a float or double */
        LLVMFuzzerMutate(content, n, n);
        memcpy(out + done, content, n);
        return done + n;
    }
    if (f->type && f->type->type == PROTOBUF_C_TYPE_STRING && rand_r(seed) % 4) {
        const char *text = word(seed);
        n                = strlen(text);
        memcpy(content, text, n);
    } else
        n = LLVMFuzzerMutate(content, n, sizeof content);
    done += pb_put_varint(out + done, n);
    if (done + n > max) return 0;
    memcpy(out + done, content, n);
    return done + n;
}

/* The tag of `f` with the contents of `g`, a field of the same kind in `t`. */
static size_t pb_graft(const pb_tree *of_f, const pb_field *f, const pb_tree *t, const pb_field *g,
                       unsigned char *out, size_t max)
{
    size_t   at = f->begin, n = g->end - g->content;
    uint64_t tag;
    pb_varint(of_f->data, &at, f->end, &tag);
    if (n + 20 > max) return 0;
    size_t done = pb_put_varint(out, tag);
    if (g->wire == 2) done += pb_put_varint(out + done, n);
    memcpy(out + done, t->data + g->content, n);
    return done + n;
}

static size_t pb_mutate_once(pb_tree *t, size_t bytes, unsigned char *out, size_t max_bytes, unsigned *seed,
                             const char *(*word)(unsigned *))
{
    static unsigned char piece[1 << 17];
    int                  which = rand_r(seed) % t->n, like;
    const pb_field      *f     = &t->fields[which];
    size_t               own = f->end - f->begin, n = 0;
    switch (rand_r(seed) % 8) {
    case 0: break; /* dropped */
    case 1:        /* doubled, or the neighbour of another */
        like = rand_r(seed) % 2 ? which : pb_like(t, f, seed);
        if (like < 0) return 0;
        n = t->fields[like].end - t->fields[like].begin;
        if (own + n > sizeof piece) return 0;
        memcpy(piece, t->data + f->begin, own);
        memcpy(piece + own, t->data + t->fields[like].begin, n);
        n += own;
        break;
    case 2:
    case 3:
    case 4: /* like another */
        like = pb_like(t, f, seed);
        if (like < 0) return 0;
        n = pb_graft(t, f, t, &t->fields[like], piece, sizeof piece);
        if (n == 0) return 0;
        break;
    default:
        if (f->type && f->type->type == PROTOBUF_C_TYPE_MESSAGE) return 0;
        n = pb_change(t, f, piece, sizeof piece, seed, word);
        if (n == 0) return 0;
    }
    return pb_replace(t, bytes, which, piece, n, out, max_bytes);
}

static size_t mutate_message(const ProtobufCMessageDescriptor *message, unsigned char *data, size_t bytes,
                             size_t max_bytes, unsigned seed, const char *(*word)(unsigned *))
{
    static pb_tree tree;
    tree.data = data;
    tree.n    = 0;
    if (rand_r(&seed) % 20 == 0 || !pb_parse(&tree, message, 0, bytes, -1, 0) || tree.n == 0)
        return LLVMFuzzerMutate(data, bytes, max_bytes);
    unsigned char *out = malloc(max_bytes);
    size_t         n   = 0;
    for (int tries = 0; out && n == 0 && tries < 16; tries++)
        n = pb_mutate_once(&tree, bytes, out, max_bytes, &seed, word);
    if (n) memcpy(data, out, n);
    free(out);
    return n ? n : LLVMFuzzerMutate(data, bytes, max_bytes);
}

/* `a` with a field of `b` in place of one of the same kind. */
static size_t cross_messages(const ProtobufCMessageDescriptor *message, const unsigned char *a,
                             size_t a_bytes, const unsigned char *b, size_t b_bytes, unsigned char *out,
                             size_t max_bytes, unsigned seed)
{
    static pb_tree       x, y;
    static unsigned char piece[1 << 17];
    x.data = a;
    y.data = b;
    x.n = y.n = 0;
    bool ok   = pb_parse(&x, message, 0, a_bytes, -1, 0) && pb_parse(&y, message, 0, b_bytes, -1, 0);
    for (int tries = 0; ok && x.n > 0 && tries < 16; tries++) {
        int which = rand_r(&seed) % x.n, like = pb_like(&y, &x.fields[which], &seed);
        if (like < 0) continue;
        size_t n   = pb_graft(&x, &x.fields[which], &y, &y.fields[like], piece, sizeof piece);
        size_t all = n ? pb_replace(&x, a_bytes, which, piece, n, out, max_bytes) : 0;
        if (all) return all;
    }
    size_t n = a_bytes < max_bytes ? a_bytes : max_bytes;
    memcpy(out, a, n);
    return n;
}

#endif
