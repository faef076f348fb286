/* The sections of an executable's file as tables. */
#include "engine/file/image.h"

#include <assert.h>

static_assert(sizeof(ipu__file_header) == 56 && sizeof(ipu__file_entry) == 32, "no padding in the file");

#define ELEMENT(array) __typeof__(*((ipu_executable *)0)->array.at)

/* The types, by name of the section. */
#define SECTION(name, array, ...) typedef ELEMENT(array) name##_element;
#define PLAIN(name, array) typedef ELEMENT(array) name##_element;
#include "engine/file/sections.inc"
#undef SECTION
#undef PLAIN

#define IS_BOOL(type, member) _Generic(((type *)0)->member, bool : true, default : false)
#define MEMBER(section, member)                                                     \
    {offsetof(section##_element, member), sizeof(((section##_element *)0)->member), \
     IS_BOOL(section##_element, member)},
#define SECTION(name, array, ...) static const ipu__exe_member name##_members[] = {__VA_ARGS__};
#define PLAIN(name, array) \
    static const ipu__exe_member name##_members[] = {{0, sizeof(name##_element), false}};
#include "engine/file/sections.inc"
#undef SECTION
#undef PLAIN

#define N(members) (sizeof(members) / sizeof *(members))
#define SECTION(name, array, ...) \
    {#name, offsetof(ipu_executable, array), sizeof(name##_element), name##_members, N(name##_members)},
#define PLAIN(name, array) SECTION(name, array, )
const ipu__exe_section ipu__exe_sections[] = {
#include "engine/file/sections.inc"
};
#undef SECTION
#undef PLAIN

const size_t ipu__exe_n_sections = N(ipu__exe_sections);

typedef ipu_executable       numbers_element;
static const ipu__exe_member number_members[] = {
    MEMBER(numbers, replication) MEMBER(numbers, n_workers) MEMBER(numbers, n_ipus) MEMBER(numbers, chip)
        MEMBER(numbers, tile_bytes) MEMBER(numbers, variable_bytes) MEMBER(numbers, unshared_bytes)
            MEMBER(numbers, gather_bytes) MEMBER(numbers, staging_bytes) MEMBER(numbers, start)
                MEMBER(numbers, n_buffers) MEMBER(numbers, n_counters) MEMBER(numbers, n_functions)};
const ipu__exe_section ipu__exe_numbers = {"numbers", 0, sizeof(ipu_executable), number_members,
                                           N(number_members)};

size_t ipu__exe_file_bytes(const ipu__exe_section *section)
{
    size_t bytes = 0;
    for (size_t i = 0; i < section->n_members; i++) bytes += section->members[i].bytes;
    return bytes;
}
