/* The files of the page, which are in the binary: made of tools/web/ by scripts/embed.sh. */
#ifndef TOOLS_WEB_FILES_H
#define TOOLS_WEB_FILES_H

#include <stddef.h>

typedef struct web_file {
    const char          *path; /* "/", "/monitor.css"; NULL: end */
    const char          *type;
    const unsigned char *bytes;
    size_t               size;
} web_file;

extern const web_file web_files[];

#endif
