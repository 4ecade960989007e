import type { Api, RequestOptions } from './api.ts';
import { RefusedError, UsageError } from './errors.ts';
import { nearestName } from './unknown-verbs.ts';

/** Kinds of names that an argument can be. A placeholder such as `<device>` in the usage of a command has the same name. */
export const referenceKinds = ['device', 'home', 'room', 'group', 'plan', 'key', 'member'] as const;
export type ReferenceKind = (typeof referenceKinds)[number];

/** Something that a reference can mean. */
export interface Candidate {
  /** A UUID, the slug of a group, or the prefix of an API key. */
  id: string;
  /** The most specific one last. */
  names: readonly string[];
  /** Of a room. */
  homeId?: string;
}

export interface CandidateLimits {
  maxPages: number;
  /** Waits as `Retry-After` requires. */
  retryWhenBusy: boolean;
  /** Those of the first pages, if there are more. */
  partial?: boolean;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Ids of these kinds have the form of a name. */
const ID_FORMS: Partial<Record<ReferenceKind, RegExp>> = { group: /^[a-z0-9-]{1,64}$/, key: /^[A-Za-z0-9]{8}$/ };

const PAGE_ENTRIES = 200;
/** 5,000 entries. */
const LOOKUP: CandidateLimits = { maxPages: 25, retryWhenBusy: true };
/** A tenant keeps many plans with the same name: the newest 1,000 are considered. */
const PLAN_PAGES = 5;
const MAX_SHOWN = 10;

/** Limits on the candidates of a text. */
export interface ReferenceScope {
  /** Of rooms: those of this home. */
  homeId?: string;
  /** No beginning: for verbs that cannot be undone, since a repeated one must not mean something else. */
  whole?: boolean;
}

/**
 * The id that `text` means: an id itself, which costs no request, otherwise the name, or the beginning of the name or
 * id, of exactly one candidate, in any case. A whole name precedes a beginning. A room can also be given as
 * `home/room`; `homeId` limits rooms to a home. Throws `UsageError` with the candidates if there are several, and if
 * there is none.
 */
export async function resolveReference(
  api: Api,
  kind: ReferenceKind,
  text: string,
  scope: ReferenceScope = {},
): Promise<string> {
  const [id] = await resolveReferences(api, kind, [text], scope);
  return id as string;
}

/** The room that `text` means, with its home, which is looked up unless it is given. Throws as `resolveReference`. */
export async function resolveRoom(api: Api, text: string, homeId?: string): Promise<{ id: string; homeId: string }> {
  if (homeId !== undefined) return { id: await resolveReference(api, 'room', text, { homeId }), homeId };
  if (text.trim() === '') throw new UsageError('the id or name of a room must not be empty');
  const { id, homeId: found = '' } = onlyCandidate(await readCandidates(api, 'room', undefined), 'room', text);
  return { id, homeId: found };
}

const readCandidates = (api: Api, kind: ReferenceKind, homeId: string | undefined): Promise<Candidate[]> =>
  fetchCandidates(api, kind, LOOKUP, homeId).catch((thrown: unknown) => {
    throw withAdvice(thrown, kind);
  });

function onlyCandidate(candidates: readonly Candidate[], kind: ReferenceKind, text: string, whole = false): Candidate {
  const matches = matchesOf(candidates, text, whole);
  const [only] = matches;
  if (only === undefined) {
    const [begun] = matchesOf(candidates, text);
    const advice =
      begun === undefined
        ? suggestion(candidates, text)
        : `: this command needs a whole one (Did you mean '${begun.names.at(-1) ?? begun.id}'?)`;
    throw new UsageError(`no ${kind} has the id or name '${text}'${advice}`);
  }
  if (matches.length === 1) return only;
  const shown = matches.slice(0, MAX_SHOWN).map(({ id, names }) => `${id}  ${names.at(-1) ?? ''}`.trimEnd());
  if (matches.length > MAX_SHOWN) shown.push(`and ${matches.length - MAX_SHOWN} more`);
  throw new UsageError(`'${text}' matches ${matches.length} ${kind}s; give one of these ids:`, shown);
}

/** The ids that texts mean, each once. The candidates are requested at most once. Throws as `resolveReference`. */
export async function resolveReferences(
  api: Api,
  kind: ReferenceKind,
  texts: readonly string[],
  { homeId, whole = false }: ReferenceScope = {},
): Promise<string[]> {
  let candidates: readonly Candidate[] | null = null;
  const ids = new Set<string>();
  for (const text of new Set(texts)) {
    if (text.trim() === '') throw new UsageError(`the id or name of a ${kind} must not be empty`);
    if (UUID.test(text) && ID_FORMS[kind] === undefined) {
      ids.add(text);
      continue;
    }
    candidates ??= await readCandidates(api, kind, homeId);
    ids.add(onlyCandidate(candidates, kind, text, whole).id);
  }
  return [...ids];
}

/**
 * Calls `use` with the ids that texts mean. The id of a group or key has the form of a name: `use` gets the texts first,
 * and the ids only if the service finds nothing, so that an id costs no further request here either.
 */
export async function withReferences<Result>(
  api: Api,
  kind: 'group' | 'key',
  texts: readonly string[],
  use: (ids: string[]) => Promise<Result>,
  scope: ReferenceScope = {},
): Promise<Result> {
  if (texts.some((text) => ID_FORMS[kind]?.test(text) !== true))
    return use(await resolveReferences(api, kind, texts, scope));
  try {
    return await use([...new Set(texts)]);
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    const ids = await resolveReferences(api, kind, texts, scope).catch((failed: unknown) => {
      throw failed instanceof UsageError && failed.details.length > 0 ? failed : thrown;
    });
    if (ids.every((id) => texts.includes(id))) throw thrown;
    return use(ids);
  }
}

const isNotFound = (thrown: unknown): boolean => thrown instanceof RefusedError && thrown.problem.status === 404;

/** The candidates that `text` means at the first level with a match: exactly, in any case, by their beginning. */
export function matchesOf(candidates: readonly Candidate[], text: string, whole = false): Candidate[] {
  const folded = text.toLowerCase();
  const textsOf = ({ id, names }: Candidate): string[] => [id, ...names];
  const levels: ((candidate: Candidate) => boolean)[] = [
    ({ id }) => id === text,
    ({ names }) => names.includes(text),
    (candidate) => textsOf(candidate).some((one) => one.toLowerCase() === folded),
    (candidate) => textsOf(candidate).some((one) => one.toLowerCase().startsWith(folded)),
  ];
  for (const matches of whole ? levels.slice(0, -1) : levels) {
    const found = candidates.filter(matches);
    if (found.length > 0) return found;
  }
  return [];
}

function suggestion(candidates: readonly Candidate[], text: string): string {
  const nearest = nearestName(
    text,
    candidates.flatMap(({ names }) => names),
  );
  return nearest === null ? '' : ` (Did you mean '${nearest}'?)`;
}

/** A credential may use something without reading the list of it. */
function withAdvice(thrown: unknown, kind: ReferenceKind): unknown {
  if (!(thrown instanceof RefusedError) || thrown.problem.status !== 403) return thrown;
  const detail = `${thrown.message} A name needs the list of ${kind}s; a whole id does not.`;
  return new RefusedError({ ...thrown.problem, detail });
}

interface Listed {
  id: string;
  name: string | null;
}

/** The candidates of a kind, newest first. Throws `RefusedError`, `UnreachableError`, and `UsageError` for too many entries. */
export async function fetchCandidates(
  api: Api,
  kind: ReferenceKind,
  limits: CandidateLimits,
  homeId?: string,
): Promise<Candidate[]> {
  const list = <Entry>(path: string, name: string) => fetchEntries<Entry>(api, path, name, limits);
  const named = ({ id, name }: Listed): Candidate => ({ id, names: name === null ? [] : [name] });
  switch (kind) {
    case 'device':
      return (await list<Listed>('/v1/devices', 'devices')).map(named);
    case 'home':
      return (await fetchHomes(list)).map(named);
    case 'room':
      return (await fetchRoomsOf(list, homeId)).map(({ id, name, home_id, home_name }) => ({
        ...{ id, homeId: home_id, names: home_name === null ? [name] : [name, `${home_name}/${name}`] },
      }));
    case 'group':
      return (await list<{ slug: string; name: string }>('/v1/groups', 'groups')).map(({ slug, name }) => ({
        id: slug,
        names: [name],
      }));
    case 'plan': {
      const newest = { ...limits, maxPages: Math.min(limits.maxPages, PLAN_PAGES), partial: true };
      return (await fetchEntries<Listed>(api, '/v1/plans', 'plans', newest)).map(named);
    }
    case 'key': {
      type Key = { prefix: string; name: string; revoked_at: string | null };
      const keys = await list<Key>('/v1/auth/api-keys', 'keys');
      return keys
        .filter(({ revoked_at }) => revoked_at === null)
        .map(({ prefix, name }) => ({ id: prefix, names: [name] }));
    }
    case 'member': {
      const members = await list<{ id: string; email: string | null }>('/v1/tenant/members', 'members');
      return members.map(({ id, email }) => named({ id, name: email }));
    }
  }
}

type List = <Entry>(path: string, name: string) => Promise<Entry[]>;

async function fetchHomes(list: List): Promise<{ id: string; name: string }[]> {
  const homes = await list<{ id: string; home_name: string }>('/v1/homes', 'homes');
  return homes.map(({ id, home_name }) => ({ id, name: home_name }));
}

interface ListedRoom {
  id: string;
  name: string;
  home_id: string;
  /** Null if only this home was requested. */
  home_name: string | null;
}

/** The rooms of all homes or of one: one request for each home. */
export const fetchRooms = (api: Api, homeId?: string): Promise<ListedRoom[]> =>
  fetchRoomsOf((path, name) => fetchEntries(api, path, name, LOOKUP), homeId);

async function fetchRoomsOf(list: List, homeId: string | undefined): Promise<ListedRoom[]> {
  const homes = homeId === undefined ? await fetchHomes(list) : [{ id: homeId, name: null }];
  const rooms: ListedRoom[] = [];
  for (const home of homes) {
    const path = `/v1/homes/${encodeURIComponent(home.id)}/rooms`;
    const found = await list<Omit<ListedRoom, 'home_name'>>(path, 'rooms');
    rooms.push(...found.map((room) => ({ ...room, home_name: home.name })));
  }
  return rooms;
}

async function fetchEntries<Entry>(
  api: Api,
  path: string,
  name: string,
  { maxPages, retryWhenBusy, partial = false }: CandidateLimits,
): Promise<Entry[]> {
  const options: RequestOptions = retryWhenBusy ? { retryWhenBusy, idempotent: true } : {};
  const entries: Entry[] = [];
  let cursor: string | null = null;
  for (let pages = 1; ; pages++) {
    const query = new URLSearchParams({ limit: String(PAGE_ENTRIES), ...(cursor !== null && { cursor }) });
    type Page = Record<string, Entry[]> & { next_cursor: string | null };
    const { body }: { body: Page } = await api.request<Page>('GET', `${path}?${query}`, options);
    entries.push(...(body[name] ?? []));
    cursor = body.next_cursor;
    if (cursor === null) return entries;
    if (pages >= maxPages && partial) return entries;
    if (pages >= maxPages) throw new UsageError(`there are too many ${name} to look for a name: give the whole id`);
  }
}
