/* A naive interpreter of the text form: what a program means, with no cleverness to be wrong.
 *
 * Every variable is a plain array per replica, every step goes element by element, and nothing of the
 * engine is used. It also knows which elements have a defined value, since only those can be
 * compared with an engine.
 *
 *     interp *it = interp_create(text, strlen(text), codelets, n_codelets);      NULL: ipu_message()
 *     ipu_status status = interp_run(it, 0);
 *     interp_read(it, "y", 0, data, defined);
 */
#ifndef IPU_TESTS_INTERP_H
#define IPU_TESTS_INTERP_H

#include <stdbool.h>

#include "ipu/ipu.h"

typedef struct interp interp;

/* One transfer of a stream: fill `data`, or take it (then defined[i] says whether element i has a value).
 * `replica` is 0 for a broadcast. Anything but IPU_OK stops the run with it. */
typedef ipu_status (*interp_stream_fn)(void *user, const char *handle, int64_t replica, void *data,
                                       size_t bytes, const bool *defined);

interp *interp_create(const char *text, size_t bytes, const ipu_codelet *const *codelets, size_t n_codelets);
void    interp_destroy(interp *it);
void    interp_connect(interp *it, interp_stream_fn fn, void *user);

ipu_status interp_run(interp *it, size_t program);

/* A host handle; `replica` -1: all (write only). The size is the tensor's. */
void interp_write(interp *it, const char *handle, int64_t replica, const void *data);
void interp_read(interp *it, const char *handle, int64_t replica, void *data, bool *defined);
void interp_write_remote(interp *it, const char *handle, int64_t replica, int64_t row, const void *data);
void interp_read_remote(interp *it, const char *handle, int64_t replica, int64_t row, void *data,
                        bool *defined);

/* What was printed, message by message; NULL for one with undefined values in it. */
size_t      interp_n_printed(const interp *it);
const char *interp_printed(const interp *it, size_t i);

/* True if the last run took a decision on a value that is not defined: the program is no test. */
bool interp_lost(const interp *it);

/* True if the last run used a value that is not defined: in a vertex, a kernel, a decision or on its way out. */
bool interp_undefined(const interp *it);

/* What the last failed run said, in its own words. */
const char *interp_message(const interp *it);

#endif
