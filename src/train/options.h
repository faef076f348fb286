/* Options of executors, checked and with their defaults. Public half: ipu/executor.h. */
#ifndef IPU_TRAIN_OPTIONS_H
#define IPU_TRAIN_OPTIONS_H

#include "base/status.h"
#include "ipu/executor.h"

enum { IPU__MOST_OF_AN_OPTION = 1 << 30 };

/* No count is 0 in `out`. `given` NULL: the defaults. Statuses: INVALID. */
ipu_status ipu__executor_options_settle(const ipu_executor_options *given, ipu_executor_options *out);

#endif
