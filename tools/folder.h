/* Folders that commands write into. */
#ifndef TOOLS_FOLDER_H
#define TOOLS_FOLDER_H

#include "command.h"
#include "ipu/profile.h"

/* Makes it and those it is in, where they are not there. */
tool_exit folder_make(const char *folder);
/* The same for the folder that a file is to be in. */
tool_exit folder_make_for(const char *path);

/* profile.txt and profile.json, with the times of steps that the engine measured (NULL: without). The folder is made. */
tool_exit folder_write_profile(const char *folder, ipu_cost *cost, const ipu_engine *engine);

#endif
