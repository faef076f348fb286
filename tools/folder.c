/* Creating folders, and writing a profile into one. */
#include "folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "output.h"

/* Creates the folder named by the first `n` characters of `path`; 0 or errno. */
static int make_part(const char *path, size_t n)
{
    struct stat about;
    char       *part = strndup(path, n);
    if (!part) return ENOMEM;
    int wrong = mkdir(part, 0777) == 0 ? 0 : errno;
    if (wrong && stat(part, &about) == 0) wrong = S_ISDIR(about.st_mode) ? 0 : ENOTDIR;
    free(part);
    return wrong;
}

tool_exit folder_make(const char *folder)
{
    size_t n     = 0;
    int    wrong = 0;
    if (tool_check_links(folder) != TOOL_OK) return TOOL_FAILED;
    while (folder[n] && !wrong) {
        n += strspn(folder + n, "/");
        n += strcspn(folder + n, "/");
        wrong = make_part(folder, n);
    }
    return wrong ? tool_fail("cannot make the folder %s: %s", folder, strerror(wrong)) : TOOL_OK;
}

tool_exit folder_make_for(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return TOOL_OK;
    char     *folder = strndup(path, (size_t)(slash - path));
    tool_exit code   = folder ? folder_make(folder) : tool_fail("out of memory");
    free(folder);
    return code;
}

static tool_exit write_text(const char *folder, const char *name, const char *text)
{
    char       *path;
    tool_output out;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return tool_fail("out of memory");
    tool_exit code = tool_open(&out, path);
    if (code == TOOL_OK) {
        fputs(text, out.file);
        code = tool_close(&out, TOOL_OK);
    }
    free(path);
    return code;
}

tool_exit folder_write_profile(const char *folder, ipu_cost *cost, const ipu_engine *engine)
{
    char          *text = NULL, *json = NULL;
    ipu_step_time *times  = NULL;
    size_t         n      = 0;
    ipu_status     status = engine ? ipu_engine_step_times(engine, &times, &n) : IPU_OK;
    if (status == IPU_OK && engine) status = ipu_cost_set_times(cost, times, n);
    if (status == IPU_OK) status = ipu_cost_print(cost, IPU_PROFILE_STEPS, &text);
    if (status == IPU_OK) status = ipu_cost_json(cost, IPU_PROFILE_TILES, &json);
    tool_exit code = status == IPU_OK ? folder_make(folder) : tool_fail("%s", ipu_message());
    if (code == TOOL_OK) code = write_text(folder, "profile.txt", text);
    if (code == TOOL_OK) code = write_text(folder, "profile.json", json);
    ipu_free(times);
    ipu_free(text);
    ipu_free(json);
    return code;
}
