import type { Duplex } from 'node:stream';

/** How long a side may take to read the last bytes after the other side has closed. */
const LINGER_MS = 2_000;

/** Forwards bytes and ends of stream both ways, with back-pressure. A side that closes or fails closes the other one. */
export function relayBytes(one: Duplex, other: Duplex): void {
  forward(one, other);
  forward(other, one);
}

function forward(from: Duplex, to: Duplex): void {
  from.on('error', () => from.destroy());
  from.once('close', () => {
    if (!to.writableEnded || to.writableFinished) return void to.destroy();
    const timer = setTimeout(() => to.destroy(), LINGER_MS).unref();
    to.once('finish', () => to.destroy());
    to.once('close', () => clearTimeout(timer));
  });
  from.pipe(to);
}
