/* A stand-in for Force Dimension's library (libdhd), stricter than the real one.
 *
 * It has the functions of the SDK 3 that the driver calls, with their types and return values as the vendor's dhdc.h and
 * drdc.h and public clients have them (forcedimension_core, forcedimension_ros2, sawForceDimensionSDK, CHAI3D). Each call checks order, units and threads;
 * the first misuse is kept as a text. It is libdrd, which contains libdhd; with -DALONE it is libdhd, which cannot home. With
 * -DOLD it is a library before 3.3.2, which has no watchdog.
 */
#include "fake.h"

#define TIMEGUARD 1       /* DHD_TIMEGUARD: an old position was returned, because the last is too recent */
#define SATURATED 2       /* DHD_MOTOR_SATURATED */
#define LARGEST_TORQUE 5  /* [N m] */

typedef struct {
  struct Base;
  int reads, watchdog_us, tripped;
  int wrist, active_wrist, gripper, homed;
  int of_drd; /* opened by drdOpenID */
  volatile int moves, regulates, stops; /* within drdAutoInit; after it, until drdStop; drdStop was called */
  double position[3], frame[3][3], linear[3], angular[3];
  unsigned buttons;
  atomic_int inside;
  pthread_t thread;
  int has_thread;
} Device;

static Device own[DEVICES], *devices = own;
static double period = 0.00025; /* [s] of the USB: a position blocks until that has passed, as the real one does */
static double trip = 1.0;       /* factor of the watchdog's time: a machine with other work is no misuse */
static double homing = 0.02;    /* [s] that it takes */
static char error[200] = "no error";

static struct Base *base(int id) { return (struct Base *)&devices[id]; }

static void pause_for(double seconds) {
  struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (time_t)seconds))};
  if (seconds > 0) nanosleep(&t, NULL);
}

static int fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(format, arguments);
  va_end(arguments);
  snprintf(error, sizeof error, "invalid operation");
  return -1;
}

static void release(Device *d) {
  const double set = d->set;
  drive((struct Base *)d, nothing);
  d->set = set; /* nobody has set it */
}

/* The firmware: without a force for the watchdog's time it switches the force off. */
static void watch(Device *d) {
  if (d->force_on && d->watchdog_us && now() - d->set > trip * 1e-6 * d->watchdog_us) {
    d->force_on = 0;
    d->tripped++;
    release(d);
    d->zero = d->set + trip * 1e-6 * d->watchdog_us;
  }
}

static Device *enter(int id, const char *name) {
  Device *d;
  if (id < 0 || id >= DEVICES) return fail("%s(%d): no such device; name the device, -1 is whichever was opened last", name, id), NULL;
  d = &devices[id];
  if (!d->open) return fail("%s(%d): the device is not open", name, id), NULL;
  if (atomic_exchange(&d->inside, 1)) {
    fail("%s(%d): called while another thread is in a call for this device", name, id);
    return NULL;
  }
  watch(d);
  return d;
}

static int leave(Device *d, int result) {
  atomic_store(&d->inside, 0);
  return result;
}

static int lost(Device *d) {
  if (d->present) return 0;
  d->force_on = 0; /* motors without a cable have no force */
  release(d);
  snprintf(error, sizeof error, "communication error");
  return 1;
}

/* The vendor's functions. */

int dhdGetDeviceCount(void) {
  int i, n = 0;
  for (i = 0; i < count; i++) n += devices[i].present;
  return n;
}

#ifndef OLD
int dhdGetSerialNumber(unsigned short *number, char id) {
  Device *d = enter(id, "dhdGetSerialNumber");
  if (!d) return -1;
  *number = 1234;
  return leave(d, 0);
}
#endif

int dhdOpenID(char index) {
  Device *d;
  if (index < 0 || index >= count || !devices[(int)index].present) {
    snprintf(error, sizeof error, "no device found");
    return -1;
  }
  d = &devices[(int)index];
  if (d->open) return fail("dhdOpenID(%d): is open already", index);
  d->open = 1;
  d->reads = d->force_on = d->watchdog_us = d->tripped = 0;
  d->has_thread = 0;
  atomic_store(&d->inside, 0);
  d->of_drd = d->moves = d->regulates = d->stops = 0;
  return index;
}

int dhdClose(char id) {
  Device *d = enter(id, "dhdClose");
  int i;
  if (!d) return -1;
  if (d->regulates) fail("dhdClose(%d): while it regulates: drdStop comes first", id);
  for (i = 0; i < 7; i++)
    if (d->force_on && d->wrench[i] != 0) fail("dhdClose(%d): with a force of %g in direction %d", id, d->wrench[i], i);
  if (d->force_on) fail("dhdClose(%d): force is enabled: dhdStop comes first", id);
  release(d);
  d->open = 0;
  return leave(d, 0);
}

int dhdStop(char id) {
  Device *d = enter(id, "dhdStop");
  if (!d) return -1;
  release(d);
  d->force_on = 0;
  if (lost(d)) return leave(d, -1);
  return leave(d, 0);
}

int dhdEnableForce(unsigned char on, char id) {
  Device *d = enter(id, "dhdEnableForce");
  if (!d) return -1;
  if (lost(d)) return leave(d, -1);
#ifndef OLD
  if (on && !d->watchdog_us) fail("dhdEnableForce(%d): without dhdSetWatchdog", id);
#endif
  if (on) d->set = now();
  else release(d);
  d->force_on = on != 0;
  return leave(d, 0);
}

#ifndef OLD
int dhdSetWatchdog(unsigned char value, char id) {
  Device *d = enter(id, "dhdSetWatchdog");
  if (!d) return -1;
  if (!value) fail("dhdSetWatchdog(0, %d): switches the watchdog off", id);
  d->watchdog_us = 125 * value;
  d->set = now();
  return leave(d, 0);
}
#endif

int dhdSetGravityCompensation(int on, char id) {
  Device *d = enter(id, "dhdSetGravityCompensation");
  (void)on;
  return d ? leave(d, 0) : -1;
}

int dhdHasWrist(char id) { return id >= 0 && id < DEVICES && devices[(int)id].wrist; }
int dhdHasActiveWrist(char id) { return id >= 0 && id < DEVICES && devices[(int)id].active_wrist; }
int dhdHasGripper(char id) { return id >= 0 && id < DEVICES && devices[(int)id].gripper; }
int dhdHasActiveGripper(char id) { return dhdHasGripper(id); }
const char *dhdGetSystemName(char id) { return id >= 0 && id < DEVICES ? "stand-in for sigma.7" : NULL; }

int dhdGetStatus(int status[17], char id) { /* DHD_STATUS_POWER 0, CONNECTED 1, STARTED 2, RESET 3, FORCE 5 */
  Device *d = enter(id, "dhdGetStatus");
  if (!d) return -1;
  if (lost(d)) return leave(d, -1);
  memset(status, 0, 17 * sizeof *status);
  status[0] = status[1] = status[2] = 1;
  status[3] = d->homed;
  status[5] = d->force_on;
  return leave(d, 0);
}

const char *dhdErrorGetLastStr(void) { return error; }

int dhdGetPositionAndOrientationFrame(double *x, double *y, double *z, double frame[3][3], char id) {
  Device *d = enter(id, "dhdGetPositionAndOrientationFrame");
  double *p[3] = {x, y, z}, place[3], early;
  int i, result = 0;
  if (!d) return -1;
  if (d->has_thread && !pthread_equal(d->thread, pthread_self())) fail("dhdGetPosition...(%d): from a second thread", id);
  d->thread = pthread_self();
  d->has_thread = 1;
  if (d->faults[LATE] > 0) {
    pause_for(d->faults[LATE]);
    d->faults[LATE] = 0;
    watch(d);
  }
  if (d->faults[MUTE] > 0) {
    snprintf(error, sizeof error, "communication error");
    return leave(d, -1);
  }
  if (lost(d)) return leave(d, -1);
  early = d->read + period - now();
  if (early > 0) pause_for(early);
  d->read = now();
  d->reads++;
  if (d->faults[TWICE] > 0) {
    d->faults[TWICE] -= 1;
    result = TIMEGUARD;
  }
  if (d->echo != 0) d->position[0] = d->echo * d->wrench[0];
  memcpy(place, d->position, sizeof place);
  memcpy(frame, d->frame, sizeof d->frame);
  tell_field((struct Base *)d, POSITION, place);
  tell_field((struct Base *)d, FRAME, frame[0]);
  for (i = 0; i < 3; i++) *p[i] = place[i];
  *x += d->faults[JUMP];
  if (d->faults[NOT_FINITE] > 0) {
    d->faults[NOT_FINITE] -= 1;
    *y = NAN;
  }
  return leave(d, result);
}

static int velocity(double *x, double *y, double *z, int id, const char *name, int angular) {
  Device *d = enter(id, name);
  double told[3];
  if (!d) return -1;
  if (lost(d)) return leave(d, -1);
  if (d->reads < 2) {
    snprintf(error, sizeof error, "timeout");
    fail("%s(%d): after %d readings of the position; the estimator needs 2", name, id, d->reads);
    return leave(d, -1);
  }
  if (angular && !d->wrist) return fail("%s(%d): the device has no wrist", name, id), leave(d, -1);
  memcpy(told, angular ? d->angular : d->linear, sizeof told);
  tell_field((struct Base *)d, angular ? ANGULAR : LINEAR, told);
  *x = told[0];
  *y = told[1];
  *z = told[2];
  return leave(d, 0);
}

int dhdGetLinearVelocity(double *x, double *y, double *z, char id) {
  return velocity(x, y, z, id, "dhdGetLinearVelocity", 0);
}

int dhdGetAngularVelocityRad(double *x, double *y, double *z, char id) {
  return velocity(x, y, z, id, "dhdGetAngularVelocityRad", 1);
}

unsigned dhdGetButtonMask(char id) {
  Device *d = enter(id, "dhdGetButtonMask");
  unsigned buttons;
  if (!d) return 0;
  buttons = d->buttons;
  leave(d, 0);
  return buttons;
}

int dhdSetForceAndTorqueAndGripperForce(double fx, double fy, double fz, double tx, double ty, double tz, double fg,
                                        char id) {
  const double w[7] = {fx, fy, fz, tx, ty, tz, fg};
  Device *d = enter(id, "dhdSetForce...");
  int i;
  if (!d) return -1;
  if (lost(d)) return leave(d, -1);
  if (d->regulates) fail("dhdSetForce...(%d): while it regulates: drdStop comes first", id);
  for (i = 0; i < 7; i++) {
    if (!isfinite(w[i])) return fail("dhdSetForce...(%d): direction %d is not finite", id, i), leave(d, -1);
    if (fabs(w[i]) > (i < 3 || i == 6 ? LARGEST_FORCE : LARGEST_TORQUE))
      return fail("dhdSetForce...(%d): %g in direction %d is not in N or N m", id, w[i], i), leave(d, -1);
  }
  if (!same(w, nothing) && !d->force_on && !d->tripped) {
    fail("dhdSetForce...(%d): before dhdEnableForce", id);
    return leave(d, -1);
  }
  drive((struct Base *)d, d->force_on ? w : nothing);
  d->count++;
  return leave(d, 0);
}

#ifndef ALONE
int drdOpenID(char index) {
  const int id = dhdOpenID(index);
  if (id >= 0) devices[id].of_drd = 1;
  return id;
}

int drdClose(char id) { return dhdClose(id); }

/* As if those with a wrist were. */
bool drdIsSupported(char id) { return id >= 0 && id < DEVICES && devices[(int)id].wrist; }

/* Moves to the end stops, and goes on regulating until drdStop. */
int drdAutoInit(char id) {
  Device *d = enter(id, "drdAutoInit");
  const double end = now() + homing;
  int done = 0;
  if (!d) return -1;
  if (!d->of_drd) fail("drdAutoInit(%d): opened by dhdOpenID: drdOpenID comes first", id);
  if (d->force_on) fail("drdAutoInit(%d): with dhdEnableForce: dhdStop comes first", id);
  if (d->has_thread && !pthread_equal(d->thread, pthread_self())) fail("drdAutoInit(%d): from a second thread", id);
  d->stops = 0;
  d->moves = d->regulates = 1;
  while (!done && !d->stops && d->present) {
    pause_for(0.001);
    done = now() >= end;
  }
  d->moves = 0;
  d->reads = 0;
  if (d->stops || lost(d)) {
    if (d->stops) snprintf(error, sizeof error, "operation interrupted");
    return leave(d, -1);
  }
  d->homed = 1;
  return leave(d, 0);
}

/* Of any thread: the regulation is in one of the library's. */
int drdStop(bool force, char id) {
  Device *d = id >= 0 && id < DEVICES ? &devices[(int)id] : NULL;
  if (!d || !d->open) return fail("drdStop(%d): the device is not open", id);
  if (force) fail("drdStop(true, %d): leaves forces on", id);
  d->stops = 1;
  d->regulates = 0;
  return 0;
}
#endif

/* What steers it. */

void fake_reset(int devices_now, double period_now, double trip_now) {
  int i, j;
  memset(devices, 0, sizeof own);
  count = devices_now;
  period = period_now;
  trip = trip_now;
  homing = 0.02;
  misuse[0] = 0;
  for (i = 0; i < DEVICES; i++) {
    devices[i].present = devices[i].wrist = devices[i].active_wrist = devices[i].gripper = devices[i].homed = 1;
    for (j = 0; j < 3; j++) devices[i].frame[j][j] = 1;
  }
}

void fake_state(int id, const double *position, const double *frame, const double *twist, unsigned buttons) {
  Device *d = &devices[id];
  memcpy(d->position, position, sizeof d->position);
  memcpy(d->frame, frame, sizeof d->frame);
  memcpy(d->linear, twist, sizeof d->linear);
  memcpy(d->angular, twist + 3, sizeof d->angular);
  d->buttons = buttons;
}

void fake_kind(int id, int wrist, int active, int homed) {
  devices[id].wrist = wrist;
  devices[id].homed = homed;
  devices[id].active_wrist = active;
}

void fake_share(const char *path) { devices = share(path, sizeof own); }

void fake_homing(double seconds) { homing = seconds; }

int fake_moves(int id) { return devices[id].moves; }

static void tell(int id, double *told) { /* the watchdog's time [s], and how often it switched off */
  watch(&devices[id]);
  told[8] = 1e-6 * devices[id].watchdog_us;
  told[9] = devices[id].tripped;
}
