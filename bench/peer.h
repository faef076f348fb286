/* PyTorch in a process of its own, as fast as Debian's can be: bench/torch/peer.py, a line for a line. */
#ifndef IPU_BENCH_PEER_H
#define IPU_BENCH_PEER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct bench_peer {
    FILE *to, *from;
    pid_t pid;
} bench_peer;

/* A process of which standard input and output are pipes to here. `argv` ends with NULL. */
static inline bool bench_start(bench_peer *p, const char *const *argv)
{
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) return false;
    p->pid = fork();
    if (p->pid == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        /* One OpenMP pool for ATen, oneDNN and OpenBLAS: OpenBLAS with threads of its own fights libgomp. */
        setenv("LD_LIBRARY_PATH", "/usr/lib/x86_64-linux-gnu/openblas-openmp", 1);
        /* OpenBLAS takes a CPU that is newer than itself for a Prescott, with a quarter of its speed. */
        if (__builtin_cpu_supports("avx512vl"))
            setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
        else if (__builtin_cpu_supports("avx2"))
            setenv("OPENBLAS_CORETYPE", "Haswell", 0);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    p->to   = fdopen(down[1], "w");
    p->from = fdopen(up[0], "r");
    return p->to && p->from;
}

static inline bool bench_start_peer(bench_peer *p, const char *threads)
{
    return bench_start(p, (const char *[]){"/usr/bin/python3", "bench/torch/peer.py", threads, NULL});
}

/* The answer to a line, in its place, or NULL. */
static inline const char *bench_ask(bench_peer *p, char *line, size_t size)
{
    fprintf(p->to, "%s\n", line);
    fflush(p->to);
    return fgets(line, (int)size, p->from);
}

/* Seconds per call of what the last line was about. */
static inline double bench_peer_time(bench_peer *p, int calls)
{
    char line[64];
    snprintf(line, sizeof line, "time %d", calls);
    return bench_ask(p, line, sizeof line) ? strtod(line, NULL) : 0;
}

static inline void bench_end_peer(bench_peer *p)
{
    fclose(p->to);
    waitpid(p->pid, NULL, 0);
    fclose(p->from);
}

#endif
