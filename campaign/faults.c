/* Faults of a machine, by LD_PRELOAD: a wall clock that steps, a disk that is slow or full.
 *
 * FAULT_CLOCK="AT STEP"  after AT seconds of this process the wall clock is STEP seconds away [s]
 * FAULT_SLOW="MS"        each write to a file takes MS milliseconds more
 * FAULT_FULL="N"         from the N-th write of this process to a file on, no space is left
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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

__attribute__((constructor)) static void start(void) {
  true_clock = dlsym(RTLD_NEXT, "clock_gettime");
  true_write = dlsym(RTLD_NEXT, "write");
  const char *said = getenv("FAULT_CLOCK");
  if (said) sscanf(said, "%lf %lf", &at, &step);
  if ((said = getenv("FAULT_SLOW"))) slow = atol(said);
  if ((said = getenv("FAULT_FULL"))) full = atol(said);
  true_clock(CLOCK_MONOTONIC, &begun);
}

int clock_gettime(clockid_t which, struct timespec *out) {
  int status = true_clock(which, out);
  if (status || at < 0.0 || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE)) return status;
  struct timespec now;
  true_clock(CLOCK_MONOTONIC, &now);
  if ((now.tv_sec - begun.tv_sec) + 1e-9 * (now.tv_nsec - begun.tv_nsec) >= at) out->tv_sec += (time_t)step;
  return 0;
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
