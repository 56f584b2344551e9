"""Contact clustering (THESIS 6.2.4): one contact for several that lie close together.

A shape in convex pieces has many contacts around a concavity, whose stiffnesses add up and make penalties unstable.
A cluster is a set of contacts of one pair of bodies, each of which is within a distance of all others (6.8). It becomes
one contact with the least separation (6.9) and the mean direction of the normals (6.10). The text leaves open:
 - the point: here the mean of the points, so that it moves little when another contact becomes the deepest;
 - weights of contacts, in which a rim has them: the means are weighted, and the cluster has their sum, but at most 1;
 - opposite normals, whose mean has no direction: here contacts of a cluster must also agree in direction;
 - the partition, as (6.8) allows several: here contacts are taken in the order of their identities, and each joins the
   first cluster that it fits. So the partition does not change when the world is turned, and the cluster has its first
   contact's identity and material.
"""

from __future__ import annotations

import math

from haptic_sim.geometry.collision.sink import free_place
from haptic_sim.kernels import kernel
from haptic_sim.vectors import along, length, triple

SAME_DIRECTION = math.cos(math.radians(30.0))  # between any two normals of a cluster


@kernel(error_model="numpy")
def merge_clusters(scene):
    """Fill `sink` with the clusters of the contacts in `found`; `scene`: `DetectorArrays`."""
    found, sink, body, reach = scene.found, scene.sink, scene.pairs.body, scene.cluster
    order, cluster = scene.order, scene.member
    count = found.used[0]
    sink.used[0] = sink.dropped[0] = 0
    for i in range(count):
        j = i
        while j > 0 and found.id[order[j - 1]] > found.id[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    clusters = 0
    for k in range(count):
        i = order[k]
        cluster[i] = clusters
        for c in range(clusters):
            fits = True
            for m in range(k):
                j = order[m]
                if cluster[j] == c and not _belong_together(found, body, i, j, reach):
                    fits = False
                    break
            if fits:
                cluster[i] = c
                break
        if cluster[i] == clusters:
            clusters += 1
    for c in range(clusters):
        first = -1
        weight = 0.0
        separation = math.inf
        n = (0.0, 0.0, 0.0)
        x = (0.0, 0.0, 0.0)
        for k in range(count):
            i = order[k]
            if cluster[i] == c:
                if first < 0:
                    first = i
                weight += found.weight[i]
                separation = min(separation, found.separation[i])
                x = along(x, found.weight[i], triple(found.point, i))
                n = along(n, found.weight[i], triple(found.normal, i))
        place = free_place(sink, separation)
        if place >= 0:
            size = length(n)
            sink.id[place], sink.pair[place], sink.separation[place] = found.id[first], found.pair[first], separation
            sink.weight[place] = min(weight, 1.0)
            for k in range(3):
                sink.point[place, k] = x[k] / weight
                sink.normal[place, k] = n[k] / size


@kernel(error_model="numpy")
def _belong_together(found, body, i, j, reach):
    """Whether two contacts may be of one cluster: same bodies, near each other (6.8), in about one direction."""
    a, b = found.pair[i], found.pair[j]
    if body[a, 0] != body[b, 0] or body[a, 1] != body[b, 1]:
        return False
    square = 0.0
    cosine = 0.0
    for k in range(3):
        d = found.point[i, k] - found.point[j, k]
        square += d * d
        cosine += found.normal[i, k] * found.normal[j, k]
    return square <= reach * reach and cosine >= SAME_DIRECTION
