/* Datasets of pictures in memory: which samples belong to a part, and converting pixels to float. */
#include "data/image_set.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/array.h"

enum { EXPECTED_BYTES = 2048 }; /* the rest of a row is prefetched by hardware, as it is read in order */

typedef struct image_set {
    ipu__images images;
    int64_t     n_channels, n_pixels; /* per sample; per channel */
    int64_t    *index;                /* position of sample i in `images`; NULL means i */
    float       mean, std;
    bool        raw;
    float       table[256]; /* indexed by byte */
} image_set;

void ipu__images_free(ipu__images *images)
{
    ipu__bytes_free(&images->block);
    ipu__free(images->labels);
    ipu__free(images->where);
    *images = (ipu__images){0};
}

/* ---- samples ---- */

/* In float, with the same steps as torchvision (ToTensor, Normalize), so that the bits agree. */
static float transform(const image_set *s, float x, float most)
{
    return s->raw ? x : (x / most - s->mean) / s->std;
}

static void get_bytes(const image_set *s, const uint8_t *from, float *to)
{
    int64_t n = s->n_channels * s->n_pixels;
    if (!s->images.channels_last) {
        const float *restrict table = s->table;
        float *restrict out         = to;
        int64_t p                   = 0;
        for (; p + 8 <= n; p += 8) { /* load eight bytes at a time */
            uint64_t bytes;
            memcpy(&bytes, from + p, sizeof bytes);
            for (int k = 0; k < 8; k++) out[p + k] = table[bytes >> 8 * k & 255];
        }
        for (; p < n; p++) out[p] = table[from[p]];
        return;
    }
    for (int64_t c = 0; c < s->n_channels; c++)
        for (int64_t p = 0; p < s->n_pixels; p++)
            to[c * s->n_pixels + p] = s->table[from[p * s->n_channels + c]];
}

/* Otherwise training would only report that its loss is NaN. */
static ipu_status fail_pixel(const image_set *s, int64_t i, int64_t k, double value)
{
    return ipu__fail(IPU_INVALID,
                     "%s: sample %lld is %g at element %lld: expected finite numbers in the range of float; "
                     "replace it (numpy.nan_to_num), or leave the sample out",
                     s->images.where, (long long)i, isnan(value) ? (double)NAN : value, (long long)k);
}

static ipu_status get_floats(const image_set *s, int64_t i, float *to)
{
    const ipu_array from = {.type = s->images.type, .data = (void *)s->images.pixels};
    const int64_t   n    = s->n_channels * s->n_pixels;
    const bool      last = s->images.channels_last;
    for (int64_t p = 0; p < n; p++) {
        int64_t k     = last ? p % s->n_pixels * s->n_channels + p / s->n_pixels : p;
        double  value = ipu_array_value(&from, i * n + k);
        if (!isfinite((float)value)) return fail_pixel(s, i, k, value);
        to[p] = transform(s, (float)value, 1);
    }
    return IPU_OK;
}

static ipu_status get(void *user, int64_t i, void *const *fields)
{
    const image_set *s = user;
    if (s->index) i = s->index[i];
    if (s->images.type == IPU_UINT8)
        get_bytes(s, (const uint8_t *)s->images.pixels + i * s->n_channels * s->n_pixels, fields[0]);
    else
        IPU_TRY(get_floats(s, i, fields[0]));
    *(int32_t *)fields[1] = s->images.labels[i];
    return IPU_OK;
}

/* Rows of a shuffled set are far apart: waiting for them took half of the time of a batch. */
static void expect(void *user, int64_t i)
{
    const image_set *s     = user;
    const int64_t    bytes = s->n_channels * s->n_pixels * (int64_t)ipu_type_size(s->images.type);
    if (s->index) i = s->index[i];
    const char *row = (const char *)s->images.pixels + i * bytes;
    for (int64_t at = 0; at < bytes && at < EXPECTED_BYTES; at += 64) __builtin_prefetch(row + at);
    __builtin_prefetch(&s->images.labels[i]);
}

static void destroy(void *user)
{
    image_set *s = user;
    ipu__images_free(&s->images);
    ipu__free(s->index);
    ipu__free(s);
}

/* ---- parts ---- */

/* Goes through the samples once and takes each with the probability that leaves the right number (Knuth
 * 3.4.2, algorithm S), which preserves their order and needs no memory beyond the index. */
static ipu_status draw_part(image_set *s, ipu_dataset_part part, double share, int64_t *n_samples)
{
    int64_t n = s->images.n, n_test = llround((double)n * share),
            n_wanted = part == IPU_TEST ? n_test : n - n_test;
    s->index         = ipu__alloc((size_t)n_wanted * sizeof *s->index);
    if (!s->index) return ipu__fail_memory();
    int64_t taken = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t random[4];
        ipu__philox((uint32_t[2]){0, 0}, (uint32_t[4]){(uint32_t)i, (uint32_t)(i >> 32), 0, 0}, random);
        uint64_t number  = (uint64_t)random[0] << 32 | random[1];
        bool     is_test = number % (uint64_t)(n - i) < (uint64_t)n_test;
        if (is_test) n_test--;
        if (is_test == (part == IPU_TEST)) s->index[taken++] = i;
    }
    *n_samples = n_wanted;
    return IPU_OK;
}

static ipu_status check_options(const ipu_dataset_options *o)
{
    if (!isfinite(o->mean) || !isfinite(o->std))
        return ipu__fail(IPU_INVALID, "dataset options: mean %g, std %g: expected finite numbers", o->mean,
                         o->std);
    if (!(o->test_share >= 0 && o->test_share < 1))
        return ipu__fail(IPU_INVALID, "dataset options: test_share %g: expected 0 to below 1", o->test_share);
    if (o->most < 0)
        return ipu__fail(IPU_INVALID, "dataset options: most %lld: expected 0 (all) or more",
                         (long long)o->most);
    return IPU_OK;
}

static ipu_status create(image_set *s, ipu_dataset_part part, const ipu_dataset_options *o, const char *where,
                         ipu_dataset **out)
{
    const ipu_shape *shape = &s->images.shape;
    int64_t          n = s->images.n, n_classes = s->images.n_classes;
    size_t           ignored;
    IPU_TRY(ipu__array_size(IPU_FLOAT, shape, &ignored));
    s->n_channels = shape->rank == 3 ? shape->dim[0] : 1;
    s->n_pixels   = 1;
    for (int d = shape->rank == 3; d < shape->rank; d++) s->n_pixels *= shape->dim[d];
    s->raw  = o->raw;
    s->mean = (float)o->mean;
    s->std  = o->std != 0 ? (float)o->std : 1;
    for (int i = 0; i < 256; i++) s->table[i] = transform(s, (float)i, 255);
    for (int64_t i = 0; i < n && !s->images.n_classes; i++)
        if (s->images.labels[i] >= n_classes) n_classes = (int64_t)s->images.labels[i] + 1;
    if (s->images.undivided) IPU_TRY(draw_part(s, part, o->test_share > 0 ? o->test_share : 1.0 / 6, &n));
    if (n == 0)
        return ipu__fail(IPU_INVALID, "%s: the %s set has no samples", where,
                         part == IPU_TEST ? "test" : "training");
    if (o->most && o->most < n) n = o->most;
    const ipu_field fields[] = {{"images", IPU_FLOAT, *shape}, {"labels", IPU_INT32, {0}}};
    return ipu__dataset_create(fields, 2, n, (ipu_dataset_functions){.get = get, .destroy = destroy}, s,
                               (ipu__dataset_about){s->images.kind, n_classes, expect}, out);
}

ipu_status ipu__image_set_create(ipu__images *images, ipu_dataset_part part,
                                 const ipu_dataset_options *options, const char *where, ipu_dataset **out)
{
    const ipu_dataset_options defaults = {0};
    if (!options) options = &defaults;
    *out              = NULL;
    image_set *s      = ipu__alloc_zeroed(sizeof *s);
    ipu_status status = s ? check_options(options) : ipu__fail_memory();
    if (s) s->images = *images;
    if (status == IPU_OK) status = create(s, part, options, where, out);
    if (status != IPU_OK && s) destroy(s);
    if (!s) ipu__images_free(images);
    *images = (ipu__images){0};
    return status;
}

/* ---- labels ---- */

ipu_status ipu__labels_take(const ipu_array *from, int64_t n, const char *where, int32_t **out)
{
    *out = ipu__alloc((size_t)n * sizeof **out);
    if (!*out) return ipu__fail_memory();
    for (int64_t i = 0; i < n; i++) {
        double value = ipu_array_value(from, i);
        if (value >= 0 && value < INT32_MAX && value == floor(value)) {
            (*out)[i] = (int32_t)value;
            continue;
        }
        ipu__free(*out);
        *out = NULL;
        return ipu__fail(IPU_INVALID, "%s: label %lld is %g: expected the number of a class, from 0", where,
                         (long long)i, value);
    }
    return IPU_OK;
}
