/* Code that libxsmm writes: one kernel for one size of product, made once and kept until exit.
 *
 * Only its generator is used. libxsmm's own list of kernels would take 10 MiB and some milliseconds when first asked; here
 * a kernel has pages of its own, with what it is for in front of the code, and lists of them are only ever added to.
 */
#include "op/product/xsmm.h"

#ifdef IPU__HAVE_XSMM
#include <libxsmm_cpuid.h>
#include <libxsmm_generator.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"

enum {
    N_LISTS    = 256,
    MOST_BYTES = 256 << 10
}; /* lists by a byte of a hash; libxsmm has room for half as much code */

typedef struct kernel_key {
    int32_t  m, n, k, lda, ldb, ldc; /* of libxsmm's matrices, which are column-major */
    uint32_t flags, arch;
} kernel_key;

typedef struct kernel {
    kernel_key     key;
    struct kernel *next;
    alignas(64) unsigned char code[];
} kernel;

static _Atomic(kernel *) lists[N_LISTS];

static const kernel *find(const kernel *k, const kernel_key *key)
{
    while (k && memcmp(&k->key, key, sizeof *key) != 0) k = k->next;
    return k;
}

/* Bytes of code; 0: it cannot be had. */
static size_t write_code(const kernel_key *key, void *to, size_t bytes)
{
    libxsmm_descriptor_blob        blob;
    int                            flags = (int)(key->flags & LIBXSMM_GEMM_FLAG_TRANS_B);
    const libxsmm_gemm_descriptor *what  = libxsmm_sgemm_descriptor_init(
         &blob, key->m, key->n, key->k, key->lda, key->ldb, key->ldc, 1,
        key->flags & LIBXSMM_GEMM_FLAG_BETA_0 ? 0 : 1, flags, LIBXSMM_GEMM_PREFETCH_NONE);
    libxsmm_generated_code code = {
        .generated_code = to, .buffer_size = (unsigned)bytes, .code_type = 2, .arch = key->arch};
    if (!what) return 0;
    libxsmm_generator_gemm_kernel(&code, what);
    return code.last_error ? 0 : code.code_size;
}

/* Pages with the kernel, still to be written to; NULL: none. */
static kernel *make(const kernel_key *key, size_t *bytes)
{
    size_t  page = (size_t)sysconf(_SC_PAGESIZE);
    kernel *k    = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (k == MAP_FAILED) return NULL;
    size_t code = write_code(key, k->code, MOST_BYTES - sizeof *k);
    *bytes      = code == 0 ? 0 : (sizeof *k + code + page - 1) / page * page;
    if (*bytes < MOST_BYTES) munmap((char *)k + *bytes, MOST_BYTES - *bytes);
    if (code == 0) return NULL;
    k->key = *key;
    return k;
}

/* Adds it to a list, unless another thread has made the same one meanwhile; what is in the list then, or NULL. A kernel
 * that can be found can be run, so its pages are made code before. */
static const kernel *add(_Atomic(kernel *) *list, kernel *k, size_t bytes)
{
    kernel *first = atomic_load(list);
    for (;;) {
        const kernel *same = find(first, &k->key);
        k->next            = first;
        if (same || mprotect(k, bytes, PROT_READ | PROT_EXEC) != 0) {
            munmap(k, bytes);
            return same;
        }
        if (atomic_compare_exchange_strong(list, &first, k)) return k;
        if (mprotect(k, bytes, PROT_READ | PROT_WRITE) != 0) return NULL;
    }
}

bool ipu__xsmm_works(unsigned cpu_features)
{
    return (cpu_features & IPU__CPU_AVX2) != 0 && (cpu_features & IPU__CPU_FMA) != 0;
}

/* As libxsmm has it, products with next to nothing in them are left to narrower vectors. */
static uint32_t choose_arch(int64_t m, int64_t n, int64_t k)
{
    bool is_tiny = m * k <= 16 || k * n <= 16 || m * n <= 16;
    return ipu__simd_has(IPU__SIMD_AVX512) && !is_tiny ? LIBXSMM_X86_AVX512_CORE : LIBXSMM_X86_AVX2;
}

ipu__xsmm_fn ipu__xsmm_get(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                           bool transpose_a, bool add_to)
{
    const int64_t most = 1 << 30;
    if (m < 1 || n < 1 || k < 1 || m > most || n > most || k > most || lda > most || ldb > most || ldc > most)
        return NULL;
    if (lda < (transpose_a ? m : k) || ldb < n || ldc < n || !ipu__xsmm_works(ipu__cpu_features()))
        return NULL;
    uint32_t flags = (transpose_a ? LIBXSMM_GEMM_FLAG_TRANS_B : 0) | (add_to ? 0 : LIBXSMM_GEMM_FLAG_BETA_0);
    kernel_key         key   = {(int32_t)n,   (int32_t)m,   (int32_t)k, (int32_t)ldb,
                                (int32_t)lda, (int32_t)ldc, flags,      choose_arch(m, n, k)};
    _Atomic(kernel *) *list  = &lists[ipu__hash_bytes(&key, sizeof key).bytes[15]];
    const kernel      *found = find(atomic_load(list), &key);
    if (!found) {
        size_t  bytes;
        kernel *made = make(&key, &bytes);
        if (made) found = add(list, made, bytes);
    }
    return found ? (ipu__xsmm_fn)(uintptr_t)found->code : NULL;
}
#else
bool ipu__xsmm_works(unsigned cpu_features)
{
    (void)cpu_features;
    return false;
}

ipu__xsmm_fn ipu__xsmm_get(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                           bool transpose_a, bool add_to)
{
    (void)m, (void)n, (void)k, (void)lda, (void)ldb, (void)ldc, (void)transpose_a, (void)add_to;
    return NULL;
}
#endif
