/* Pools of executors: a session whose executables are those of executors that their owner has. */
#include <inttypes.h>
#include <string.h>

#include "op/op.h"
#include "train/executor/executor.h"

typedef struct member {
    ipu__compiled base; /* its executable is the executor's, as it was when the pool was used last */
    ipu_executor *x;    /* borrowed */
} member;

struct ipu_executor_pool {
    ipu__session session; /* of members, each for the executor that it is */
    IPU__ARRAY(ipu_executor *) excess;
};

static void let_go(void *user, ipu__compiled *c)
{
    ipu_executor_pool *pool           = user;
    member            *m              = (member *)c;
    pool->excess.at[pool->excess.n++] = m->x; /* there is room for all members */
    m->base.exe                       = NULL;
    ipu__compiled_fini(c);
    ipu__free(m);
}

static const ipu__session_def members = {.destroy = let_go};

ipu_status ipu_executor_pool_create(int64_t most, ipu_executor_pool **out)
{
    *out = NULL;
    if (most < 1 || most > IPU__MOST_OF_AN_OPTION)
        return ipu__fail(IPU_INVALID, "a pool of executors: expected room for 1 to %d, found %" PRId64,
                         IPU__MOST_OF_AN_OPTION, most);
    *out = ipu__alloc_zeroed(sizeof **out);
    if (!*out) return ipu__fail_memory();
    (*out)->session = (ipu__session){.def = &members, .user = *out, .most = (size_t)most};
    return IPU_OK;
}

void ipu_executor_pool_destroy(ipu_executor_pool *pool)
{
    if (!pool) return;
    ipu__session_fini(&pool->session);
    ipu__array_fini(&pool->excess);
    ipu__free(pool);
}

/* What each takes, which changes when an executor compiles again. */
static void look_at_executables(ipu_executor_pool *pool)
{
    for (size_t i = 0; i < pool->session.compiled.n; i++) {
        member *m   = (member *)pool->session.compiled.at[i];
        m->base.exe = ipu_executor_executable(m->x);
    }
}

static ipu_status add(ipu_executor_pool *pool, ipu_executor *x, const ipu__arguments *what)
{
    if (!ipu__reserve(&pool->excess, pool->session.compiled.n + 1)) return ipu__fail_memory();
    member *m = ipu__alloc_zeroed(sizeof *m);
    if (!m) return ipu__fail_memory();
    m->x              = x;
    ipu_status status = ipu__arguments_copy(what, &m->base.arguments);
    m->base.exe       = ipu_executor_executable(x);
    if (status == IPU_OK) status = ipu__session_keep(&pool->session, &m->base);
    if (status == IPU_OK) return IPU_OK;
    m->base.exe = NULL;
    ipu__compiled_fini(&m->base);
    ipu__free(m);
    return status;
}

ipu_status ipu_executor_pool_use(ipu_executor_pool *pool, ipu_executor *x)
{
    ipu__argument  is_x = {.type = IPU_UINT8, .shape = IPU_SHAPE(sizeof x), .value = &x, .is_fixed = true};
    ipu__arguments what = {.list = {.at = &is_x, .n = 1}};
    if (!x->p)
        return ipu__fail(IPU_INVALID,
                         "a pool of executors: expected one that is compiled: compile it before");
    member *before = (member *)pool->session.last;
    look_at_executables(pool);
    if (before) IPU_TRY(ipu_executor_take_over(x, before->x));
    return ipu__session_find(&pool->session, &what) ? IPU_OK : add(pool, x, &what);
}

size_t ipu_executor_pool_n(const ipu_executor_pool *pool) { return pool->session.compiled.n; }

ipu_executor *ipu_executor_pool_take_excess(ipu_executor_pool *pool)
{
    return pool->excess.n ? pool->excess.at[--pool->excess.n] : NULL;
}
