import { isSameStateValue } from '../../actors/commit/unit-of-work.ts';
import type { Actors } from '../../actors/contract.ts';
import { countSchema, type FieldSchemas } from '../../domain/message-schema.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { eventText, stateText } from '../../domain/state-path.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import { actorKinds } from '../../machines/outputs.ts';
import { readAccess } from '../shared/live/read-access.ts';
import type { AccessRequirement, Subscription } from '../shared/live/subscription.ts';
import type { UpdateStream } from './update-stream.ts';

export const actorAccessRequirement: AccessRequirement = readAccess('actor');

const text = (description: string) => ({ type: 'string', description }) as const;

/** The members of a message; all are required. */
export const transitionFields: FieldSchemas = {
  type: { type: 'string', enum: ['actor_transition'] },
  kind: { type: 'string', enum: actorKinds },
  id: { type: 'string', format: 'uuid' },
  from: { description: 'The state before, as `administration.active.one_key,link.offline`; null for a new actor' },
  to: text('The state after'),
  event: text('The event; `after …` is a timer'),
  at: { ...countSchema, description: 'Epoch milliseconds' },
};

/**
 * `/ws/actors` (contract §6): transitions that changed an actor's state, and events caused by users even if they did
 * not. Frequent device reports that leave the state unchanged are not sent.
 */
export const actorStream = ({ actors }: { actors: Pick<Actors, 'subscribeTransitions'> }): UpdateStream => ({
  path: '/ws/actors',
  parseQuery,
  sizes: () => ({}),
  subscribe: (publish) =>
    actors.subscribeTransitions(({ ref, version, snapshot }, { type, at, by }, before) => {
      const { value } = snapshot;
      if (version > 1 && by?.kind !== 'user' && isSameStateValue(before, value)) return;
      // The context of a tenant actor has no `tenantId`: its own id is the tenant.
      const { tenantId = ref.id } = snapshot.context.fixed as { tenantId?: Uuid };
      const message = () => ({
        type: 'actor_transition',
        ...ref,
        from: version === 1 ? null : stateText(before),
        to: stateText(value),
        event: eventText(type),
        at,
      });
      publish({
        kind: ref.kind,
        tenantId,
        deviceId: null,
        subject: `${ref.kind}:${ref.id}`,
        version: null,
        message,
        fragments: () => [JSON.stringify(message())],
      });
    }),
  snapshot: () => null,
});

function parseQuery(query: URLSearchParams): Outcome<Subscription> {
  const names = query.getAll('kind').flatMap((list) => list.split(','));
  const kinds = names.length === 0 ? actorKinds : actorKinds.filter((kind) => names.includes(kind));
  if (names.some((name) => !actorKinds.some((kind) => kind === name))) {
    return refuse('VALIDATION_FAILED', `kind must be one or more of ${actorKinds.join(', ')}`);
  }
  const tenantId = query.get('tenant_id');
  if (tenantId !== null && !isUuid(tenantId)) return refuse('VALIDATION_FAILED', 'tenant_id must be a UUID');
  return done({
    kinds: new Map(kinds.map((kind) => [kind, actorAccessRequirement])),
    devices: null,
    snapshot: false,
    tenantId: tenantId === null ? null : tenantId.toLowerCase(),
  });
}
