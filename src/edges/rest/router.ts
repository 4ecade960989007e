/** Match of a path: the entry with the texts of its `{…}` segments, the allowed methods, or null for an unknown path. */
export type RouteMatch<T> = { entry: T; values: readonly string[] } | { allow: string } | null;

export interface Router<T> {
  find(method: string, path: string): RouteMatch<T>;
}

interface Node<T> {
  literal: Map<string, Node<T>>;
  parameter: Node<T> | null;
  entries: Map<string, T>;
}

const newNode = <T>(): Node<T> => ({ literal: new Map(), parameter: null, entries: new Map() });

/**
 * Router: a trie of path segments. Express would try its routes one by one, and does not answer 405. A literal segment takes
 * precedence over a `{…}` segment; one trailing slash is ignored.
 */
export function makeRouter<T extends { method: string; path: string }>(entries: readonly T[]): Router<T> {
  const root = newNode<T>();
  for (const entry of entries) {
    let node = root;
    for (const segment of entry.path.split('/').slice(1)) node = child(node, segment);
    if (node.entries.has(entry.method)) throw new Error(`duplicate route ${entry.method} ${entry.path}`);
    node.entries.set(entry.method, entry);
  }

  return {
    find(method, path) {
      let node: Node<T> | null = root;
      const values: string[] = [];
      const end = path.length > 1 && path.endsWith('/') ? path.length - 1 : path.length;
      for (let from = 1; from <= end; ) {
        const slash = path.indexOf('/', from);
        const to = slash === -1 || slash > end ? end : slash;
        const segment = path.slice(from, to);
        const literal: Node<T> | undefined = node.literal.get(segment);
        if (literal === undefined && segment !== '') values.push(decoded(segment));
        node = literal ?? (segment === '' ? null : node.parameter);
        if (node === null) return null;
        from = to + 1;
      }
      if (node.entries.size === 0) return null;
      const entry = node.entries.get(method) ?? (method === 'HEAD' ? node.entries.get('GET') : undefined);
      return entry === undefined ? { allow: allowOf(node) } : { entry, values };
    },
  };
}

function child<T>(node: Node<T>, segment: string): Node<T> {
  if (segment.startsWith('{')) {
    node.parameter ??= newNode();
    return node.parameter;
  }
  let next = node.literal.get(segment);
  if (next === undefined) {
    next = newNode();
    node.literal.set(segment, next);
  }
  return next;
}

function allowOf<T>({ entries }: Node<T>): string {
  const methods = [...entries.keys()];
  if (entries.has('GET')) methods.push('HEAD');
  return [...methods, 'OPTIONS'].join(', ');
}

/** Percent-decodes a segment. An invalid one is returned unchanged, and matches no resource. */
function decoded(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
