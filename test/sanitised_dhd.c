/* Calls the functions of the stand-in for libdhd in random order, with numbers that are right or not. */
#include "dhd.c"
#include <stdlib.h>

static double number(void) {
  static const double odd[] = {0, 1e-3, 3, 60, -1e300, INFINITY, NAN};
  return odd[rand() % 7];
}

int main(void) {
  double x, y, z, frame[3][3], told[17];
  int status[17], i, k;
  fake_reset(2, 0, 1);
  fake_homing(0.001);
  for (i = 0; i < 20000; i++) {
    const char id = rand() % 8 == 0 ? rand() % 256 : rand() % DEVICES;
    const int device = rand() % DEVICES;
    double position[3], twist[6];
    for (k = 0; k < 3; k++) position[k] = number();
    for (k = 0; k < 6; k++) twist[k] = number();
    switch (rand() % 26) {
      case 0: drdOpenID(id); break;
      case 1: dhdOpenID(id); break;
      case 2: dhdClose(id); break;
      case 3: dhdStop(id); break;
      case 4: dhdEnableForce(rand() % 2, id); break;
      case 5: dhdSetWatchdog(rand() % 256, id); break;
      case 6: dhdSetGravityCompensation(rand() % 2, id); break;
      case 7: dhdHasWrist(id), dhdHasActiveWrist(id), dhdHasGripper(id), dhdGetSystemName(id); break;
      case 8: dhdGetStatus(status, id); break;
      case 9: case 10: dhdGetPositionAndOrientationFrame(&x, &y, &z, frame, id); break;
      case 11: dhdGetLinearVelocity(&x, &y, &z, id); break;
      case 12: dhdGetAngularVelocityRad(&x, &y, &z, id); break;
      case 13: dhdGetButtonMask(id); break;
      case 14: case 15:
        dhdSetForceAndTorqueAndGripperForce(number(), number(), 0, 0, number(), 0, number(), id);
        break;
      case 16: if (rand() % 40 == 0) drdAutoInit(id); break;
      case 17: drdStop(rand() % 2, id); break;
      case 18: fake_state(device, position, frame[0], twist, rand()); break;
      case 19: fake_kind(device, rand() % 2, rand() % 2, rand() % 2); break;
      case 20: fake_fault(device, JUMP + rand() % (FAULTS - 1), number()); break;
      case 21: fake_back(device); break;
      case 22: fake_move(device, position, number(), number()); break;
      case 23: fake_wrong(device, rand() % FIELDS, number(), number(), rand() % 512, number()); break;
      case 24: fake_echo(device, number()); break;
      default: fake_told(device, told), fake_misuse(), dhdErrorGetLastStr(), dhdGetDeviceCount();
    }
  }
  return 0;
}
