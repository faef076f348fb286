/* Statuses: what every call that can fail returns.
 *
 * A status is a plain number: there is nothing to free. The message that goes with it (what was expected,
 * what was found, where, what to do) is kept per thread:
 *
 *     if (ipu_engine_run(engine, 0) != IPU_OK)
 *         fprintf(stderr, "%s\n", ipu_message());
 */
#ifndef IPU_STATUS_H
#define IPU_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define IPU_STATUS_LIST(X)                                                  \
    X(OK,            "ok")                                                  \
    X(INVALID,       "the caller passed something that is wrong")           \
    X(UNSUPPORTED,   "valid, but this build or engine cannot do it")        \
    X(OUT_OF_MEMORY, "host allocation failed")                              \
    X(NOT_FOUND,     "no such name")                                        \
    X(IO,            "a file could not be read or written")                 \
    X(INTERRUPTED,   "stopped on request")                                  \
    X(ABORTED,       "the program stopped itself with an error")            \
    X(TILE_OVERFLOW, "a tile's memory is full")                             \
    X(FORKED,        "an engine was used in a child of the process that made it") \
    X(BUSY,          "someone else has the device")                         \
    X(DEVICE_ERROR,  "the device reported an error")
/* clang-format on */

typedef enum ipu_status {
#define X(name, text) IPU_##name,
    IPU_STATUS_LIST(X)
#undef X
} ipu_status;

/* Text of a code, "unknown status" for any other number. Never NULL. */
const char *ipu_status_text(ipu_status status);

/* The message of this thread's last failed call, "" if none has failed yet. May have several lines (compile
 * errors: one per problem). Borrowed until the next failing call of this thread. */
const char *ipu_message(void);

/* Return early from a function that itself returns ipu_status. */
#define IPU_TRY(expr)                            \
    do {                                         \
        ipu_status ipu_try_ = (expr);            \
        if (ipu_try_ != IPU_OK) return ipu_try_; \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
