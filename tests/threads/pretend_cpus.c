/* Preloaded: the host has PRETEND_CPUS CPUs, whichever way a program asks. Nothing else changes: the threads it then
 * starts share the CPUs there are. */
#undef _FILE_OFFSET_BITS /* `open` and `open64` are two names here */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static int pretended(void)
{
    const char *text = getenv("PRETEND_CPUS");
    return text ? atoi(text) : 1;
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < pretended(); i++) CPU_SET_S(i, bytes, set);
    return 0;
}

long sysconf(int name)
{
    long (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? pretended() : real(name);
}

int get_nprocs(void) { return pretended(); }

/* A container's quota would be the smaller number. */
int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    *(void **)&real = dlsym(RTLD_NEXT, "open");
    if (strcmp(path, "/proc/self/cgroup") != 0) return real(path, flags, mode);
    errno = ENOENT;
    return -1;
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));
