/* The contents of a model. Its public functions are in ipu/model.h.
 *
 * Values have the ids of the builder's table (op/builder.h), 1 to n. An op defines a run of values, its
 * outputs; every value is defined once. Ops are in blocks, in the order they run: block 0 is the model, the
 * others are branches and loop bodies, each belonging to an IF or LOOP op. An op may use earlier values of
 * its own and enclosing blocks, and any constant. Passes rebuild `order` lists; ops are never moved in `ops`,
 * only marked dead.
 */
#ifndef IPU_MODEL_MODEL_H
#define IPU_MODEL_MODEL_H

#include "base/hash.h"
#include "base/map.h"
#include "ipu/model.h"
#include "op/builder.h"

#define IPU__NO_BLOCK UINT32_MAX

typedef enum ipu__value_kind {
    IPU__VALUE_OP, /* an output of op `of` */
    IPU__VALUE_INPUT,
    IPU__VALUE_PARAMETER,
    IPU__VALUE_STATE,
    IPU__VALUE_CONSTANT,
    IPU__VALUE_CARRIED, /* in a loop body: carried value `at` of block `of` */
    IPU__VALUE_INDEX    /* in a loop body: the index of the turn of block `of` */
} ipu__value_kind;

typedef struct ipu__model_value {
    ipu__value_kind kind;
    uint32_t        of, at; /* op and output number; block and number */
    uint32_t        block;  /* where it is defined */
    const void     *data;   /* CONSTANT: the values. PARAMETER, STATE: initial values or NULL. In the arena */
    ipu_initial     initial;   /* PARAMETER, STATE: if without data */
    uint32_t        key;       /* for random initial values */
    uint32_t        update;    /* PARAMETER, STATE: its value after a run; 0: unchanged */
    uint32_t        parameter; /* STATE: the parameter an optimizer keeps it for, or 0 */
    uint32_t        rate;      /* STATE: group + 1 if it is that group's learning rate, else 0 */
    ipu_tensor      bound; /* INPUT, PARAMETER, STATE: its tensor, unless lowered to a variable of its own */
    uint32_t        location;
} ipu__model_value;

/* By which a network over several IPUs is cut (stage.c). Gradients of ops of stage s belong to its backward
 * stage. */
#define IPU__STAGE_ANY UINT32_MAX /* where its inputs are */
typedef struct ipu__stage {
    uint32_t number;
    bool     is_backward;
} ipu__stage;

typedef enum ipu__model_op_kind { IPU__MODEL_OP, IPU__MODEL_IF, IPU__MODEL_LOOP } ipu__model_op_kind;

/* IF: in[0] is the condition. LOOP: in[0] is whether to begin (or 0), followed by the carried values. */
typedef struct ipu__model_op {
    ipu__model_op_kind   kind;
    const ipu__op_def   *def; /* OP only */
    const ipu_attribute *attributes;
    size_t               n_attributes;
    uint32_t            *in; /* ids, 0 where absent; in the arena, may be changed by passes */
    uint32_t             n_in;
    uint32_t             first_out, n_out; /* ids first_out .. first_out + n_out */
    uint32_t             block;            /* the one it is in */
    uint32_t             body, otherwise;  /* blocks of IF and LOOP */
    int64_t              most;             /* LOOP: most turns */
    uint32_t             location;
    uint32_t             recompute; /* 0, or a number that distinguishes copies made for a gradient */
    ipu__stage           stage;
    bool                 dead;
} ipu__model_op;

typedef struct ipu__block {
    uint32_t op; /* the IF or LOOP it belongs to; IPU__NO_BLOCK for block 0 */
    uint32_t parent;
    IPU__ARRAY(uint32_t) order;  /* ops */
    IPU__ARRAY(uint32_t) yields; /* ids of its results */
    uint32_t go_on;              /* LOOP: condition to continue; 0: always */
    uint32_t first_carried, n_carried, index;
    bool     is_closed;
} ipu__block;

typedef struct ipu__model_output {
    uint32_t    value;
    const char *name;
    uint32_t    location;
} ipu__model_output;

/* Outputs whose gradient the user defines: those of consecutive identity ops. */
typedef struct ipu__custom {
    uint32_t               first, n_out; /* ids */
    uint32_t              *in, n_in;     /* ids */
    ipu_custom_gradient_fn fn;
    void                  *user;
} ipu__custom;

/* An additional name of a value. */
typedef struct ipu__alias {
    const char *name; /* in the arena */
    uint32_t    id;
} ipu__alias;

struct ipu_model {
    ipu_builder base;                    /* first member: a model's builder is the model */
    IPU__ARRAY(ipu__model_value) values; /* parallel to base.values */
    IPU__ARRAY(ipu__model_op) ops;
    IPU__ARRAY(ipu__block) blocks;
    IPU__ARRAY(uint32_t) inputs, parameters, states; /* ids, in order of creation */
    IPU__ARRAY(ipu__model_output) outputs;
    IPU__ARRAY(ipu__alias) aliases;
    IPU__ARRAY(uint32_t) losses;     /* ids of the training objectives (model/nn/train.c) */
    IPU__ARRAY(ipu__custom) customs; /* ordered by id (model/grad/custom.c) */
    IPU__ARRAY(uint32_t) shards; /* ids of parameters that are a replica's part of a whole one (shard.c) */
    IPU__ARRAY(ipu__location) locations; /* 0: unknown; file names are in the arena */
    ipu__map files;                      /* names of source files, to locations */
    ipu__map names;                      /* of inputs, parameters, states (ids) and outputs (index | 2^31) */
    uint32_t block;                      /* where new ops go */
    uint32_t seed;                       /* id of the state that random ops draw from, or 0 */
    uint32_t seed_value, n_keys;
    IPU__ARRAY(const char *) stages;      /* names, in the arena; empty: one stage */
    ipu__stage             stage;         /* of new ops */
    uint32_t               rounding_seed; /* id of the state that seeds the rounding of updates, or 0 */
    uint32_t               loss_scale, good_steps; /* ids of states, for automatic loss scaling, or 0 */
    bool                   rounds_at_random;       /* updates of half weights */
    bool                   is_inference;           /* layers behave as after training */
    uint32_t               recompute;              /* number given to new ops */
    uint32_t               n_recomputes;           /* numbers used so far */
    struct ipu__recompute *again; /* while a gradient is emitted: what it uses instead of forward values */
    bool                   has_fold_budget; /* the next two are set */
    double fold_work, fold_bytes;           /* what is left of folding's budget (pass/constant_fold.c) */
    const struct ipu__engine_def *engine;   /* optimisation target; NULL: the chip */
    IPU__ARRAY(ipu_tensor) tensors;         /* by id, after lowering */
    IPU__ARRAY(ipu_tensor) output_tensors;  /* by number of the output, after lowering */
};

static inline ipu_model *ipu__model_of(ipu_builder *b) { return (ipu_model *)b; }

static inline ipu_value ipu__model_handle(const ipu_model *m, uint32_t id)
{
    return (ipu_value){id ? (ipu_builder *)&m->base : NULL, id};
}

extern const ipu__builder_class ipu__model_class;

/* Adds a value of kind `v.kind` to the block being built; null after an error. `name` may be NULL. */
ipu_value ipu__model_add_value(ipu_model *m, ipu__kernel_value type, const char *name, ipu__model_value v);
/* Adds an op with its outputs at the end of the block being built: `op` supplies all but outputs, block and
 * location; `in` is copied. Fills out[0..n_out). */
ipu_status ipu__model_add_op(ipu_model *m, const ipu__model_op *op, const uint32_t *in,
                             const ipu__kernel_value *types, ipu_value *out);

/* Whether the block being built may use the value: it was made there or in an enclosing block, or is a
 * constant. */
bool ipu__model_sees(const ipu_model *m, uint32_t id);
/* What a newly emitted op uses for value `id`: itself, or a recomputed copy (recompute.c). */
uint32_t ipu__model_substitute(ipu_model *m, uint32_t id);

uint32_t ipu__model_here(ipu_model *m);
/* "net.c:12: " or "". */
const char *ipu__model_where(const ipu_model *m, uint32_t location, char buffer[512]);

/* The call of an op of kind OP: types and shapes of inputs and outputs, attributes. */
ipu__kernel_call ipu__model_call(const ipu_model *m, const ipu__model_op *op);

/* A copy with the same ids, which may be changed; names, attributes and data are shared with `m`, which must
 * outlive it. NULL if out of memory. */
ipu_model *ipu__model_copy(const ipu_model *m);

/* Lowers an input, parameter or state to `t`, of the same type and shape, rather than to a variable with host
 * handles and an initial value, so that models lowered to one graph can share what they keep. */
void ipu__model_bind(ipu_model *m, uint32_t id, ipu_tensor t);

/* Adds a name by which ipu_model_value_named finds the value; it must be in the arena. Returns false if out
 * of memory. */
bool ipu__model_add_alias(ipu_model *m, uint32_t id, const char *name);

/* Marks a parameter as one replica's part of a larger one: its norms are norms over all parts. */
void ipu__model_mark_shard(ipu_model *m, ipu_value parameter);
bool ipu__model_is_shard(const ipu_model *m, ipu_value v);
/* The sum of `v` over all replicas if it was computed from the part `shard`; else `v`. */
ipu_value ipu__model_sum_shards(ipu_model *m, ipu_value shard, ipu_value v);

/* Moves the ops that compute new values of these parameters and states as early as possible
 * (pass/update_schedule.c). */
ipu_status ipu__model_schedule_updates(ipu_model *m, const uint32_t *kept, size_t n);

/* Copies cheap ops to where their results are needed much later, if that saves memory and `worth` bytes or
 * more are live at once (pass/remat.c). */
ipu_status ipu__model_remat(ipu_model *m, int64_t worth);

/* ipu_model_lower, which calls `settled` after each op that gave a parameter or state its new value, once no
 * op reads the old or the new one any more. It may have what follows added to another program: `out` is the
 * last one. */
typedef ipu_status (*ipu__model_settled_fn)(void *user, uint32_t kept, ipu_program *program);
ipu_status ipu__model_lower_with(ipu_model *m, ipu_graph *g, ipu__model_settled_fn settled, void *user,
                                 ipu_program *out);

/* Models with equal hashes compile to the same: it covers everything but locations. */
ipu_status ipu__model_hash(ipu_model *m, ipu__hash128 *out);
/* Hash of the computation: without the seed and initial values of parameters and states. */
ipu_status ipu__model_hash_program(ipu_model *m, ipu__hash128 *out);

/* Checks that everything refers to something that exists and is defined before use, with the types and shapes
 * that infer gives. For tests and after parsing. */
ipu_status ipu__model_verify(const ipu_model *m);

/* Whether loop body `block` may write what it yields as carried value `i` over that value: nothing reads it
 * later in that turn. `marks`: by value, none of them `mark`. */
bool ipu__model_carries_in_place(const ipu_model *m, uint32_t block, uint32_t i, uint32_t *marks,
                                 uint32_t mark);

/* ipu_model_optimise for an engine; NULL means for the chip, without IPU_PASS_HOST. */
ipu_status ipu__model_optimise_for(ipu_model *m, unsigned passes, const struct ipu__engine_def *engine);

/* Passes, each over the whole model; *changed is set if anything changed. */
ipu_status ipu__model_fold(ipu_model *m, bool *changed);
ipu_status ipu__model_join(ipu_model *m, bool *changed);
ipu_status ipu__model_cse(ipu_model *m, bool *changed);
ipu_status ipu__model_dce(ipu_model *m, bool *changed);
ipu_status ipu__model_fuse(ipu_model *m, bool *changed);
/* Runs before it: fusions that benefit only m->engine and that no chip would run. */
ipu_status ipu__model_fuse_for_host(ipu_model *m, bool *changed);
/* Replaces what m->engine does not support by other ops (decompose.c). UNSUPPORTED if there are none. */
ipu_status ipu__model_decompose(ipu_model *m, bool *changed);
ipu_status ipu__model_propagate_slices(ipu_model *m, bool *changed);

/* Whether passes may merge two ops: in a model with stages, only within a stage. */
static inline bool ipu__model_same_stage(const ipu_model *m, ipu__stage a, ipu__stage b)
{
    return m->stages.n == 0 || (a.number == b.number && a.is_backward == b.is_backward);
}
/* Until the stage is set back, emitted ops go where their inputs are. Returns the stage to set back to. */
ipu__stage ipu__model_any_stage(ipu_model *m);
/* Drops stages with no ops of the forward pass left; their other ops join the stage before. Returns how many
 * were dropped; `is_kept` tells for each whether it was kept. If none would be left, all stay. */
size_t ipu__model_leave_out_stages(ipu_model *m, bool *is_kept);
/* Checks that an op of the stage being built may use value `id`. */
ipu_status ipu__model_check_stage(const ipu_model *m, const char *op, uint32_t id);

/* Number of uses by value id (live ops, yields, outputs, updates). Owned: ipu__free. NULL if out of
 * memory. */
uint32_t *ipu__model_count_uses(const ipu_model *m);
/* Replaces all uses of value `from` by `to` (ops, yields, outputs, updates). Walks the whole model: passes
 * that replace many values keep a table of their own. */
void ipu__model_replace(ipu_model *m, uint32_t from, uint32_t to);

#endif
