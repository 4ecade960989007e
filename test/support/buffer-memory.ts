import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes in reachable buffers, without garbage. */
export function bufferBytesInUse(): number {
  collect();
  // The first collection passes buffers to a thread that frees them, the second one waits for it.
  collect();
  return process.memoryUsage().arrayBuffers;
}
