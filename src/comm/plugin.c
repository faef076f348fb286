/* Finding the MPI plugin: a shared object beside the library, loaded only under a launcher. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/comm.h"

#define PLUGIN_FILE "libipu-mpi.so"

/* Variables of Open MPI, then those set by MPICH and Slurm; PMIx has no size in its environment. */
bool ipu__comm_is_launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size) return strtol(size, NULL, 10) > 1;
    }
    return getenv("PMIX_RANK") != NULL;
}

static const ipu__transport *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        ipu__log(IPU_LOG_DEBUG, "comm", "%s", dlerror());
        return NULL;
    }
    const ipu__transport *t = dlsym(library, IPU__TRANSPORT_PLUGIN);
    if (t && t->version == IPU__TRANSPORT_VERSION) return t; /* MPI cannot be unloaded, so it stays */
    ipu__log(IPU_LOG_WARN, "comm", "%s is of another version of OpenIPU", path);
    dlclose(library);
    return NULL;
}

/* The folder of the library, or of the program it is linked into, with links resolved. */
static bool own_folder(char out[PATH_MAX])
{
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)&ipu__comm_is_launched, &info) || !info.dli_fname) return false;
    if (!realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", out)) return false;
    char *slash = strrchr(out, '/');
    if (slash) *slash = '\0';
    return slash != NULL;
}

ipu_status ipu__comm_load_plugin(const ipu__transport **out)
{
    /* Beside the library, or where programs that contain the library find it, built or installed. */
    static const char *const places[] = {"", "/../src", "/../lib"};
    const char              *given    = getenv("IPU_COMM_PATH");
    char                     folder[PATH_MAX], path[PATH_MAX + 64];
    if (given) {
        snprintf(path, sizeof path, "%s/" PLUGIN_FILE, given);
        *out = load(path);
    } else {
        *out = NULL;
        for (size_t i = 0; !*out && own_folder(folder) && i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s%s/" PLUGIN_FILE, folder, places[i]);
            *out = load(path);
        }
        if (!*out) *out = load(PLUGIN_FILE);
    }
    if (*out) return IPU_OK;
    return ipu__fail(
        IPU_NOT_FOUND,
        "this process was started by a launcher of MPI, but " PLUGIN_FILE
        " cannot be loaded%s%s: install Open MPI (Debian: libopenmpi-dev openmpi-bin) and build "
        "OpenIPU with it, set IPU_COMM_PATH to the folder it is in, or start without the launcher",
        given ? " from IPU_COMM_PATH=" : "", given ? given : "");
}
