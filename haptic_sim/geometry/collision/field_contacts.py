"""Contacts of shapes with fields: the points of one shape's shell in the signed distances of the other.

Of two shapes with fields, each one's shell is taken against the other's distances: points of one alone would pass by
the sharp features of the other. Spheres, capsules and half-spaces have their distances in closed form.

**One row a cell.** With the distances s_i of the points x_i of a cell and their gradients n_i, the separation s of the
row is the smooth minimum, with t = s + delta/2 and delta the accuracy of the field,
    sum_i max(0, t - s_i)^2 = delta^2,
which is within delta/2 of the least s_i. Its derivative with the pose is
    ds = sum_i p_i ds_i,   p_i = max(0, t - s_i) / sum_j max(0, t - s_j),
so that a spring 1/2 k s^2 has the force -k s f, f = sum p_i n_i, and the moment -k s sum p_i x_i x n_i:
the row has the normal f / |f| and its point on the axis of this wrench. What is missing of the exact wrench of a
spring is 1 - |f| and the moment along f, both of second order in the angle between the normals of a cell. Separation,
normal and point are continuous in the pose, as points enter with p_i = 0, rows enter at the margin, and cells are fixed
to the body: contacts neither merge nor split, and the identity of a row is that of its cell. (THESIS 6.8 to 6.10 merges
contacts by their present positions: there clusters change, and normals and points with them.)

**Where the gradient is small**, in the middle of a thin part, the shell's own normal takes its place:
n_i = g + max(0, 1 - |g|) m, with the gradient g and the normal m into the shell's body. Where normals cancel, the
weight of the row vanishes with |f|.

**Thin parts and fast motion.** A point that enters the body is *held* from there on: the nearest point of the surface
and the normal there are remembered, and follow the point as long as the gradient agrees with the normal. Beyond the
middle of a thin part, and behind it, the gradient points the other way; then the depth is measured to the plane that is
remembered, until the point is in front of it or nothing lies between (as the god-object of Zilles and Salisbury, 1995).
Where a point enters is found along its path of the step by sphere tracing, where something can be between: so a part
that a point passes within one step holds it, too. Nothing is, where the distances at both ends add up to more than the
path, or where the path is shorter than the spacing of samples, below which a field has no parts, and the normal stays.
Beyond HELD points of a shell the nearest surface counts.

**Textures.** The points x_i of the shell S are at the heights h_S(x_i) of its texture, which do not change, and the
surface of the other shape F is where its distance is the height h_F of its texture:
    s_i' = s_i(x_i) - h_F(x_i) - h_S(x_i),   n_i' = n_i - grad h_F(x_i)
take the places of s_i and n_i. The height is a function of the point itself, not of the nearest point of the surface,
whose motion would need the curvature of the field; so ds_i' is exact, and the two differ by the slope along the normal
times the overlap. With f = sum p_i n_i' and f0 = sum p_i n_i, the row has the separation s |f0| / |f| and the weight
|f|^2 / |f0|^2: its spring has the energy 1/2 k s^2 and the force -k s f / |f0|, without textures that of above.
Textures are engraved (h <= 0): s_i' >= s_i, and what is too far away without them is so with them. As grad h_F may be
along the normal, slopes must be at most MOST_SLOPE: s' falls with s on each line into the shape.

**Bounded work.** The leaves of a cell are those of a binary tree. With M the path along which the points of a node can
have moved in the field since the start (that of the shell's centre, and the angle times their largest distance from
there), a node that was found a distance d away has no point within a distance r before M has grown by d - r. So nodes
keep M + d, and only those are visited of which this is less than M + r; of the points of a leaf, too. The ball
of a set of leaves that is farther away than its own size says so of all of them: without contact the work depends on
the clearance, and not on the number of points. A set that was near is not tested again before the points have moved so
far that the test can have another result. A tick visits the points of at most `budget` leaves, those first that can
touch first; `omitted` counts the others. The first tick, and the one after `forget`, visits all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from haptic_sim.geometry.collision.broad_phase import sort_by
from haptic_sim.geometry.collision.features import CAPSULE, FACE, FEATURES, FIELD, HALFSPACE, SPHERE, VERTEX
from haptic_sim.geometry.collision.narrow_phase import PLACEMENT
from haptic_sim.geometry.collision.sink import Query, put
from haptic_sim.geometry.collision.textured import height_at
from haptic_sim.geometry.fields.distances import LANES, ROWS, distance_at, distances_at
from haptic_sim.geometry.fields.field import Fields, SolidField, gather
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, part, record, shared, value
from haptic_sim.vectors import act, along, corner, cross, dot, length, minus, times, triple, turn

BUDGET = 4096  # leaves that a tick visits of one shell
STEEPEST = 1.25  # slope of a sampled distance along a path, at most
FLAT = 1e-3  # length of a sum of normals below which it has no direction
FADING = 2.0  # times such a sum is the weight of its row, up to 1
HELD = 512  # points of a shell that are held at most
AGREE = 0.9  # cosine between the gradient at a point and the normal where it has entered, up to which this follows
SHORT = 0.25  # spacings of samples: a path along which nothing is passed
TRACE = 64  # steps along a path
EARLY = 0.25  # radii of a set that is not near: with less of clearance its parts last longer
MOST_SLOPE = 0.9  # slope of a texture, at most
DEEPEST = 64  # nodes of a path through a tree of halves of halves at most


@record
class Held(NamedTuple):
    """State of the contacts by fields, of each shell in the field of another shape: what the next tick depends on."""

    placed: np.ndarray = array("whether there was a tick before", 1, dtype=np.bool_)
    placement: np.ndarray = array("poses of all shapes in that tick", "placed_shapes", PLACEMENT)
    known: np.ndarray = array("whether the side has been searched", "sides", dtype=np.bool_)
    pose: np.ndarray = array("pose of the shell in the field when it was searched", "sides", 12)
    used: np.ndarray = array("number of points that are held", "sides", dtype=np.int64)
    number: np.ndarray = array("numbers of these points, ascending", "sides", HELD, dtype=np.int64)
    entry: np.ndarray = array("where each has entered, in the axes of the field", "sides", HELD, 3, unit="m")
    outward: np.ndarray = array("normal of the surface there", "sides", HELD, 3)


@record
class FieldMemory(NamedTuple):
    """Fields of shapes, and what is kept of each shell in the field of another shape."""

    fields: Fields = value("fields")
    of_shape: np.ndarray = shared("number of the field of each shape, -1: none", "shapes", dtype=np.int64)
    first: np.ndarray = shared("first side of each pair: its number of sides before", "pairs + 1", dtype=np.int64)
    shell: np.ndarray = shared("shape whose shell is taken, of each side", "sides", dtype=np.int64)
    base: np.ndarray = shared("shape whose distances are taken", "sides", dtype=np.int64)
    first_node: np.ndarray = shared("where the nodes of a side begin in `node_due`", "sides", dtype=np.int64)
    first_point: np.ndarray = shared("where the points of a side begin in `point_due`", "sides", dtype=np.int64)
    budget: int = value("leaves that a tick visits of a side at most")
    fresh: np.ndarray = array("whether nothing has been searched yet", 1, dtype=np.bool_, fill=True)
    held: Held = part(Held, "points that have entered")
    new_count: np.ndarray = array("points that are held after this tick", 1, dtype=np.int64)
    new_number: np.ndarray = array("these points", HELD, dtype=np.int64)
    new_entry: np.ndarray = array("where they have entered", HELD, 3, unit="m")
    new_outward: np.ndarray = array("normals there", HELD, 3)
    next_held: np.ndarray = array("first held point that has not been visited", 1, dtype=np.int64)
    tick: np.ndarray = array("number of this tick of a side", "sides", dtype=np.int64)
    step: np.ndarray = array("path of the centre in this tick [m], and angle, times STEEPEST", 2)
    separated: np.ndarray = array("whether the shapes were apart in the tick before: 0 or 1", 1)
    moved: np.ndarray = array("path of the centre of the shell in the field [m], and angle, times STEEPEST", "sides", 2)
    omitted: np.ndarray = array("leaves that were left out in the last tick", "sides", dtype=np.int64)
    omissions: np.ndarray = array("leaves that were left out in all ticks", 1, dtype=np.int64)
    visited: np.ndarray = array("leaves that were visited in the last tick", "sides", dtype=np.int64)
    node_due: np.ndarray = array("path up to which a node touches nothing", "side_nodes", unit="m", fill=-math.inf)
    node_near: np.ndarray = array("path before which a node that was near is not tested again", "side_nodes", unit="m")
    point_due: np.ndarray = array("path up to which a point touches nothing", "side_points", unit="m", fill=-math.inf)
    point_tick: np.ndarray = array("tick in which it was last visited", "side_points", dtype=np.int64, fill=-1)
    point_last: np.ndarray = array("distance [m] and gradient found there", "side_points", 4)
    stack: np.ndarray = array("nodes that follow on the way through a tree", DEEPEST, dtype=np.int64)
    opened: np.ndarray = array("sets of leaves of which parts are visited", "most_nodes", dtype=np.int64)
    due: np.ndarray = array("leaves to visit", "most_nodes", dtype=np.int64)
    visit: np.ndarray = array("points of a cell that are visited", "most_points", dtype=np.int64)
    at: np.ndarray = array("where they are, in the axes of the field", "most_points", 3, unit="m")
    found: np.ndarray = array("distance [m] and gradient there", "most_points", 4)
    lanes: np.ndarray = array("memory of `distances_at`", ROWS * LANES)
    distance: np.ndarray = array("distances of the points of a cell", "most_points", unit="m")
    normal: np.ndarray = array("their normals, in the axes of the field", "most_points", 3)
    slope: np.ndarray = array("gradients of the height of the texture there", "most_points", 3)
    point: np.ndarray = array("these points", "most_points", 3, unit="m")
    weight: np.ndarray = array("their weights", "most_points", unit="m")
    relative: np.ndarray = array("pose of the shell in the field", 1, 12)
    previous: np.ndarray = array("this pose in the tick before", 1, 12)


def build_memory(
    kind: np.ndarray, objects: np.ndarray, names: list[str], fields: Mapping[str, SolidField], budget: int = BUDGET
) -> FieldMemory:
    """Build the memory of shapes of these kinds (G,) and names, of which the pairs `objects` (P, 2) may touch.

    Raises:
        ValueError: a shape that needs a field has none.
    """
    several: list[SolidField] = []
    number: dict[int, int] = {}
    of_shape = np.full(len(kind), -1, np.int64)
    with_field = (kind[objects] == FIELD).any(axis=1)
    needed = np.unique(objects[with_field])
    for g in needed[kind[needed] != HALFSPACE].tolist():
        field = fields.get(names[g])
        if field is None:
            raise ValueError(f"geometry {names[g]!r} may touch a shape with a field and has none")
        if id(field) not in number:
            number[id(field)] = len(several)
            several.append(field)
        of_shape[g] = number[id(field)]
    gathered = gather(several)
    sides: list[tuple[int, int]] = []
    first = [0]
    for (a, b), on in zip(objects.tolist(), with_field.tolist(), strict=True):
        if on:
            sides += [(s, f) for s, f in ((b, a), (a, b)) if of_shape[s] >= 0]
        first.append(len(sides))
    own = of_shape[np.array([shape for shape, _ in sides], np.int64)]
    nodes = np.concatenate([[0], np.cumsum(np.diff(gathered.nodes)[own])])
    points = np.concatenate([[0], np.cumsum(np.array([len(f.shell.points) for f in several], np.int64)[own])])
    if several and int(np.diff(gathered.cells).max()) > FEATURES // 2:
        raise ValueError(f"a shell has {int(np.diff(gathered.cells).max())} cells: must have at most {FEATURES // 2}")
    ends = np.array(sides, np.int64).reshape(-1, 2)
    return allocate(
        FieldMemory,
        {
            "sides": len(sides),
            "placed_shapes": len(kind) if sides else 0,
            "side_nodes": int(nodes[-1]),
            "side_points": int(points[-1]),
            "most_nodes": int(np.diff(nodes).max(initial=0)),
            "most_points": max((int(np.diff(f.shell.leaf[f.shell.cell]).max()) for f in several), default=0),
        },
        fields=gathered,
        of_shape=of_shape,
        first=np.array(first, np.int64),
        shell=np.ascontiguousarray(ends[:, 0]),
        base=np.ascontiguousarray(ends[:, 1]),
        first_node=nodes[:-1].astype(np.int64),
        first_point=points[:-1].astype(np.int64),
        budget=int(budget),
    )


@kernel(error_model="numpy")
def field_contacts(scene, pair, margin):
    """Contacts of a pair of shapes of which one has a field; `scene`: `DetectorArrays`."""
    m = scene.field_memory
    for side in range(m.first[pair], m.first[pair + 1]):
        query = Query(pair, margin, m.base[side] != scene.pairs.objects[pair, 0], 0.0)
        _touch(scene, query, side)


@kernel(error_model="numpy")
def _distance(scene, base, p):
    """Signed distance of a point from a shape, in its axes [m], and the gradient of it."""
    shapes, m = scene.shapes, scene.field_memory
    kind = shapes.kind[base]
    if kind == HALFSPACE:
        n = triple(shapes.box, base)
        return dot(n, p) - shapes.box[base, 3], n
    if kind in (SPHERE, CAPSULE):
        half = shapes.size[base, 1]
        d = (p[0], p[1], p[2] - min(max(p[2], -half), half))
        size = length(d)
        return size - shapes.size[base, 0], times(1.0 / size if size > 0.0 else 0.0, d)
    return distance_at(m.fields.grids, m.of_shape[base], p)


@kernel(error_model="numpy")
def _clearance(scene, base, node, radius):
    """Lower bound of the distance of the points of a node, which has this radius, from the surface of a shape [m]."""
    centre = triple(scene.field_memory.fields.node_ball, node)
    s, _ = _distance(scene, base, act(scene.field_memory.relative, 0, centre))
    return s - STEEPEST * radius


@kernel(error_model="numpy")
def _find_pose(placement, g, base, pose):
    """Fill `pose` (1, 12) with the pose of a shape in the axes of another one."""
    d = (
        placement[g, 9] - placement[base, 9],
        placement[g, 10] - placement[base, 10],
        placement[g, 11] - placement[base, 11],
    )
    for i in range(3):
        axis = (placement[base, 3 * i], placement[base, 3 * i + 1], placement[base, 3 * i + 2])
        for j in range(3):
            pose[0, 3 * j + i] = dot(axis, (placement[g, 3 * j], placement[g, 3 * j + 1], placement[g, 3 * j + 2]))
        pose[0, 9 + i] = dot(axis, d)


@kernel(error_model="numpy")
def _measure_step(scene, side, before, row):
    """Fill `step` with the motion from a pose, row of `before`, to that of this tick."""
    m = scene.field_memory
    pose, centre = m.relative, triple(m.fields.ball, m.of_shape[m.shell[side]])
    square = 0.0
    for k in range(9):
        square += (pose[0, k] - before[row, k]) * (pose[0, k] - before[row, k])
    m.step[0] = STEEPEST * length(minus(act(pose, 0, centre), act(before, row, centre)))
    # the spectral norm of a difference of rotations is its Frobenius norm / sqrt(2)
    m.step[1] = STEEPEST * math.sqrt(0.5 * square)


@kernel(error_model="numpy")
def _follow(scene, side):
    """Fill `relative` with the pose of the shell in the field, and add what it has moved.

    Where the side was not searched in the tick before, as the boxes of the shapes were apart, its motion in this tick
    begins where they were then, outside of each other, and no point is held.
    """
    m, g, base = scene.field_memory, scene.field_memory.shell[side], scene.field_memory.base[side]
    searched = m.held.pose
    _find_pose(scene.placement, g, base, m.relative)
    _measure_step(scene, side, searched, side)
    m.moved[side, 0] += m.step[0]
    m.moved[side, 1] += m.step[1]
    m.tick[side] += 1
    m.separated[0] = 0.0
    if m.held.placed[0]:
        _find_pose(m.held.placement, g, base, m.previous)
        same = m.held.known[side]
        for k in range(12):
            same = same and m.previous[0, k] == searched[side, k]
        if not same:
            m.separated[0] = 1.0
            m.held.used[side] = 0
            m.tick[side] += 1  # what was found last is not of the tick before
            _measure_step(scene, side, m.previous, 0)
    else:
        m.step[0] = m.step[1] = 0.0
        m.held.used[side] = 0
    for k in range(12):
        searched[side, k] = m.relative[0, k]


@kernel(error_model="numpy")
def end_tick(scene):
    """Remember where all shapes are."""
    m = scene.field_memory
    m.fresh[0], m.held.placed[0] = False, True
    for g in range(m.held.placement.shape[0]):
        for k in range(PLACEMENT):
            m.held.placement[g, k] = scene.placement[g, k]


@kernel(error_model="numpy")
def _touch(scene, query, side):
    """Contacts of one shape's shell in the field of another."""
    m = scene.field_memory
    fields = m.fields
    own, base = m.of_shape[m.shell[side]], m.base[side]
    _follow(scene, side)
    delta = fields.accuracy[own]
    if m.of_shape[base] >= 0:
        delta = max(delta, fields.accuracy[m.of_shape[base]])
    reach = query.margin + delta
    count = opened = 0
    for c in range(fields.cells[own], fields.cells[own + 1]):
        count, opened = _collect(scene, side, base, fields.root[c], reach, count, opened)
    due, node_due, shift = m.due, m.node_due, m.first_node[side] - fields.nodes[own]
    m.omitted[side] = 0
    if not m.fresh[0] and count > m.budget:
        for i in range(count):
            node_due[due[i] + shift] -= _path(m, side, due[i])
            due[i] += shift
        sort_by(due, count, node_due)
        for i in range(count):
            due[i] -= shift
            node_due[due[i] + shift] += _path(m, side, due[i])
        m.omitted[side] = count - m.budget
        m.omissions[0] += m.omitted[side]
        count = m.budget
        sort_numbers(due, 0, count)
    m.held.known[side] = True
    m.new_count[0] = m.next_held[0] = 0
    m.visited[side] = count
    end = 0
    for c in range(fields.cells[own], fields.cells[own + 1]):
        begin, points, found, k = end, 0, 0, 0
        while end < count and due[end] < fields.last[c]:
            points = _take_due(scene, side, due[end], due[end] + shift, reach, points)
            end += 1
        if points == 0:
            continue
        _find_distances(scene, base, points)
        for i in range(begin, end):
            k, found = _visit(scene, side, base, due[i], due[i] + shift, reach, k, points, found)
        if found > 0:
            _put_row(scene, query, base, c - fields.cells[own], found, delta)
    for i in range(opened - 1, -1, -1):  # parts come after the set
        k = m.opened[i]
        a, b = fields.parts[k]
        least = min(node_due[a + shift] - _path(m, side, a), node_due[b + shift] - _path(m, side, b))
        node_due[k + shift] = _path(m, side, k) + least
    held = m.held
    held.used[side] = m.new_count[0]
    for i in range(m.new_count[0]):
        held.number[side, i] = m.new_number[i]
        for k in range(3):
            held.entry[side, i, k], held.outward[side, i, k] = m.new_entry[i, k], m.new_outward[i, k]


@kernel(error_model="numpy", inline="always")
def _path(m, side, node):
    """The path of the points of a node in the field since the start at most, times STEEPEST [m]."""
    return m.moved[side, 0] + m.moved[side, 1] * m.fields.node_arm[node]


@kernel(error_model="numpy")
def _collect(scene, side, base, root, reach, count, opened):
    """Append the leaves below a node that are to be visited to `due`, in their order, and the sets above to `opened`.

    Args:
        root: node of a cell.
        reach: distance of points that count [m].
        count, opened: leaves and sets so far.

    Returns:
        The same with those below this node.
    """
    m = scene.field_memory
    own = m.of_shape[m.shell[side]]
    shift, leaves = m.first_node[side] - m.fields.nodes[own], m.fields.leaves[own]
    known = m.held.known[side]
    begin = count
    m.stack[0] = root
    n = 1
    while n > 0:
        n -= 1
        node = m.stack[n]
        due, moved = m.node_due[node + shift], _path(m, side, node)
        if due > moved + reach:
            continue
        # a node with a point that is held is not tested; nor is one that was found to be near before the points have
        # moved so far that this can have changed
        if not known or (due > -math.inf and moved >= m.node_near[node + shift]):
            radius = m.fields.node_ball[node, 3]
            free = _clearance(scene, base, node, radius)
            # where points that have passed a part within this tick may be
            far = max(reach, m.step[0] + m.step[1] * m.fields.node_arm[node])
            if free > far + (EARLY * radius if node >= leaves else 0.0):
                m.node_due[node + shift] = moved + free
                continue
            m.node_near[node + shift] = moved + max(far - free, EARLY * radius)
        if node < leaves:
            m.due[count] = node
            count += 1
        else:
            m.opened[opened] = node
            opened += 1
            m.stack[n], m.stack[n + 1] = m.fields.parts[node]
            n += 2
    sort_numbers(m.due, begin, count)
    return count, opened


@kernel(error_model="numpy")
def sort_numbers(items, begin, end):
    """Sort the integers from `begin` to before `end`, nearly in order or not, in place (Shell 1959)."""
    gap = (end - begin) // 2
    while gap > 0:
        for i in range(begin + gap, end):
            item = items[i]
            k = i
            while k >= begin + gap and items[k - gap] > item:
                items[k] = items[k - gap]
                k -= gap
            items[k] = item
        gap //= 2


@kernel(error_model="numpy")
def _take_due(scene, side, leaf, at, reach, count):
    """Append the points of a leaf that are due to those of its cell; enters when the others are.

    Args:
        leaf, at: number of the node, and its place in `node_due`.
        reach: distance of points that count [m].
        count: points of this cell so far.

    Returns:
        The same with those of this leaf.
    """
    m = scene.field_memory
    fields, point_due, visit, place, points, pose = m.fields, m.point_due, m.visit, m.at, m.fields.points, m.relative
    own = m.of_shape[m.shell[side]]
    shift = m.first_point[side] - fields.parts[fields.nodes[own], 0]
    last = _path(m, side, leaf) + reach
    least = math.inf
    for i in range(fields.parts[leaf, 0], fields.parts[leaf, 1]):
        due = point_due[i + shift]
        if due > last:
            least = min(least, due)
            continue
        visit[count] = i
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        for k in range(3):  # `act`, of which a call takes as long as this loop
            place[count, k] = pose[0, 9 + k] + pose[0, k] * x + pose[0, 3 + k] * y + pose[0, 6 + k] * z
        count += 1
    m.node_due[at] = least
    return count


@kernel(error_model="numpy")
def _find_distances(scene, base, count):
    """Fill `found` with the distances of the first `count` points in `at` from a shape, and their gradients."""
    m = scene.field_memory
    number, found = m.of_shape[base], m.found
    if number >= 0 and m.fields.has_grid[number]:
        distances_at(m.fields.grids, number, m.at, count, found, m.lanes)
        return
    for k in range(count):
        s, g = _distance(scene, base, triple(m.at, k))
        found[k, 0], found[k, 1], found[k, 2], found[k, 3] = s, g[0], g[1], g[2]


@kernel(error_model="numpy")
def _visit(scene, side, base, leaf, at, reach, begin, end, found):
    """Judge the points of a leaf by their distances; those within reach are appended to `found` ones of the cell.

    Args:
        leaf, at: number of the node, and its place in `node_due`.
        reach: distance of points that count [m].
        begin, end: first point of the leaf in `visit`, and behind the last one of its cell.
        found: points of this cell within reach so far.

    Returns:
        Behind the last point of the leaf in `visit`, and the number of points within reach with those of this leaf.
    """
    m = scene.field_memory
    fields = m.fields
    held, last = m.held, m.point_last
    own = m.of_shape[m.shell[side]]
    shift = m.first_point[side] - fields.parts[fields.nodes[own], 0]
    moved, tick = _path(m, side, leaf), m.tick[side]
    far, spacing = m.step[0] + m.step[1] * fields.node_arm[leaf], _spacing(scene, base)
    least, behind, visit, place, result = m.node_due[at], fields.parts[leaf, 1], m.visit, m.at, m.found
    while begin < end and visit[begin] < behind:
        i, s, g = visit[begin], result[begin, 0], (result[begin, 1], result[begin, 2], result[begin, 3])
        x = (place[begin, 0], place[begin, 1], place[begin, 2])
        begin += 1
        j = i + shift
        due = moved + s
        # nothing is between two places whose distances add up to more than the path from one to the other
        clear = s >= far
        if not clear and s >= 0.0:
            if m.point_tick[j] == tick - 1:
                first, g0 = last[j, 0], (last[j, 1], last[j, 2], last[j, 3])
                clear = (first >= 0.0 and first + s > far) or _stays(far, spacing, g0, g)
            else:  # in the tick before, it was at least point_due - (moved - far) away, or - (moved + far) if apart
                clear = m.point_due[j] + s > moved + 2.0 * far * m.separated[0]
        k = m.next_held[0]
        while k < held.used[side] and held.number[side, k] < i:
            k += 1
        m.next_held[0] = k
        is_held = k < held.used[side] and held.number[side, k] == i
        if is_held or s < reach or not clear:
            separation, n = s, _normal(scene, g, i)
            if is_held:
                entry, outward = corner(held.entry, side, k), corner(held.outward, side, k)
                separation, n = _follow_held(scene, base, i, x, s, g, n, entry, outward)
            elif not clear:
                separation, n = _enter(scene, base, i, j, tick, far, x, s, g, n)
            if separation < reach:
                m.distance[found] = separation
                for k in range(3):
                    m.point[found, k] = x[k]
                    m.normal[found, k] = n[k]
                if scene.textures.some:
                    _engrave(scene, side, base, i, found)
                found += 1
            if m.new_count[0] > 0 and m.new_number[m.new_count[0] - 1] == i:
                due = -math.inf  # it is visited in the next tick
        m.point_tick[j] = tick
        last[j, 0], last[j, 1], last[j, 2], last[j, 3] = s, g[0], g[1], g[2]
        m.point_due[j] = due
        least = min(least, due)
    m.node_due[at] = least
    return begin, found


@kernel(error_model="numpy")
def _engrave(scene, side, base, i, found):
    """Add the textures of both shapes to the distance of point i of a shell, the last of those found."""
    m = scene.field_memory
    h, d = height_at(scene, base, triple(m.point, found), triple(m.normal, found))
    own, _ = height_at(scene, m.shell[side], triple(m.fields.points, i), triple(m.fields.normals, i))
    m.distance[found] -= h + own
    for k in range(3):
        m.slope[found, k] = d[k]


@kernel(error_model="numpy", inline="always")
def _normal(scene, g, i):
    """The normal at point i of a shell from the gradient there: where that is small, the shell's own takes part."""
    m = scene.field_memory
    size = length(g)
    return g if size >= 1.0 else along(g, size - 1.0, turn(m.relative, 0, triple(m.fields.normals, i)))


@kernel(error_model="numpy", inline="always")
def _hold(scene, i, entry, outward):
    """Remember where point i has entered; nothing is where there is no room."""
    m = scene.field_memory
    k = m.new_count[0]
    if k < HELD:
        m.new_count[0] = k + 1
        m.new_number[k] = i
        m.new_entry[k, 0], m.new_entry[k, 1], m.new_entry[k, 2] = entry
        m.new_outward[k, 0], m.new_outward[k, 1], m.new_outward[k, 2] = outward


@kernel(error_model="numpy", inline="always")
def _surface_below(x, s, n):
    """The nearest point of the surface and the unit normal there, of a point at a distance s < 0 with a normal n."""
    size = length(n)
    n = times(1.0 / size if size > 0.0 else 0.0, n)
    return along(x, -s, n), n


@kernel(error_model="numpy")
def _follow_held(scene, base, i, x, s, g, n, entry, outward):
    """Distance and normal of a point that has entered at `entry`."""
    depth = dot(minus(x, entry), outward)
    if s < 0.0 and dot(g, outward) > AGREE:
        entry, outward = _surface_below(x, s, n)
        _hold(scene, i, entry, outward)
        return s, n
    if depth >= 0.0:
        return s, n
    if s >= 0.0:
        start = along(x, -depth, outward)
        s0, g0 = _distance(scene, base, start)
        place, _, _ = _trace(scene, base, start, x, s0, g0, s)
        if place < 0.0:
            return s, n
    _hold(scene, i, entry, outward)
    return depth, outward


@kernel(error_model="numpy")
def _enter(scene, base, i, at, tick, far, x, s, g, n):
    """Distance and normal of a point that is not held; it is from now on if it has entered in this tick.

    at, tick: place of the point in `point_last`, and number of this tick.
    far: path of the point in this tick at most, times STEEPEST [m].
    """
    m = scene.field_memory
    spacing, known = _spacing(scene, base), m.point_tick[at] == tick - 1
    first, g0 = m.point_last[at, 0], (m.point_last[at, 1], m.point_last[at, 2], m.point_last[at, 3])
    if far > SHORT * spacing and not (known and _stays(far, spacing, g0, g)):
        before = act(m.previous, 0, triple(m.fields.points, i))
        path = length(minus(x, before))
        if path > SHORT * spacing and s < STEEPEST * path:
            if not known:
                first, g0 = _distance(scene, base, before)
            clear = first < 0.0 or first + s > STEEPEST * path or (path < spacing and dot(g0, g) > AGREE)
            place, entry, there = (-1.0, x, g) if clear else _trace(scene, base, before, x, first, g0, s)
            if place > 0.0:
                size = length(there)
                outward = times(1.0 / size if size > 0.0 else 0.0, there)
                return _follow_held(scene, base, i, x, s, g, n, entry, outward)
    if s < 0.0 and m.new_count[0] < HELD:
        entry, outward = _surface_below(x, s, n)
        _hold(scene, i, entry, outward)
    return s, n


@kernel(error_model="numpy", inline="always")
def _stays(far, spacing, before, after):
    """Whether nothing is passed on a path: a field has no part that is thinner than its spacing.

    Args:
        far: path at most, times STEEPEST [m].
        spacing: of samples [m].
        before, after: gradients at both ends.
    """
    return far < STEEPEST * spacing and dot(before, after) > AGREE


@kernel(error_model="numpy", inline="always")
def _spacing(scene, base):
    """Distance of the samples of a shape [m]; of one without samples its radius, of a half-space infinite."""
    m = scene.field_memory
    number = m.of_shape[base]
    if number >= 0 and m.fields.has_grid[number]:
        return m.fields.grids.spacing[number]
    return math.inf if scene.shapes.kind[base] == HALFSPACE else scene.shapes.size[base, 0]


@kernel(error_model="numpy")
def _trace(scene, base, start, end, s, g, last):
    """Point where the path from `start` to `end` enters a shape (sphere tracing, Hart, 1996).

    Args:
        s, g: distance at the start and its gradient.
        last: distance at the end [m].

    Returns:
        The part of the path before it does: 0 if it starts inside, -1 if it does not enter; the point on the surface,
        and the gradient of the distance there.
    """
    x = start
    if s < 0.0:
        return 0.0, x, g
    d = minus(end, start)
    size = length(d)
    shortest = SHORT * _spacing(scene, base)
    t = 0.0
    for _ in range(TRACE):
        # nothing is on what remains where the distances at its ends add up to more
        if not t < 1.0 or (last >= 0.0 and s + last > STEEPEST * (1.0 - t) * size):
            break
        t = min(t + max(s, shortest) / size, 1.0)
        x = along(start, t, d)
        s, g = _distance(scene, base, x)
        if s < 0.0:
            return t, along(x, -s, g), g
    return -1.0, x, g


@kernel(error_model="numpy")
def smooth_minimum(distance, weight, count, delta):
    """The smooth minimum of the first `count` distances [m]; fills in their weights, which sum up to 1."""
    least = math.inf
    for i in range(count):
        least = min(least, distance[i])
    # Newton's method for the root of sum max(0, top - s_i)^2, which is convex and at first not less than delta
    top = least + delta
    for _ in range(50):
        first = second = 0.0
        for i in range(count):
            d = max(0.0, top - distance[i])
            first += d
            second += d * d
        size = math.sqrt(second)
        step = (size - delta) * size / first
        top -= step
        if not step > 1e-13 * delta:
            break
    total = 0.0
    for i in range(count):
        weight[i] = max(0.0, top - distance[i])
        total += weight[i]
    for i in range(count):
        weight[i] /= total
    return top - 0.5 * delta


@kernel(error_model="numpy")
def _put_row(scene, query, base, cell, count, delta):
    """The contact of a cell."""
    m = scene.field_memory
    part = m.weight
    s = smooth_minimum(m.distance, part, count, delta)
    if not s < query.margin:
        return
    point, normal = m.point, m.normal
    x0 = x1 = x2 = f0 = f1 = f2 = 0.0
    for i in range(count):
        w = part[i]
        if w > 0.0:
            x0, x1, x2 = x0 + w * point[i, 0], x1 + w * point[i, 1], x2 + w * point[i, 2]
            f0, f1, f2 = f0 + w * normal[i, 0], f1 + w * normal[i, 1], f2 + w * normal[i, 2]
    x, f = (x0, x1, x2), (f0, f1, f2)
    size = smooth = length(f)
    if not size > FLAT:
        return
    if scene.textures.some:
        for i in range(count):
            f = along(f, -part[i], triple(m.slope, i))
            for k in range(3):
                normal[i, k] -= m.slope[i, k]
        size = length(f)
        if not size > FLAT:
            return
    t0 = t1 = t2 = radius = 0.0
    for i in range(count):
        w = part[i]
        if w > 0.0:
            d0, d1, d2 = point[i, 0] - x0, point[i, 1] - x1, point[i, 2] - x2
            n0, n1, n2 = normal[i, 0], normal[i, 1], normal[i, 2]
            radius = max(radius, d0 * d0 + d1 * d1 + d2 * d2)
            t0, t1, t2 = t0 + w * (d1 * n2 - d2 * n1), t1 + w * (d2 * n0 - d0 * n2), t2 + w * (d0 * n1 - d1 * n0)
    shift = times(1.0 / (size * size), cross(f, (t0, t1, t2)))
    far = dot(shift, shift)
    x = along(x, math.sqrt(radius / far) if far > radius else 1.0, shift)
    n = times(1.0 / size, f)
    weight = min(1.0, FADING * smooth)
    if scene.textures.some:
        s, weight = s * (smooth / size), weight * (size / smooth) * (size / smooth)
    put(scene, query, turn(scene.placement, base, n), act(scene.placement, base, x), s, FACE, VERTEX + cell, weight)
