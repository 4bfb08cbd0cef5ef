/* The kernels of hardware_lab/kernels.py once more in C, to check what numba makes of them.
 * test_traps.py compiles this with -O2, never with -ffast-math: that would let the compiler
 * change the order of the sums, and with some compilers switch denormal numbers off. */

#include <math.h>
#include <pthread.h>
#include <stdint.h>

#define LINE 64

/* A load that the compiler may neither drop nor merge with its neighbours. */
static inline uint64_t word(uint64_t address) { return *(volatile uint64_t *)address; }

uint64_t chase(uint64_t address, int64_t n) {
    for (int64_t i = 0; i < n; i++) address = word(address);
    return address;
}

uint64_t chains(uint64_t *at, int64_t size, int64_t n) {
    for (int64_t k = 0; k < n / size; k++) {
        #pragma GCC unroll 8        /* as LLVM does with ours */
        for (int64_t i = 0; i < size; i++) at[i] = word(at[i]);
    }
    return at[0];
}

/* Unrolled as LLVM unrolls ours: some processors fetch ahead for each load instruction by itself,
 * and one instruction that takes every step is served better than eight that take turns. */
uint64_t stride_sum(uint64_t base, uint64_t mask, uint64_t stride, int64_t n) {
    uint64_t total = 0, at = 0;
#ifdef __clang__
#pragma clang loop unroll_count(8)
#else
#pragma GCC unroll 8
#endif
    for (int64_t i = 0; i < n; i++) {
        total += word(base + (at & mask));
        at += stride;
        if ((at & mask) < stride) at += LINE;
    }
    return total;
}

uint64_t sum_lines(uint64_t base, uint64_t step, int64_t n) {
    uint64_t total = 0;
    #pragma GCC unroll 8        /* as LLVM does with ours */
    for (int64_t i = 0; i < n; i++) total += word(base + (uint64_t)i * step);
    return total;
}

double add_chain(double x, double y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x = x + y;
    return x;
}

double multiply_chain(double x, double y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x = x * y;
    return x;
}

/* -O2 alone is for the oldest processor of its kind: without this, fma() is a call. */
#if defined(__x86_64__)
__attribute__((target("fma")))
#endif
double fma_chain(double x, double y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x = fma(x, y, y);
    return x;
}

uint64_t branches(const uint8_t *taken, uint64_t size, uint64_t *work, int64_t n, int64_t first) {
    uint64_t k = 0, j = 0;
    for (int64_t i = first; i < first + n; i++) {
        if (taken[(uint64_t)i & (size - 1)]) {
            work[k] += 3;
            k = (k + 1) & 31;
        } else {
            work[32 + j] ^= 5;
            j = (j + 3) & 31;
        }
    }
    return k + j;
}

int64_t mutex(pthread_mutex_t *m, int64_t n) {
    int64_t failed = 0;
    for (int64_t i = 0; i < n; i++) failed += pthread_mutex_lock(m) + pthread_mutex_unlock(m);
    return failed;
}

int64_t ping(uint64_t *address, uint64_t mine, int64_t patience, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t looks = 0;
        while (__atomic_load_n(address, __ATOMIC_ACQUIRE) != mine)
            if (++looks > patience) return i;
        __atomic_store_n(address, mine + 1, __ATOMIC_RELEASE);
        mine += 2;
    }
    return n;
}

uint64_t count(uint64_t *address, int64_t n) {
    uint64_t last = 0;
    for (int64_t i = 0; i < n; i++) last = __atomic_fetch_add(address, 1, __ATOMIC_RELAXED);
    return last;
}
