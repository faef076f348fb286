/* What `ipu dataset` prints and draws of a dataset. */
#ifndef TOOLS_DATASET_SHOW_H
#define TOOLS_DATASET_SHOW_H

#include "command.h"
#include "ipu/dataset.h"

/* Both parts: samples, fields, classes, mean and deviation of pixels. */
tool_exit dataset_show(const char *path, bool json);

/* The first `count` pictures on one sheet, written as PNG to `to`: a row per class if there are few, else in
 * order. */
tool_exit dataset_sheet(const char *path, ipu_dataset_part part, int64_t count, const char *to);

#endif
