/* The final report of `ipu train`. */
#ifndef TOOLS_TRAIN_REPORT_H
#define TOOLS_TRAIN_REPORT_H

#include "train/session.h"

/* `stopped`: by a signal. */
tool_exit train_report(train_session *s, bool stopped);

/* One step of a network of the same kind, measured and priced, written to --profile's folder. The training
 * itself is not touched. */
tool_exit train_profile(train_session *s);

#endif
