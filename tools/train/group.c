/* Training by several processes: options are read alike by all, and its end is passed on. */
#include "train/group.h"

#include <stdio.h>

#include "output.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* ---- life ---- */

tool_exit train_group_open(train_group *g)
{
    *g = (train_group){.size = 1};
    if (ipu_comm_open(&g->comm) != IPU_OK) return failed();
    g->rank = ipu_comm_rank(g->comm);
    g->size = ipu_comm_size(g->comm);
    return TOOL_OK;
}

void train_group_close(train_group *g, tool_exit code)
{
    if (g->comm && g->size > 1 && code != TOOL_OK && !g->is_told) {
        fflush(stdout);
        ipu_comm_abort(g->comm, (int)code);
    }
    ipu_comm_close(g->comm);
}

/* ---- settings ---- */

/* Everyone adopts rank 0's result. */
static tool_exit agree(train_group *g, tool_exit code)
{
    if (ipu_comm_broadcast(g->comm, 0, &code, sizeof code) != IPU_OK) return failed();
    if (code != TOOL_OK) g->is_told = true;
    return code;
}

tool_exit train_group_read_settings(train_group *g, train_settings *s, const tool_arguments *args)
{
    tool_exit code = train_group_is_first(g) ? train_settings_read(s, args, g->size) : TOOL_OK;
    code           = agree(g, code);
    return code != TOOL_OK || train_group_is_first(g) ? code : train_settings_read(s, args, g->size);
}

/* ---- what it cost ---- */

static void counters(ipu_executor *x, double *waited, int64_t *bytes)
{
    *waited = 0;
    *bytes  = 0;
    if (ipu_executor_engine(x)) ipu_engine_comm_counters(ipu_executor_engine(x), waited, bytes);
}

json_t *train_group_json(const train_group *g, ipu_executor *x)
{
    double  waited;
    int64_t bytes;
    if (g->size == 1) return json_null();
    counters(x, &waited, &bytes);
    return json_pack("{s:I, s:f, s:I}", "processes", (json_int_t)g->size, "waited_s", waited, "sent_bytes",
                     (json_int_t)bytes);
}

void train_group_print(const train_group *g, ipu_executor *x, double seconds)
{
    double  waited;
    int64_t bytes;
    char    sent[32];
    if (g->size == 1) return;
    counters(x, &waited, &bytes);
    tool_format((double)bytes, "B", sent, sizeof sent);
    printf("%lld processes: %.1f %% of the time waited for one another, %s sent by each\n",
           (long long)g->size, seconds > 0 ? 100 * waited / seconds : 0, sent);
}
