/* Who is attached: the lock identifies the process, the record describes it. A record is believed only if
 * it is from that process. */
#include "device/holder.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/file.h"

enum { MOST_LISTED = 4 };

/* The file belongs to the user and may contain anything. */
static bool is_possible(const ipu__holder *h, int i)
{
    if (i >= IPU__MOST_IPUS) return h->id == -1 && h->first == -1 && h->n_ipus >= 1;
    return h->id >= 0 && h->first >= 0 && h->first <= i && i - h->first < h->n_ipus
        && h->n_ipus <= IPU__MOST_IPUS - h->first;
}

void ipu__clean_name(char *name)
{
    for (unsigned char *c = (unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c == 0x7F) *c = '?';
        if (c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0)
            c[0] = c[1] = '?'; /* control characters of ISO 6429, in UTF-8 */
    }
}

/* Copies the record. Returns false if it is not that of `pid` (0 for any), or is being written. */
static bool read_record(const ipu__state *state, int i, int64_t pid, ipu__holder *out)
{
    ipu__slot slot;
    ipu__state_read(state, i, &slot);
    *out = (ipu__holder){.pid         = pid,
                         .uid         = (int64_t)geteuid(), /* the state is private to the user */
                         .since_ns    = slot.since_ns,
                         .attached_ns = slot.attached_ns,
                         .id          = slot.id,
                         .first       = slot.first,
                         .n_ipus      = slot.n_ipus,
                         .measures    = slot.measures != 0,
                         .counts      = slot.counts};
    memcpy(out->command, slot.command, sizeof out->command - 1);
    bool another = pid && slot.pid != pid && slot.pid_namespace == ipu__state_pid_namespace();
    if (slot.pid == 0 || another || ipu__state_read_pid(state, i) != slot.pid) return false;
    return is_possible(out, i);
}

/* When the process began, which is the earliest it can have attached; now, if that cannot be determined. This is
 * field 22 of its stat file, after a name that may contain anything: ticks since boot. */
static int64_t began_ns(int64_t pid)
{
    char               path[40], *text = NULL;
    size_t             bytes = 0;
    struct timespec    now, up;
    unsigned long long ticks  = 0;
    const int64_t      second = 1000000000, tick = second / sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    bool        known = pid > 0 && ipu__file_read(path, 4096, &text, &bytes) == IPU_OK;
    const char *at    = known ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    if (at) ticks = strtoull(at, NULL, 10);
    ipu__free(text);
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &up);
    int64_t now_ns = (int64_t)now.tv_sec * second + now.tv_nsec,
            up_ns  = (int64_t)up.tv_sec * second + up.tv_nsec;
    bool told      = ticks > 0 && ticks <= (unsigned long long)(up_ns / tick);
    return told ? now_ns - up_ns + (int64_t)ticks * tick : now_ns;
}

static void guess(int i, int64_t pid, ipu__holder *out)
{
    char   path[40], *text = NULL;
    size_t bytes = 0;
    bool   own   = i >= IPU__MOST_IPUS;
    *out    = (ipu__holder){.pid = pid, .uid = (int64_t)geteuid(), .n_ipus = 1, .since_ns = began_ns(pid)};
    out->id = out->first = own ? -1 : i;
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)pid);
    if (ipu__file_read(path, 4096, &text, &bytes) == IPU_OK && bytes > 0)
        snprintf(out->command, sizeof out->command, "%.*s", (int)strcspn(text, "\n"), text);
    else
        strcpy(out->command, "?");
    ipu__free(text);
}

bool ipu__holder_read(const ipu__state *state, int i, ipu__holder *out)
{
    int64_t pid;
    if (!ipu__state_holder(state, i, &pid)) return false;
    if (!read_record(state, i, pid, out)) guess(i, pid, out);
    ipu__clean_name(out->command);
    return true;
}

void ipu__user_name(int64_t uid, char *out, size_t bytes)
{
    struct passwd entry, *found = NULL;
    char          buffer[4096];
    if (getpwuid_r((uid_t)uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(out, bytes, "%s", found->pw_name);
    else
        snprintf(out, bytes, "%lld", (long long)uid);
}

static size_t add_holder(const ipu__holder *h, int i, char *out, size_t bytes)
{
    char      ipus[32] = "further IPUs", user[64], since[32] = "a moment ago";
    struct tm local;
    time_t    seconds = (time_t)(h->since_ns / 1000000000);
    if (h->first >= 0 && h->n_ipus == 1) snprintf(ipus, sizeof ipus, "IPU %d", i);
    if (h->first >= 0 && h->n_ipus > 1)
        snprintf(ipus, sizeof ipus, "IPUs %d to %d", h->first, h->first + h->n_ipus - 1);
    ipu__user_name(h->uid, user, sizeof user);
    if (h->since_ns > 0 && localtime_r(&seconds, &local))
        strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &local);
    int n = h->pid
              ? snprintf(out, bytes, "%s by pid %lld (%s) of user %s since %s%s", ipus, (long long)h->pid,
                         h->command, user, since, h->pid == getpid() ? ", which is this process" : "")
              : snprintf(out, bytes, "%s by a process (%s) of another namespace since %s", ipus, h->command,
                         since);
    return n < 0 ? 0 : (size_t)n < bytes ? (size_t)n : bytes - 1;
}

void ipu__holders_text(const ipu__state *state, int first, int n, char *out, size_t bytes)
{
    size_t  used   = 0;
    int     listed = 0;
    int64_t last   = -1;
    *out           = 0;
    for (int i = first; i < first + n; i++) {
        ipu__holder h;
        if (!ipu__holder_read(state, i, &h) || (h.pid == last && h.first != i)) continue;
        if (listed++ == MOST_LISTED) {
            snprintf(out + used, bytes - used, ", and others");
            return;
        }
        if (used) used += (size_t)snprintf(out + used, bytes - used, ", ");
        if (used >= bytes) return;
        used += add_holder(&h, i, out + used, bytes - used);
        last = h.pid;
    }
    if (!used) snprintf(out, bytes, "someone who has just let go");
}
