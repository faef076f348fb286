/* Moves on a host, whose bases are pointers. */
#ifndef IPU_ENGINE_CPU_MOVE_H
#define IPU_ENGINE_CPU_MOVE_H

#include "engine/moves.h"

/* Estimated time of moves first .. first + n, for deciding whether threads are worth it. */
int64_t ipu__moves_nanoseconds(const ipu__moves *moves, size_t first, size_t n);

void ipu__move_run(const ipu__moves *moves, size_t i, char *const *to_bases, char *const *from_bases);

#endif
