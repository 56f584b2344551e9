"""Collision detection: broad phase, coal, and contact manifolds with identities that persist."""

from haptic_sim.geometry.collision.detector import CollisionDetector, Overlap

__all__ = ["CollisionDetector", "Overlap"]
