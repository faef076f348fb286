/* Layers: ops with parameters of their own, and training.
 *
 * A layer creates its parameters in the model, named "NAME.weight", "NAME.bias" and so on as in PyTorch and
 * with PyTorch's initial distributions, and emits its op. Networks read like a PyTorch module's forward:
 *
 *     x = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 5, 3, "conv1")), 2);
 *     x = ipu_nn_group_norm(m, ipu_relu(b, ipu_nn_conv(m, x, 12, 5, "conv2")), 3, "norm");
 *     x = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 100, "fc1"));
 *     x = ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "fc2"), 1);
 *     ipu_nn_train(m, ipu_nll_loss(b, x, labels), (ipu_nn_optimizer){.rate = 0.01, .momentum = 0.9});
 *
 * Errors are kept by the model's builder, with the user's file and line.
 */
#ifndef IPU_NN_H
#define IPU_NN_H

#include "ipu/model.h"
#include "ipu/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether layers with two modes (dropout, batch norm) use their training behaviour from now on. Default:
 * true. */
void ipu_nn_set_training(ipu_model *m, bool training);
bool ipu_nn_is_training(const ipu_model *m);

/* Over the last dimension of x. */
ipu_value ipu_nn_linear(ipu_model *m, ipu_value x, int64_t n_out, const char *name);

typedef struct ipu_nn_options {
    bool    no_bias;
    int64_t stride, padding, dilation, groups; /* the same in all dimensions; 0 means 1, none, 1, 1 */
    bool    transposed;                        /* a transposed convolution */
    int64_t output_padding;                    /* on one side */
} ipu_nn_options;

ipu_value ipu_nn_linear_with(ipu_model *m, ipu_value x, int64_t n_out, ipu_nn_options options,
                             const char *name);
/* x [n, channels, ...] of rank 3 to 5; `size` is that of the kernel in every dimension. */
ipu_value ipu_nn_conv(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, const char *name);
ipu_value ipu_nn_conv_with(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, ipu_nn_options options,
                           const char *name);

/* Running mean and variance are states, updated in training with momentum 0.1. */
ipu_value ipu_nn_batch_norm(ipu_model *m, ipu_value x, const char *name);
/* Over the last `n_dims` dimensions. */
ipu_value ipu_nn_layer_norm(ipu_model *m, ipu_value x, int n_dims, const char *name);
ipu_value ipu_nn_group_norm(ipu_model *m, ipu_value x, int64_t groups, const char *name);
/* No parameters, as in PyTorch. */
ipu_value ipu_nn_instance_norm(ipu_model *m, ipu_value x);
ipu_value ipu_nn_rms_norm(ipu_model *m, ipu_value x, const char *name);

/* Looks up rows of a table [n_rows, n_columns] by index. */
ipu_value ipu_nn_embedding(ipu_model *m, ipu_value indices, int64_t n_rows, int64_t n_columns,
                           const char *name);

/* Draws from ipu_model_seed, with new numbers at each run. Outside training: x itself. */
ipu_value ipu_nn_dropout(ipu_model *m, ipu_value x, double p);

/* x [time, batch, features], or [batch, time, features] with batch_first; the initial state is zero. Returns
 * the outputs of all time steps; *last receives the final hidden state(s) and may be NULL. */
typedef struct ipu_nn_recurrent_options {
    int  n_layers; /* 0 means 1 */
    bool bidirectional, batch_first, no_bias;
} ipu_nn_recurrent_options;
ipu_value ipu_nn_rnn(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                     ipu_value *last, const char *name);
ipu_value ipu_nn_gru(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                     ipu_value *last, const char *name);
ipu_value ipu_nn_lstm(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                      ipu_value *last, const char *name);

/* Self-attention over x [batch, time, features]; `mask` as in ipu_attention, or null. */
ipu_value ipu_nn_attention(ipu_model *m, ipu_value x, int64_t n_heads, ipu_value mask, const char *name);

typedef struct ipu_nn_encoder_options {
    int64_t n_heads, n_inner;
    double  dropout;
    bool    norm_first, gelu; /* default: norm after, relu, as in PyTorch's nn.TransformerEncoderLayer */
} ipu_nn_encoder_options;
/* One transformer encoder layer. */
ipu_value ipu_nn_encoder_layer(ipu_model *m, ipu_value x, ipu_value mask, ipu_nn_encoder_options options,
                               const char *name);

/* ---- training ---- */

typedef enum ipu_nn_optimizer_kind {
    IPU_NN_SGD,
    IPU_NN_ADAM,
    IPU_NN_ADAMW,
    IPU_NN_ADAMAX,
    IPU_NN_RMSPROP,
    IPU_NN_ADAGRAD,
    IPU_NN_LAMB,
    IPU_NN_ADADELTA
} ipu_nn_optimizer_kind;

/* Describes a kind for front ends to offer. Kinds are numbered from 0, without gaps. */
typedef struct ipu_nn_optimizer_info {
    const char *name, *summary;
    /* Per parameter, called "PARAMETER.STATE", including those that only some options need. NULL-terminated
     * if fewer. */
    const char *states[3];
    double      rate;     /* suggested initial rate; ipu_nn_optimizer has no default for it */
    double      momentum; /* likewise; negative if the kind has no momentum */
} ipu_nn_optimizer_info;

const ipu_nn_optimizer_info *ipu_nn_optimizer_kind_info(ipu_nn_optimizer_kind kind); /* or NULL */
const char                  *ipu_nn_optimizer_kind_name(ipu_nn_optimizer_kind kind); /* or NULL */
/* Statuses: NOT_FOUND (the message lists all names). */
ipu_status ipu_nn_optimizer_kind_find(const char *name, ipu_nn_optimizer_kind *out);

/* 0 selects the defaults of ipu/op/optimizer.h; a negative momentum, beta, epsilon or alpha means exactly 0. */
typedef struct ipu_nn_optimizer {
    ipu_nn_optimizer_kind kind;
    double                rate; /* also the state "learning_rate", which the host may write */
    double                weight_decay, momentum, dampening;        /* SGD, RMSprop */
    bool                  nesterov, centered, amsgrad;              /* SGD; RMSprop; Adam */
    double                beta1, beta2, epsilon, alpha, rate_decay; /* alpha: RMSprop's; Adadelta's rho */
    double                max_weight_norm;                          /* LAMB only */
    bool                  no_bias_correction;                       /* Adam, AdamW, LAMB */
    bool                  tensorflow; /* RMSprop: TensorFlow's variant, whose mean of squares starts at one */
    bool                  maximize;   /* maximise losses: gradients change sign */
    ipu_decay             decay;      /* how weight_decay acts; works with all kinds */
} ipu_nn_optimizer;

/* A group of parameters with its own optimizer, or none. */
typedef struct ipu_nn_group {
    /* Name patterns as for fnmatch, separated by blanks: "conv*.weight fc1.*". A parameter belongs to the first group
     * with a matching pattern; a pattern that matches nothing is an error. */
    const char      *parameters;
    ipu_nn_optimizer optimizer;
    bool             frozen; /* not trained */
} ipu_nn_group;

/* What is usual for loss_scale_period: torch.cuda.amp.GradScaler's growth_interval. */
enum { IPU_NN_LOSS_SCALE_PERIOD = 2000 };

typedef struct ipu_nn_training {
    ipu_nn_optimizer    optimizer; /* group 0: parameters that no other group claims */
    const ipu_nn_group *groups;    /* group i + 1 */
    size_t              n_groups;
    /* Scale all gradients so that their joint norm is at most this; clip each element to +- this. 0 for neither. */
    double max_gradient_norm, max_gradient;
    /* Losses are multiplied by this before differentiation, and gradients divided by it; 0 means 1. The same for all
     * groups, since all gradients come from the same scaled losses. */
    double loss_scale;
    /* Automatic loss scaling: the scale is the state "loss_scale", which starts at loss_scale (0 means 65536). A
     * step with a non-finite gradient leaves parameters and optimizer states unchanged and halves the scale, down to
     * 2^-24; after this many steps without one (counted in the state "loss_scale_good_steps") the scale is doubled,
     * up to 2^24. 0 for a fixed scale. */
    int64_t loss_scale_period;
} ipu_nn_training;

/* Adds `loss`, a scalar, to the losses to train for, and makes it an output of that name; the sum of the
 * losses is differentiated. */
void ipu_nn_loss(ipu_model *m, ipu_value loss, const char *name);

/* Every run takes one step: gradients of the losses with respect to all parameters they depend on, optimizer states
 * ("NAME.momentum", ...), updates. The rate of group i is the state "learning_rate" for group 0 and "learning_rate.i"
 * for others, which the host may write. If the network itself updates a parameter, the step starts from the updated
 * value. */
void ipu_nn_train_with(ipu_model *m, const ipu_nn_training *how);
/* The same with one loss and one optimizer for all parameters. */
void ipu_nn_train(ipu_model *m, ipu_value loss, ipu_nn_optimizer optimizer);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_nn_linear(...) IPU_AT(ipu_nn_linear(__VA_ARGS__))
#define ipu_nn_linear_with(...) IPU_AT(ipu_nn_linear_with(__VA_ARGS__))
#define ipu_nn_conv(...) IPU_AT(ipu_nn_conv(__VA_ARGS__))
#define ipu_nn_conv_with(...) IPU_AT(ipu_nn_conv_with(__VA_ARGS__))
#define ipu_nn_batch_norm(...) IPU_AT(ipu_nn_batch_norm(__VA_ARGS__))
#define ipu_nn_layer_norm(...) IPU_AT(ipu_nn_layer_norm(__VA_ARGS__))
#define ipu_nn_group_norm(...) IPU_AT(ipu_nn_group_norm(__VA_ARGS__))
#define ipu_nn_instance_norm(...) IPU_AT(ipu_nn_instance_norm(__VA_ARGS__))
#define ipu_nn_rms_norm(...) IPU_AT(ipu_nn_rms_norm(__VA_ARGS__))
#define ipu_nn_embedding(...) IPU_AT(ipu_nn_embedding(__VA_ARGS__))
#define ipu_nn_dropout(...) IPU_AT(ipu_nn_dropout(__VA_ARGS__))
#define ipu_nn_rnn(...) IPU_AT(ipu_nn_rnn(__VA_ARGS__))
#define ipu_nn_gru(...) IPU_AT(ipu_nn_gru(__VA_ARGS__))
#define ipu_nn_lstm(...) IPU_AT(ipu_nn_lstm(__VA_ARGS__))
#define ipu_nn_attention(...) IPU_AT(ipu_nn_attention(__VA_ARGS__))
#define ipu_nn_encoder_layer(...) IPU_AT(ipu_nn_encoder_layer(__VA_ARGS__))
#define ipu_nn_train(...) (IPU_ENTER, ipu_nn_train(__VA_ARGS__), ipu_leave())
#define ipu_nn_train_with(...) (IPU_ENTER, ipu_nn_train_with(__VA_ARGS__), ipu_leave())
#define ipu_nn_loss(...) (IPU_ENTER, ipu_nn_loss(__VA_ARGS__), ipu_leave())
#endif
#endif
