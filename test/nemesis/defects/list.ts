import type { SourceChange } from '../../support/apply-changes.ts';

/** A planted defect of the nodes, which the nemesis must find, unless another layer still keeps the promise. */
export interface NemesisDefect {
  /** Description for the table in `docs/testing.md`. */
  title: string;
  changes: readonly SourceChange[];
  /** The faults that are drawn. */
  faults: readonly string[];
  /** The second protection, with which the nemesis finds nothing; it finds the defect that removes both. */
  heldBy?: string;
}

const pauses = ['pause around the lease'];
const delays = ['database slow'];
const moves = ['drain', 'join', 'stop'];
const losses = ['kill', 'database unreachable', 'database restarted'];

const leaseIgnored: SourceChange = {
  file: 'src/domain/lease.ts',
  from: '    if (this.#now() < this.#until) return true;',
  to: '    if (this.#now() > 0) return true;',
};
const renewalFailureIgnored: SourceChange = {
  file: 'src/store/lock/advisory-lock.ts',
  from: "      if (!(await this.#renew(session))) this.#lost('renewal failed');\n      else if (!this.#ended)",
  to: '      await this.#renew(session);\n      if (!this.#ended)',
};
const epochNotChecked: SourceChange = {
  file: 'src/store/postgres/server-sessions.ts',
  from: '  if (row?.current && row.locked) return;',
  to: '  if (row !== undefined) return;',
};
const shardsNotChecked: SourceChange = {
  file: 'src/store/postgres/fence.ts',
  from: `    \`(select count(*) from shards where shard = any($\${n}::smallint[]) and owner = '\${node}') < cardinality($\${n}::smallint[])\`,`,
  to: '    `false and cardinality($${n}::smallint[]) < 0`,',
};
const sessionsNotEnded: SourceChange = {
  file: 'src/store/lock/stale-sessions.ts',
  from: '  await endAll(session, recorded, options);\n  await endAll(session, unrecordedOfFenced, options);\n',
  to: '',
};
const actorsKept: SourceChange = {
  file: 'src/main/shard-host.ts',
  from: '    return isQuiet && runtime.closeShards(shards, UNLOAD_MS);',
  to: '    return isQuiet;',
};
const criticalWrittenAgain: SourceChange = {
  file: 'src/machines/command-decisions.ts',
  from: '  !isCritical(context) &&\n',
  to: '',
};
const criticalOfferedAgain: SourceChange = {
  file: 'src/store/postgres/commands.ts',
  from: ' and not (critical and written)',
  to: '',
};
/** Without it, callers are read from the database when the node has not been in contact with it for a second. */
const callersAlwaysCached: SourceChange = {
  file: 'src/services/shared-invalidation-bus.ts',
  from: '    return this.#now() < this.#currentUntil;',
  to: '    return true;',
};
const lockEndsEarly: SourceChange = {
  file: 'src/store/lock/lock-timing.ts',
  from: '({ idleSession, unreachable }: LockTiming): string {',
  to: '({ idleSession: given, unreachable }: LockTiming): string {\n  const idleSession = Math.trunc(given / 4);',
};
const misdirectedServed: readonly SourceChange[] = [
  {
    file: 'src/edges/cluster/link-http.ts',
    from: "    if (route.at !== 'here') this.#misdirect(request, response);",
    to: "    if (route.at !== 'here') this.#parts.listener(request, response);",
  },
  {
    file: 'src/edges/cluster/shard-router.ts',
    from: '      const route: ShardRoute = await next;',
    to: `      const current: ShardRoute = await next;
      const route: ShardRoute = remembered.get(shard) ?? current;
      if (route !== current && current.at === 'here') current.leave();
      if (route.at === 'node') remembered.set(shard, route);`,
  },
  {
    file: 'src/edges/cluster/shard-router.ts',
    from: '      tried.add(nameOf(route.node));',
    to: '      tried.add(nameOf(route.node));\n      remembered.delete(shard);',
  },
  {
    file: 'src/edges/cluster/shard-router.ts',
    from: '/** The result of sending something to another node once; `again`: it was not executed there, or may be repeated. */',
    to: 'const remembered = new Map();',
  },
];

export const nemesisDefects: Readonly<Record<string, NemesisDefect>> = {
  'lease-ignored': {
    title: 'A node continues after its lease has ended',
    changes: [leaseIgnored],
    faults: [...pauses, ...delays],
    heldBy: 'the renewal of the lock, which ends the process if it is not answered within the lease',
  },
  'lease-and-renewals-ignored': {
    title: 'Both, and callers are cached without contact to the database: a node serves requests from its memory',
    changes: [leaseIgnored, renewalFailureIgnored, callersAlwaysCached],
    faults: delays,
  },
  'lock-ends-before-lease': {
    title: 'The server gives up the lock of a silent node before its lease has ended',
    changes: [lockEndsEarly],
    faults: delays,
    heldBy: 'the callers of requests, which a node reads from the database after a second without contact to it',
  },
  'lock-ends-before-lease-callers-cached': {
    title: 'Both: a node serves requests from its memory within its lease, and another one has taken over',
    changes: [lockEndsEarly, callersAlwaysCached],
    faults: delays,
  },
  'epoch-not-checked': {
    title: 'A new connection to the database does not compare the epoch of its node',
    changes: [epochNotChecked],
    faults: [...pauses, ...delays],
    heldBy: 'the lease, and the check of shards in each group commit',
  },
  'shards-not-checked': {
    title: 'A group commit does not check that the node owns the shards of its actors',
    changes: [shardsNotChecked],
    faults: [...pauses, ...delays],
    heldBy: 'the end of the sessions of a node before its shards are taken over',
  },
  'sessions-not-ended': {
    title: "A node takes over shards without ending the previous owner's sessions",
    changes: [sessionsNotEnded],
    faults: [...pauses, ...delays],
    heldBy: 'the check of shards in each group commit',
  },
  'sessions-not-ended-shards-not-checked': {
    title: 'Both: a statement that was delayed is executed after the takeover',
    changes: [sessionsNotEnded, shardsNotChecked],
    faults: delays,
  },
  'fence-removed': {
    title: 'No lease, no epoch, no check of shards, and no end of sessions',
    changes: [leaseIgnored, epochNotChecked, sessionsNotEnded, shardsNotChecked],
    faults: [...pauses, ...delays],
  },
  'actors-kept-in-memory': {
    title: 'A node hands over a shard and keeps its actors in memory',
    changes: [actorsKept],
    faults: moves,
    heldBy: 'the check of shards in each group commit, which ends the node at its next write for the shard',
  },
  'actors-kept-shards-not-checked': {
    title: 'Both: a node that handed over a shard continues to write for it',
    changes: [actorsKept, shardsNotChecked],
    faults: moves,
  },
  'owner-not-checked': {
    title:
      'A node sends requests to the first owner that it knew, and that node serves them whether it owns the shard or not',
    changes: misdirectedServed,
    faults: moves,
    heldBy: 'the runtime, which refuses changes of actors of another node and reads them from the database',
  },
  'owner-not-checked-actors-kept': {
    title: 'Both: the previous owner serves requests from the actors that it kept',
    changes: [...misdirectedServed, actorsKept],
    faults: moves,
  },
  'answer-stored-later': {
    title: 'The answer of an idempotency key is stored after the effect of its request',
    changes: [
      {
        file: 'src/operations/idempotency.ts',
        from: '    let replaces = row?.answer;',
        to: '    let replaces = row?.answer;\n    let isStored = false;',
      },
      {
        file: 'src/operations/idempotency.ts',
        from: '        idempotent.rowCreated = true;',
        to: '        if (!isStored) return null;',
      },
      {
        file: 'src/operations/idempotency.ts',
        from: '        if (!idempotent.rowCreated) await store',
        to: '        isStored = true;\n        await store',
      },
    ],
    faults: losses,
  },
  'unknown-commit-taken-for-done': {
    title: 'A commit during which the connection was lost is treated as committed',
    changes: [
      {
        file: 'src/actors/commit/in-doubt.ts',
        from: '      return this.#retryUntilKnown(retry, error, { stillWaits, onNoAnswer });',
        to: '      return stillWaits() ? [] : this.#retryUntilKnown(retry, error, { stillWaits, onNoAnswer });',
      },
    ],
    faults: losses,
  },
  'commits-not-flushed': {
    title: 'Commits are acknowledged before the database has written them to its log',
    changes: [
      {
        file: 'src/store/postgres/session-config.ts',
        from: "  'jit=off',",
        to: "  'jit=off',\n  'synchronous_commit=off',",
      },
    ],
    faults: ['database restarted'],
  },
  'puback-before-commit': {
    title: 'A message is acknowledged when it arrives, before it is stored',
    changes: [
      {
        file: 'src/edges/mqtt/message-receiver.ts',
        from: 'session.inbox.enqueue(received);',
        to: 'if (received.ack !== null) session.acks.ready(received.ack);\n    session.inbox.enqueue(received);',
      },
    ],
    faults: losses,
  },
  'critical-command-written-again': {
    title: 'A critical command that was written to a session is written to the next one',
    changes: [criticalWrittenAgain],
    faults: [...losses, ...moves],
    heldBy: 'the query of the commands for a new session, which leaves out critical ones that were written',
  },
  'critical-command-offered-and-written-again': {
    title: 'Both: a critical command that was written is found for the next session and written to it',
    changes: [criticalWrittenAgain, criticalOfferedAgain],
    faults: [...losses, ...moves],
  },
  'commands-to-revoked-devices': {
    title: 'Commands are accepted for revoked devices and written to their sessions',
    changes: [
      {
        file: 'src/domain/gateway.ts',
        from: "  if (device.revoked) return refused('DEVICE_REVOKED', 'The device is revoked.');\n",
        to: '',
      },
      { file: 'src/edges/mqtt/device-access.ts', from: ' && !isRevoked(device);', to: ';' },
    ],
    faults: moves,
  },
};
