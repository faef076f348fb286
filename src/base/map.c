/* Open addressing, linear probing, at most half full. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

uint32_t ipu__hash_text(const char *text) /* FNV-1a */
{
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static ipu__map_slot *slot_of(const ipu__map *map, const char *key, uint32_t hash)
{
    size_t i = hash & (map->capacity - 1);
    while (map->slots[i].key && (map->slots[i].hash != hash || strcmp(map->slots[i].key, key) != 0))
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

bool ipu__map_find(const ipu__map *map, const char *key, uint32_t *value)
{
    if (map->n == 0) return false;
    const ipu__map_slot *slot = slot_of(map, key, ipu__hash_text(key));
    if (!slot->key) return false;
    *value = slot->value;
    return true;
}

static bool rehash(ipu__map *map, size_t capacity)
{
    ipu__map bigger = {ipu__alloc_zeroed(capacity * sizeof *map->slots), map->n, capacity};
    if (!bigger.slots) return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key) *slot_of(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
    ipu__free(map->slots);
    *map = bigger;
    return true;
}

bool ipu__map_set(ipu__map *map, const char *key, uint32_t value)
{
    if (2 * (map->n + 1) > map->capacity && !rehash(map, map->capacity ? 2 * map->capacity : 16))
        return false;
    uint32_t       hash = ipu__hash_text(key);
    ipu__map_slot *slot = slot_of(map, key, hash);
    if (!slot->key) map->n++;
    *slot = (ipu__map_slot){key, hash, value};
    return true;
}

bool ipu__map_remove(ipu__map *map, const char *key)
{
    if (map->n == 0) return false;
    ipu__map_slot *slot = slot_of(map, key, ipu__hash_text(key));
    if (!slot->key) return false;
    /* Later entries of the run move into the hole, so that searches still end only at free slots. */
    size_t mask = map->capacity - 1, hole = (size_t)(slot - map->slots);
    for (size_t i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
        size_t home = map->slots[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        map->slots[hole] = map->slots[i];
        hole             = i;
    }
    map->slots[hole] = (ipu__map_slot){0};
    map->n--;
    return true;
}

void ipu__map_fini(ipu__map *map)
{
    ipu__free(map->slots);
    *map = (ipu__map){0};
}
