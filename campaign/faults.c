/* Faults of a machine, by LD_PRELOAD: a wall clock that steps, a disk that is slow or full.
 *
 * FAULT_CLOCK="AT STEP"  after AT seconds of this process the wall clock is STEP seconds away [s]; waiting until
 *                        a time of this clock lasts until then, as it does where the kernel's clock is set
 * FAULT_SLOW="MS"        each write to a file takes MS milliseconds more
 * FAULT_FULL="N"         from the N-th write of this process to a file on, no space is left
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double at = -1.0, step = 0.0;
static long slow = 0, full = -1, writes = 0;
static struct timespec begun;
static int (*true_clock)(clockid_t, struct timespec *);
static ssize_t (*true_write)(int, const void *, size_t);
static int (*true_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*true_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
static int (*true_mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
static int (*true_sem_timedwait)(sem_t *, const struct timespec *);
static int (*true_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);

__attribute__((constructor)) static void start(void) {
  true_clock = dlsym(RTLD_NEXT, "clock_gettime");
  true_write = dlsym(RTLD_NEXT, "write");
  true_cond_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  true_cond_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  true_mutex_timedlock = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
  true_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
  true_sem_clockwait = dlsym(RTLD_NEXT, "sem_clockwait");
  const char *said = getenv("FAULT_CLOCK");
  if (said) sscanf(said, "%lf %lf", &at, &step);
  if ((said = getenv("FAULT_SLOW"))) slow = atol(said);
  if ((said = getenv("FAULT_FULL"))) full = atol(said);
  true_clock(CLOCK_MONOTONIC, &begun);
}

/* By how much the wall clock is away now [s]. */
static time_t away(void) {
  struct timespec now;
  if (at < 0.0) return 0;
  true_clock(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - begun.tv_sec) + 1e-9 * (now.tv_nsec - begun.tv_nsec) >= at ? (time_t)step : 0;
}

int clock_gettime(clockid_t which, struct timespec *out) {
  int status = true_clock(which, out);
  if (status == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) out->tv_sec += away();
  return status;
}

/* The kernel's time of a wall time; what is near the monotonic clock, on which some conditions wait, stays. */
static const struct timespec *kernels(const struct timespec *until, struct timespec *memory) {
  if (until == NULL || until->tv_sec < 1000000000) return until;
  memory->tv_sec = until->tv_sec - away();
  memory->tv_nsec = until->tv_nsec;
  return memory;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  struct timespec memory;
  return true_cond_timedwait(condition, mutex, kernels(until, &memory));
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t which,
                           const struct timespec *until) {
  struct timespec memory;
  return true_cond_clockwait(condition, mutex, which, kernels(until, &memory));
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  struct timespec memory;
  return true_mutex_timedlock(mutex, kernels(until, &memory));
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
  struct timespec memory;
  return true_sem_timedwait(semaphore, kernels(until, &memory));
}

int sem_clockwait(sem_t *semaphore, clockid_t which, const struct timespec *until) {
  struct timespec memory;
  return true_sem_clockwait(semaphore, which, kernels(until, &memory));
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

ssize_t write(int file, const void *data, size_t size) {
  struct stat found;
  if ((slow || full >= 0) && fstat(file, &found) == 0 && S_ISREG(found.st_mode)) {
    if (slow) usleep(1000 * slow);
    if (full >= 0 && __sync_add_and_fetch(&writes, 1) >= full) {
      errno = ENOSPC;
      return -1;
    }
  }
  return true_write(file, data, size);
}
