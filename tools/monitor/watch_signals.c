/* Signals as a descriptor. Those that ask to end also interrupt blocking calls. */
#include "monitor/watch_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int        events = -1;
static atomic_int stop;

static void on_signal(int number)
{
    int      error = errno;
    uint64_t one   = 1;
    if (number != SIGCHLD) {
        atomic_store(&stop, number);
        signal(number, SIG_DFL);
    }
    if (events >= 0 && write(events, &one, sizeof one) < 0) {} /* full: it is readable already */
    errno = error;
}

static void catch_one(int number)
{
    struct sigaction old, new = {.sa_handler = on_signal, .sa_flags = number == SIGCHLD ? SA_RESTART : 0};
    sigemptyset(&new.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && (old.sa_handler != SIG_IGN || number == SIGCHLD))
        sigaction(number, &new, NULL);
}

void watch_signals_catch(void)
{
    if (events >= 0) return;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    events = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3)
                     : -1; /* standard output may be closed: do not take its place */
    if (fd >= 0) close(fd);
    catch_one(SIGINT);
    catch_one(SIGQUIT); /* Ctrl-\; the terminal must be restored then too */
    catch_one(SIGTERM);
    catch_one(SIGHUP);
    catch_one(SIGCHLD);
}

int watch_signals_fd(void) { return events; }

int watch_signals_take(void)
{
    uint64_t n;
    if (events >= 0 && read(events, &n, sizeof n) < 0) {} /* empty: nothing came */
    return atomic_load(&stop);
}
