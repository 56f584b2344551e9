"""Stand-ins for the controllers of robot arms, written from the published sources of each; not installed.

Behind every one is the same robot: a rigid body at the end of no particular arm, that a wall pushes back. Each keeps
to the names, types, QoS, frames, time limits and signs of one published controller, refuses what that one refuses and
counts it; file and line of the source stand beside each rule. The versions that were read:

| source | commit |
| --- | --- |
| fzi-forschungszentrum-informatik/cartesian_controllers, branch ros2 | f53f798 (2024-10-20) |
| utiasDSL/crisp_controllers | 8093548 (2025-08-19) |
| moveit/moveit2 | 8fcb5d2 (2026-08-19) |
| ros-controls/ros2_controllers | 94e74de (2026-08-18) |
| jhu-cisst/cisst-ros | 73aca61 (2026-02-22) |
| jhu-dvrk/sawIntuitiveResearchKit | ab54da2 (2025) |
| collaborative-robotics/documentation | df103a4 (2024-09-17) |
| collaborative-robotics/crtk_python_client | 33b4c38 (2026-06-01) |
| jhu-saw/sawUniversalRobot | aedf3ae |

Each is a program: `python -m stand_ins.robots.fzi --ros-args -p robot_base_link:=base_link`. At SIGINT it prints what
it counted and where the body is, as a line of JSON.
"""
