/* Log: the library's only voice.
 *
 * Silent until asked: a program sets a callback, or the user sets IPU_LOG_LEVEL
 * (OFF ERR WARN INFO DEBUG TRACE) and IPU_LOG_DEST (stderr, stdout or a file). The
 * POPLAR_, POPLIBS_, POPART_ and POPTORCH_ spellings of both are honoured too, as are
 * POPLAR_<MODULE>_LOG_LEVEL for the modules graph, engine, program, tensor, target, codelets.
 *
 *     ipu_log_set(IPU_LOG_INFO, NULL, NULL);          everything up to INFO, on stderr
 *
 * What PrintTensor prints goes through the log at level IPU_LOG_PRINT, which no level
 * but OFF silences.
 */
#ifndef IPU_LOG_H
#define IPU_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

#define IPU_LOG_LEVEL_LIST(X) \
    X(OFF, "OFF")             \
    X(PRINT, "PRINT")         \
    X(ERR, "ERR")             \
    X(WARN, "WARN")           \
    X(INFO, "INFO")           \
    X(DEBUG, "DEBUG")         \
    X(TRACE, "TRACE")

typedef enum ipu_log_level {
#define X(name, text) IPU_LOG_##name,
    IPU_LOG_LEVEL_LIST(X)
#undef X
} ipu_log_level;

/* Called with one message, without a trailing newline (PRINT may contain inner ones). May be called from
 * several threads, but never concurrently. Must not call the library. */
typedef void (*ipu_log_fn)(void *user, ipu_log_level level, const char *module, const char *text);

/* Deliver messages up to `level` to `fn`. If `fn` is NULL, the library writes them to stderr or IPU_LOG_DEST.
 * Overrides the environment; applies to the whole process. */
void ipu_log_set(ipu_log_level level, ipu_log_fn fn, void *user);
/* The same, unless the environment sets a level; if it sets a destination, messages go there. For programs that
 * show warnings unless their user asks for more or less. */
void ipu_log_set_default(ipu_log_level level, ipu_log_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
