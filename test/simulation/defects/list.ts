/** A defect that the simulation must find: texts of sources that are replaced as they are loaded. */
export interface Defect {
  /** What is wrong, for the table in `docs/testing.md`. */
  title: string;
  /** Each text occurs once in its file. */
  changes: readonly { file: string; from: string; to: string }[];
}

export const defects: Readonly<Record<string, Defect>> = {
  'puback-before-commit': {
    title: 'A message is acknowledged when it arrives, before it is stored',
    changes: [
      {
        file: 'src/edges/mqtt/receive.ts',
        from: 'this.#inboxOf(session).put({',
        to: 'if (ack !== null) session.acks.settle(ack);\n    this.#inboxOf(session).put({',
      },
    ],
  },
  'replay-check-dropped': {
    title: 'A message that was accepted before is accepted again',
    changes: [
      {
        file: 'src/domain/replay.ts',
        from: "  if (sequence > window.highest) return 'fresh';",
        to: "  if (sequence > 0) return 'fresh';",
      },
    ],
  },
  'idempotency-row-replaced': {
    title: 'A claim on a key ends with its answer, and a later effect replaces the stored answer',
    changes: [
      { file: 'src/operations/idempotency.ts', from: 'else void ended.then(release);', to: 'else release();' },
      {
        file: 'test/support/memory-store/idempotency.ts',
        from: 'if (found && found.answer !== row.replaces)',
        to: 'if (found && found.key !== row.key)',
      },
    ],
  },
  'timer-not-cleared': {
    title: 'The deadline of a state outlives it',
    changes: [
      {
        file: 'src/actors/draft.ts',
        from: 'else if (entity.version > 0) clear.push(id);',
        to: 'else if (entity.version < 0) clear.push(id);',
      },
    ],
  },
  'compensation-order-reversed': {
    title: 'The steps of a plan are undone in the order in which they were done',
    changes: [
      {
        file: 'src/machines/plan-work.ts',
        from: '(b.finished as number) - (a.finished as number)',
        to: '(a.finished as number) - (b.finished as number)',
      },
    ],
  },
  'confirmation-policy-skipped': {
    title: 'Whoever asked for a critical command may confirm it, whatever the policy says',
    changes: [
      {
        file: 'src/machines/command-decisions.ts',
        from: '  if (!allowed.ok) return allowed.refusal;',
        to: '  if (!allowed.ok && by.kind !== "user") return allowed.refusal;',
      },
    ],
  },
  'lease-ignored': {
    title: 'A process goes on after its lease has ended',
    changes: [
      {
        file: 'src/domain/lease.ts',
        from: '    if (this.#now() < this.#until) return true;',
        to: '    if (this.#now() > 0) return true;',
      },
    ],
  },
  'outbox-row-forgotten': {
    title: 'What an actor tells another one is not stored in its commit',
    changes: [
      {
        file: 'src/actors/draft.ts',
        from: 'outbox: made.steps.flatMap(({ durable }) => durable),',
        to: 'outbox: [],',
      },
    ],
  },
  'key-grace-ignored': {
    title: 'The old key of a device stops verifying at the rotation',
    changes: [
      {
        file: 'src/edges/mqtt/sign-in.ts',
        from: 'graceUntil === null || graceUntil > now);',
        to: 'graceUntil === null);',
      },
    ],
  },
  'commands-to-revoked-devices': {
    title: 'Nothing looks whether a device is revoked before it is commanded',
    changes: [
      {
        file: 'src/domain/gateway.ts',
        from: "  if (device.revoked) return refused('DEVICE_REVOKED', 'The device is revoked.');\n",
        to: '',
      },
      { file: 'src/edges/mqtt/standing.ts', from: ' && !isRevoked(device);', to: ';' },
    ],
  },
};
