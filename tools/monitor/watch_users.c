/* Looks at other users' IPUs through child processes that run as those users. */
#include "monitor/watch_users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum {
    PATIENCE_MS = 3000,
    REST_MS     = 60000,
    MOST_BYTES  = 16 << 20, /* more than any sample */
    MOST_ASKED  = 64,
    MOST_FOUND  = 1 << 20, /* possible folders: more than a user with subordinate ids can make */
};

void watch_user_name(int64_t uid, char *out, size_t size)
{
    struct passwd entry, *found = NULL;
    char          buffer[4096], number[24];
    snprintf(number, sizeof number, "%lld", (long long)uid);
    bool named = getpwuid_r((uid_t)uid, &entry, buffer, sizeof buffer, &found) == 0 && found;
    harmless_copy(out, size, named ? found->pw_name : number);
}

/* ---- finding users ---- */

/* The uid that follows `prefix` in a file name, or -1. */
static int64_t user_in(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    char  *end;
    if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9') return -1;
    errno          = 0;
    long long uid  = strtoll(name + n, &end, 10);
    bool      good = !errno && !*end && uid < UINT32_MAX;
    return good ? uid : -1;
}

/* Whether it is a folder of that user, by cached attributes: a file system of theirs is not asked. */
static bool is_folder_of(int folder, const char *name, int64_t uid)
{
    struct statx st;
    return statx(folder, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
                 STATX_TYPE | STATX_UID, &st)
            == 0
        && S_ISDIR(st.stx_mode) && (int64_t)st.stx_uid == uid;
}

static bool has_name(int64_t uid)
{
    struct passwd entry, *found = NULL;
    char          buffer[4096];
    return getpwuid_r((uid_t)uid, &entry, buffer, sizeof buffer, &found) == 0 && found;
}

/* Adds the users whose own folder in `folder` is named PREFIX and their uid. If somebody else has put
 * something in its place (anyone can, in /tmp), an existing user counts as well: their state is then in their
 * home. User lookups may go over a network, and anyone can create many entries, so few are looked up. Returns
 * false if out of memory. */
static bool find_in(const char *folder, const char *prefix, int64_t **uids, int *n)
{
    DIR           *d = opendir(folder);
    struct dirent *entry;
    bool           ok      = true;
    int            n_asked = 0;
    while (d && ok && *n < MOST_FOUND && (entry = readdir(d))) {
        int64_t uid = user_in(entry->d_name, prefix);
        if (uid < 0) continue;
        if (!is_folder_of(dirfd(d), entry->d_name, uid) && (n_asked++ >= MOST_ASKED || !has_name(uid)))
            continue;
        int64_t *grown = realloc(*uids, ((size_t)*n + 1) * sizeof *grown);
        ok             = grown != NULL;
        if (!ok) break;
        *uids         = grown;
        grown[(*n)++] = uid;
    }
    if (d) closedir(d);
    return ok;
}

/* The uids of all users but one. -1 if out of memory. Owned: free. */
static int find_numbers(int64_t but, int64_t **out, int *left_out)
{
    int n     = 0;
    *out      = NULL;
    *left_out = 0;
    if (!find_in("/run/user", "", out, &n) || !find_in("/tmp", "openipu-", out, &n)) {
        free(*out);
        *out = NULL;
        return -1;
    }
    return *out ? watch_users_choose(*out, n, but, left_out) : 0;
}

static int64_t now_ms(void) { return tool_clock() / 1000000; }

static watch_user *find_user(watch_user *users, int n, int64_t uid)
{
    for (int i = 0; i < n; i++)
        if (users[i].uid == uid) return &users[i];
    return NULL;
}

/* Whether the child of the last look has still not ended. */
static bool is_stuck(watch_user *u)
{
    if (u->unended && waitpid(u->unended, NULL, WNOHANG) != 0) u->unended = 0;
    return u->unended != 0;
}

static bool rests(const watch_user *u) { return now_ms() < u->rests_until; }

/* A user whose child is stuck stays in the list, so that there is never a second child; so does one who
 * rests, who could otherwise reset the rest by leaving for a moment. */
bool watch_users_find(int64_t but, watch_user **users, int *n, int *left_out)
{
    int64_t    *uids;
    int         n_found = find_numbers(but, &uids, left_out), k = 0;
    watch_user *found = n_found < 0 ? NULL : calloc((size_t)(n_found + *n) + 1, sizeof *found);
    for (int i = 0; found && i < n_found; i++) {
        watch_user *old = find_user(*users, *n, uids[i]);
        if (old) {
            found[k] = *old;
            *old     = (watch_user){.uid = -1};
        }
        found[k].uid = uids[i];
        /* once: names may come over a network */
        if (!*found[k].name) watch_user_name(uids[i], found[k].name, sizeof found[k].name);
        k++;
    }
    free(uids);
    if (!found) return false;
    for (int i = 0; i < *n; i++)
        if (is_stuck(&(*users)[i]) || rests(&(*users)[i])) {
            found[k++]         = (*users)[i];
            (*users)[i].sample = (watch_sample){0};
        }
    watch_users_free(*users, *n);
    *users = found;
    *n     = k;
    return true;
}

void watch_users_free(watch_user *users, int n)
{
    for (int i = 0; i < n; i++) watch_sample_fini(&users[i].sample);
    free(users);
}

/* ---- the child ---- */

/* Drops all of root's privileges. A user without a name has no home: nothing is below /dev/null. */
static bool become(int64_t uid)
{
    struct passwd entry, *found = NULL;
    char          buffer[4096];
    bool          named = getpwuid_r((uid_t)uid, &entry, buffer, sizeof buffer, &found) == 0 && found;
    gid_t         gid   = named ? found->pw_gid : (gid_t)uid;
    if (named ? initgroups(found->pw_name, gid) : setgroups(0, NULL)) return false;
    if (setresgid(gid, gid, gid) != 0 || setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) != 0) return false;
    return setenv("HOME", named ? found->pw_dir : "/dev/null", 1) == 0;
}

/* The child can be signalled by its user, and must not keep the monitor's descriptors: clients, a terminal,
 * or the pipe to another program, which would not see end of file before the child ends. */
static void leave_monitor(int fd)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
    if (fd > 0) close_range(0, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
    while (open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 && fcntl(STDERR_FILENO, F_GETFD) < 0) {}
}

/* Whether there is a folder where the library looks (src/device/runtime.c), as the user whose home is
 * HOME. */
static bool has_folder(int64_t uid)
{
    struct stat st;
    char        path[PATH_MAX], host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host || strchr(host, '/')) strcpy(host, "host");
    int n = snprintf(path, sizeof path, "%s/.openipu-%s", getenv("HOME"), host);
    if (n > 0 && (size_t)n < sizeof path && lstat(path, &st) == 0) return true;
    snprintf(path, sizeof path, "/run/user/%lld/openipu", (long long)uid);
    if (lstat(path, &st) == 0) return true;
    snprintf(path, sizeof path, "/tmp/openipu-%lld", (long long)uid);
    return lstat(path, &st) == 0;
}

/* Sends what it finds, or why it finds nothing: a byte that says which, then a sample or text. */
static void look_as(int64_t uid, const char *name, bool all, int fd)
{
    /* Set by root, so they must not affect the user. */
    static const char *const variables[] = {"IPU_RUNTIME_DIR",   "XDG_RUNTIME_DIR",
                                            "IPUOF_CONFIG_PATH", "IPUOF_VIPU_API_HOST",
                                            "IPU_PARTITION",     "IPUOF_VIPU_API_PARTITION_ID",
                                            "IPU_ELASTIC",       "IPU_DEVICE_ID"};
    watch_sample             s           = {0};
    ipu_device_list         *list;
    const char              *problem = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    leave_monitor(fd);
    if (!become(uid))
        problem = strerror(errno);
    else {
        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user resets it */
        if (!has_folder(uid))
            _exit(write(fd, "+", 1) == 1 && watch_sample_write(fd, &s) ? 0 : 1); /* no IPUs */
        if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK)
            problem = ipu_message();
        else if (!watch_sample_add(&s, list, uid, name, all))
            problem = "out of memory";
        else if (watch_sample_is_too_large(&s))
            problem = "more than 4096 IPUs, 1024 partitions or 8192 processes: these are not looked at";
    }
    if (problem) _exit(write(fd, "-", 1) == 1 && write(fd, problem, strlen(problem)) >= 0 ? 0 : 1);
    _exit(write(fd, "+", 1) == 1 && watch_sample_write(fd, &s) ? 0 : 1);
}

/* ---- the parent ---- */

typedef struct looking {
    pid_t  pid; /* 0 if not started, or over */
    int    fd;
    char  *bytes;
    size_t n, room;
} looking;

/* `why` may contain file names of the user's choosing; make it safe for root's terminal. */
static void fail_user(watch_user *u, const char *why)
{
    char text[WATCH_PROBLEM];
    snprintf(text, sizeof text, "user %s: %.400s", u->name, why);
    harmless_copy(u->problem, sizeof u->problem, text);
}

static void begin(looking *k, watch_user *u, bool all)
{
    int ends[2];
    if (is_stuck(u)) {
        fail_user(u, "something of theirs still blocks an earlier look");
        u->rests_until = 0; /* checking costs no time */
        return;
    }
    if (rests(u)) return;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail_user(u, strerror(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        look_as(u->uid, u->name, all, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        fail_user(u, strerror(errno));
        close(ends[0]);
        return;
    }
    *k = (looking){.pid = pid, .fd = ends[0]};
}

static void take_answer(const looking *k, watch_user *u)
{
    watch_sample s;
    char         text[WATCH_PROBLEM];
    if (k->n > 0 && k->bytes[0] == '-') {
        snprintf(text, sizeof text, "%.*s", (int)(k->n - 1 < 400 ? k->n - 1 : 400), k->bytes + 1);
        fail_user(u, text);
    } else if (k->n > 0 && k->bytes[0] == '+' && watch_sample_read(k->bytes + 1, k->n - 1, &s)) {
        for (int i = 0; i < s.n_partitions; i++) {
            s.partitions[i].uid = u->uid;
            harmless_copy(s.partitions[i].owner, sizeof s.partitions[i].owner, u->name);
        }
        watch_sample_fini(&u->sample);
        u->sample     = s;
        u->problem[0] = 0;
    } else
        fail_user(u, "looking at the IPUs ended before its time");
}

/* A child, even a killed one, may not end while a file system does not answer, so nobody waits for it. */
static void end(looking *k, watch_user *u, const char *why)
{
    if (why) {
        kill(k->pid, SIGKILL);
        fail_user(u, why);
    }
    u->unended = waitpid(k->pid, NULL, WNOHANG) == 0 ? k->pid : 0;
    close(k->fd);
    free(k->bytes);
    *k = (looking){0};
}

/* Reads what is available; ends the child after the last of it. */
static void read_some(looking *k, watch_user *u)
{
    if (k->n == k->room) {
        size_t room  = k->room ? 2 * k->room : 1 << 16;
        char  *grown = room <= MOST_BYTES ? realloc(k->bytes, room) : NULL;
        if (!grown) {
            end(k, u, "more IPUs than can be looked at");
            return;
        }
        k->bytes = grown;
        k->room  = room;
    }
    ssize_t n = read(k->fd, k->bytes + k->n, k->room - k->n);
    if (n > 0) k->n += (size_t)n;
    if (n > 0 || (n < 0 && errno == EINTR)) return;
    take_answer(k, u);
    end(k, u, NULL);
}

static void collect(looking *all, struct pollfd *polls, watch_user *users, int n)
{
    int64_t until = now_ms() + PATIENCE_MS;
    for (;;) {
        int running = 0;
        for (int i = 0; i < n; i++) {
            polls[i] = (struct pollfd){.fd = all[i].pid ? all[i].fd : -1, .events = POLLIN};
            running += all[i].pid != 0;
        }
        int64_t left = until - now_ms();
        if (!running || left <= 0) break;
        if (poll(polls, (nfds_t)n, (int)left) <= 0) continue;
        for (int i = 0; i < n; i++)
            if (all[i].pid && polls[i].revents) read_some(&all[i], &users[i]);
    }
    for (int i = 0; i < n; i++) {
        if (!all[i].pid) continue;
        end(&all[i], &users[i], "no answer within 3 s: something of theirs blocks it; a minute's pause");
        users[i].rests_until = now_ms() + REST_MS;
    }
}

void watch_users_look(watch_user *users, int n, bool all_partitions)
{
    if (n <= 0) return;
    looking       *all   = calloc((size_t)n, sizeof *all);
    struct pollfd *polls = calloc((size_t)n, sizeof *polls);
    for (int i = 0; i < n; i++) {
        if (all && polls)
            begin(&all[i], &users[i], all_partitions);
        else
            fail_user(&users[i], "out of memory");
    }
    if (all && polls) collect(all, polls, users, n);
    free(all);
    free(polls);
}
