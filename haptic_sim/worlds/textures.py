"""Whether the textures of a world are stable at a rate."""

from __future__ import annotations

import math
from collections.abc import Iterator

from haptic_sim.worlds.world_setup import WorldSetup


def too_steep(world: WorldSetup, stiffness: float, period: float) -> Iterator[str]:
    """A sentence for each texture that makes contacts of free bodies too stiff for steps of this period [s].

    The potential 1/2 k s'^2 of a row has the Hessian k (f f^T - s' dd h), so that its stiffness is at most
    k (1 + g^2 + d c), with the largest slope g, the largest second derivative c, and an overlap -s' up to the height d
    of the texture. A step of the semi-implicit Euler method is stable up to 4 m / T^2, m the reduced mass of the two
    bodies. Slopes and heights are in proportion to the amplitude, which bounds it.

    Args:
        world: of which free bodies are considered, as if they did not turn.
        stiffness: of a contact, k [N/m].
        period: T [s].
    """
    free, shapes, refused = set(world.free_joints.tolist()), world.geometry.geometryObjects, set()
    for pair in world.geometry.collisionPairs:
        both = [shapes[pair.first], shapes[pair.second]]
        textures = {shape.name: world.textures[shape.name] for shape in both if shape.name in world.textures}
        moving = [shape.parentJoint for shape in both if shape.parentJoint]
        if not textures or not moving or not free.issuperset(moving):
            continue
        slope, curvature, depth = (
            sum(getattr(one, name) for one in textures.values())
            for name in ("largest_slope", "largest_curvature", "depth")
        )
        steep = slope * slope + depth * curvature
        most = 4.0 / (period * period * sum(1.0 / world.model.inertias[joint].mass for joint in moving))
        if stiffness * (1.0 + steep) <= most or not steep > 0.0:
            continue
        part = math.sqrt(max(0.0, most / stiffness - 1.0) / steep)
        for name, texture in textures.items():
            body = world.shape_bodies[world.geometry.getGeometryId(name)]
            if body not in refused:
                refused.add(body)
                would = f"must be at most {0.99 * part * texture.amplitude:.3g} m" if part > 0.0 else "too large"
                yield (
                    f"scene.bodies.{body}: texture.amplitude = {texture.amplitude:g} m: {would} for contact.stiffness "
                    f"= {stiffness:g} N/m at rate = {1.0 / period:g} Hz, with slopes up to {slope:.3g}; choose a "
                    "longer wavelength or larger pixels, a smaller stiffness, a heavier body or a higher rate"
                )
