/* The files of the page, embedded in the binary: generated from tools/web/ by scripts/embed.sh. */
#ifndef TOOLS_WEB_FILES_H
#define TOOLS_WEB_FILES_H

#include <stddef.h>

typedef struct web_file {
    const char          *path; /* "/", "/monitor.css"; NULL ends the list */
    const char          *type;
    const unsigned char *bytes;
    size_t               size;
} web_file;

extern const web_file web_files[];

#endif
