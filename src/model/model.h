/* What a model holds. The public functions on it are in ipu/model.h.
 *
 * Values have the ids of the builder's table (op/builder.h), 1 to n. An op defines a run of values, its
 * outputs; every value is defined once. Ops are in blocks, in the order they run: block 0 is the model,
 * the others are branches and loop bodies, and belong to one IF or LOOP op. An op may use values of its
 * own block and of those around it that come earlier, and any constant. Passes build `order` lists anew; ops
 * are never moved in `ops`, only marked dead.
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
    IPU__VALUE_INDEX    /* in a loop body: the turn of block `of` */
} ipu__value_kind;

typedef struct ipu__model_value {
    ipu__value_kind kind;
    uint32_t        of, at;  /* op and output number; block and number */
    uint32_t        block;   /* where it is defined */
    const void     *data;    /* CONSTANT: the values. PARAMETER, STATE: initial ones or NULL. In the arena */
    ipu_initial     initial; /* PARAMETER, STATE: without data */
    uint32_t        key;     /* of random initial values */
    uint32_t        update;  /* PARAMETER, STATE: the value it takes after a run; 0: keeps its own */
    uint32_t        parameter; /* STATE: whose it is, if an optimizer has it for one; else 0 */
    uint32_t        rate;      /* STATE: the learning rate of this group, from 1 on as group + 1; else 0 */
    ipu_tensor
             bound; /* INPUT, PARAMETER, STATE: where it is, if it is not lowered to a variable of its own */
    uint32_t location;
} ipu__model_value;

/* What a network over several IPUs is cut by (stage.c). Gradients of ops of stage s are of its backward stage. */
#define IPU__STAGE_ANY UINT32_MAX /* where its inputs are */
typedef struct ipu__stage {
    uint32_t number;
    bool     is_backward;
} ipu__stage;

typedef enum ipu__model_op_kind { IPU__MODEL_OP, IPU__MODEL_IF, IPU__MODEL_LOOP } ipu__model_op_kind;

/* IF: in[0] the condition. LOOP: in[0] whether to begin (or 0), then the carried values. */
typedef struct ipu__model_op {
    ipu__model_op_kind   kind;
    const ipu_op_def    *def; /* OP only */
    const ipu_attribute *attributes;
    size_t               n_attributes;
    uint32_t            *in; /* ids, 0 where absent; in the arena, may be changed by passes */
    uint32_t             n_in;
    uint32_t             first_out, n_out; /* ids first_out .. first_out + n_out */
    uint32_t             block;            /* it is in */
    uint32_t             body, otherwise;  /* blocks of IF and LOOP */
    int64_t              most;             /* LOOP: turns */
    uint32_t             location;
    uint32_t             recompute; /* 0, or a number that keeps copies made for a gradient apart */
    ipu__stage           stage;
    bool                 dead;
} ipu__model_op;

typedef struct ipu__block {
    uint32_t op; /* the IF or LOOP it belongs to; IPU__NO_BLOCK for block 0 */
    uint32_t parent;
    IPU_ARRAY(uint32_t) order;  /* ops */
    IPU_ARRAY(uint32_t) yields; /* ids of what it gives */
    uint32_t go_on;             /* LOOP: 0: always */
    uint32_t first_carried, n_carried, index;
    bool     is_closed;
} ipu__block;

typedef struct ipu__model_output {
    uint32_t    value;
    const char *name;
    uint32_t    location;
} ipu__model_output;

/* Outputs whose gradient the user gives: those of identity ops that stand one after another. */
typedef struct ipu__custom {
    uint32_t               first, n_out; /* ids */
    uint32_t              *in, n_in;     /* ids */
    ipu_custom_gradient_fn fn;
    void                  *user;
} ipu__custom;

/* A further name of a value. */
typedef struct ipu__alias {
    const char *name; /* in the arena */
    uint32_t    id;
} ipu__alias;

struct ipu_model {
    ipu_builder base;                   /* first: a model's builder is the model */
    IPU_ARRAY(ipu__model_value) values; /* parallel to base.values */
    IPU_ARRAY(ipu__model_op) ops;
    IPU_ARRAY(ipu__block) blocks;
    IPU_ARRAY(uint32_t) inputs, parameters, states; /* ids, in the order made */
    IPU_ARRAY(ipu__model_output) outputs;
    IPU_ARRAY(ipu__alias) aliases;
    IPU_ARRAY(uint32_t) losses;     /* ids of what is trained for (model/nn/train.c) */
    IPU_ARRAY(ipu__custom) customs; /* in the order of their ids (model/grad/custom.c) */
    IPU_ARRAY(uint32_t) shards;     /* ids of parameters that are a replica's part of a whole one (shard.c) */
    IPU_ARRAY(ipu__location) locations; /* 0: unknown; files in the arena */
    ipu__map files;                     /* names of source files, to locations */
    ipu__map names;                     /* of inputs, parameters, states (ids) and outputs (index | 2^31) */
    uint32_t block;                     /* ops go there */
    uint32_t seed;                      /* id of the state that random ops draw from; 0: none yet */
    uint32_t seed_value, n_keys;
    IPU_ARRAY(const char *) stages;    /* names, in the arena; none: one stage */
    ipu__stage stage;                  /* ops emitted now are of it */
    uint32_t   rounding_seed;          /* id of the state by which updates are rounded; 0: none yet */
    uint32_t   loss_scale, good_steps; /* ids of states, of a loss scale that finds itself; 0: none yet */
    bool       rounds_at_random;       /* updates of half weights */
    bool       is_inference;           /* layers that differ behave as after training */
    uint32_t   recompute;              /* ops emitted now get this number */
    uint32_t   n_recomputes;           /* numbers given so far */
    struct ipu__recompute *again; /* while a gradient is emitted: what it uses instead of forward values */
    bool                   has_fold_budget;       /* the two are known */
    double                 fold_work, fold_bytes; /* what folding may still take (fold.c) */
    const struct ipu__engine_def *engine;         /* what it is being optimised for; NULL: the chip */
    IPU_ARRAY(ipu_tensor) tensors;                /* by id, after lowering */
    IPU_ARRAY(ipu_tensor) output_tensors;         /* by number of the output, after lowering */
};

static inline ipu_model *ipu__model_of(ipu_builder *b) { return (ipu_model *)b; }

static inline ipu_value ipu__model_handle(const ipu_model *m, uint32_t id)
{
    return (ipu_value){id ? (ipu_builder *)&m->base : NULL, id};
}

extern const ipu__builder_class ipu__model_class;

/* A value of kind `v.kind` in the block being built; null after an error. `name` NULL: none. */
ipu_value ipu__model_add_value(ipu_model *m, ipu_kernel_value type, const char *name, ipu__model_value v);
/* An op with its outputs, at the end of the block being built: `op` tells all but outputs, block and location;
 * `in` is copied. Fills out[0..n_out). */
ipu_status ipu__model_add_op(ipu_model *m, const ipu__model_op *op, const uint32_t *in,
                             const ipu_kernel_value *types, ipu_value *out);

/* Whether the block being built may use it: it was made there or in a block around, or is a constant. */
bool ipu__model_sees(const ipu_model *m, uint32_t id);
/* What an op emitted now uses for value `id`: itself, or a copy computed again (recompute.c). */
uint32_t ipu__model_substitute(ipu_model *m, uint32_t id);

uint32_t ipu__model_here(ipu_model *m);
/* "net.c:12: " or "". */
const char *ipu__model_where(const ipu_model *m, uint32_t location, char buffer[512]);

/* The call of an op of kind OP: types and shapes of inputs and outputs, attributes. */
ipu_kernel_call ipu__model_call(const ipu_model *m, const ipu__model_op *op);

/* A model with the same ids that may be changed; names, attributes and data are those of `m`, which
 * outlives it. NULL: memory. */
ipu_model *ipu__model_copy(const ipu_model *m);

/* An input, parameter or state that is lowered to `t`, of its type and shape, rather than to a variable with host
 * handles and an initial value: so that models lowered to one graph share what they keep. */
void ipu__model_bind(ipu_model *m, uint32_t id, ipu_tensor t);

/* Another name that ipu_model_value_named finds the value by; in the arena. False: memory. */
bool ipu__model_add_alias(ipu_model *m, uint32_t id, const char *name);

/* A parameter that is one replica's part of a larger one: norms of it are norms of all parts. */
void ipu__model_mark_shard(ipu_model *m, ipu_value parameter);
bool ipu__model_is_shard(const ipu_model *m, ipu_value v);
/* The sum of `v` over all replicas, where it was computed from the part `shard`; else `v`. */
ipu_value ipu__model_sum_shards(ipu_model *m, ipu_value shard, ipu_value v);

/* Move the ops by which these parameters and states get their new values up to where they can be first (early.c). */
ipu_status ipu__model_schedule_updates(ipu_model *m, const uint32_t *kept, size_t n);

/* Ops that are cheap are copied to where their results are needed much later, if that saves memory and `worth` bytes or
 * more are needed at once (again.c). */
ipu_status ipu__model_remat(ipu_model *m, int64_t worth);

/* ipu_model_lower, which calls `settled` behind each op that gave a parameter or state its new value, where no op reads
 * the one before or this one any more. It may have what follows added to another program: `out` is the last one. */
typedef ipu_status (*ipu__model_settled_fn)(void *user, uint32_t kept, ipu_program *program);
ipu_status ipu__model_lower_with(ipu_model *m, ipu_graph *g, ipu__model_settled_fn settled, void *user,
                                 ipu_program *out);

/* Two models have it in common if they compile to the same: everything but locations. */
ipu_status ipu__model_hash(ipu_model *m, ipu__hash128 *out);
/* What it computes: without the seed, and without what parameters and states begin with. */
ipu_status ipu__model_hash_program(ipu_model *m, ipu__hash128 *out);

/* Everything refers to what exists, is defined before it is used, in types and shapes that infer gives: for
 * tests and after parsing. */
ipu_status ipu__model_verify(const ipu_model *m);

/* Whether the body `block` of a loop may write what it yields as carried value `i` over that value: nothing reads
 * it from then on in that turn. `marks`: by value, none of them `mark`. */
bool ipu__model_carries_in_place(const ipu_model *m, uint32_t block, uint32_t i, uint32_t *marks,
                                 uint32_t mark);

/* ipu_model_optimise for an engine; NULL: for the chip, without IPU_PASS_HOST. */
ipu_status ipu__model_optimise_for(ipu_model *m, unsigned passes, const struct ipu__engine_def *engine);

/* Passes, each over the whole model: true if it changed anything. */
ipu_status ipu__model_fold(ipu_model *m, bool *changed);
ipu_status ipu__model_join(ipu_model *m, bool *changed);
ipu_status ipu__model_cse(ipu_model *m, bool *changed);
ipu_status ipu__model_dce(ipu_model *m, bool *changed);
ipu_status ipu__model_fuse(ipu_model *m, bool *changed);
/* Before it: what only m->engine gains by, which no chip would run. */
ipu_status ipu__model_fuse_for_host(ipu_model *m, bool *changed);
/* What m->engine does not support becomes other ops (decompose.c). UNSUPPORTED: there are none. */
ipu_status ipu__model_decompose(ipu_model *m, bool *changed);
ipu_status ipu__model_propagate_slices(ipu_model *m, bool *changed);

/* Whether passes may make one of two ops: in a model with stages, if they are of the same. */
static inline bool ipu__model_same_stage(const ipu_model *m, ipu__stage a, ipu__stage b)
{
    return m->stages.n == 0 || (a.number == b.number && a.is_backward == b.is_backward);
}
/* What is emitted until the stage is set back goes where its inputs are. Returns what to set back to. */
ipu__stage ipu__model_any_stage(ipu_model *m);
/* Leave out stages of which no op of the forward pass is left; what else they have joins the stage before. Returns how
 * many; `is_kept` tells for each that there was whether it is there still. Where none would be left, all stay. */
size_t ipu__model_leave_out_stages(ipu_model *m, bool *is_kept);
/* An op of the stage being built may use value `id`. */
ipu_status ipu__model_check_stage(const ipu_model *m, const char *op, uint32_t id);

/* Uses of each value by id (ops that are not dead, yields, outputs, updates). Owned: ipu__free. NULL: memory. */
uint32_t *ipu__model_count_uses(const ipu_model *m);
/* Replace uses of value `from` by `to` everywhere (ops, yields, outputs, updates). One walk over the model: a
 * pass that replaces many keeps a table of its own. */
void ipu__model_replace(ipu_model *m, uint32_t from, uint32_t to);

#endif
