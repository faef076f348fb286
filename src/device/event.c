/* Event records: a JSON object, replaced as a whole, so that readers see either the old or the new event.
 * They need not survive a crash of the host, so nothing waits for the disk. */
#include "device/event.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/host/regular.h"
#include "base/status.h"
#include "device/holder.h"
#include "device/runtime.h"

#define FILE_NAME "event.json"

enum { MOST_BYTES = 1 << 16, LINE_BYTES = 256, MESSAGE_BYTES = 1024 };

/* In display order. The path is not in the file. */
static const char *const keys[] = {"timestamp",     "severity",           "command line", "pid",
                                   "attached ipus", "attached ipu hosts", "partition",    "description"};
enum { N_KEYS = sizeof keys / sizeof *keys };

/* ---- writing ---- */

static void command_line(char out[LINE_BYTES])
{
    int     fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n  = fd < 0 ? 0 : read(fd, out, LINE_BYTES - 1);
    if (fd >= 0) close(fd);
    if (n < 0) n = 0;
    out[n] = 0;
    while (n > 0 && out[n - 1] == 0) n--;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < ' ' || (unsigned char)out[i] >= 0x7f) out[i] = ' ';
}

static void attached_ipus(const ipu_device *d, char *ipus, char *hosts, size_t bytes)
{
    size_t at = 0;
    *ipus = *hosts = 0;
    if (!ipu_device_is_attached(d) || d->id < 0) return;
    const ipu_single *singles = d->partition.singles;
    for (int i = 0; i < d->n_slots && at < bytes - 8; i++)
        at += (size_t)snprintf(ipus + at, bytes - at, "%s%d", i ? "," : "", d->slot + i);
    snprintf(hosts, bytes, "%s", singles[d->slot].machine->host);
}

static json_t *describe(const ipu_device *d, const char *message)
{
    char      when[32] = "", line[LINE_BYTES], ipus[LINE_BYTES], hosts[LINE_BYTES], pid[32];
    struct tm utc;
    time_t    now = time(NULL);
    if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    command_line(line);
    attached_ipus(d, ipus, hosts, sizeof ipus);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    const char *const values[N_KEYS] = {when, "error", line, pid, ipus, hosts, d->partition.name, message};
    json_t           *event          = json_object();
    for (int i = 0; event && i < N_KEYS; i++) json_object_set_new(event, keys[i], json_string(values[i]));
    return event;
}

static void write_event(const char *text)
{
    char          folder[PATH_MAX], path[PATH_MAX + 16];
    ipu__new_file file;
    bool          exists;
    if (ipu__runtime_folder(false, folder, &exists) != IPU_OK || !exists) return;
    snprintf(path, sizeof path, "%s/" FILE_NAME, folder);
    ipu__runtime_clear(folder);
    if (ipu__file_begin(path, &file) != IPU_OK) return;
    file.hasty = true;
    if (fchmod(file.fd, 0600) == 0 && ipu__file_append(&file, text, strlen(text)))
        ipu__file_commit(&file);
    else
        ipu__file_abandon(&file);
}

ipu_status ipu__event_failed(const ipu_device *device, ipu_status status)
{
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", ipu_message());
    json_t *event = describe(device, message);
    char   *text  = event ? json_dumps(event, JSON_INDENT(4)) : NULL;
    if (text) write_event(text);
    free(text);
    json_decref(event);
    return ipu__fail(status, "%s", message);
}

/* ---- reading ---- */

/* The file belongs to the user and may contain anything. */
static char *copy_clean(ipu__arena *arena, const char *value)
{
    char *copy = ipu__arena_strdup(arena, value);
    if (copy) ipu__clean_name(copy);
    return copy;
}

static bool copy_event(ipu__arena *arena, const json_t *event, const char *path, ipu__event *out, size_t *n)
{
    out[(*n)++] = (ipu__event){"event record path", copy_clean(arena, path)};
    bool ok     = out[0].value != NULL;
    for (int i = 0; i < N_KEYS; i++) {
        const char *value = json_string_value(json_object_get(event, keys[i]));
        if (!value) continue;
        out[*n] = (ipu__event){keys[i], copy_clean(arena, value)};
        ok      = ok && out[(*n)++].value;
    }
    return ok;
}

ipu_status ipu__event_read(ipu__arena *arena, ipu__event **out, size_t *n)
{
    char   folder[PATH_MAX], path[PATH_MAX + 16], *text;
    bool   exists, ok = true;
    size_t bytes;
    *n   = 0;
    *out = ipu__arena_alloc(arena, (N_KEYS + 1) * sizeof **out);
    if (!*out) return ipu__fail_memory();
    if (ipu__runtime_folder(false, folder, &exists) != IPU_OK || !exists) return IPU_OK;
    snprintf(path, sizeof path, "%s/" FILE_NAME, folder);
    if (ipu__regular_read(path, MOST_BYTES, &text, &bytes) != IPU_OK) return IPU_OK;
    json_t *event = json_loadb(text, bytes, 0, NULL);
    if (json_is_object(event)) ok = copy_event(arena, event, path, *out, n);
    json_decref(event);
    ipu__free(text);
    return ok ? IPU_OK : ipu__fail_memory();
}
