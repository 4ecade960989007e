import { openLock } from '../../src/store/open.ts';

// A process that takes the active lock of `HOLD`, says so, and keeps it until it is killed.
const lock = openLock(JSON.parse(process.env.HOLD ?? '') as Parameters<typeof openLock>[0]);
await lock.acquire(new AbortController().signal);
console.log('held');
setInterval(() => {}, 60_000);
