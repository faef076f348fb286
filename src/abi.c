/* Layouts of the public structures, as the compiler has them: abi.inc lists what is told, `_Generic` says of what type it is. */
#include "ipu/abi.h"

#include "ipu/ipu.h"

/* An enum is an unsigned int, and an array a pointer to its elements. */
/* clang-format off */
#define TYPE(x)                             \
    _Generic((x),                           \
        bool: "bool",                       \
        int: "int",                         \
        unsigned: "uint",                   \
        int64_t: "int64",                   \
        size_t: "size",                     \
        double: "double",                   \
        char *: "text",                     \
        const char *: "text",               \
        const char *const *: "text*",       \
        int64_t *: "int64*",                \
        const int64_t *: "int64*",          \
        ipu_shape: "ipu_shape",             \
        ipu_array: "ipu_array",             \
        ipu_value: "ipu_value",             \
        ipu_nn_optimizer: "ipu_nn_optimizer",           \
        ipu_nn_training: "ipu_nn_training",             \
        ipu_executor_options: "ipu_executor_options",   \
        ipu_loader_options: "ipu_loader_options",       \
        ipu_schedule: "ipu_schedule",                   \
        ipu_trainer_events: "ipu_trainer_events",       \
        ipu_trainer_words: "ipu_trainer_words",         \
        const ipu_array *: "ipu_array*",                \
        const ipu_trainer_epoch *: "ipu_trainer_epoch*", \
        const double *: "double*",                      \
        ipu_named_array *: "ipu_named_array*",          \
        const ipu_value *: "ipu_value*",                \
        const ipu_nn_group *: "ipu_nn_group*",          \
        const ipu_op_attribute *: "ipu_op_attribute*",  \
        default: "pointer")
/* clang-format on */

static const ipu_abi_member members[] = {
#define STRUCTURE(of) {#of, "", "", 0, sizeof(of)},
#define MEMBER(of, name) {#of, #name, TYPE(((of *)0)->name), offsetof(of, name), sizeof(((of *)0)->name)},
#define CONSTANT(name)
#include "abi.inc"
#undef STRUCTURE
#undef MEMBER
#undef CONSTANT
};

static const ipu_abi_constant constants[] = {
#define STRUCTURE(of)
#define MEMBER(of, name)
#define CONSTANT(name) {#name, name},
#include "abi.inc"
#undef CONSTANT
#define X(name, text) {"IPU_" #name, IPU_##name},
    IPU_STATUS_LIST(X)
#undef X
#define X(name, text, ctype) {"IPU_" #name, IPU_##name},
        IPU_TYPE_LIST(X)
#undef X
};

bool ipu_abi_member_at(size_t i, ipu_abi_member *out)
{
    if (i >= sizeof members / sizeof *members) return false;
    *out = members[i];
    return true;
}

bool ipu_abi_constant_at(size_t i, ipu_abi_constant *out)
{
    if (i >= sizeof constants / sizeof *constants) return false;
    *out = constants[i];
    return true;
}
