import type { Caller } from '../../operations/operation.ts';
import type { AddressOf } from './client-address.ts';
import { type Exchange, pays, sendRefusal } from './exchange.ts';
import type { FrontDoor } from './front-door.ts';
import type { Gate } from './gate.ts';

/**
 * Who sends a request, once it is charged; null where it goes no further and is answered. Who presents nothing comes in too, as
 * a caller without a user: whether one is needed is for what is asked.
 */
export async function admit(
  exchange: Exchange,
  { door, gate, addressOf }: { door: FrontDoor; gate: Gate; addressOf: AddressOf },
  via: string,
): Promise<Caller | null> {
  const { request, requestId } = exchange;
  const address = addressOf(request);
  const isStranger = !door.presents(request.headers);
  if (isStranger && !pays(exchange, gate.stranger(address))) return null;
  const who = await door.callerOf(request.headers, { via, requestId, address });
  if (!who.ok) {
    exchange.charged = gate.signInHeaders(address);
    sendRefusal(exchange, who.refusal);
    return null;
  }
  return isStranger || pays(exchange, await gate.caller(who.value, address)) ? who.value : null;
}
