import { openLock, type Place } from '../../src/store/open.ts';
import { keptLong } from './lock.ts';

// A process that takes the active lock of `HOLD`, says so, and keeps it until it is killed.
const lock = openLock(JSON.parse(process.env.HOLD ?? '') as Place, keptLong);
await lock.acquire(new AbortController().signal);
console.log('held');
setInterval(() => {}, 60_000);
