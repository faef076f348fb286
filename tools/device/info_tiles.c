/* gc-info --tile-overview: a map of the tiles of an IPU, four of them (a supertile) in each cell. Sixteen
 * columns, like the vendor's; the meaning of the letters is ours (docs/tools.md). */
#include "device/info_tiles.h"

#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "output.h"

enum { COLUMNS = 16, TILES_OF_CELL = 4, TILES_OF_ROW = COLUMNS * TILES_OF_CELL };

/* This process holds the device, so nothing runs on it: a tile is idle, or its IPU needs a reset. */
static char state_of(const ipu_single *s) { return !strcmp(s->error, "no errors") ? '.' : 'E'; }

/* "---- ----" of one row, without cells past the last tile. */
static void row_text(const ipu_partition *p, const ipu_single *s, int64_t row, char out[DEVICE_TEXT])
{
    char *end = out;
    for (int64_t t = row * TILES_OF_ROW; t < p->tiles_per_ipu && t < (row + 1) * TILES_OF_ROW; t++) {
        if (end > out && t % TILES_OF_CELL == 0) *end++ = ' ';
        *end++ = state_of(s);
    }
    *end = 0;
}

static int64_t n_rows(const ipu_partition *p) { return (p->tiles_per_ipu + TILES_OF_ROW - 1) / TILES_OF_ROW; }

static void print_map(const ipu_partition *p, const ipu_single *s)
{
    char text[DEVICE_TEXT];
    fputs("   ", stdout);
    for (int i = 0; i < COLUMNS; i++) printf(" %4d", i);
    putchar('\n');
    for (int64_t row = 0; row < n_rows(p); row++) {
        row_text(p, s, row, text);
        printf("%3lld %s\n", (long long)row, text);
    }
}

static void print_maps(const ipu_partition *p, const ipu_device_info *d)
{
    for (int k = 0; k < d->n_ipus; k++) {
        if (d->n_ipus > 1) printf("IPU %d:\n", d->first + k);
        print_map(p, &p->singles[d->first + k]);
    }
    puts(". idle  E the IPU has an error: gc-reset clears it");
}

static bool set_map(json_t *object, const ipu_partition *p, const ipu_single *s)
{
    char    text[DEVICE_TEXT];
    json_t *rows = json_array();
    bool made = device_set_number(object, "id", s->index) && device_set(object, "ipu error state", s->error)
             && device_set_number(object, "tiles", (long long)p->tiles_per_ipu);
    for (int64_t row = 0; made && row < n_rows(p); row++) {
        row_text(p, s, row, text);
        made = json_array_append_new(rows, json_string(text)) == 0;
    }
    return json_object_set_new(object, "rows", rows) == 0 && made;
}

static json_t *describe(const ipu_partition *p, const ipu_device_info *d)
{
    json_t *ipus = json_array();
    bool    made = ipus;
    for (int k = 0; made && k < d->n_ipus; k++) {
        json_t *ipu = json_object();
        made        = set_map(ipu, p, &p->singles[d->first + k]);
        made        = json_array_append_new(ipus, ipu) == 0 && made;
    }
    if (made) return json_pack("{s:o}", "ipus", ipus);
    json_decref(ipus);
    return NULL;
}

static tool_exit show(int id, bool json)
{
    const ipu_device_info *d;
    ipu_device_list       *list;
    if (ipu_device_list_create(0, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    const ipu_partition *p    = ipu_device_list_active(list);
    tool_exit            code = TOOL_OK;
    if (ipu_partition_find_device(p, id, &d) != IPU_OK)
        code = tool_fail("%s", ipu_message());
    else if (json)
        code = tool_print_json(stdout, describe(p, d));
    else
        print_maps(p, d);
    ipu_device_list_destroy(list);
    return code;
}

tool_exit info_tiles(int id, bool json)
{
    ipu_device *device;
    if (ipu_device_open(id, &device) != IPU_OK) return tool_fail("%s", ipu_message());
    tool_exit code = ipu_device_attach(device, 0) == IPU_OK ? show(id, json) : tool_fail("%s", ipu_message());
    ipu_device_close(device);
    return code;
}
