/* What the stand-ins for vendors' libraries share: a clock, motors, faults, and the first misuse, kept as a text.
 *
 * Functions fake_* steer a stand-in and are no part of a vendor's library. A file that includes this defines the functions
 * that are declared here without a body.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 2
#define LARGEST_FORCE 50 /* [N] more than any device gives: another unit is meant */

enum { LATE, JUMP, NOT_FINITE, TWICE, MUTE, GONE, FAULTS };
enum { POSITION, FRAME, LINEAR, ANGULAR, FIELDS }; /* of a reading; the frame is a rotation matrix, row by row */

struct Wrong {     /* what is wrong with a field, while all others are right */
  double gain;     /* beside 1, by which all is multiplied */
  double late;     /* [s] by which it is that of an earlier instant */
  int components;  /* of a set, which have a value; a bit each */
  double value;
};

struct Base { /* what each device has first */
  int present, open, force_on;
  double wrench[7];                /* of the motors, in the vendor's units; of the gripper the last */
  double faults[FAULTS];           /* LATE [s], JUMP in the vendor's unit; NOT_FINITE, TWICE: readings that are left; MUTE:
                                      readings fail, forces do not; GONE: everything fails */
  double set, read, zero, changed; /* [s] times of: last force set, last reading, force zero, last change of the force */
  double echo;                     /* the hand is so far with the force along the base's x; 0: it is where it was put */
  long count, count_at_zero;       /* of forces set, or frames; when the force became zero */
  double sway[3], turning, pace;   /* the hand swings: amplitudes [vendor's unit, rad] of a sine of so many rad/s */
  struct Wrong wrong[FIELDS];
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

/* Devices in a file that processes share: what a device was told is known when the process that told it has ended. */
static void *share(const char *path, size_t size) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  void *shared = ftruncate(file, size) ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) perror(path), abort();
  close(file);
  return shared;
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
    if (same(wrench, nothing)) {
      d->zero = d->set;
      d->count_at_zero = d->count;
    }
  }
  memcpy(d->wrench, wrench, sizeof d->wrench);
}

static const double axis[3] = {0.6, 0, 0.8}; /* about which the hand turns */

/* Add the motion of the hand to a field of a reading where it was put, and what is wrong with it. */
static void tell_field(const struct Base *d, int field, double *values) {
  const struct Wrong *wrong = &d->wrong[field];
  const double phase = d->pace * (now() - wrong->late), along = sin(phase), rate = d->pace * cos(phase);
  const double angle = d->turning * along, s = sin(angle), c = cos(angle);
  const double cross[3][3] = {{0, -axis[2], axis[1]}, {axis[2], 0, -axis[0]}, {-axis[1], axis[0], 0}};
  double put[9];
  int i, j, k, n = field == FRAME ? 9 : 3;
  memcpy(put, values, n * sizeof *put);
  for (i = 0; i < 3; i++) {
    if (field == POSITION) values[i] += d->sway[i] * along;
    if (field == LINEAR) values[i] += d->sway[i] * rate;
    if (field == ANGULAR) values[i] += d->turning * rate * axis[i];
    for (j = 0; field == FRAME && j < 3; j++)
      for (values[3 * i + j] = 0, k = 0; k < 3; k++) /* Rodrigues */
        values[3 * i + j] += ((i == k ? c : 0) + s * cross[i][k] + (1 - c) * axis[i] * axis[k]) * put[3 * k + j];
  }
  for (i = 0; i < n; i++) {
    values[i] *= 1 + wrong->gain;
    if (wrong->components >> i & 1) values[i] = wrong->value;
  }
}

void fake_move(int id, const double *sway, double turning, double pace) {
  memcpy(base(id)->sway, sway, sizeof base(id)->sway);
  base(id)->turning = turning;
  base(id)->pace = pace;
}

void fake_wrong(int id, int field, double gain, double late, int components, double value) {
  const struct Wrong wrong = {gain - 1, late, components, value};
  base(id)->wrong[field] = wrong;
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
  memset(base(id)->wrong, 0, sizeof base(id)->wrong);
}

void fake_echo(int id, double gain) { base(id)->echo = gain; }

/* wrench [7], then: force enabled, two numbers of `tell`, open, count, time of the last force, of the last reading, of zero
 * force, of the last change of the force [s], count when the force became zero */
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
  told[16] = d->count_at_zero;
}

const char *fake_misuse(void) { return misuse; }
