import { v7 } from 'uuid';
import { type JsonObject, SYSTEM, type Uuid } from '../../src/domain/values.ts';
import type { CommandColumns, DeviceColumns, PlanColumns, TenantColumns } from '../../src/machines/actor-columns.ts';
import type { ActorKind } from '../../src/machines/outputs.ts';
import type { ActorCommit, IdempotencyRow } from '../../src/store/contract.ts';

// Commits as the runtime would create them, with minimal content; tests override what matters.

export const newId = (): Uuid => v7();

type CommitOverrides = Partial<Omit<ActorCommit, 'ref' | 'columns' | 'timers'>> & {
  id?: Uuid;
  timers?: Partial<ActorCommit['timers']>;
};

function commit(kind: ActorKind, columns: object, overrides: CommitOverrides): ActorCommit {
  const { id = newId(), timers, readVersion = 0, ...rest } = overrides;
  return {
    ref: { kind, id },
    tenantId: newId(),
    readVersion,
    version: readVersion + 1,
    machineVersion: 1,
    value: 'made',
    fixed: {},
    live: {},
    fixedUnchanged: false,
    columns: columns as JsonObject,
    since: 1_000,
    journal: [],
    outbox: [],
    timers: { set: [], clear: [], ...timers },
    rows: [],
    samples: null,
    idempotency: null,
    delivered: [],
    ...rest,
  };
}

export const deviceCommit = (overrides: CommitOverrides & { columns?: Partial<DeviceColumns> } = {}): ActorCommit => {
  const { columns, ...rest } = overrides;
  const all: DeviceColumns = {
    device_type: 'smart_light',
    home_id: null,
    room_id: null,
    category: 'light',
    firmware: null,
    revoked: false,
    deleted: false,
    online: false,
    created_at: 1_000,
    ...columns,
  };
  return commit('device', all, rest);
};

export const commandCommit = (overrides: CommitOverrides & { columns?: Partial<CommandColumns> } = {}): ActorCommit => {
  const { columns, ...rest } = overrides;
  const all: CommandColumns = {
    device_id: newId(),
    action: 'turn_on',
    status: 'dispatched',
    verification: 'unverifiable',
    critical: false,
    written: false,
    token_hash: null,
    created_at: 1_000,
    ...columns,
  };
  return commit('command', all, rest);
};

export const tenantCommit = (overrides: CommitOverrides & { columns?: Partial<TenantColumns> } = {}): ActorCommit => {
  const { columns, ...rest } = overrides;
  const id = overrides.id ?? newId();
  const all: TenantColumns = {
    name: 'A tenant',
    slug: `tenant-${id}`,
    suspended: false,
    created_at: 1_000,
    ...columns,
  };
  return commit('tenant', all, { ...rest, id, tenantId: id });
};

export const planCommit = (overrides: CommitOverrides & { columns?: Partial<PlanColumns> } = {}): ActorCommit => {
  const { columns, ...rest } = overrides;
  const all: PlanColumns = { status: 'running', over: false, thought: false, created_at: 1_000, ...columns };
  return commit('plan', all, rest);
};

/** The next commit of the same actor. */
export const nextCommit = (before: ActorCommit, overrides: Partial<ActorCommit> = {}): ActorCommit => ({
  ...before,
  fixedUnchanged: false,
  readVersion: before.version,
  version: before.version + 1,
  journal: [],
  outbox: [],
  timers: { set: [], clear: [] },
  rows: [],
  samples: null,
  idempotency: null,
  delivered: [],
  ...overrides,
});

export const journalEntry = (version: number, more: Partial<ActorCommit['journal'][number]> = {}) => ({
  version,
  at: 1_000 + version,
  by: SYSTEM,
  event: 'happened',
  from: version === 1 ? null : 'before',
  to: 'after',
  data: null,
  ...more,
});

export const idempotencyRow = (more: Partial<IdempotencyRow> = {}): IdempotencyRow => ({
  principal: newId(),
  method: 'POST',
  path: '/devices',
  key: newId(),
  bodyHash: 'a'.repeat(64),
  state: 'done',
  status: 201,
  answer: 'sealed',
  subject: null,
  expiresAt: 100_000,
  ...more,
});
