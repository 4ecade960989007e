import type { listAudit } from '../../../src/operations/inspection/audit.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { abbreviateId, capital, humanize, sentenceCase } from '../ui/text-format.ts';

// Names of actions and targets in the audit log, and the way back from a name to the filter of the API.

export type AuditListBody = ResponseBody<typeof listAudit>;
export type AuditListEntry = AuditListBody['entries'][number];

/** Operations that pages of the console perform by themselves: a ticket for each WebSocket, and sign-ins. */
const pageActions: ReadonlySet<string> = new Set(['createWsTicket', 'openCookieSession']);

/** Whether the entry is a successful sign-in or ticket of a page, not of an API key. */
export const isOfPage = ({ action, outcome, key }: Pick<AuditListEntry, 'action' | 'outcome' | 'key'>): boolean =>
  outcome === 'done' && key === null && pageActions.has(action);

/** Whether the list has sign-ins and tickets of pages: if the user chose so, or filters by an action. */
export const showsPages = (query: URLSearchParams): boolean => query.get('pages') === 'true' || query.has('action');

const withAcronyms = (title: string): string => title.replace(/\b(?:api|ca|ws)\b/gi, (word) => word.toUpperCase());

/** `commandDevice` → `Command device`, `createApiKey` → `Create API key`. */
export const actionTitle = (action: string): string => withAcronyms(sentenceCase(action));

/** `ca` → `CA`, `firmware-key` → `Firmware key`. */
const kindTitle = (kind: string): string => withAcronyms(capital(kind.replaceAll('-', ' ')));

const isUuid = (id: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);

/** The target of an action, `device:<id>`, as a text: the device's name, or its kind with the end of its id. */
export function targetTitle(
  { subject, subject_name }: Pick<AuditListEntry, 'subject' | 'subject_name'>,
  nameOfUser: (id: string) => string,
  ownTenant: string | null = null,
): string {
  const [kind = '', id = ''] = subject.split(/:(.*)/s);
  if (subject_name !== null) {
    if (kind === 'device') return subject_name;
    return `${kindTitle(kind)} ${kind === 'command' ? humanize(subject_name) : subject_name}`;
  }
  if (kind === 'user') return nameOfUser(id);
  if (kind === 'key') return `API key ${id}`;
  if (kind === 'tenant' && id === ownTenant) return 'This tenant';
  return `${kindTitle(kind)} ${isUuid(id) ? abbreviateId(id) : humanize(id)}`.trim();
}

/**
 * The action that a text names: one of `known` by its name or title, in any case; otherwise the text in the case of
 * operations (`command device` → `commandDevice`). Empty without a text.
 */
export function actionNamed(text: string, known: Iterable<string>): string {
  const wanted = text.trim().toLowerCase();
  for (const action of known) {
    if (wanted === action.toLowerCase() || wanted === actionTitle(action).toLowerCase()) return action;
  }
  const [first = '', ...others] = text.trim().split(/\s+/);
  if (others.length === 0 && !/^[A-Z][^A-Z]*$/.test(first)) return first;
  return [first.toLowerCase(), ...others.map((word) => capital(word.toLowerCase()))].join('');
}

/**
 * The subject that a text names: itself if it is one, such as `device:<id>`, or that of a title in `known`, in any case.
 * Null if the text names nothing known; empty without a text.
 */
export function subjectNamed(text: string, known: ReadonlyMap<string, string>): string | null {
  const wanted = text.trim();
  if (wanted === '' || /^[a-z-]+:\S+$/.test(wanted)) return wanted;
  for (const [title, subject] of known) {
    if (title.toLowerCase() === wanted.toLowerCase()) return subject;
  }
  return null;
}

/** Whether several subjects of `known` have this name, which their titles have with the end of an id. */
export const namesSeveral = (text: string, known: ReadonlyMap<string, string>): boolean =>
  [...known.keys()].filter((title) => title.toLowerCase().startsWith(`${text.trim().toLowerCase()} …`)).length > 1;

/** Title → subject. Subjects with the same title, such as two devices of one name, have the end of their ids after it. */
export function subjectsByTitle(titles: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const uses = new Map<string, number>();
  for (const title of titles.values()) uses.set(title.toLowerCase(), (uses.get(title.toLowerCase()) ?? 0) + 1);
  return new Map(
    [...titles].map(([subject, title]) => [
      uses.get(title.toLowerCase()) === 1 ? title : `${title} ${abbreviateId(subject)}`,
      subject,
    ]),
  );
}
