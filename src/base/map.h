/* Names to numbers: a small hash map. Keys are borrowed and must outlive it. */
#ifndef IPU_BASE_MAP_H
#define IPU_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ipu__map_slot {
    const char *key;
    uint32_t    hash, value;
} ipu__map_slot;

typedef struct ipu__map { /* all zero: empty */
    ipu__map_slot *slots;
    size_t         n, capacity;
} ipu__map;

/* Returns false if there is no such key. */
bool ipu__map_find(const ipu__map *map, const char *key, uint32_t *value);
/* Adds or replaces. Returns false on allocation failure. */
bool ipu__map_set(ipu__map *map, const char *key, uint32_t value);
/* Returns false if there is no such key. */
bool ipu__map_remove(ipu__map *map, const char *key);
void ipu__map_fini(ipu__map *map);

uint32_t ipu__hash_text(const char *text);

#endif
