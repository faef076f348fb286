/* Signal handlers that abort a vertex body, installed only while checking mode runs vertices. */
#include "engine/cpu/fault.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

typedef struct catcher {
    sigjmp_buf  at;
    ipu__fault *out;
} catcher;

static _Thread_local catcher *volatile current;

static pthread_mutex_t  users_lock = PTHREAD_MUTEX_INITIALIZER;
static int              n_users;
static struct sigaction former[N_SIGNALS];

/* The program's own handler, or the default action, which is reached by returning and faulting again. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    int i = 0;
    while (i < N_SIGNALS - 1 && signals[i] != number) i++;
    if (former[i].sa_flags & SA_SIGINFO) {
        former[i].sa_sigaction(number, info, context);
    } else if (former[i].sa_handler != SIG_DFL && former[i].sa_handler != SIG_IGN) {
        former[i].sa_handler(number);
    } else {
        sigaction(number, &former[i], NULL);
        if (info->si_code <= 0) raise(number); /* sent by a process, so it will not recur */
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    catcher *c = current;
    if (!c || info->si_code <= 0) {
        pass_on(number, info, context);
        return;
    }
    current = NULL;
    *c->out = (ipu__fault){number, info->si_addr};
    /* Restores only what was blocked before the fault: TSan's handler, which calls this one, blocks all
     * signals. */
    pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)context)->uc_sigmask, NULL);
    siglongjmp(c->at, 1);
}

void ipu__fault_begin(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&users_lock);
    if (n_users++ == 0)
        for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &action, &former[i]);
    pthread_mutex_unlock(&users_lock);
}

void ipu__fault_end(void)
{
    pthread_mutex_lock(&users_lock);
    if (--n_users == 0)
        for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &former[i], NULL);
    pthread_mutex_unlock(&users_lock);
}

bool ipu__fault_call(ipu_compute_fn compute, void *vertex, unsigned worker, unsigned n_workers,
                     ipu__fault *out)
{
    catcher c = {.out = out};
    *out      = (ipu__fault){0};
    /* SA_NODEFER: there is no mask to restore, which would cost a system call per vertex. */
    if (sigsetjmp(c.at, 0)) return false;
    current = &c;
    bool ok = compute(vertex, worker, n_workers);
    current = NULL;
    return ok;
}
