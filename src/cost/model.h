/* The numbers of the cost model: constants of the chip, and our own defaults. */
#ifndef IPU_COST_MODEL_H
#define IPU_COST_MODEL_H

#include "ipu/target.h"

/* X(member, constant of the chip, what cannot be priced without it) */
#define IPU__COST_CONSTANT_LIST(X)                                                                   \
    X(sync, sync_internal_cycles, "sync and the fixed cost of an exchange")                          \
    X(launch, compute_set_launch_cycles, "starting the workers of a tile")                           \
    X(vector_floats, vector_width_float, "the width of a load, for vertices without an estimate")    \
    X(send_rate, exchange_send_bytes_per_cycle, "the time of sending to other tiles")                \
    X(receive_rate, exchange_receive_bytes_per_cycle, "the time of receiving from other tiles")      \
    X(word, exchange_word_bytes, "rounding of messages to words")                                    \
    X(message, exchange_fragment_cycles, "the cost of each message beyond a tile's first")           \
    X(copy_start, local_copy_cycles, "the fixed cost of a copy within a tile")                       \
    X(copy_rate, memcpy_bytes_per_cycle, "the time of a copy within a tile")                         \
    X(links, ipu_links, "the time of transfers between IPUs (number of links)")                      \
    X(links_in_pair, ipu_links_in_pair, "routes between IPUs: the links of an IPU are taken as one") \
    X(links_across, ipu_links_across, "routes between IPUs: the links of an IPU are taken as one")   \
    X(links_on_rail, ipu_links_on_rail, "routes between IPUs: the links of an IPU are taken as one") \
    X(link_rate, ipu_link_bytes_per_second, "the time of transfers between IPUs (rate of a link)")   \
    X(link_efficiency, ipu_link_efficiency, "the usable part of the links between IPUs")             \
    X(hop, ipu_sync_hop_seconds, "sync between IPUs")                                                \
    X(host_rate, host_bytes_per_second, "streams from and to the host: transfers take no time here") \
    X(streaming_rate, streaming_bytes_per_second, "remote buffers: transfers take no time here")

enum {
#define DEFAULT(name, value, unit, certainty, reason) IPU__DEFAULT_##name = (value),
#include "cost/defaults.inc"
#undef DEFAULT
};

typedef struct ipu__cost_model {
    ipu_target target; /* of one replica */
    int64_t    all_ipus, n_tiles, n_workers, bytes_per_tile;
    double     clock;
    /* 0 if the chip has no such constant. */
#define X(member, name, what) double member;
    IPU__COST_CONSTANT_LIST(X)
#undef X
} ipu__cost_model;

void ipu__cost_model_init(ipu__cost_model *model, const ipu_target *target, int64_t replication);

/* The i-th constant in use, the chip's first. Returns false past the last. */
bool ipu__cost_constant_at(const ipu_target *target, int64_t i, ipu_constant *out);
/* The i-th number missing for this chip: the constant, and what it is needed for. */
bool ipu__cost_unknown_at(const ipu_target *target, int64_t i, const char **constant, const char **what);

/* ceil(amount / rate); 0 if the rate is unknown. */
int64_t ipu__cost_ceil(double amount, double rate);
/* Cycles for `bytes` at a rate in bytes per second. */
int64_t ipu__cost_at_rate(const ipu__cost_model *model, int64_t bytes, double rate);
/* Cycles of a sync over links: poplibs' formula. */
int64_t ipu__cost_hops(const ipu__cost_model *model, int64_t n_ipus);

/* Saturates at INT64_MAX. Arguments must not be negative. */
int64_t ipu__cost_add(int64_t a, int64_t b);
int64_t ipu__cost_times(int64_t a, int64_t b);

static inline int64_t ipu__cost_larger(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
