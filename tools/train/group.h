/* A training of several processes (mpirun, poprun): rank 0 speaks and writes, all of them compute. */
#ifndef TOOLS_TRAIN_GROUP_H
#define TOOLS_TRAIN_GROUP_H

#include "ipu/comm.h"
#include "command.h"
#include "train/settings.h"

typedef struct train_group {
    ipu_comm *comm;
    int64_t   rank, size;
    bool      is_told; /* what has ended this one is known to all */
} train_group;

tool_exit train_group_open(train_group *g);
/* After a failure that the others do not know of, they are ended too, and this one. */
void train_group_close(train_group *g, tool_exit code);

static inline bool train_group_is_first(const train_group *g) { return g->rank == 0; }

/* Settings as rank 0 reads them: what is wrong is told once. */
tool_exit train_group_read_settings(train_group *g, train_settings *s, const tool_arguments *args);

/* How many they are, what this one sent and how long it waited for the others: null if it is alone. */
json_t *train_group_json(const train_group *g, ipu_executor *x);
/* The same as a line; `seconds`: of training. Nothing if it is alone. */
void train_group_print(const train_group *g, ipu_executor *x, double seconds);

#endif
