/* Keys of what sessions keep in the cache. */
#include "onnx/session_cache.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "engine/executable.h"
#include "onnx/tensor.h"
#include "session/cache.h"

/* ---- hashing ---- */

enum { MUCH = 1024 /* bytes, from which on the faster hash is worth it */ };

static void add_to_hash(ipu__hash128 *h, const void *data, size_t bytes)
{
    if (bytes < MUCH) {
        *h = ipu__hash_more(h, data, bytes);
        return;
    }
    ipu__hash128 sum = ipu__hash_bulk(data, bytes);
    *h               = ipu__hash_more(h, sum.bytes, sizeof sum.bytes);
}

/* Where protobuf-c puts what it packs. */
typedef struct sink {
    ProtobufCBuffer base;
    ipu__hash128    hash;
} sink;

static void append(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data)
{
    add_to_hash(&((sink *)buffer)->hash, data, bytes);
}

/* As it would be written now: initializers may have been set since it was read. */
static const ipu__hash128 *hash_file(ipu_onnx *file)
{
    if (!file->has_hash) {
        sink s = {.base = {append}, .hash = ipu__hash_bytes(NULL, 0)};
        ipu__model_proto__pack_to_buffer(file->proto, &s.base);
        file->hash     = s.hash;
        file->has_hash = true;
    }
    return &file->hash;
}

static bool list_tensors(const ipu_onnx *file, ipu__tensor_list *out)
{
    bool ok = ipu__tensors_of(file->proto, out);
    for (size_t i = 0; i < file->defaults.n; i++) {
        const Ipu__AttributeProto *a = file->defaults.at[i];
        if (a->t) ok &= ipu__push(out, a->t);
        for (size_t k = 0; k < a->n_tensors; k++) ok &= ipu__push(out, a->tensors[k]);
    }
    return ok;
}

/* The data that lie beside the model, which may change at any time. */
static ipu_status hash_outside(const ipu_onnx *file, ipu__hash128 *out)
{
    ipu__tensor_list tensors = {0};
    ipu_status       status  = ipu__or_memory(list_tensors(file, &tensors));
    *out                     = ipu__hash_bytes(NULL, 0);
    for (size_t i = 0; i < tensors.n && status == IPU_OK; i++) {
        ipu_array a;
        if (!ipu__tensor_is_external(tensors.at[i])) continue;
        status = ipu__tensor_array(tensors.at[i], file->folder, &a);
        if (status != IPU_OK) break;
        add_to_hash(out, a.data, ipu_array_bytes(&a));
        ipu_array_free(&a);
    }
    ipu__array_fini(&tensors);
    return status;
}

/* ---- keys ---- */

static void add_hash(ipu__text *key, const ipu__hash128 *hash)
{
    char text[IPU__HASH_TEXT];
    ipu__hash_print(hash, text);
    ipu__text_add(key, "%s ", text);
}

/* The key that `text` makes, which is freed. */
static ipu_status finish(ipu__text *text, ipu__hash128 *out)
{
    ipu_status status = ipu__or_memory(!text->failed);
    if (status == IPU_OK) *out = ipu__hash_bytes(text->at, text->n);
    ipu__text_fini(text);
    return status;
}

enum { NEITHER = 0, PROGRAM = 1 };

/* `target`: what the options' own, or none, comes to. */
static void add_options(ipu__text *key, const ipu_onnx_options *o, const ipu_target *target)
{
#define NUMBER(member, uses) \
    if ((uses)&PROGRAM) ipu__text_add(key, #member "=%lld;", (long long)o->member);
#define TEXTS(member, uses) \
    for (size_t i = 0; (uses)&PROGRAM && i < o->n_##member; i++) ipu__text_add_quoted(key, o->member[i]);
#define ENGINE(member, uses) \
    if ((uses)&PROGRAM) ipu__cache_add_options(key, o->member);
#define TARGET(member, uses)                                                                     \
    if ((uses)&PROGRAM)                                                                          \
        ipu__text_add(key, #member "=%s %" PRId64 " %" PRId64 ";", ipu_target_chip_name(member), \
                      (member)->n_ipus, (member)->tiles_per_ipu);
#define OTHER(member, uses)
#include "onnx/options.inc"
#undef NUMBER
#undef TEXTS
#undef ENGINE
#undef TARGET
#undef OTHER
}

static ipu_status make_about(ipu_onnx *file, const ipu_onnx_options *o, const ipu_target *target,
                             const ipu__arguments *shapes, ipu__session_cache *c)
{
    ipu__text key = {0};
    ipu__text_add(&key, "onnx ");
    ipu__text_add_quoted(&key, file->name); /* it is in places that an executable tells */
    add_hash(&key, hash_file(file));
    add_hash(&key, &c->outside);
    add_options(&key, o, target);
    ipu__arguments_add_key(shapes, &key);
    return finish(&key, &c->about);
}

/* ---- the cache ---- */

ipu_status ipu__session_cache_open(ipu_onnx *file, const ipu_onnx_options *options, const ipu_target *target,
                                   const ipu__arguments *shapes, ipu__session_cache *out)
{
    *out = (ipu__session_cache){.folder = ipu__cache_folder(options->cache_folder)};
    if (!out->folder) return IPU_OK;
    ipu_status status = hash_outside(file, &out->outside);
    if (status == IPU_OK) status = make_about(file, options, target, shapes, out);
    if (status != IPU_OK) out->folder = NULL; /* importing tells what is wrong */
    return status == IPU_OUT_OF_MEMORY ? status : IPU_OK;
}

void ipu__session_cache_fixed(const ipu__session_cache *c, bool *fixed, size_t n_in)
{
    char *noted = c->folder ? ipu__alloc_zeroed(n_in + 1) : NULL;
    if (noted && ipu__cache_load_note(c->folder, &c->about, noted, n_in))
        for (size_t i = 0; i < n_in; i++) fixed[i] |= noted[i] == 1;
    ipu__free(noted);
}

ipu_status ipu__session_cache_key(const ipu__session_cache *c, ipu__compiled *out)
{
    ipu__text key = {0};
    out->folder   = c->folder;
    if (!c->folder) return IPU_OK;
    add_hash(&key, &c->about);
    ipu__arguments_add_key(&out->arguments, &key);
    return finish(&key, &out->key);
}

void ipu__session_cache_made(ipu__session_cache *c, ipu_onnx *file, ipu__compiled *out)
{
    ipu__hash128 outside;
    bool         is_same = c->folder && hash_outside(file, &outside) == IPU_OK
                && memcmp(outside.bytes, c->outside.bytes, sizeof outside.bytes) == 0;
    if (!is_same || ipu__session_cache_key(c, out) != IPU_OK) c->folder = out->folder = NULL;
}

void ipu__session_cache_store_fixed(const ipu__session_cache *c, const ipu__compiled *made, const bool *fixed,
                                    size_t n_in)
{
    bool any = false;
    for (size_t i = 0; i < n_in; i++) any |= fixed[i];
    if (any && c->folder && !made->exe->check) ipu__cache_store_note(c->folder, &c->about, fixed, n_in);
}
