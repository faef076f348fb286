/* Event files: values become TensorBoard messages (event.proto), each a record in the file. */
#include "ipu/summary.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/host/folder.h"
#include "event.pb-c.h"
#include "summary/append.h"
#include "summary/record.h"
#include "summary/utf8.h"

struct ipu_summary {
    ipu__appended file;
    IPU__ARRAY(unsigned char) record; /* the next to be written */
};

typedef Ipu__Tfevents__Summary__Value value_message;

/* ---- events ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ipu_status write_event(ipu_summary *s, Ipu__Tfevents__Event *e)
{
    e->has_wall_time = true;
    e->wall_time     = now();
    size_t n         = ipu__tfevents__event__get_packed_size(e);
    s->record.n      = 0;
    if (!ipu__reserve(&s->record, IPU__RECORD_HEAD + n + IPU__RECORD_TAIL)) return ipu__fail_memory();
    ipu__tfevents__event__pack(e, s->record.at + IPU__RECORD_HEAD);
    ipu__record_frame(s->record.at, n);
    return ipu__append(&s->file, s->record.at, IPU__RECORD_HEAD + n + IPU__RECORD_TAIL);
}

static ipu_status write_values(ipu_summary *s, int64_t step, value_message **values, size_t n)
{
    Ipu__Tfevents__Summary summary = IPU__TFEVENTS__SUMMARY__INIT;
    Ipu__Tfevents__Event   event   = IPU__TFEVENTS__EVENT__INIT;
    if (step < 0)
        return ipu__fail(IPU_INVALID, "a summary at step %lld: expected none below 0", (long long)step);
    summary.value   = values;
    summary.n_value = n;
    event.has_step  = true;
    event.step      = step;
    event.summary   = &summary;
    return write_event(s, &event);
}

/* Owned: the tag, by ipu__free. */
static ipu_status begin_value(value_message *v, const char *tag)
{
    ipu__tfevents__summary__value__init(v);
    if (!tag || !*tag)
        return ipu__fail(IPU_INVALID, "a summary without a name: expected a tag that is not empty");
    v->tag = ipu__utf8_copy(tag);
    return v->tag ? IPU_OK : ipu__fail_memory();
}

/* ---- scalars ---- */

static ipu_status add_all(ipu_summary *s, int64_t step, const ipu_summary_scalar *scalars, size_t n,
                          value_message *messages, value_message **values)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = &messages[i];
        IPU_TRY(begin_value(&messages[i], scalars[i].tag));
        messages[i].has_simple_value = true;
        messages[i].simple_value     = (float)scalars[i].value;
    }
    return write_values(s, step, values, n);
}

ipu_status ipu_summary_add_scalars(ipu_summary *s, int64_t step, const ipu_summary_scalar *scalars, size_t n)
{
    value_message  *messages = ipu__alloc_zeroed(n * sizeof *messages);
    value_message **values   = ipu__alloc_zeroed(n * sizeof *values);
    ipu_status      status   = messages && values ? add_all(s, step, scalars, n, messages, values)
                                                  : ipu__fail_memory();
    for (size_t i = 0; messages && i < n; i++)
        if (messages[i].tag) ipu__free(messages[i].tag);
    ipu__free(messages);
    ipu__free(values);
    return status;
}

ipu_status ipu_summary_add_scalar(ipu_summary *s, int64_t step, const char *tag, double value)
{
    return ipu_summary_add_scalars(s, step, &(ipu_summary_scalar){tag, value}, 1);
}

/* ---- texts ---- */

/* A tensor of one string, marked for the text plugin. */
static ipu_status write_text(ipu_summary *s, int64_t step, const value_message *named, char *text)
{
    value_message v = *named, *values = &v;
    enum { DT_STRING = 7 };
    static char                                plugin[] = "text";
    Ipu__Tfevents__SummaryMetadata__PluginData data     = IPU__TFEVENTS__SUMMARY_METADATA__PLUGIN_DATA__INIT;
    Ipu__Tfevents__SummaryMetadata             metadata = IPU__TFEVENTS__SUMMARY_METADATA__INIT;
    Ipu__Tfevents__TensorShapeProto__Dim dim = IPU__TFEVENTS__TENSOR_SHAPE_PROTO__DIM__INIT, *dims = &dim;
    Ipu__Tfevents__TensorShapeProto      shape  = IPU__TFEVENTS__TENSOR_SHAPE_PROTO__INIT;
    Ipu__Tfevents__TensorProto           tensor = IPU__TFEVENTS__TENSOR_PROTO__INIT;
    ProtobufCBinaryData                  string = {strlen(text), (uint8_t *)text};
    data.plugin_name                            = plugin;
    metadata.plugin_data                        = &data;
    dim.has_size                                = true;
    dim.size                                    = 1;
    shape.n_dim                                 = 1;
    shape.dim                                   = &dims;
    tensor.has_dtype                            = true;
    tensor.dtype                                = DT_STRING;
    tensor.tensor_shape                         = &shape;
    tensor.n_string_val                         = 1;
    tensor.string_val                           = &string;
    v.metadata                                  = &metadata;
    v.tensor                                    = &tensor;
    return write_values(s, step, &values, 1);
}

ipu_status ipu_summary_add_text(ipu_summary *s, int64_t step, const char *tag, const char *text)
{
    value_message v;
    IPU_TRY(begin_value(&v, tag));
    char      *copy   = ipu__utf8_copy(text);
    ipu_status status = copy ? write_text(s, step, &v, copy) : ipu__fail_memory();
    ipu__free(copy);
    ipu__free(v.tag);
    return status;
}

/* ---- histograms ---- */

enum { BUCKETS = 30 };

typedef struct histogram {
    double min, max, n, sum, sum_squares;
    double limits[BUCKETS], counts[BUCKETS];
} histogram;

static void measure(const ipu_array *a, histogram *h)
{
    *h = (histogram){.min = INFINITY, .max = -INFINITY};
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++) {
        double x = ipu_array_value(a, i);
        if (!isfinite(x)) continue;
        h->n++;
        h->min = fmin(h->min, x);
        h->max = fmax(h->max, x);
        h->sum += x;
        h->sum_squares += x * x;
    }
}

/* The last bucket includes the largest value. */
static void count(const ipu_array *a, histogram *h)
{
    double scale = h->max > h->min ? BUCKETS / (h->max - h->min) : 0;
    for (int i = 0; i < BUCKETS; i++) h->limits[i] = h->min + (h->max - h->min) * (i + 1) / BUCKETS;
    h->limits[BUCKETS - 1] = h->max;
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++) {
        double x = ipu_array_value(a, i), at = (x - h->min) * scale;
        if (isfinite(x)) h->counts[at < BUCKETS ? (int)at : BUCKETS - 1]++;
    }
}

static ipu_status write_histogram(ipu_summary *s, int64_t step, const value_message *named,
                                  const ipu_array *array)
{
    value_message                 v = *named, *values = &v;
    histogram                     h;
    Ipu__Tfevents__HistogramProto m = IPU__TFEVENTS__HISTOGRAM_PROTO__INIT;
    measure(array, &h);
    if (h.n == 0)
        return ipu__fail(
            IPU_INVALID,
            "the histogram \"%.100s\": expected an array with a finite element, found none in %lld", v.tag,
            (long long)ipu_array_n_elements(array));
    count(array, &h);
    m.has_min = m.has_max = m.has_num = m.has_sum = m.has_sum_squares = true;
    m.min                                                             = h.min;
    m.max                                                             = h.max;
    m.num                                                             = h.n;
    m.sum                                                             = h.sum;
    m.sum_squares                                                     = h.sum_squares;
    m.n_bucket_limit = m.n_bucket = h.max > h.min ? BUCKETS : 1;
    m.bucket_limit                = h.max > h.min ? h.limits : &h.max;
    m.bucket                      = h.max > h.min ? h.counts : &h.n;
    v.histo                       = &m;
    return write_values(s, step, &values, 1);
}

ipu_status ipu_summary_add_histogram(ipu_summary *s, int64_t step, const char *tag, const ipu_array *array)
{
    value_message v;
    IPU_TRY(begin_value(&v, tag));
    ipu_status status = write_histogram(s, step, &v, array);
    ipu__free(v.tag);
    return status;
}

/* ---- files ---- */

static const char prefix[] = "events.out.tfevents.";

/* Readers take files in the order of their names, which begin with seconds: the new one must sort last even if the
 * clock was set back, or training resumes within a second. */
static ipu_status find_time(const char *folder, int64_t *out)
{
    DIR *d = opendir(folder);
    *out   = (int64_t)time(NULL);
    if (!d) return ipu__fail(IPU_IO, "cannot read the folder %s: %s", folder, strerror(errno));
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) != 0) continue;
        long long then = strtoll(e->d_name + sizeof prefix - 1, NULL, 10);
        if (then >= *out && then < 9999999999) *out = then + 1; /* longer ones would sort first */
    }
    closedir(d);
    return IPU_OK;
}

static ipu_status open_file(ipu_summary *s, const char *folder)
{
    enum { MOST_TRIES = 1000 };
    char       host[65] = "", path[PATH_MAX];
    int64_t    seconds;
    ipu_status status = find_time(folder, &seconds);
    if (gethostname(host, sizeof host - 1) != 0 || !*host || strchr(host, '/')) strcpy(host, "host");
    for (int i = 0; status == IPU_OK && i < MOST_TRIES; i++) {
        int n = snprintf(path, sizeof path, "%s/%s%010lld.%s.%ld.%d", folder, prefix, (long long)seconds,
                         host, (long)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof path)
            return ipu__fail(IPU_IO, "cannot write to the folder %.200s...: its name is too long", folder);
        errno  = 0;
        status = ipu__append_open(path, true, &s->file);
        if (status == IPU_OK || errno != EEXIST) return status;
        ipu__append_close(&s->file);
        status = IPU_OK;
    }
    return status == IPU_OK ? ipu__fail(IPU_IO, "cannot find a name for a file in %s", folder) : status;
}

static ipu_status begin_file(ipu_summary *s, int64_t purge)
{
    enum { START = 1 };
    static char               version[] = "brain.Event:2";
    Ipu__Tfevents__Event      first = IPU__TFEVENTS__EVENT__INIT, second = IPU__TFEVENTS__EVENT__INIT;
    Ipu__Tfevents__SessionLog session = IPU__TFEVENTS__SESSION_LOG__INIT;
    first.file_version                = version;
    IPU_TRY(write_event(s, &first));
    if (purge < 0) return IPU_OK;
    session.has_status = second.has_step = true;
    session.status                       = START;
    second.step                          = purge;
    second.session_log                   = &session;
    return write_event(s, &second);
}

ipu_status ipu_summary_open(const char *folder, int64_t purge, ipu_summary **out)
{
    *out           = NULL;
    ipu_summary *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    ipu_status status = ipu__folder_make(folder, 0777);
    if (status == IPU_OK) status = open_file(s, folder);
    if (status == IPU_OK) {
        status = begin_file(s, purge);
        if (status != IPU_OK) unlink(s->file.path); /* a run without values */
    }
    if (status != IPU_OK) {
        ipu_summary_close(s);
        return status;
    }
    *out = s;
    return IPU_OK;
}

void ipu_summary_close(ipu_summary *s)
{
    if (!s) return;
    ipu__append_close(&s->file);
    ipu__array_fini(&s->record);
    ipu__free(s);
}

const char *ipu_summary_path(const ipu_summary *s) { return s->file.path; }
