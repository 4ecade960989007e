import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes in buffers that somebody still holds: garbage that waits to be collected is not among them. */
export function bufferBytesInUse(): number {
  collect();
  // The first collection hands buffers to a thread that frees them, the second one waits for it.
  collect();
  return process.memoryUsage().arrayBuffers;
}
