/* Folders that commands write into. */
#ifndef TOOLS_FOLDER_H
#define TOOLS_FOLDER_H

#include "command.h"
#include "ipu/profile.h"

/* Creates the folder and any missing parents. */
tool_exit folder_make(const char *folder);
/* Likewise for the folder that will hold a file. */
tool_exit folder_make_for(const char *path);

/* Writes profile.txt and profile.json, with step times measured by the engine (NULL: without). Creates the
 * folder. */
tool_exit folder_write_profile(const char *folder, ipu_cost *cost, const ipu_engine *engine);

#endif
