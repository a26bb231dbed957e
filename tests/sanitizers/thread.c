// Tells ThreadSanitizer what the precompiled standard library does not.
//
// The stable toolchain's standard library is not compiled for ThreadSanitizer. What of it is generic is compiled with the
// tests and is seen; two things are not, and would look like races everywhere:
//
// 1. The last owner of an Arc subtracts its reference with release order and then fences with acquire order, and
//    ThreadSanitizer does not model fences. (A standard library compiled for it loads the counter instead.) So here a
//    64-bit subtraction that returns 1 is remembered, and an acquire fence right after it loads that address with acquire
//    order. This adds no edge that the memory model does not have: the load sees a value of the release sequence that
//    every earlier owner's subtraction belongs to.
// 2. The slow paths of its locks, and parking, end in futex calls. Whoever wakes has released before it wakes, and whoever
//    was woken acquires after it: that edge is told at the call.

#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>


enum { RELAXED = 0, CONSUME = 1, ACQUIRE = 2, RELEASE = 3, ACQ_REL = 4, SEQ_CST = 5 };

int64_t __real___tsan_atomic64_fetch_sub(volatile int64_t *at, int64_t less, int order);
void __real___tsan_atomic_thread_fence(int order);
int64_t __tsan_atomic64_load(const volatile int64_t *at, int order);

static __thread const volatile int64_t *given_up;

int64_t __wrap___tsan_atomic64_fetch_sub(volatile int64_t *at, int64_t less, int order) {
    int64_t before = __real___tsan_atomic64_fetch_sub(at, less, order);
    given_up = order == RELEASE && less == 1 && before == 1 ? at : 0;
    return before;
}

void __wrap___tsan_atomic_thread_fence(int order) {
    __real___tsan_atomic_thread_fence(order);
    if (order != RELEASE && given_up) {
        __tsan_atomic64_load(given_up, ACQUIRE);
    }
    given_up = 0;
}

void __tsan_acquire(void *at);
void __tsan_release(void *at);
long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    int operation = number == SYS_futex ? (int)a[1] & FUTEX_CMD_MASK : -1;
    if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) {
        __tsan_release((void *)a[0]);
    }
    long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) {
        __tsan_acquire((void *)a[0]);
    }
    return result;
}
