/* Options of executors, checked and with their defaults. Public half: ipu/executor.h. */
#ifndef IPU_TRAIN_OPTIONS_H
#define IPU_TRAIN_OPTIONS_H

#include "base/status.h"
#include "base/text.h"
#include "ipu/comm.h"
#include "ipu/executor.h"
#include "model/parallel/parallel.h"

enum { IPU__MOST_OF_AN_OPTION = 1 << 30 };

/* No count but `stages` is 0 in `out`. `given` NULL: the defaults. Statuses: INVALID. */
ipu_status ipu__executor_options_settle(const ipu_executor_options *given, ipu_executor_options *out);
/* Of settled options: INVALID if one of them means something for training only. */
ipu_status ipu__executor_options_check_inference(const ipu_executor_options *o);

/* Adds to `key` all of settled options that an executable depends on besides the network: what train/executor/options.inc says is of
 * the program, and variables of the environment that override options of the engine. */
void ipu__executor_options_add_key(const ipu_executor_options *o, ipu__text *key);

/* What processes that train together must have the same of, as text. */
enum { IPU__MOST_AGREED = 32, IPU__AGREED_BYTES = 24 };
typedef struct ipu__agreed {
    ipu_comm_item items[IPU__MOST_AGREED];
    size_t        n;
    char          values[IPU__MOST_AGREED][IPU__AGREED_BYTES];
} ipu__agreed;
void ipu__executor_options_agreed(const ipu_executor_options *o, ipu__agreed *out);

/* What of settled options concerns the program, without inputs and outputs. */
ipu__parallel ipu__executor_over(const ipu_executor_options *o, bool training);
/* Whether there can be, and are, IPUs for all replicas. Statuses: INVALID (their number, the target), NOT_FOUND (the
 * partition is hard, and smaller). */
ipu_status ipu__executor_check_ipus(const ipu_executor_options *o, int64_t n_stages);

#endif
