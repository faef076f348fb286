/* IPUoF configuration files from anyone: parsing gives a partition or an error that names the file. A
 * partition can be built, is as large as its devices say, and what is printed of it parses to the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/ipuof.h"
#include "words.h"

#define FILE_NAME "/etc/ipuof.conf.d/p1.conf"

static void stop(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, ipu_message());
    abort();
}

static void check_partition(const ipu_partition *p)
{
    if (p->n_ipus < 1 || p->n_ipus > IPU__MOST_IPUS || (p->n_ipus & (p->n_ipus - 1))) stop("number of IPUs");
    if (p->n_devices != (p->reconfigurable ? 2 * p->n_ipus - 1 : 1)) stop("number of devices");
    for (size_t i = 0; i < p->n_devices; i++)
        if (p->devices[i].first < 0 || (size_t)(p->devices[i].first + p->devices[i].n_ipus) > p->n_ipus)
            stop("a device beyond the partition");
    for (size_t i = 0; i < p->n_ipus; i++)
        if (!p->singles[i].board || !p->singles[i].machine->host) stop("an IPU without board or host");
}

static void round_trip(ipu__arena *arena, const ipu__partition_spec *spec, const ipu_partition *p)
{
    char               *text;
    ipu__partition_spec again = *spec;
    ipu_partition       same;
    again.n_ipus = (int64_t)p->n_ipus;
    if (ipu__ipuof_print(&again, &text) != IPU_OK) stop("does not print");
    if (ipu__ipuof_parse(arena, FILE_NAME, text, strlen(text), &again) != IPU_OK)
        stop("what was printed does not parse");
    if (ipu__partition_build(arena, &again, &same) != IPU_OK) stop("what was printed cannot be built");
    if (same.n_ipus != p->n_ipus || strcmp(same.name, p->name) != 0 || strcmp(same.chip, p->chip) != 0
        || same.elastic != p->elastic || same.reconfigurable != p->reconfigurable)
        stop("what was printed is another partition");
    ipu__free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    ipu__arena          arena = {0};
    ipu__partition_spec spec;
    ipu_partition       p;
    if (ipu__ipuof_parse(&arena, FILE_NAME, (const char *)data, bytes, &spec) == IPU_OK) {
        if (ipu__partition_build(&arena, &spec, &p) != IPU_OK) stop("what parses cannot be built");
        check_partition(&p);
        round_trip(&arena, &spec, &p);
    } else if (!strstr(ipu_message(), FILE_NAME)) {
        stop("an error that does not name the file");
    }
    ipu__arena_fini(&arena);
    return 0;
}

/* clang-format off */
static const char *const words[] = {
    "{", "}", "[", "]", ":", ",", "\"", "{}", "[]", "null", "true", "false", "0", "1", "4", "16", "256",
    "257", "-1", "1e9", "\"partition\":\"p\",", "\"system\":\"pod16\",", "\"chip\":\"bow\",",
    "\"chip\":\"c2\",", "\"ipus\":8,", "\"ipus\":1,", "\"reconfigurable\":false,", "\"elastic\":true,",
    "\"routing\":\"DNC\",", "\"sync_type\":\"x\",", "\"replicas\":2,", "\"machines\":[{}],",
    "\"machines\":[{},{},{},{}],", "\"host\":\"10.1.5.10\",", "\"type\":\"\",", "\"software\":\"\",",
    "\"server\":\"1.8.1\",", "\"firmware\":\"2.3.5\",", "\"boards\":[\"a\",\"b\"],",
    "\"attributes\":{\"GCD Id\":\"0\"},", "\\u0000", "\\ud800", "\\n", "tiny", "m2000", "bow-pod256",
    "../x", "\x7f"};
/* clang-format on */

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed)
{
    return mutate_words(data, bytes, max_bytes, seed, words, sizeof words / sizeof *words);
}
