/* Calls the functions of the stand-in for libHD in random order, in its servo thread too, with numbers that are right
 * or not. */
#include "hd.c"
#include <stdlib.h>

static double number(void) {
  static const double odd[] = {0, 1e-3, 3, 60, -1e300, INFINITY, NAN};
  return odd[rand() % 7];
}

static void call(void) {
  static const unsigned named[] = {0x2050, 0x2051, 0x2052, 0x2000, 0x2002, 0x2554, 0x2603, 0x2604, 0x2700, 0x2701, 0x4000};
  const unsigned what = rand() % 8 ? named[rand() % 11] : (unsigned)rand();
  const unsigned handle = rand() % 8 ? FIRST + rand() % DEVICES : (unsigned)rand();
  double values[16], given[3] = {number(), number(), number()};
  unsigned char flag;
  int whole;
  switch (rand() % 14) {
    case 0: hdMakeCurrentDevice(handle); break;
    case 1: hdEnable(what); break;
    case 2: hdDisable(what); break;
    case 3: hdBeginFrame(handle); break;
    case 4: hdEndFrame(handle); break;
    case 5: case 6: hdGetDoublev(what, values); break;
    case 7: hdGetIntegerv(what, &whole); break;
    case 8: hdGetBooleanv(what, &flag); break;
    case 9: case 10: hdSetDoublev(what, given); break;
    case 11: hdGetErrorString(hdGetError().code); break;
    case 12: hdGetString(what), hdCheckCalibration(), hdGetCurrentDevice(); break;
    default: fake_misuse();
  }
}

static unsigned tick(void *data) {
  int i;
  (void)data;
  for (i = 0; i < 20; i++) call();
  return rand() % 50 == 0 ? rand() % 3 : 1;
}

int main(void) {
  static const char *names[] = {NULL, "Default Device", "Left Device", "Right Device"};
  int i, k, n;
  for (i = 0; i < 40; i++) {
    fake_reset(1 + rand() % 2, 2.5e-4, 1);
    for (k = 0; k < 3; k++) hdInitDevice(names[rand() % 4]);
    for (k = 0; k < DEVICES; k++) {
      double position[3] = {number(), number(), number()}, frame[9], twist[6];
      for (n = 0; n < 9; n++) frame[n] = number();
      for (n = 0; n < 6; n++) twist[n] = number();
      fake_state(k, position, frame, twist, rand());
      fake_kind(k, rand() % 2, rand() % 2, rand() % 2);
      fake_move(k, position, number(), number());
      fake_wrong(k, rand() % FIELDS, number(), number(), rand() % 512, number());
      fake_fault(k, JUMP + rand() % (FAULTS - 1), number());
      fake_echo(k, number());
    }
    for (k = 0; k < 200; k++) call();
    for (k = 0; k < 5; k++) hdScheduleAsynchronous(tick, NULL, 0);
    hdSetSchedulerRate(rand() % 5000);
    hdStartScheduler();
    for (k = 0; k < 10; k++) {
      const struct timespec wait = {0, 1000000};
      double told[17];
      nanosleep(&wait, NULL);
      fake_told(rand() % DEVICES, told);
    }
    hdStopScheduler();
    hdUnschedule(rand() % 5);
    fake_back(rand() % DEVICES);
    hdDisableDevice(FIRST + rand() % DEVICES);
  }
  return 0;
}
