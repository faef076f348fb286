/* Training by several processes (mpirun, poprun): rank 0 does all output, all of them compute. */
#ifndef TOOLS_TRAIN_GROUP_H
#define TOOLS_TRAIN_GROUP_H

#include "ipu/comm.h"
#include "command.h"
#include "train/settings.h"

typedef struct train_group {
    ipu_comm *comm;
    int64_t   rank, size;
    bool      is_told; /* all others know what ended this process */
} train_group;

tool_exit train_group_open(train_group *g);
/* After a failure the others do not know of, ends them as well as this process. */
void train_group_close(train_group *g, tool_exit code);

static inline bool train_group_is_first(const train_group *g) { return g->rank == 0; }

/* Rank 0 reads the settings, so that errors are reported once. */
tool_exit train_group_read_settings(train_group *g, train_settings *s, const tool_arguments *args);

/* The number of processes, bytes sent by this one and its time waiting for the others; null if it is
 * alone. */
json_t *train_group_json(const train_group *g, ipu_executor *x);
/* The same as a line; `seconds` is the training time. Prints nothing if it is alone. */
void train_group_print(const train_group *g, ipu_executor *x, double seconds);

#endif
