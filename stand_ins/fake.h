/* What the stand-ins for vendors' libraries share: a clock, motors, faults, and the first misuse, kept as a text.
 *
 * Functions fake_* steer a stand-in and are no part of a vendor's library. A file that includes this defines the functions
 * that are declared here without a body.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEVICES 2
#define LARGEST_FORCE 50 /* [N] more than any device gives: another unit is meant */

enum { LATE, JUMP, NOT_FINITE, TWICE, MUTE, GONE, FAULTS };

struct Base { /* what each device has first */
  int present, open, force_on;
  double wrench[7];                /* of the motors, in the vendor's units; of the gripper the last */
  double faults[FAULTS];           /* LATE [s], JUMP in the vendor's unit; NOT_FINITE, TWICE: readings that are left; MUTE:
                                      readings fail, forces do not; GONE: everything fails */
  double set, read, zero, changed; /* [s] times of: last force set, last reading, force zero, last change of the force */
  double echo;                     /* the hand is so far with the force along the base's x; 0: it is where it was put */
  long count;                      /* of forces set, or frames */
};

static struct Base *base(int id);
static void tell(int id, double *told);

static int count = 1; /* of devices */
static char misuse[400];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const double nothing[7];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void keep(const char *format, va_list arguments) {
  pthread_mutex_lock(&lock);
  if (!misuse[0]) vsnprintf(misuse, sizeof misuse, format, arguments);
  pthread_mutex_unlock(&lock);
}

static int same(const double *a, const double *b) { /* 0 and -0 are */
  int i = 0;
  while (i < 7 && a[i] == b[i]) i++;
  return i == 7;
}

/* What the motors get; the times say when. */
static void drive(struct Base *d, const double *wrench) {
  d->set = now();
  if (!same(wrench, d->wrench)) {
    d->changed = d->set;
    if (same(wrench, nothing)) d->zero = d->set;
  }
  memcpy(d->wrench, wrench, sizeof d->wrench);
}

void fake_fault(int id, int kind, double value) {
  if (kind == GONE) {
    base(id)->present = 0;
    drive(base(id), nothing); /* motors without a cable have no force */
  } else base(id)->faults[kind] = value;
}

void fake_back(int id) {
  base(id)->present = 1;
  memset(base(id)->faults, 0, sizeof base(id)->faults);
}

void fake_echo(int id, double gain) { base(id)->echo = gain; }

/* wrench [7], then: force enabled, two numbers of `tell`, open, count, time of the last force, of the last reading, of zero
 * force, of the last change of the force [s] */
void fake_told(int id, double *told) {
  const struct Base *d = base(id);
  told[8] = told[9] = 0;
  tell(id, told);
  memcpy(told, d->wrench, sizeof d->wrench);
  told[7] = d->force_on;
  told[10] = d->open;
  told[11] = d->count;
  told[12] = d->set;
  told[13] = d->read;
  told[14] = d->zero;
  told[15] = d->changed;
}

const char *fake_misuse(void) { return misuse; }
