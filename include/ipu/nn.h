/* Layers: ops with parameters of their own, and training.
 *
 * A layer makes its parameters in the model, called "NAME.weight", "NAME.bias" and so on as in PyTorch, with
 * PyTorch's initial distributions, and emits its op. A network then reads like a module's forward:
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

/* Whether layers that differ (dropout, batch norm) behave as in training, from now on. True at first. */
void ipu_nn_set_training(ipu_model *m, bool training);
bool ipu_nn_is_training(const ipu_model *m);

/* Over the last dimension of x. */
ipu_value ipu_nn_linear(ipu_model *m, ipu_value x, int64_t n_out, const char *name);

typedef struct ipu_nn_options {
    bool    no_bias;
    int64_t stride, padding, dilation, groups; /* alike in all dimensions; 0: 1, none, 1, 1 */
    bool    transposed;                        /* a transposed convolution */
    int64_t output_padding;                    /* of one */
} ipu_nn_options;

ipu_value ipu_nn_linear_with(ipu_model *m, ipu_value x, int64_t n_out, ipu_nn_options options,
                             const char *name);
/* x [n, channels, ...] of rank 3 to 5; the kernel has `size` in every dimension. */
ipu_value ipu_nn_conv(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, const char *name);
ipu_value ipu_nn_conv_with(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, ipu_nn_options options,
                           const char *name);

/* Running mean and variance are states; in training they are updated with momentum 0.1. */
ipu_value ipu_nn_batch_norm(ipu_model *m, ipu_value x, const char *name);
/* Over the last `n_dims` dimensions. */
ipu_value ipu_nn_layer_norm(ipu_model *m, ipu_value x, int n_dims, const char *name);
ipu_value ipu_nn_group_norm(ipu_model *m, ipu_value x, int64_t groups, const char *name);
/* No parameters, as in PyTorch. */
ipu_value ipu_nn_instance_norm(ipu_model *m, ipu_value x);
ipu_value ipu_nn_rms_norm(ipu_model *m, ipu_value x, const char *name);

/* Rows of a table [n_rows, n_columns] by their numbers. */
ipu_value ipu_nn_embedding(ipu_model *m, ipu_value indices, int64_t n_rows, int64_t n_columns,
                           const char *name);

/* Draws from ipu_model_seed, other numbers at each run. Not training: x itself. */
ipu_value ipu_nn_dropout(ipu_model *m, ipu_value x, double p);

/* x [time, batch, features], or [batch, time, features] with batch_first; begins with zeros. The result is
 * the output at all times; *last the final hidden state(s) (NULL: not wanted). */
typedef struct ipu_nn_recurrent_options {
    int  n_layers; /* 0: 1 */
    bool bidirectional, batch_first, no_bias;
} ipu_nn_recurrent_options;
ipu_value ipu_nn_rnn(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                     ipu_value *last, const char *name);
ipu_value ipu_nn_gru(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                     ipu_value *last, const char *name);
ipu_value ipu_nn_lstm(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                      ipu_value *last, const char *name);

/* Self-attention over x [batch, time, features]; `mask` as ipu_attention's, or null. */
ipu_value ipu_nn_attention(ipu_model *m, ipu_value x, int64_t n_heads, ipu_value mask, const char *name);

typedef struct ipu_nn_encoder_options {
    int64_t n_heads, n_inner;
    double  dropout;
    bool    norm_first, gelu; /* else after, relu: as PyTorch's nn.TransformerEncoderLayer */
} ipu_nn_encoder_options;
/* One encoder layer of a transformer. */
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

/* A kind as front ends offer it: by number from 0 on, without gaps. */
typedef struct ipu_nn_optimizer_info {
    const char *name, *summary;
    /* Of each parameter, "PARAMETER.STATE", those that only some options need included. NULL: no more. */
    const char *states[3];
    double      rate;     /* to begin with, where the user says none; ipu_nn_optimizer has no such default */
    double      momentum; /* likewise; below 0: there is none to choose */
} ipu_nn_optimizer_info;

const ipu_nn_optimizer_info *ipu_nn_optimizer_kind_info(ipu_nn_optimizer_kind kind); /* NULL: no such kind */
const char                  *ipu_nn_optimizer_kind_name(ipu_nn_optimizer_kind kind); /* NULL: no such kind */
/* Statuses: NOT_FOUND, with all names. */
ipu_status ipu_nn_optimizer_kind_find(const char *name, ipu_nn_optimizer_kind *out);

/* What is 0 has the default of ipu/op/optimizer.h; a negative momentum, beta, epsilon or alpha is exactly 0. */
typedef struct ipu_nn_optimizer {
    ipu_nn_optimizer_kind kind;
    double                rate; /* the state "learning_rate", which the host may write */
    double                weight_decay, momentum, dampening;        /* SGD, RMSprop */
    bool                  nesterov, centered, amsgrad;              /* SGD; RMSprop; Adam */
    double                beta1, beta2, epsilon, alpha, rate_decay; /* alpha: RMSprop's, Adadelta's rho */
    double                max_weight_norm;                          /* LAMB; others do not look at norms */
    bool                  no_bias_correction;                       /* Adam, AdamW, LAMB */
    bool                  tensorflow; /* RMSprop: TensorFlow's, whose mean of squares begins as ones */
    bool                  maximize;   /* losses are made larger: gradients count with the other sign */
    ipu_decay             decay;      /* how weight_decay acts; any kind takes any */
} ipu_nn_optimizer;

/* A group of parameters with an optimizer of its own, or none. */
typedef struct ipu_nn_group {
    /* Patterns of names as for fnmatch, with blanks between them: "conv*.weight fc1.*". Each parameter is of the first
     * group of which one matches; a pattern that matches none is an error. */
    const char      *parameters;
    ipu_nn_optimizer optimizer;
    bool             frozen; /* these keep their values */
} ipu_nn_group;

/* What is usual for loss_scale_period: torch.cuda.amp.GradScaler's growth_interval. */
enum { IPU_NN_LOSS_SCALE_PERIOD = 2000 };

typedef struct ipu_nn_training {
    ipu_nn_optimizer    optimizer; /* of the parameters that no group has: group 0 */
    const ipu_nn_group *groups;    /* group i + 1 */
    size_t              n_groups;
    /* All gradients together are scaled so that their norm is at most this; each element is cut off to +- this. 0: not.
     */
    double max_gradient_norm, max_gradient;
    /* Losses are multiplied by this before they are differentiated, gradients divided by it. 0: 1. There is one for all
     * groups: gradients of all parameters come from the same scaled losses. */
    double loss_scale;
    /* The scale is the state "loss_scale", which begins as loss_scale (0: 65536). A step whose gradients are not all
     * finite changes no parameter and no state of an optimizer, and halves the scale, down to 2^-24; after this many
     * steps without one (the state "loss_scale_good_steps" counts them) it is doubled, up to 2^24. 0: the scale
     * stays. */
    int64_t loss_scale_period;
} ipu_nn_training;

/* `loss` (a scalar) is one of those that are trained for; their sum is differentiated. Also an output of that name. */
void ipu_nn_loss(ipu_model *m, ipu_value loss, const char *name);

/* Every run makes one step: gradients of the losses by all parameters they depend on, states of the optimizers
 * ("NAME.momentum", ...), updates. The rate of group i is the state "learning_rate" for group 0, "learning_rate.i" for
 * others, which the host may write. Of a parameter that the network updates itself, the step begins with that value. */
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
