/* The build id, from the ELF notes of the loaded object that contains this code: elf(5),
 * dl_iterate_phdr(3). */
#include "base/host/build.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct build_id {
    const void *at;
    size_t      bytes;
} build_id;

static bool holds(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - object->dlpi_addr - part->p_vaddr < part->p_memsz)
            return true;
    }
    return false;
}

/* Each note has lengths and type, name, and descriptor, all padded to 4 bytes. */
static void look(const char *at, size_t left, build_id *out)
{
    static const char owner[4] = "GNU";
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t name = (note.n_namesz + 3u) & ~(size_t)3, about = (note.n_descsz + 3u) & ~(size_t)3;
        at += sizeof note;
        left -= sizeof note;
        if (name > left || about > left - name) return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner
            && memcmp(at, owner, sizeof owner) == 0)
            *out = (build_id){at + name, note.n_descsz};
        at += name + about;
        left -= name + about;
    }
}

static int visit(struct dl_phdr_info *object, size_t bytes, void *out)
{
    (void)bytes;
    if (!holds(object, (uintptr_t)&ipu__build_id)) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_NOTE)
            look((const char *)(uintptr_t)(object->dlpi_addr + part->p_vaddr), part->p_memsz, out);
    }
    return 1;
}

const void *ipu__build_id(size_t *bytes)
{
    build_id found = {0};
    dl_iterate_phdr(visit, &found);
    *bytes = found.bytes;
    return found.at;
}
