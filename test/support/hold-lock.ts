import { type DataLocation, openLock } from '../../src/store/open.ts';
import { longLivedLockParts } from './lock-parts.ts';

// A process that takes the active lock of `HOLD`, says so, and keeps it until it is killed.
const lock = openLock(JSON.parse(process.env.HOLD ?? '') as DataLocation, longLivedLockParts);
await lock.acquire(new AbortController().signal);
console.log('held');
setInterval(() => {}, 60_000);
