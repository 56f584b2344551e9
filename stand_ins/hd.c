/* A stand-in for the HDAPI of OpenHaptics (libHD), stricter than the real one.
 *
 * It has the functions that the driver calls, with types, constants and error codes as the vendor's hd.h and hdDefines.h and
 * public clients have them (iMSTK, OpenSurgSim, Geomagic_Touch_ROS_Drivers). Each call checks order, frames, threads and
 * units; the first misuse is kept as a text. A callback may not give up its processor: a voluntary context switch in it is
 * a misuse. It can be told not to know HD_OUTPUT_DOF.
 */
#include "fake.h"
#include <sys/resource.h>

#define FIRST 1000                /* handle of the first device: an index is no handle */
#define INVALID_HANDLE 0xFFFFFFFF /* HD_INVALID_HANDLE */
#define LARGEST_TORQUE 5000       /* [mN m] */

enum { INVALID_ENUM = 0x100, INVALID_VALUE = 0x101, INVALID_OPERATION = 0x102, BAD_HANDLE = 0x104, DEVICE_FAULT = 0x300,
       ALREADY_INITIATED = 0x301, COMM_ERROR = 0x302, ILLEGAL_BEGIN = 0x400, ILLEGAL_END = 0x401 };

typedef struct { unsigned code; int internal; unsigned handle; } Error; /* HDErrorInfo, returned by value */
typedef unsigned (*Callback)(void *);

typedef struct {
  struct Base;
  int old, in_frame, torques, calibrated, inkwell, buttons;
  double position[3], velocity[3], transform[16]; /* [mm], [mm/s], column-major */
  double framed[7];                               /* set in the frame [N, mN m], and nothing */
} Device;

static Device own[DEVICES], *devices = own;
static Callback callbacks[DEVICES + 1];
static void *data_of[DEVICES + 1];
static int running, scheduled;
static unsigned rate = 1000;
static pthread_t servo;
static __thread unsigned current = INVALID_HANDLE;
static __thread int in_servo, in_callback;
static Error errors[16];
static int pending;

static struct Base *base(int id) { return (struct Base *)&devices[id]; }

static void push(unsigned code, unsigned handle) {
  Error error = {code, 0, handle};
  pthread_mutex_lock(&lock);
  if (pending < 16) errors[pending++] = error;
  pthread_mutex_unlock(&lock);
}

static void fail(unsigned code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(format, arguments);
  va_end(arguments);
  push(code, current);
}

static Device *of(unsigned handle) {
  Device *d = handle >= FIRST && handle < FIRST + DEVICES ? &devices[handle - FIRST] : NULL;
  return d && d->open ? d : NULL;
}

static Device *framed(const char *name, unsigned what) {
  Device *d = of(current);
  if (!d) return fail(BAD_HANDLE, "%s(%#x): no current device", name, what), NULL;
  if (!d->in_frame) return fail(INVALID_OPERATION, "%s(%#x): outside a frame", name, what), NULL;
  return d;
}

/* The vendor's functions. */

unsigned hdInitDevice(const char *name) {
  int i = name && strcmp(name, "Default Device") ? (strcmp(name, "Left Device") ? -1 : 1) : 0;
  if (in_servo) fail(INVALID_OPERATION, "hdInitDevice: in the servo thread");
  if (running) fail(INVALID_OPERATION, "hdInitDevice: while the scheduler runs");
  if (i < 0 || i >= count || !devices[i].present) return push(DEVICE_FAULT, INVALID_HANDLE), INVALID_HANDLE;
  if (devices[i].open) return push(ALREADY_INITIATED, INVALID_HANDLE), INVALID_HANDLE;
  devices[i].open = 1;
  devices[i].force_on = 0;
  current = FIRST + i;
  return current;
}

void hdDisableDevice(unsigned handle) {
  Device *d = of(handle);
  if (!d) {
    fail(BAD_HANDLE, "hdDisableDevice(%#x): no such handle", handle);
    return;
  }
  if (running) fail(INVALID_OPERATION, "hdDisableDevice: while the scheduler runs");
  drive((struct Base *)d, nothing);
  d->open = 0;
}

unsigned hdGetCurrentDevice(void) { return current; }

void hdMakeCurrentDevice(unsigned handle) {
  if (!of(handle)) fail(BAD_HANDLE, "hdMakeCurrentDevice(%#x): no such handle", handle);
  current = handle;
}

void hdEnable(unsigned capability) {
  Device *d = of(current);
  if (!d) fail(BAD_HANDLE, "hdEnable(%#x): no current device", capability);
  else if (capability == 0x4000) d->force_on = 1;
}

void hdDisable(unsigned capability) {
  Device *d = of(current);
  if (!d) fail(BAD_HANDLE, "hdDisable(%#x): no current device", capability);
  else if (capability == 0x4000) {
    d->force_on = 0;
    drive((struct Base *)d, nothing);
  }
}

void hdBeginFrame(unsigned handle) {
  Device *d = of(handle);
  if (!d) return fail(BAD_HANDLE, "hdBeginFrame(%#x): no such handle", handle);
  if (!in_servo) return fail(ILLEGAL_BEGIN, "hdBeginFrame: not in the servo thread");
  if (d->in_frame) return fail(ILLEGAL_BEGIN, "hdBeginFrame: in a frame");
  current = handle;
  d->in_frame = 1;
  d->read = now();
  d->count++;
  memset(d->framed, 0, sizeof d->framed);
  if (d->echo != 0) d->position[2] = d->echo * d->wrench[2];
  if (!d->present || d->faults[MUTE] > 0) push(d->present ? DEVICE_FAULT : COMM_ERROR, handle);
}

void hdEndFrame(unsigned handle) {
  Device *d = of(handle);
  if (!d) return fail(BAD_HANDLE, "hdEndFrame(%#x): no such handle", handle);
  if (!d->in_frame) return fail(ILLEGAL_END, "hdEndFrame: without hdBeginFrame");
  d->in_frame = 0;
  if (d->force_on && d->present) drive((struct Base *)d, d->framed);
}

void hdGetDoublev(unsigned what, double *values) {
  Device *d;
  double frame[9];
  int i;
  if (what == 0x2603 || what == 0x2604) { /* HD_NOMINAL_MAX_FORCE, _CONTINUOUS_FORCE [N] */
    if (!of(current)) fail(BAD_HANDLE, "hdGetDoublev(%#x): no current device", what);
    else *values = what == 0x2603 ? 3.3 : 0.88;
    return;
  }
  if (what != 0x2050 && what != 0x2051 && what != 0x2052) return push(INVALID_ENUM, current);
  if (!(d = framed("hdGetDoublev", what))) return;
  if (what == 0x2050) {
    memcpy(values, d->position, sizeof d->position);
    tell_field((struct Base *)d, POSITION, values);
  }
  if (what == 0x2051) {
    memcpy(values, d->velocity, sizeof d->velocity);
    tell_field((struct Base *)d, LINEAR, values);
  }
  if (what == 0x2052) {
    memcpy(values, d->transform, sizeof d->transform);
    for (i = 0; i < 9; i++) frame[i] = d->transform[4 * (i % 3) + i / 3];
    tell_field((struct Base *)d, FRAME, frame);
    for (i = 0; i < 9; i++) values[4 * (i % 3) + i / 3] = frame[i];
    memcpy(values + 12, d->position, sizeof d->position);
    tell_field((struct Base *)d, POSITION, values + 12);
    values[12] += d->faults[JUMP];
    if (d->faults[NOT_FINITE] > 0) {
      d->faults[NOT_FINITE] -= 1;
      values[13] = NAN;
    }
  }
}

void hdGetIntegerv(unsigned what, int *value) {
  Device *d;
  if (what == 0x2554) { /* HD_OUTPUT_DOF */
    if (!(d = of(current)) || d->old) return push(INVALID_ENUM, current);
    *value = d->torques ? 6 : 3;
    return;
  }
  if (what != 0x2000) return push(INVALID_ENUM, current);
  if ((d = framed("hdGetIntegerv", what))) *value = d->buttons;
}

void hdGetBooleanv(unsigned what, unsigned char *value) {
  Device *d;
  if (what != 0x2002) return push(INVALID_ENUM, current);
  if ((d = framed("hdGetBooleanv", what))) *value = d->inkwell;
}

void hdSetDoublev(unsigned what, const double *values) {
  Device *d = framed("hdSetDoublev", what);
  int i, first = what == 0x2700 ? 0 : 3;
  if (!d) return;
  if (what != 0x2700 && what != 0x2701) return push(INVALID_ENUM, current);
  if (first && !d->torques) return fail(INVALID_ENUM, "hdSetDoublev(HD_CURRENT_TORQUE): the device has no torques");
  for (i = 0; i < 3; i++) {
    if (!isfinite(values[i])) return fail(INVALID_VALUE, "hdSetDoublev(%#x): direction %d is not finite", what, i);
    if (values[i] != 0 && !d->force_on)
      return fail(INVALID_OPERATION, "hdSetDoublev(%#x): before hdEnable(HD_FORCE_OUTPUT)", what);
    if (fabs(values[i]) > (first ? LARGEST_TORQUE : LARGEST_FORCE))
      return fail(INVALID_VALUE, "hdSetDoublev(%#x): %g is not in %s", what, values[i], first ? "mN m" : "N");
  }
  memcpy(d->framed + first, values, 3 * sizeof *values);
}

Error hdGetError(void) {
  Error none = {0, 0, INVALID_HANDLE}, error = none;
  pthread_mutex_lock(&lock);
  if (pending) error = errors[--pending];
  pthread_mutex_unlock(&lock);
  return error;
}

const char *hdGetErrorString(unsigned code) {
  return code == DEVICE_FAULT ? "Device fault" : code == COMM_ERROR ? "Communication error" : "Error";
}

const char *hdGetString(unsigned what) { return what == 0x2501 ? "stand-in for Touch" : ""; }

unsigned hdCheckCalibration(void) {
  Device *d = of(current);
  return d && d->calibrated ? 0x5000 : 0x5001; /* HD_CALIBRATION_OK, _NEEDS_UPDATE */
}

static void *serve(void *none) {
  double next = now();
  int i, again, device;
  in_servo = 1;
  while (running) {
    double late = 0;
    for (device = 0; device < DEVICES; device++) {
      if (devices[device].faults[LATE] > late) late = devices[device].faults[LATE];
      devices[device].faults[LATE] = 0;
    }
    next += 1.0 / rate + late;
    for (again = 0; again < 2; again++) {
      if (again && devices[0].faults[TWICE] <= 0) break;
      if (again) devices[0].faults[TWICE] -= 1;
      for (i = 0; i <= DEVICES; i++) {
        struct rusage before, after;
        unsigned result;
        if (!callbacks[i]) continue;
        current = INVALID_HANDLE;
        getrusage(RUSAGE_THREAD, &before);
        in_callback = 1;
        result = callbacks[i](data_of[i]);
        in_callback = 0;
        getrusage(RUSAGE_THREAD, &after);
        if (after.ru_nvcsw != before.ru_nvcsw) fail(INVALID_OPERATION, "a callback blocked");
        for (device = 0; device < DEVICES; device++)
          if (devices[device].in_frame) fail(ILLEGAL_BEGIN, "a callback returned within a frame");
        if (result == 0) callbacks[i] = NULL; /* HD_CALLBACK_DONE */
        else if (result != 1) fail(INVALID_VALUE, "a callback returned %u: neither DONE nor CONTINUE", result);
      }
    }
    {
      struct timespec t = {(time_t)next, (long)(1e9 * (next - (time_t)next))};
      if (next < now()) next = now();
      else clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
  }
  return none;
}

void hdStartScheduler(void) {
  if (running) return fail(INVALID_OPERATION, "hdStartScheduler: runs already");
  if (!devices[0].open && !devices[1].open) fail(INVALID_OPERATION, "hdStartScheduler: before hdInitDevice");
  running = 1;
  pthread_create(&servo, NULL, serve, NULL);
}

void hdStopScheduler(void) {
  if (in_servo) return fail(INVALID_OPERATION, "hdStopScheduler: in the servo thread");
  if (!running) return;
  running = 0;
  pthread_join(servo, NULL);
  drive(base(0), nothing); /* without frames there is no force */
  drive(base(1), nothing);
}

void hdSetSchedulerRate(unsigned long hertz) {
  if (hertz < 100 || hertz > 4000) fail(INVALID_VALUE, "hdSetSchedulerRate(%lu)", hertz);
  else rate = hertz;
}

unsigned long hdScheduleAsynchronous(Callback callback, void *data, unsigned short priority) {
  int i;
  (void)priority;
  for (i = 0; i <= DEVICES; i++)
    if (!callbacks[i]) {
      data_of[i] = data;
      callbacks[i] = callback;
      scheduled++;
      return i + 1;
    }
  push(0x501, current); /* HD_SCHEDULER_FULL */
  return 0;
}

void hdUnschedule(unsigned long handle) {
  if (handle < 1 || handle > DEVICES + 1) return fail(INVALID_VALUE, "hdUnschedule(%lu): no such handle", handle);
  callbacks[handle - 1] = NULL;
}

/* What steers it. */

void fake_reset(int devices_now, double period_now, double unused) {
  int i, j;
  (void)unused;
  hdStopScheduler();
  memset(devices, 0, sizeof own);
  memset(callbacks, 0, sizeof callbacks);
  count = devices_now;
  rate = period_now > 0 ? (unsigned)(1 / period_now + 0.5) : 1000;
  misuse[0] = 0;
  pending = 0;
  for (i = 0; i < DEVICES; i++) {
    devices[i].present = devices[i].torques = devices[i].calibrated = 1;
    for (j = 0; j < 16; j += 5) devices[i].transform[j] = 1;
  }
}

/* position [mm], rotation (3, 3), velocity [mm/s] and three values that are not used, as that of dhd.c */
void fake_state(int id, const double *position, const double *frame, const double *twist, unsigned buttons) {
  Device *d = &devices[id];
  int row, column;
  memcpy(d->position, position, sizeof d->position);
  memcpy(d->velocity, twist, sizeof d->velocity);
  for (row = 0; row < 3; row++)
    for (column = 0; column < 3; column++) d->transform[4 * column + row] = frame[3 * row + column];
  d->buttons = buttons & 0xff;
  d->inkwell = buttons >> 8 & 1;
}

void fake_kind(int id, int knows, int torques, int calibrated) {
  devices[id].old = !knows;
  devices[id].torques = torques;
  devices[id].calibrated = calibrated;
}

void fake_share(const char *path) { devices = share(path, sizeof own); }

static void tell(int id, double *told) {
  (void)id;
  (void)told;
}
