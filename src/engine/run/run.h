/* Shared by the files of run: steps that are the same on every engine. */
#ifndef IPU_ENGINE_RUN_RUN_H
#define IPU_ENGINE_RUN_RUN_H

#include "engine/engine.h"

#define IPU__NO_BODY UINT64_MAX

/* ---- engine.c ---- */

/* FORKED, or INVALID if called during a run. */
ipu_status ipu__engine_check(const ipu_engine *e);
/* e->def->map, or NULL. */
char *ipu__engine_map(const ipu_engine *e, int64_t replica, ipu__place place);

/* ---- run.c ---- */

/* Runs instructions from `pc` on, until the program ends, or the function entered at this call depth. */
ipu_status ipu__runner_run(ipu__runner *l, uint32_t pc, uint32_t depth);
/* Runs the start program, if there is one. Counts nothing. */
ipu_status ipu__engine_start(ipu_engine *e);

/* ---- runner.c ---- */
ipu_status ipu__runners_create(ipu_engine *e);
void       ipu__runners_destroy(ipu_engine *e);
/* Runs the bodies of a parallel step for `l`: over the runners, or one after another. */
ipu_status ipu__runner_run_bodies(ipu__runner *l, const ipu__instruction *i, uint32_t depth);

/* ---- transfer.c ---- */

static inline bool ipu__is_connected(const ipu__connection *c)
{
    return c->fn || c->lend || c->place || c->data;
}

ipu_status ipu__engine_read_stream(ipu__runner *l, const ipu__instruction *i);
ipu_status ipu__engine_write_stream(ipu__runner *l, const ipu__instruction *i);
ipu_status ipu__engine_remote(ipu__runner *l, const ipu__instruction *i);

/* ---- reduce.c: sums over replicas and processes ---- */
ipu_status ipu__engine_all_reduce(ipu__runner *l, const ipu__instruction *i);
/* For all sums that were started. */
ipu_status ipu__engine_all_reduce_wait(ipu_engine *e);
void       ipu__engine_leave(ipu_engine *e);

/* ---- times.c: one look at the clock when an instruction begins, which is when the previous one ends ---- */
ipu_status ipu__times_init(ipu_engine *e);
void       ipu__times_begin(ipu__runner *l, uint32_t pc);
void       ipu__times_end(ipu__runner *l); /* of a run, however it ended */

/* ---- print.c ---- */
ipu_status ipu__engine_print(ipu__runner *l, const ipu__instruction *i);
ipu_status ipu__engine_error(ipu__runner *l, const ipu__instruction *i);

#endif
