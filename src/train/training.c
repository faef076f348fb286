/* How a network is trained, compared member by member, as the lists have them. */
#include "train/training.h"

#include <string.h>

static bool optimizer_equal(const ipu_nn_optimizer *a, const ipu_nn_optimizer *b)
{
#define MEMBER(member) \
    if (a->member != b->member) return false;
#define RATE(member)
#include "train/optimizer.inc"
#undef MEMBER
#undef RATE
    return true;
}

static bool text_equal(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static bool group_equal(const ipu_nn_group *a, const ipu_nn_group *b)
{
#define MEMBER(member) \
    if (a->member != b->member) return false;
#define TEXT(member) \
    if (!text_equal(a->member, b->member)) return false;
#define OPTIMIZER(member) \
    if (!optimizer_equal(&a->member, &b->member)) return false;
#include "train/group.inc"
#undef MEMBER
#undef TEXT
#undef OPTIMIZER
    return true;
}

bool ipu__training_equal(const ipu_nn_training *a, const ipu_nn_training *b)
{
#define MEMBER(member) \
    if (a->member != b->member) return false;
#define OPTIMIZER(member) \
    if (!optimizer_equal(&a->member, &b->member)) return false;
#define GROUPS(member)
#define N_GROUPS(member) MEMBER(member)
#include "train/training.inc"
#undef MEMBER
#undef OPTIMIZER
#undef GROUPS
#undef N_GROUPS
    for (size_t i = 0; i < a->n_groups; i++)
        if (!group_equal(&a->groups[i], &b->groups[i])) return false;
    return true;
}
