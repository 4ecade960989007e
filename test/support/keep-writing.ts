import { openStore } from '../../src/store/open.ts';
import { deviceCommit, journalEntry, newId, nextCommit } from './actor-commits.ts';

// A process that commits batches to `WRITE`, one after another, and prints each acknowledged version, until it is
// killed.
const store = await openStore(JSON.parse(process.env.WRITE ?? '') as Parameters<typeof openStore>[0]);
const timer = (id: string, version: number) => ({
  set: [{ ref: { kind: 'device' as const, id }, id: 'timer', event: 'over', dueAt: version }],
  clear: [],
});
let commits = Array.from({ length: 20 }, () => {
  const id = newId();
  return deviceCommit({ id, journal: [journalEntry(1)], timers: timer(id, 1), fixed: { text: 'x'.repeat(1_000) } });
});
for (;;) {
  const { lost } = await store.actors.commit(commits);
  if (lost.length > 0) throw new Error('version conflict without a second writer');
  const [first] = commits;
  if (!first) throw new Error('nothing to write');
  process.stdout.write(`${first.version} ${commits.map((commit) => commit.ref.id).join(' ')}\n`);
  commits = commits.map((commit) => {
    const version = commit.version + 1;
    return nextCommit(commit, { journal: [journalEntry(version)], timers: timer(commit.ref.id, version) });
  });
}
