/* The losses of a training run as a picture. */
#ifndef TOOLS_TRAIN_LOSS_PLOT_H
#define TOOLS_TRAIN_LOSS_PLOT_H

#include "command.h"
#include "ipu/trainer.h"

tool_exit train_plot(const ipu_trainer_results *r, const char *title, const char *path);

#endif
