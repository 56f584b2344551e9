"""Collision detection: broad phase, coal, and contact manifolds with identities that persist."""


