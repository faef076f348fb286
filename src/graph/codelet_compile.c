/* Runs the system's C compiler on a codelet source: choosing it, checking flags, reporting its messages.
 *
 * No shell is involved: the command is a list of words, and the user's flags are checked first. All files
 * are created in a private folder, which also receives the headers a codelet includes, embedded in this
 * library: none need be installed, and those of another version cannot take precedence.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host/cpu.h"
#include "base/host/file.h"
#include "base/log.h"
#include "base/text.h"
#include "graph/codelet.h"

/* ---- our headers ---- */

/* The assembler includes the file, searched for like a header, between two symbols. */
#define EMBEDDED_LIST(X) X(codelet) X(status) X(type)
#define X(name)                                                                   \
    __asm__(".pushsection .rodata\n"                                              \
            ".globl ipu__header_" #name ", ipu__header_" #name "_end\n"           \
            ".hidden ipu__header_" #name ", ipu__header_" #name "_end\n"          \
            "ipu__header_" #name ": .incbin \"ipu/" #name ".h\"\n"                \
            "ipu__header_" #name "_end: .byte 0\n"                                \
            ".popsection\n");                                                     \
    extern const char ipu__header_##name[] __attribute__((visibility("hidden"))); \
    extern const char ipu__header_##name##_end[] __attribute__((visibility("hidden")));
EMBEDDED_LIST(X)
#undef X

static const struct {
    const char *name, *text, *end;
} headers[] = {
#define X(name) {"ipu/" #name ".h", ipu__header_##name, ipu__header_##name##_end},
    EMBEDDED_LIST(X)
#undef X
};

enum { N_HEADERS = sizeof headers / sizeof *headers };

/* ---- CPU features ---- */

/* Modules use these numbers. f16c is last because not every compiler can test for it by name. Changing the
 * list means changing IPU_CODELET_ABI. */
// clang-format off
#define CPU_LIST(X)                                                                                        \
    X("sse3") X("ssse3") X("sse4.1") X("sse4.2") X("popcnt") X("avx") X("avx2") X("fma") X("bmi") X("bmi2") \
    X("avx512f") X("avx512cd") X("avx512bw") X("avx512dq") X("avx512vl") X("avx512vnni") X("avx512bf16")
// clang-format on

static const char *const cpu_names[] = {
#define X(name) name,
    CPU_LIST(X)
#undef X
        "f16c"};

enum { N_CPU_NAMES = sizeof cpu_names / sizeof *cpu_names };

uint64_t ipu__codelet_cpu(void)
{
    uint64_t features = 0;
#if defined(__x86_64__)
    uint64_t bit = 1;
#define X(name)                                        \
    if (__builtin_cpu_supports(name)) features |= bit; \
    bit <<= 1;
    CPU_LIST(X)
#undef X
    if (ipu__cpu_features() & IPU__CPU_F16C) features |= bit;
#endif
    return features;
}

const char *ipu__codelet_cpu_name(uint64_t features)
{
    int bit = features ? __builtin_ctzll(features) : N_CPU_NAMES;
    return bit < N_CPU_NAMES ? cpu_names[bit] : "features this version does not know";
}

/* ---- words ---- */

static ipu_status add_word(ipu__codelet_job *job, ipu__words *words, const char *text, size_t n)
{
    char *word = ipu__arena_alloc(&job->arena, n + 1);
    if (!word || !ipu__push(words, word)) return ipu__fail_memory();
    memcpy(word, text, n);
    word[n] = 0;
    return IPU_OK;
}

static ipu_status add_flag(ipu__codelet_job *job, const char *text)
{
    return add_word(job, &job->command, text, strlen(text));
}

static const char blanks[] = " \t\n\r\v\f";

static ipu_status split(ipu__codelet_job *job, const char *text)
{
    for (const char *at = text + strspn(text, blanks); *at; at += strspn(at, blanks)) {
        size_t n = strcspn(at, blanks);
        IPU_TRY(add_word(job, &job->command, at, n));
        at += n;
    }
    return IPU_OK;
}

/* ---- which compiler ---- */

static bool can_run(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The file that a shell would run as `name`. */
static bool find_program(const char *name, char out[PATH_MAX])
{
    if (!*name) return false;
    if (strchr(name, '/')) return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && can_run(out);
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; at;) {
        size_t n = strcspn(at, ":");
        int    m = snprintf(out, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? at : ".", name);
        if (m > 0 && m < PATH_MAX && can_run(out)) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

/* IPU_CC names a program, possibly followed by arguments ("ccache gcc"). */
static ipu_status named_compiler(ipu__codelet_job *job, const char *named)
{
    char path[PATH_MAX];
    if (find_program(named, path)) return add_flag(job, path);
    IPU_TRY(split(job, named));
    if (job->command.n == 0 || !find_program(job->command.at[0], path))
        return ipu__fail(
            IPU_UNSUPPORTED,
            "no C compiler: IPU_CC is \"%s\", which is no program that can be run: name one that can, or "
            "unset it to use the cc, gcc or clang of PATH",
            named);
    job->command.at[0] = ipu__arena_strdup(&job->arena, path);
    return job->command.at[0] ? IPU_OK : ipu__fail_memory();
}

static ipu_status find_compiler(ipu__codelet_job *job)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    char                     path[PATH_MAX];
    const char              *named = getenv("IPU_CC");
    if (named && *named) return named_compiler(job, named);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (find_program(names[i], path)) return add_flag(job, path);
    return ipu__fail(IPU_UNSUPPORTED,
                     "no C compiler: none of cc, gcc and clang is on PATH: install one (the package gcc "
                     "of most systems), or name one in IPU_CC");
}

/* ---- flags ---- */

/* Flags that take the next word as an argument. */
static const char *const with_word[] = {"-I",        "-D",       "-U",      "-include", "-imacros",
                                        "-isystem",  "-iquote",  "-L",      "-l",       "-idirafter",
                                        "-isysroot", "-Xlinker", "-Xclang", "--param",  "-mllvm"};

/* Flags that would write elsewhere, or produce something other than a module. */
static const struct {
    const char *text;
    bool        whole; /* false: a prefix */
} refused[] = {{"-o", false}, {"--output", false},    {"-M", false},
               {"-x", false}, {"-save-temps", false}, {"--save-temps", false},
               {"-c", true},  {"-S", true},           {"-E", true},
               {"-", true}};

static bool is_refused(const char *flag)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t n = strlen(refused[i].text);
        if (refused[i].whole ? strcmp(flag, refused[i].text) == 0 : strncmp(flag, refused[i].text, n) == 0)
            return true;
    }
    return false;
}

static bool takes_word(const char *flag)
{
    for (size_t i = 0; i < sizeof with_word / sizeof *with_word; i++)
        if (strcmp(flag, with_word[i]) == 0) return true;
    return false;
}

/* Every word from `begin` on must be an option, or the argument of the one before. */
static ipu_status check_flags(const ipu__words *words, size_t begin)
{
    for (size_t i = begin; i < words->n; i++) {
        const char *flag = words->at[i];
        if (flag[0] != '-')
            return ipu__fail(
                IPU_INVALID,
                "flag \"%s\": expected options, which begin with '-' (words are split at blanks; "
                "no shell reads them)",
                flag);
        if (is_refused(flag))
            return ipu__fail(IPU_INVALID, "flag \"%s\": what is written, and where, is not for flags to say",
                             flag);
        if (!takes_word(flag)) continue;
        if (++i == words->n) return ipu__fail(IPU_INVALID, "flag \"%s\": expected a word after it", flag);
    }
    return IPU_OK;
}

static ipu_status add_flags(ipu__codelet_job *job)
{
    static const char *const fixed[] = {
        "-shared", "-fPIC",      "-std=gnu17", "-O3", "-ffp-contract=off", "-fvisibility=hidden",
        "-pipe",   "-Wl,-z,defs"};
    char     text[64];
    uint64_t cpu = ipu__codelet_cpu();
    IPU_TRY(add_flag(job, "-I")); /* our headers' folder, before all others; filled in by the run */
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) IPU_TRY(add_flag(job, fixed[i]));
    for (int i = 0; i < N_CPU_NAMES; i++) {
        if (!(cpu >> i & 1)) continue;
        snprintf(text, sizeof text, "-m%s", cpu_names[i]);
        IPU_TRY(add_flag(job, text));
    }
    snprintf(text, sizeof text, "-DIPU_CODELET_MODULE=0x%llxULL", (unsigned long long)cpu);
    IPU_TRY(add_flag(job, text));
    size_t begin = job->command.n;
    if (job->source->flags) IPU_TRY(split(job, job->source->flags));
    return check_flags(&job->command, begin);
}

ipu_status ipu__codelet_job_init(ipu__codelet_job *job, const ipu__codelet_source *source)
{
    *job = (ipu__codelet_job){.source = source};
    IPU_TRY(find_compiler(job));
    job->n_compiler = job->command.n;
    return add_flags(job);
}

void ipu__codelet_job_fini(ipu__codelet_job *job)
{
    ipu__array_fini(&job->command);
    ipu__array_fini(&job->inputs);
    ipu__arena_fini(&job->arena);
}

/* ---- the key ---- */

static void add_file(ipu__text *key, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        ipu__text_add(key, "%s %lld %lld.%09ld\n", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                      st.st_mtim.tv_nsec);
}

/* The compiler is identified by its file, since asking for its version takes longer than a cache hit may.
 * For a link, both ends count: cc -> gcc -> gcc-12. */
static void add_compiler(ipu__text *key, const ipu__codelet_job *job)
{
    char path[PATH_MAX], real[PATH_MAX];
    for (size_t i = 0; i < job->n_compiler; i++) {
        if (!find_program(job->command.at[i], path)) continue;
        add_file(key, path);
        if (realpath(path, real)) add_file(key, real);
    }
}

ipu_status ipu__codelet_job_key(const ipu__codelet_job *job, ipu__hash128 *out)
{
    static const char *const   variables[] = {"CPATH",         "C_INCLUDE_PATH",  "LIBRARY_PATH",
                                              "COMPILER_PATH", "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH"};
    const ipu__codelet_source *s           = job->source;
    ipu__text                  key         = {0};
    char                       here[PATH_MAX];
    ipu__text_add(&key, "abi %d\n", IPU_CODELET_ABI);
    for (int i = 0; i < N_HEADERS; i++)
        ipu__text_add_bytes(&key, headers[i].text, (size_t)(headers[i].end - headers[i].text));
    add_compiler(&key, job);
    for (size_t i = 0; i < job->command.n; i++) ipu__text_add(&key, "word %s\n", job->command.at[i]);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value) ipu__text_add(&key, "%s=%s\n", variables[i], value);
    }
    /* Relative paths depend on the working folder. */
    if ((s->path || s->flags) && getcwd(here, sizeof here)) ipu__text_add(&key, "in %s\n", here);
    ipu__text_add(&key, "%s %s\n", s->path ? "file" : "text", s->name);
    ipu__text_add_bytes(&key, s->text, s->bytes);
    if (!key.failed) *out = ipu__hash_bytes(key.at, key.n);
    ipu_status status = key.failed ? ipu__fail_memory() : IPU_OK;
    ipu__text_fini(&key);
    return status;
}

/* ---- the run ---- */

/* `name` in the run's folder. */
typedef struct place {
    char path[PATH_MAX];
} place;

static place in_folder(const char *folder, const char *name)
{
    place p;
    snprintf(p.path, sizeof p.path, "%s/%.90s", folder, name);
    return p;
}

/* The folder is private, so the care of ipu__file_write is not needed. */
static ipu_status write_plain(const char *path, const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wxe");
    if (!f) return ipu__fail(IPU_IO, "cannot write %s: %s", path, strerror(errno));
    char            reason[IPU__FILE_REASON];
    ipu__size_guard guard = ipu__size_guard_begin();
    bool            ok    = fwrite(text, 1, bytes, f) == bytes;
    ok                    = (fclose(f) == 0) & ok;
    ipu__size_guard_end(&guard);
    if (!ok) return ipu__fail(IPU_IO, "cannot write %s: %s", path, ipu__file_reason(errno, reason));
    return IPU_OK;
}

/* "kernels v2" -> "kernels_v2.c": the name that messages use for a source from memory. */
static void file_name(const char *name, char out[80])
{
    size_t n = 0;
    for (; name[n] && n < 64; n++) {
        char c     = name[n];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
                  || strchr("._+-", c);
        out[n] = plain ? c : '_';
    }
    snprintf(out + n, 3, "%s", n >= 2 && strcmp(name + n - 2, ".c") == 0 ? "" : ".c");
}

static ipu_status write_inputs(const ipu__codelet_job *job, const char *folder, place *source)
{
    place p = in_folder(folder, "ipu");
    if (mkdir(p.path, 0700) != 0) return ipu__fail(IPU_IO, "cannot make %s: %s", p.path, strerror(errno));
    for (int i = 0; i < N_HEADERS; i++) {
        p = in_folder(folder, headers[i].name);
        IPU_TRY(write_plain(p.path, headers[i].text, (size_t)(headers[i].end - headers[i].text)));
    }
    const ipu__codelet_source *s = job->source;
    if (s->path) {
        snprintf(source->path, sizeof source->path, "%s%s", s->path[0] == '-' ? "./" : "", s->path);
        return IPU_OK;
    }
    char name[80];
    file_name(s->name, name);
    *source = in_folder(folder, name);
    return write_plain(source->path, s->text, s->bytes);
}

/* A time later than that of all files written so far, and no later than that of files written from now on.
 * File times are finer than this clock's ticks, which moreover lag by up to one: hence two ticks. */
static struct timespec next_tick(void)
{
    struct timespec now, before, nap = {0, 500000};
    clock_gettime(CLOCK_REALTIME_COARSE, &before);
    now = before;
    for (int ticks = 0, naps = 0; ticks < 2 && naps < 100; naps++) {
        nanosleep(&nap, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        ticks += now.tv_sec != before.tv_sec || now.tv_nsec != before.tv_nsec;
        before = now;
    }
    return now;
}

/* The child has no signals blocked or ignored, whatever we have, and all its output goes to `log`. */
static int spawn(char *const *argv, const char *log, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t          attributes;
    sigset_t                   none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (!error)
            error = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log,
                                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
        if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
        if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
        if (!error)
            error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (!error) error = posix_spawn(pid, argv[0], &files, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Its wait status. A program that ignores SIGCHLD, or waits for all children, takes that from us: then the
 * existence of the output file decides. */
static int wait_for(pid_t pid, const char *output)
{
    int   status;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got == pid) return status;
    return access(output, R_OK) == 0 ? 0 : 1 << 8;
}

/* The file with every "FOLDER/" removed, at most `most` bytes in whole lines. */
static ipu_status read_said(const char *path, const char *folder, size_t most, ipu__text *out)
{
    char  *text;
    size_t bytes, kept = 0;
    place  prefix = in_folder(folder, "");
    IPU_TRY(ipu__file_read(path, IPU__MODULE_LIMIT, &text, &bytes));
    for (char *at = text; *at;) {
        char  *found = strstr(at, prefix.path);
        size_t part  = found ? (size_t)(found - at) : strlen(at);
        ipu__text_add_bytes(out, at, part);
        at += part + (found ? strlen(prefix.path) : 0);
    }
    ipu__free(text);
    if (out->failed) return ipu__fail_memory();
    if (out->n <= most) {
        while (out->n && out->at[out->n - 1] == '\n') out->at[--out->n] = 0;
        return IPU_OK;
    }
    for (size_t i = 0; i < most; i++)
        if (out->at[i] == '\n') kept = i + 1;
    out->n          = kept ? kept : most;
    out->at[out->n] = 0;
    ipu__text_add(out, "(%zu bytes in all; the rest is left out)", bytes);
    return out->failed ? ipu__fail_memory() : IPU_OK;
}

/* The outcome of the run, with an error message if it failed. */
static ipu_status judge(const ipu__codelet_job *job, const char *folder, int status, bool made)
{
    enum { MOST_SAID = 8192 };
    ipu__text   said = {0};
    char        end[64];
    const char *cc     = job->command.at[0];
    place       log    = in_folder(folder, "log");
    ipu_status  result = read_said(log.path, folder, MOST_SAID, &said);
    if (result == IPU_OK && WIFEXITED(status) && WEXITSTATUS(status) == 0 && made) {
        if (said.n) ipu__log(IPU_LOG_WARN, "codelets", "%s: %s says:\n%s", job->source->name, cc, said.at);
    } else if (result == IPU_OK) {
        if (WIFSIGNALED(status))
            snprintf(end, sizeof end, "was stopped by signal %d%s", WTERMSIG(status),
                     WTERMSIG(status) == SIGXFSZ ? " (ulimit -f: raise the limit)" : "");
        else if (WEXITSTATUS(status) == 0)
            snprintf(end, sizeof end, "made no file");
        else
            snprintf(end, sizeof end, "ended with status %d", WEXITSTATUS(status));
        result = ipu__fail(IPU_INVALID, "%s does not compile: %s %s%s%s", job->source->name, cc, end,
                           said.n ? ":\n" : "", said.n ? said.at : "");
    }
    ipu__text_fini(&said);
    return result;
}

/* ---- the files it read ---- */

/* The next name in a make rule as written by compilers. Returns false if there are no more. */
static bool next_name(const char **at, char *out)
{
    const char *p = *at;
    for (; *p && (strchr(blanks, *p) || (*p == '\\' && (p[1] == '\n' || p[1] == '\r'))); p++) {}
    if (!*p) return false;
    for (; *p && !strchr(blanks, *p); p++) {
        if (*p == '\\' && p[1] == '\n') break;
        if ((*p == '\\' && (p[1] == ' ' || p[1] == '#')) || (*p == '$' && p[1] == '$')) p++;
        *out++ = *p;
    }
    *out = 0;
    *at  = p;
    return true;
}

static ipu_status read_inputs(ipu__codelet_job *job, const char *folder, const char *path)
{
    char  *text = NULL;
    size_t bytes, n = strlen(folder);
    IPU_TRY(ipu__file_read(path, IPU__MODULE_LIMIT, &text, &bytes));
    char *name = ipu__alloc(bytes + 1);
    if (!name) {
        ipu__free(text);
        return ipu__fail_memory();
    }
    ipu_status  status = IPU_OK;
    const char *colon  = strchr(text, ':'); /* behind the target, which is "module" */
    const char *at     = colon ? colon + 1 : "";
    while (status == IPU_OK && next_name(&at, name))
        if (strncmp(name, folder, n) != 0) status = add_word(job, &job->inputs, name, strlen(name));
    ipu__free(name);
    ipu__free(text);
    return status;
}

static ipu_status execute(ipu__codelet_job *job, const char *folder)
{
    place output = in_folder(folder, "module.so"), rule = in_folder(folder, "rule"),
          log = in_folder(folder, "log"), source;
    char map[PATH_MAX + 32], include[PATH_MAX + 8];
    IPU_TRY(write_inputs(job, folder, &source));
    snprintf(map, sizeof map, "-ffile-prefix-map=%s/=", folder);
    snprintf(include, sizeof include, "-I%s", folder);
    const char *const more[]         = {map,         "-MD", "-MF", rule.path,   "-MT", "module", "-o",
                                        output.path, "-x",  "c",   source.path, "-x",  "none",   "-lm"};
    size_t            n              = job->command.n;
    job->command.at[job->n_compiler] = include;
    ipu_status status                = IPU_OK;
    for (size_t i = 0; i < sizeof more / sizeof *more && status == IPU_OK; i++)
        status = add_flag(job, more[i]);
    if (status == IPU_OK && !ipu__push(&job->command, NULL)) status = ipu__fail_memory();
    job->began     = next_tick();
    pid_t pid      = 0;
    int   error    = status == IPU_OK ? spawn(job->command.at, log.path, &pid) : 0;
    job->command.n = n;
    IPU_TRY(status);
    if (error)
        return ipu__fail(IPU_IO, "cannot run the compiler %s: %s", job->command.at[0], strerror(error));
    int ended = wait_for(pid, output.path);
    IPU_TRY(judge(job, folder, ended, access(output.path, R_OK) == 0));
    return read_inputs(job, folder, rule.path);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

ipu_status ipu__codelet_job_run(ipu__codelet_job *job, const char *folder, ipu__codelet_object *out)
{
    double began  = seconds();
    place  output = in_folder(folder, "module.so");
    *out          = (ipu__codelet_object){0};
    IPU_TRY(execute(job, folder));
    IPU_TRY(ipu__file_read(output.path, IPU__MODULE_LIMIT, &out->data, &out->bytes));
    out->hash = ipu__hash_bytes(out->data, out->bytes);
    ipu__log(IPU_LOG_INFO, "codelets", "compiled %s with %s in %.0f ms", job->source->name,
             job->command.at[0], 1e3 * (seconds() - began));
    return IPU_OK;
}
