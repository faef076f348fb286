/* A training of several processes (mpirun, poprun): rank 0 speaks, tests and writes, all of them compute. */
#ifndef TOOLS_TRAIN_GROUP_H
#define TOOLS_TRAIN_GROUP_H

#include "ipu/checkpoint.h"
#include "ipu/comm.h"
#include "command.h"
#include "train_settings.h"

typedef struct train_group {
    ipu_comm *comm;
    int64_t   rank, size;
    bool      stops; /* one of them was told to stop, or rank 0 failed: all know */
} train_group;

tool_exit train_group_open(train_group *g);
/* After a failure that the others do not know of, they are ended too, and this one. */
void train_group_close(train_group *g, tool_exit code);

static inline bool train_group_is_first(const train_group *g) { return g->rank == 0; }

/* Settings as rank 0 reads them: what is wrong is told once. */
tool_exit train_group_read_settings(train_group *g, train_settings *s, const tool_arguments *args);
/* Whether all have the same of what decides a training; rank 0 tells what differs. */
tool_exit train_group_compare(train_group *g, const json_t *options);
/* What rank 0 came to. */
tool_exit train_group_agree(train_group *g, tool_exit code);

/* A run's mean loss and number of right samples (below 0: not known), over all; and whether to stop. */
tool_exit train_group_add_up(train_group *g, double *loss, double *right, bool stop);
/* Numbers of rank 0 for all; and whether to stop. */
tool_exit train_group_tell(train_group *g, double *numbers, size_t n, bool stop);
/* A checkpoint that rank 0 has read from `path`, for all the others. To be freed by all. */
tool_exit train_group_share_checkpoint(train_group *g, const char *path, ipu_checkpoint *c);

/* How many they are, what this one sent and how long it waited for the others: null if it is alone. */
json_t *train_group_json(const train_group *g, ipu_executor *x);
/* The same as a line; `seconds`: of training. Nothing if it is alone. */
void train_group_print(const train_group *g, ipu_executor *x, double seconds);

#endif
