/* Writing to the log. Public half: ipu/log.h. */
#ifndef IPU_BASE_LOG_H
#define IPU_BASE_LOG_H

#include <stdbool.h>

#include "ipu/log.h"

/* Whether a message of this level and module would be delivered; cheap, for guarding work. */
bool ipu__log_wants(ipu_log_level level, const char *module);

/* `module`: graph, engine, program, tensor, target, codelets. */
void ipu__log(ipu_log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Logs all of `text`, however long. */
void ipu__log_text(ipu_log_level level, const char *module, const char *text);

#endif
