/** A planted defect that the simulation must detect: replacements in sources, applied when they are loaded. */
export interface Defect {
  /** Description for the table in `docs/testing.md`. */
  title: string;
  /** Each `from` must occur exactly once in its file. */
  changes: readonly { file: string; from: string; to: string }[];
}

export const defects: Readonly<Record<string, Defect>> = {
  'puback-before-commit': {
    title: 'A message is acknowledged when it arrives, before it is stored',
    changes: [
      {
        file: 'src/edges/mqtt/message-receiver.ts',
        from: 'session.inbox.enqueue(received);',
        to: 'if (received.ack !== null) session.acks.ready(received.ack);\n    session.inbox.enqueue(received);',
      },
    ],
  },
  'replay-check-dropped': {
    title: 'A message that was accepted before is accepted again',
    changes: [
      {
        file: 'src/domain/replay-window.ts',
        from: "  if (sequence > window.highest) return 'fresh';",
        to: "  if (sequence > 0) return 'fresh';",
      },
    ],
  },
  'idempotency-row-replaced': {
    title: 'A claim on an idempotency key ends with its answer, and a later effect replaces the stored answer',
    changes: [
      { file: 'src/operations/idempotency.ts', from: 'else void ended.then(release);', to: 'else release();' },
      {
        file: 'test/support/memory-store/idempotency.ts',
        from: 'if (found && found.answer !== row.replaces)',
        to: 'if (found && found.key !== row.key)',
      },
    ],
  },
  'rotation-answer-stored-later': {
    title: 'A new device key is stored without the answer to its request, which is stored afterwards',
    changes: [
      {
        file: 'src/operations/devices/device-keys.ts',
        from: 'eventOf(key), () => idempotent?.toRow(answer, input.id));',
        to: 'eventOf(key));',
      },
    ],
  },
  'flag-answer-stored-later': {
    title: 'A flag is stored without the answer to its request, which is stored afterwards',
    changes: [
      {
        file: 'src/operations/platform/administration.ts',
        from: 'await setFlag(input.flag, input.state, idempotent?.toRow({ body: input }));',
        to: 'await setFlag(input.flag, input.state);',
      },
    ],
  },
  'version-skipped': {
    title: 'A reported state raises the version of its device by two',
    changes: [
      {
        file: 'src/actors/commit/unit-of-work.ts',
        from: '  unit.version += 1;',
        to: "  unit.version += event.type === 'state.reported' ? 2 : 1;",
      },
    ],
  },
  'timer-not-cleared': {
    title: 'The deadline of a state outlives it',
    changes: [
      {
        file: 'src/actors/commit/unit-of-work.ts',
        from: 'else if (actor.version > 0) clear.push(id);',
        to: 'else if (actor.version < 0) clear.push(id);',
      },
    ],
  },
  'compensation-order-reversed': {
    title: 'The steps of a plan are compensated in the order in which they finished',
    changes: [
      {
        file: 'src/machines/plan-update.ts',
        from: '(b.finished as number) - (a.finished as number)',
        to: '(a.finished as number) - (b.finished as number)',
      },
    ],
  },
  'confirmation-policy-skipped': {
    title: 'The requester may confirm a critical command under every policy',
    changes: [
      {
        file: 'src/machines/command-judgement.ts',
        from: '  if (!allowed.ok) return allowed.refusal;',
        to: '  if (!allowed.ok && by.kind !== "user") return allowed.refusal;',
      },
    ],
  },
  'lease-ignored': {
    title: 'A process continues after its lease has ended',
    changes: [
      {
        file: 'src/domain/lease.ts',
        from: '    if (this.#now() < this.#until) return true;',
        to: '    if (this.#now() > 0) return true;',
      },
    ],
  },
  'outbox-row-forgotten': {
    title: 'Messages to other actors are not stored with the commit of their sender',
    changes: [
      {
        file: 'src/actors/commit/unit-of-work.ts',
        from: 'outbox: unit.decisions.flatMap(({ outboxEntries }) => outboxEntries),',
        to: 'outbox: [],',
      },
    ],
  },
  'key-grace-ignored': {
    title: 'The previous key of a device is invalid from the rotation on',
    changes: [
      {
        file: 'src/edges/mqtt/device-authenticator.ts',
        from: 'graceUntil === null || graceUntil > now);',
        to: 'graceUntil === null);',
      },
    ],
  },
  'commands-to-revoked-devices': {
    title: 'Commands are sent to revoked devices',
    changes: [
      {
        file: 'src/domain/gateway.ts',
        from: "  if (device.revoked) return refused('DEVICE_REVOKED', 'The device is revoked.');\n",
        to: '',
      },
      { file: 'src/edges/mqtt/device-access.ts', from: ' && !isRevoked(device);', to: ';' },
    ],
  },
  'late-report-overwrites': {
    title: 'A report that arrives after a later one overwrites it',
    changes: [
      {
        file: 'src/machines/device-reports.ts',
        from: 'sequence < context.live.replay.highest ? context.live.reported.order : null',
        to: 'sequence < 0 ? context.live.reported.order : null',
      },
    ],
  },
  'deadline-too-early': {
    title: 'Timers fire ten seconds before they are due',
    changes: [{ file: 'src/actors/timers.ts', from: 'dueTimers(now, BATCH, ', to: 'dueTimers(now + 10_000, BATCH, ' }],
  },
  'deadline-not-used-up': {
    title: 'A timer remains when its event has taken effect',
    changes: [
      {
        file: 'test/support/memory-store/commit.ts',
        from: 'if (!set.has(id)) tables.timers.delete(',
        to: 'if (!set.has(id) && row.version < 0) tables.timers.delete(',
      },
    ],
  },
  'deadlines-not-resumed': {
    title: 'A process that starts does not load the timers of its predecessor',
    changes: [
      {
        file: 'src/actors/timers.ts',
        from: '    this.#stopped = false;\n    this.#arm();',
        to: '    this.#stopped = false;\n    this.#nextAt = Number.POSITIVE_INFINITY;\n    this.#lastReadAt = this.#clock.now();\n    this.#arm();',
      },
      {
        file: 'src/actors/timers.ts',
        from: 'Math.abs(now - this.#lastReadAt) >= STORE_POLL_MS',
        to: 'now < STORE_POLL_MS',
      },
    ],
  },
  'journal-entry-lost': {
    title: 'Acknowledgements of commands are not journaled',
    changes: [
      {
        file: 'src/actors/commit/unit-of-work.ts',
        from: '  if (note) {',
        to: "  if (note && event.type !== 'ack.received') {",
      },
    ],
  },
  'flag-ignored': {
    title: 'Commands are accepted while an operator has disabled them',
    changes: [
      {
        file: 'src/domain/gateway.ts',
        from: 'if (flags.commands_disabled) return',
        to: 'if (flags.commands_disabled && flags.maintenance_mode) return',
      },
    ],
  },
  'rate-not-counted': {
    title: 'Requests are not counted against the rate of their tenant',
    changes: [
      {
        file: 'src/store/cache/memory-rate-limiter.ts',
        from: 'if (ok) window.used += cost;',
        to: 'if (ok && cost > 1) window.used += cost;',
      },
    ],
  },
  'clock-of-the-host': {
    title: "The service's time is the wall clock of its host",
    changes: [
      {
        file: 'src/domain/service-clock.ts',
        from: 'return this.#database === null ? this.#host.wall() : at + this.#database.offset;',
        to: 'return this.#host.wall();',
      },
    ],
  },
  'wrong-clock-activates': {
    title: 'A process becomes active although the clock of its host is wrong',
    changes: [
      {
        file: 'src/main/activation.ts',
        from: '    if (this.untrustedOffsetMs() === null) return true;',
        to: '    if (this.untrustedOffsetMs() === null || now > 0) return true;',
      },
    ],
  },
  'refused-batch-refused-whole': {
    title: 'When the database refuses a row, its whole batch is refused',
    changes: [
      {
        file: 'src/actors/commit/group-commit.ts',
        from: '      if (units.length === 1) return this.#isolatePoisonEvent(units[0] as UnitOfWork, error);',
        to: '      for (const unit of units) this.#isolatePoisonEvent(unit, error);\n      if (units.length > 0) return;',
      },
    ],
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
  },
  'used-tokens-forgotten': {
    title: 'A CONNECT that opened a session opens another one in the next process',
    changes: [
      {
        file: 'src/edges/mqtt/device-authenticator.ts',
        from: ' || !(await this.#usedTokenWriter.markUsed(token)))',
        to: ' || (await this.#usedTokenWriter.markUsed(token), false))',
      },
    ],
  },
  'closed-connections-kept': {
    title: 'Closed connections of devices stay in memory',
    changes: [{ file: 'src/edges/mqtt/edge.ts', from: '      this.#connections.delete(connection);\n', to: '' }],
  },
  'pubacks-out-of-order': {
    title: 'Messages are acknowledged in the order in which they are stored',
    changes: [
      {
        file: 'src/edges/mqtt/puback-queue.ts',
        from: '    ack.ready = true;\n',
        to: '    ack.ready = true;\n    this.#pending.unshift(...this.#pending.splice(this.#pending.indexOf(ack), 1));\n',
      },
    ],
  },
  'split-packets-garbled': {
    title: 'Only the last piece of a PUBLISH that arrives in pieces is kept',
    changes: [
      {
        file: 'src/edges/mqtt/mqtt-connection.ts',
        from: '    this.#parts.push(chunk.subarray(from, to));',
        to: '    this.#parts = [chunk.subarray(from, to)];',
      },
    ],
  },
  'connect-awaited-for-ever': {
    title: 'A connection without a CONNECT stays open',
    changes: [
      {
        file: 'src/edges/mqtt/broker.ts',
        from: '    connectTimeout: limits.connectMs,',
        to: '    connectTimeout: 1_000 * limits.connectMs,',
      },
    ],
  },
  'malformed-publish-ignored': {
    title: 'A malformed PUBLISH is ignored, and its connection stays open',
    changes: [
      {
        file: 'src/edges/mqtt/edge.ts',
        from: "    if (packet === null) peer.end('protocol');",
        to: '    if (packet === null) return;',
      },
    ],
  },
  'module-collection-grows': {
    title: 'A module keeps the packet identifiers of all connections',
    changes: [
      {
        file: 'src/edges/mqtt/puback-queue.ts',
        from: 'export type { PendingPuback };\n',
        to: 'export type { PendingPuback };\nconst packetIds = new Set<number>();\n',
      },
      {
        file: 'src/edges/mqtt/puback-queue.ts',
        from: '    this.#pending.push(ack);\n',
        to: '    this.#pending.push(ack);\n    packetIds.add(packetId);\n',
      },
    ],
  },
  'history-position-not-moved': {
    title: 'The segments of reports are stored without moving the position of their device',
    changes: [
      {
        file: 'test/support/memory-store/history.ts',
        from: '{ tenantId: position?.tenantId ?? tenantId, version: to, openFrom }',
        to: '{ tenantId: position?.tenantId ?? tenantId, version: from, openFrom }',
      },
    ],
  },
  'reports-dropped-uncompacted': {
    title: 'Reports are dropped before they are compacted',
    changes: [
      {
        file: 'src/services/history-compaction.ts',
        from: 'if (oldest !== null) before = Math.min(before, oldest);',
        to: 'if (oldest !== null) before = Math.max(before, oldest);',
      },
      {
        file: 'test/support/memory-store/history.ts',
        from: 'row.at < (isCompacted(row) ? end : expired) * DAY_MS',
        to: 'row.at < (isCompacted(row) ? end : Math.max(end, expired)) * DAY_MS',
      },
    ],
  },
  'imports-read-as-reports': {
    title: 'The value before a range leaves out reports that were imported after its end',
    changes: [
      {
        file: 'test/support/memory-store/history.ts',
        from: '(isImported || row.at < end || row.at <= importedAt);',
        to: '(isImported || row.at < end);',
      },
    ],
  },
  'import-answer-stored-later': {
    title: 'Imported reports are stored without the answer to their request, which is stored afterwards',
    changes: [
      {
        file: 'src/operations/devices/history-import.ts',
        from: 'event, () => idempotent?.toRow({ body }));',
        to: 'event);',
      },
    ],
  },
  'imports-expire-unmerged': {
    title: 'Compacted imports of an expired day are dropped before its roll-ups are made',
    changes: [
      {
        file: 'test/support/memory-store/history.ts',
        from: '(day < expired && !isImported(deviceId, day))',
        to: '(day < expired && !isImported(deviceId, today))',
      },
    ],
  },
};
