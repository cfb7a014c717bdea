// Where the nodes of a graph are drawn: in layers, so that each edge leads down.

/** The layer of each node: one below the lowest of those that lead to it. */
function layersOf(count, from, to) {
  const out = group(from, count), open = new Int32Array(count), layer = new Int32Array(count);
  for (const node of to) open[node]++;
  const ready = [];
  for (let node = 0; node < count; node++) if (!open[node]) ready.push(node);
  while (ready.length) {
    const node = ready.pop();
    for (const edge of out.of(node)) {
      const next = to[edge];
      layer[next] = Math.max(layer[next], layer[node] + 1);
      if (!--open[next]) ready.push(next);
    }
  }
  return layer;
}

/** How many bends the edges of a graph have that is drawn by `placed`. */
function bendCount(count, from, to) {
  const layer = layersOf(count, from, to), passed = new Int32Array(count);
  from.forEach((node, edge) => {
    passed[node] = Math.max(passed[node], layer[to[edge]] - layer[node] - 1);
  });
  return passed.reduce((sum, bends) => sum + bends, 0);
}

/**
 * Places for nodes and edges. Edges that pass layers have a bend in each of them, for which the
 * nodes there leave room; those of one node share their bends. sizes: width of a node and of a
 * bend, distance of layers.
 * Returns x and y of each node, the links that edges are made of, width and height.
 */
function placed(count, from, to, sizes) {
  const layer = Array.from(layersOf(count, from, to));
  const width = Array(count).fill(sizes.node), links = []; // pairs of items in layers that touch
  const bends = Array.from({ length: count }, () => []); // of each node, downwards
  from.forEach((node, edge) => {
    const own = bends[node];
    while (layer[node] + own.length + 1 < layer[to[edge]]) {
      const item = layer.push(layer[node] + own.length + 1) - 1;
      width.push(sizes.bend);
      links.push([own.at(-1) ?? node, item]);
      own.push(item);
    }
    const steps = layer[to[edge]] - layer[node] - 1;
    links.push([steps ? own[steps - 1] : node, to[edge]]);
  });
  const rows = [];
  layer.forEach((at, item) => (rows[at] ??= []).push(item));
  const above = layer.map(() => []), below = layer.map(() => []);
  for (const [upper, lower] of links) {
    above[lower].push(upper);
    below[upper].push(lower);
  }
  const x = new Float64Array(layer.length);
  for (const row of rows) pack(row, row.map(item => x[item]), width, x);
  for (let round = 0; round < 8; round++) {
    const down = round % 2 === 0;
    for (const row of down ? rows : rows.toReversed()) {
      const near = down ? above : below;
      const mean = item => near[item].reduce((sum, other) => sum + x[other], 0) / near[item].length;
      const wanted = new Map(row.map(item => [item, near[item].length ? mean(item) : x[item]]));
      if (round < 6) row.sort((a, b) => wanted.get(a) - wanted.get(b)); // then the order stays
      pack(row, row.map(item => wanted.get(item)), width, x);
    }
  }
  const left = Math.min(...rows.map(row => x[row[0]] - width[row[0]] / 2));
  const right = Math.max(...rows.map(row => x[row.at(-1)] + width[row.at(-1)] / 2));
  const place = item => [x[item] - left, layer[item] * sizes.layer + sizes.layer / 2];
  return {
    nodes: Array.from({ length: count }, (_, node) => place(node)),
    links: links.map(([upper, lower]) => ({ from: place(upper), to: place(lower),
      fromNode: upper < count, toNode: lower < count })),
    width: right - left,
    height: rows.length * sizes.layer,
  };
}

/** Set x of the items of a row, from left to right, near what is wanted, so that none overlap. */
function pack(row, wanted, width, x) {
  const gap = i => (width[row[i - 1]] + width[row[i]]) / 2;
  const right = [...wanted], left = [...wanted];
  for (let i = 1; i < row.length; i++) right[i] = Math.max(right[i], right[i - 1] + gap(i));
  for (let i = row.length - 1; i > 0; i--) left[i - 1] = Math.min(left[i - 1], left[i] - gap(i));
  row.forEach((item, i) => { x[item] = (left[i] + right[i]) / 2; });
}
