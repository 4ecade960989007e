import { type DataLocation, openLock } from '../../src/store/open.ts';
import { longLivedLockParts } from './lock-parts.ts';

// A process that acquires the active lock of `HOLD`, prints "held", and keeps the lock until it is killed.
const lock = openLock(JSON.parse(process.env.HOLD ?? '') as DataLocation, longLivedLockParts);
await lock.acquire(new AbortController().signal);
console.log('held');
setInterval(() => {}, 60_000);
